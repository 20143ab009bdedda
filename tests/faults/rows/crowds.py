"""Row about a crowd: thousands of pods that fit nowhere, woken again and again."""

import asyncio
from statistics import quantiles

from tests.e2e.api import Json
from tests.faults.rig import Rig
from tests.faults.row import FAULT_SECONDS, Row
from tests.faults.verdict import Outcome
from tests.faults.workload import EXACT, NODES, PLACES, POOL, in_pool
from tests.kit.manifests import pod_manifest

CROWD = 10_000
AT_ONCE = 50
UPDATE_SECONDS = 0.25


class Crowd(Row):
    """A third is too large for any node, a third selects what is not there, and a third is just too
    large for the nodes where pods come and go: each one that goes wakes them. Nodes change four
    times a second.
    """

    number = 26
    title = "10,000 pods that fit nowhere, and churn that wakes them; small pods among them"
    patience_seconds = 240.0

    async def start(self, rig: Rig) -> None:
        await super().start(rig)
        crowd = round(CROWD * rig.scale)
        for first in range(0, crowd, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, crowd))
            await asyncio.gather(*(self._create(rig, number) for number in numbers))

    async def _create(self, rig: Rig, number: int) -> None:
        name, kind = f"crowd-{number}", number % 3
        spec: Json = (
            {"cpu": "1000"},
            {"cpu": "100m", "nodeSelector": {POOL: "nowhere"}},
            {"cpu": str(PLACES + 1), **in_pool(EXACT)},
        )[kind]
        await rig.api.create("pods", pod_manifest(name, **spec), rig.workload.namespace)

    async def fault(self, rig: Rig) -> None:
        rig.proxy.counts["unschedulable pods"] = round(CROWD * rig.scale)
        for turn in range(round(2 * FAULT_SECONDS * rig.scale / UPDATE_SECONDS)):
            node = f"{EXACT}-{turn % NODES[EXACT]}"
            await rig.api.patch("nodes", node, {"metadata": {"labels": {"turn": str(turn)}}})
            await asyncio.sleep(UPDATE_SECONDS)

    async def judge(self, rig: Rig, outcome: Outcome, fault_ended: float) -> None:
        await super().judge(rig, outcome, fault_ended)
        load = rig.workload
        bound = load.arrived.keys() & load.bound_at.keys()
        waits = [load.bound_at[name] - load.arrived[name].at for name in bound]
        if len(waits) > 1:
            cuts = quantiles(waits, n=100)
            outcome.notes |= {
                "p50 until bound, s": round(cuts[49], 3),
                "p99 until bound, s": round(cuts[98], 3),
                "longest until bound, s": round(max(waits), 3),
            }


ROWS = (Crowd(),)
