"""Row about memory: little more than what is in use, and pods that fill every cache."""

import asyncio
from contextlib import suppress
from pathlib import Path

from tests.adversary.comparison import resident_megabytes
from tests.faults.rig import Rig
from tests.faults.row import FAULT_SECONDS, Row
from tests.faults.verdict import Outcome
from tests.kit.manifests import node_terms, pod_manifest

TIMES = 1.2
AT_ONCE = 10
ROUNDS_PER_SECOND = 5
CGROUPS = Path("/sys/fs/cgroup")


class MemoryGroup:
    """A control group below ours, of either version."""

    def __init__(self, name: str) -> None:
        self.folder = Path()
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if "memory" in controllers.split(",") or not (controllers or self.folder.name):
                root = CGROUPS / "memory" if controllers else CGROUPS
                self.folder = root / path.lstrip("/") / name
                self._limit = "memory.limit_in_bytes" if controllers else "memory.max"
        self.folder.mkdir()
        if not (self.folder / self._limit).exists():
            self.folder.rmdir()
            raise FileNotFoundError(self.folder / self._limit)

    @property
    def wrapper(self) -> tuple[str, ...]:
        """A command that runs another one in the group."""
        return ("sh", "-c", f'echo $$ > "{self.folder}/cgroup.procs" && exec "$@"', "sh")

    def limit(self, size: int) -> None:
        (self.folder / self._limit).write_text(str(size))

    def close(self) -> None:
        """Those who are in it go on without a limit."""
        for process in (self.folder / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                (self.folder.parent / "cgroup.procs").write_text(process)
        self.folder.rmdir()


class LittleMemory(Row):
    """The limit is what a container has: who goes beyond it is killed. It is 1.2 times of what is
    resident when pods have come and gone for a while. Then come pods none of which is like another.
    """

    number = 28
    title = "memory limited to 1.2 times the steady state, and pods of which none is like another"

    def unavailable(self) -> str:
        try:
            MemoryGroup("kscheduler-faults").close()
        except OSError as error:
            return f"it needs a control group of its own: {error}"
        return ""

    async def run(self, rig: Rig, outcome: Outcome) -> None:
        self._group = MemoryGroup(f"kscheduler-{rig.workload.namespace}")
        try:
            await super().run(rig, outcome)
        finally:
            self._group.close()

    async def start(self, rig: Rig) -> None:
        scheduler = await rig.add_scheduler(self.configured)
        await scheduler.start(wrapper=self._group.wrapper)
        await scheduler.ready()
        await rig.warm_up()

    async def fault(self, rig: Rig) -> None:
        await rig.pause(FAULT_SECONDS / 2)
        before = resident_megabytes(rig.scheduler.pid)
        self._group.limit(int(TIMES * before) << 20)
        rig.notes["limit, MB"] = round(TIMES * before)
        rig.notes["resident before, MB"] = round(before)
        rig.proxy.counts["memory limited"] += 1
        for turn in range(round(FAULT_SECONDS * rig.scale * ROUNDS_PER_SECOND)):
            names = [f"odd-{turn}-{number}" for number in range(AT_ONCE)]
            await asyncio.gather(*(self._create(rig, name) for name in names))
            await asyncio.sleep(1.0 / ROUNDS_PER_SECOND)
            # They have been looked at, and go.
            await asyncio.gather(
                *(rig.api.delete("pods", name, rig.workload.namespace) for name in names)
            )
        rig.notes["resident after, MB"] = round(resident_megabytes(rig.scheduler.pid))

    async def _create(self, rig: Rig, name: str) -> None:
        """With labels, annotations and terms of its own; it fits nowhere."""
        keys = [f"example.com/{name}-{number}" for number in range(100)]
        terms = [{"key": key, "operator": "Exists"} for key in keys]
        body = pod_manifest(
            name, labels=dict.fromkeys(keys, "x"), node_affinity=node_terms(*terms), cpu="100m"
        )
        body["metadata"]["annotations"] = dict.fromkeys(keys, "y" * 500)
        await rig.api.create("pods", body, rig.workload.namespace)


ROWS = (LittleMemory(),)
