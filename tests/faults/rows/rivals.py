"""Rows in which a rival scheduler is faster, or kubelets refuse pods."""

import itertools
import json
import random

from tests.bench.contestants import OURS
from tests.e2e.api import Json
from tests.faults.mirror import DELETED
from tests.faults.request_faults import Exchange, Rule
from tests.faults.rig import Rig
from tests.faults.row import FAULT_SECONDS, Row
from tests.faults.verdict import Outcome
from tests.faults.workload import NODES, OPEN
from tests.kit.polling import until

CONFLICTS = "kscheduler_conflicts_total"
FOREIGN_BINDS = "kscheduler_foreign_binds_total"
REFUSED_PODS = "kscheduler_refused_pods_total"
# One in so many pods is refused.
REFUSED_OF = 5
COUNTED_SECONDS = 20.0


class RivalBind:
    """A rival binds the pod, and then the request is handed on.

    To the same node, as claims, affinity and exact room want it; plain pods every other time to
    another node, where there is room.
    """

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._rng = random.Random(f"{rig.seed}/rival")

    async def __call__(self, exchange: Exchange) -> None:
        request = exchange.request
        node = json.loads(request.body)["target"]["name"]
        if request.name.startswith("plain-") and self._rng.random() < 0.5:
            node = f"{OPEN}-{self._rng.randrange(NODES[OPEN])}"
        where = f"api/v1/namespaces/{request.namespace}/pods/{request.name}/binding"
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        about = {"kind": "Binding", "apiVersion": "v1", "metadata": {"name": request.name}}
        await self._rig.api.send("POST", where, {**about, "target": target})
        await exchange.relay()


class RivalFirst(Row):
    """Bindings are read on the way; the rival's own are no faults of the server."""

    reads_events = True
    # It is first at one binding in so many.
    one_in: int

    async def fault(self, rig: Rig) -> None:
        # Counted, not drawn by lot: one in a hundred would often be none.
        turns = itertools.count(random.Random(f"{rig.seed}/turns").randrange(self.one_in))
        rule = Rule(
            RivalBind(rig),
            verbs={"create"},
            resources={"pods/binding"},
            only=lambda _: next(turns) % self.one_in == self.one_in - 1,
        )
        with rig.proxy.rule(rule):
            await rig.pause(FAULT_SECONDS)
        rig.notes["rival binds"] = rule.met

    async def judge(self, rig: Rig, outcome: Outcome, fault_ended: float) -> None:
        await super().judge(rig, outcome, fault_ended)
        if rig.who == OURS:
            await counted(rig, outcome, f'{CONFLICTS}{{kind="already-bound"}}', "rival binds")
            await counted(rig, outcome, f'{FOREIGN_BINDS}{{kind="own-pod"}}', "rival binds")


class RivalOfOnePercent(RivalFirst):
    number = 11
    title = "a rival scheduler binds 1 % of the pods first"
    one_in = 100
    rate = 30.0


class RivalOfTenPercent(RivalFirst):
    number = 12
    title = "a rival scheduler binds 10 % of the pods first"
    one_in = 10


class RivalOfHalf(RivalFirst):
    number = 13
    title = "a rival scheduler binds 50 % of the pods first"
    one_in = 2


class RefusingKubelets(Row):
    number = 14
    title = "kubelets refuse 20 % of the pods (OutOfcpu), and controllers make them anew"

    async def fault(self, rig: Rig) -> None:
        refused: set[str] = set()
        rng = random.Random(f"{rig.seed}/kubelets")

        def refuses(pod: Json) -> str:
            name = pod["metadata"]["name"]
            if name not in rig.workload.arrived or rng.randrange(REFUSED_OF):
                return ""
            return "OutOfcpu"

        def replace(kind: str, pod: Json) -> None:
            name = pod["metadata"]["name"]
            if kind == DELETED or pod["status"].get("phase") != "Failed" or name in refused:
                return
            refused.add(name)
            rig.proxy.counts["Refused"] += 1
            rig.start_task(rig.workload.replace(name), f"replace/{name}")

        rig.mirrors["pods"].listeners.append(replace)
        rig.kubelets.refuses = refuses
        await rig.pause(FAULT_SECONDS)
        rig.kubelets.refuses = lambda pod: ""
        # Those that are about to be refused are told of soon.
        await until(lambda: rig.hands.idle, "kubelets are at rest")
        rig.notes["refused"] = len(refused)

    async def judge(self, rig: Rig, outcome: Outcome, fault_ended: float) -> None:
        await super().judge(rig, outcome, fault_ended)
        if rig.who == OURS:
            await counted(rig, outcome, f'{REFUSED_PODS}{{reason="OutOfcpu"}}', "refused")


async def counted(rig: Rig, outcome: Outcome, metric: str, note: str) -> None:
    """What the scheduler has counted is what has happened."""

    async def value() -> float:
        return (await rig.scheduler.samples()).get(metric, 0.0)

    async def is_told() -> bool:
        return await value() == rig.notes[note]

    try:
        await until(is_told, seconds=COUNTED_SECONDS, longest_pause=0.2)
    except AssertionError:
        told = f"{metric} is {await value():.0f}, and there were {rig.notes[note]:.0f} {note}"
        outcome.broken.append(told)


ROWS = (RivalOfOnePercent(), RivalOfTenPercent(), RivalOfHalf(), RefusingKubelets())
