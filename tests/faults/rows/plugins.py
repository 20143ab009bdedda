"""Row about an out-of-tree plugin that cannot be relied on; kube-scheduler has none of those."""

from collections.abc import Mapping
from typing import Any, ClassVar

from tests.bench.contestants import OURS
from tests.faults.rig import Rig
from tests.faults.row import FAULT_SECONDS, Row

# One in so many calls each: raises, hangs, answers nonsense; all of them leak.
PLUGIN = """
import pathlib, random, time

FLAG = pathlib.Path(__file__).with_suffix(".on")
kept = []


class Unreliable:
    name = "Unreliable"

    def __init__(self, args, handle):
        self._rng = random.Random({seed})

    def _misbehave(self):
        if not FLAG.exists():
            return None
        kept.append(bytearray(100_000))
        roll = self._rng.random()
        if roll < 0.15:
            raise RuntimeError("as bad as it gets")
        if roll < 0.18:
            until = time.monotonic() + 60.0
            while time.monotonic() < until:
                sum(range(1000))
        if roll < 0.3:
            return self._rng.choice([float("nan"), 10**9, "yes", object(), []])
        return None

    def pre_filter(self, cycle, pod, nodes):
        return self._misbehave()

    def filter_node(self, cycle, pod, node):
        return self._misbehave() if self._rng.random() < 0.02 else None

    def score(self, cycle, pod, nodes):
        return nodes.valid * (self._misbehave() or 0)

    def reserve(self, cycle, pod, node):
        return self._misbehave()
"""


class UnreliablePlugin(Row):
    number = 25
    title = "an out-of-tree plugin raises, hangs, answers nonsense and leaks"
    schedulers = (OURS,)
    configured: ClassVar[Mapping[str, Any]] = {
        "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Unreliable"}]}}}]
    }

    async def start(self, rig: Rig) -> None:
        path = rig.folder / "unreliable.py"
        path.write_text(PLUGIN.replace("{seed}", str(rig.seed)))
        flags = (f"--plugin={path}:Unreliable", "--plugin-timeout=200ms")
        scheduler = await rig.add_scheduler(self.configured, flags=flags)
        await scheduler.start()
        await scheduler.ready()
        await rig.warm_up()

    async def fault(self, rig: Rig) -> None:
        flag = rig.folder / "unreliable.on"
        flag.touch()
        await rig.pause(FAULT_SECONDS)
        flag.unlink()
        samples = await rig.scheduler.samples()
        for name, value in samples.items():
            if name.startswith("kscheduler_plugin_") and name.split("{")[0].endswith("_total"):
                rig.proxy.counts[name.split("{")[0]] += int(value)


ROWS = (UnreliablePlugin(),)
