"""Row about memory: little more than what is in use, and pods that fill every cache."""

import asyncio
import resource
from pathlib import Path

from tests.adversary.comparison import resident_megabytes
from tests.faults.rig import Rig
from tests.faults.row import FAULT_SECONDS, Row
from tests.kit.manifests import node_terms, pod_manifest

TIMES = 1.2
AT_ONCE = 10
ROUNDS_PER_SECOND = 5


class LittleMemory(Row):
    """The limit is on what a process may write to (RLIMIT_DATA), at 1.2 times what it has when pods
    have come and gone for a while. Then come pods none of which is like another.
    """

    number = 28
    title = "memory limited to 1.2 times the steady state, and pods of which none is like another"

    async def fault(self, rig: Rig) -> None:
        await rig.pause(FAULT_SECONDS / 2)
        pid = rig.scheduler.pid
        steady = data_bytes(pid)
        limit = int(TIMES * steady)
        resource.prlimit(pid, resource.RLIMIT_DATA, (limit, limit))
        rig.notes["limit, MB"] = round(limit / (1 << 20))
        rig.notes["resident before, MB"] = round(resident_megabytes(pid))
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


def data_bytes(pid: int) -> int:
    """What the limit counts."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmData"))
    return int(line.split()[1]) * 1024


ROWS = (LittleMemory(),)
