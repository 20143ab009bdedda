"""Searches for nodes with plugins that judge as they are told, and a scalar model of upstream's.

`Case.find` asks a SchedulingAlgorithm; `expected` says what findNodesThatFitPod of
pkg/scheduler/schedule_one.go finds with parallelism 1.
"""

import random
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
from hypothesis import strategies as st

from kscheduler.cycle.attempt import Attempt, Failed, Feasible, Unschedulable, at_once
from kscheduler.cycle.node_sampling import num_feasible_nodes_to_find
from kscheduler.cycle.schedule import SchedulingAlgorithm
from kscheduler.extension_points import METHOD_OF_POINT
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.listers import FixedListers
from kscheduler.framework.plugin import NodeNames
from kscheduler.framework.status import Code, Rejection, unresolvable, unschedulable
from kscheduler.metrics import Metrics
from kscheduler.queue.nominator import Nominator
from kscheduler.queue.queued_pod_info import QueuedPodInfo
from kscheduler.runtime.extenders.extender import FilterResult
from kscheduler.runtime.extenders.extenders import EXTENDER, Extenders
from kscheduler.runtime.framework import Framework
from kscheduler.runtime.handle import RuntimeHandle
from tests.kit.clusters import snapshot_of
from tests.kit.objects import make_node, make_pod_info

SIZE = 400
# Of all nodes, but never fewer than a hundred.
PERCENTAGE = 10
REJECTED, FOR_GOOD, REFUSED, LATER = "rejected", "and for good", "refused", "later"
NO_ROOM, SAYS_NO = "Too many pods", "the extender says no"
BY_TIME = SimpleNamespace(name="ByTime", sort_key=lambda queued: queued.timestamp)
ANY = SimpleNamespace(name="Any", score=lambda cycle, pod, nodes: np.zeros(len(nodes), np.int64))


def make_pod(name="p", nominated=""):
    return make_pod_info(name, uid=name, nominated=nominated, containers=[])


def name_of(row):
    return f"n{row}"


def make_nodes(count):
    return snapshot_of(make_node(name_of(n), allocatable={"pods": "1"}) for n in range(count))


NODES = make_nodes(SIZE)


@dataclass
class Case:
    """Who rejects which rows, and where the search begins."""

    start: int = 0
    rejected: frozenset[int] = frozenset()
    refused: frozenset[int] = frozenset()
    # By a plugin that would have the pod wait.
    pending: frozenset[int] = frozenset()
    erring: frozenset[int] = frozenset()
    nominated_pods: frozenset[int] = frozenset()
    candidates: frozenset[int] | None = None
    nominated: int | None = None
    scored: bool = True
    # By an extender, with a reason; and the rows it keeps silent about.
    extended: bool = False
    failed: frozenset[int] = frozenset()
    dropped: frozenset[int] = frozenset()
    asked: list[int] = field(default_factory=list)
    slices: int = 0

    def plugins(self, *, per_node):
        def marked(nodes, rows):
            return np.isin(nodes.rows, [*rows])

        def judge(cycle, pod, nodes):
            self.asked += nodes.rows.tolist()
            self.slices += 1
            yield unschedulable(marked(nodes, self.rejected), REJECTED)
            yield unresolvable(marked(nodes, self.rejected & self.erring), FOR_GOOD)
            erring = marked(nodes, self.erring - self.rejected)
            yield Rejection(erring, Code.ERROR, "no idea")

        def room(cycle, pod, nodes):
            yield unschedulable(nodes.pod_count >= nodes.max_pods, NO_ROOM)

        def refuse(cycle, pod, nodes):
            yield unschedulable(marked(nodes, self.refused), REFUSED)

        def wait(cycle, pod, nodes):
            yield Rejection(marked(nodes, self.pending), Code.PENDING, LATER)

        yield SimpleNamespace(name="Room", filter=room)
        yield SimpleNamespace(name="Judge", filter=judge, per_node=per_node)
        yield SimpleNamespace(name="Refuse", filter=refuse)
        yield SimpleNamespace(name="Wait", filter=wait)
        if self.candidates is not None:
            names = NodeNames(frozenset(map(name_of, self.candidates)))
            yield SimpleNamespace(name="Names", pre_filter=lambda *_: names)
        if self.scored:
            yield ANY

    def find(self, searches, *, per_node):
        """What is found by searches in a row, and where the next one would begin."""
        extenders = Extenders([FakeExtender(self)] if self.extended else [])
        algorithm = SchedulingAlgorithm(
            Metrics(),
            rng=random.Random(1),
            percentage_of_nodes_to_score=PERCENTAGE,
            extenders=extenders,
        )
        algorithm.next_start_node_index = self.start
        framework = make_framework(
            *self.plugins(per_node=per_node), nominated_pods=self.nominated_pods
        )
        found = []
        for _ in range(searches):
            pod = make_pod(nominated="" if self.nominated is None else name_of(self.nominated))
            attempt = make_attempt(framework, pod, NODES, extended=self.extended)
            answer = told(at_once(algorithm.find_nodes_that_fit_pod(attempt)))
            found.append((answer, algorithm.next_start_node_index))
        return found


class FakeExtender:
    name, filters, prioritizes, is_ignorable = "fake", True, False, False

    def __init__(self, case):
        self._case = case

    def is_interested(self, pod):
        return True

    async def filter(self, pod, nodes):
        rejects = {name_of(row) for row in self._case.failed}
        drops = {name_of(row) for row in self._case.dropped}
        failed = {name: SAYS_NO for name in nodes.names if name in rejects - drops}
        return FilterResult(
            [name for name in nodes.names if name not in rejects | drops], failed, {}
        )


class Upstream:
    """The search as upstream writes it, with one worker: node after node, until one feasible node
    more than wanted is met, or an error.
    """

    def __init__(self, case):
        self.case = case
        self.next_start = case.start

    def search(self):
        case = self.case
        self.statuses, self.plugins, self.pending = {}, set(), set()
        if case.candidates is not None:
            self.plugins.add("Names")
        if case.nominated is not None:
            # What is found out about plugins that wait stays in a copy of the diagnosis.
            feasible, error = self.pass_filters([case.nominated])
            self.pending.clear()
            feasible = [] if error else self.pass_extender(feasible)
            if feasible:
                return feasible, 1 + len(self.statuses)
        nodes, absent = NODES.order.tolist(), ()
        if case.candidates is not None:
            # A set, in no order at all; here the order of their names stands for it.
            nodes = sorted(case.candidates, key=name_of)
            absent = (f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(self.plugins))}]",)
        feasible, error = self.pass_filters(nodes)
        processed = len(feasible) + len(self.statuses)
        self.next_start = (self.next_start + processed) % SIZE
        if error:
            return error
        left = self.pass_extender(feasible)
        if len(left) != len(feasible):
            self.plugins.add(EXTENDER)
        if left:
            return sorted(left), len(left) + len(self.statuses)
        return self.statuses, self.plugins, self.pending, absent

    def pass_filters(self, nodes):
        wanted = num_feasible_nodes_to_find(len(nodes), PERCENTAGE)
        if not (self.case.extended or self.case.scored):
            wanted = 1
        feasible, statuses, error = [], {}, None
        for number in range(len(nodes)):
            row = nodes[(self.next_start + number) % len(nodes)]
            plugin, code, reasons = self.judge(row)
            if code is Code.ERROR:
                error = f'running "{plugin}" filter plugin: no idea'
                break
            if code is Code.SUCCESS:
                if len(feasible) == wanted:
                    break
                feasible.append(row)
            else:
                statuses[row] = plugin, code, reasons
        self.statuses.update(statuses)
        for plugin, code, _ in statuses.values():
            self.plugins.add(plugin)
            if code is Code.PENDING:
                self.pending.add(plugin)
        return feasible, error

    def judge(self, row):
        """The first plugin that has something against the row, or its nominated pod there."""
        case = self.case
        if row in case.nominated_pods:
            return "Room", Code.UNSCHEDULABLE, (NO_ROOM,)
        if row in case.rejected and row in case.erring:
            return "Judge", Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (REJECTED, FOR_GOOD)
        if row in case.rejected:
            return "Judge", Code.UNSCHEDULABLE, (REJECTED,)
        if row in case.erring:
            return "Judge", Code.ERROR, ()
        if row in case.refused:
            return "Refuse", Code.UNSCHEDULABLE, (REFUSED,)
        if row in case.pending:
            return "Wait", Code.PENDING, (LATER,)
        return "", Code.SUCCESS, ()

    def pass_extender(self, feasible):
        case = self.case
        if not case.extended:
            return feasible
        for row in feasible:
            if row in case.failed - case.dropped:
                self.statuses[row] = "", Code.UNSCHEDULABLE, (SAYS_NO,)
        return [row for row in feasible if row not in case.failed | case.dropped]


def expected(case, searches):
    """What upstream finds, as `Case.find` tells it."""
    upstream = Upstream(case)
    return [(upstream.search(), upstream.next_start) for _ in range(searches)]


def told(found):
    if isinstance(found, Feasible):
        return sorted(found.rows.tolist()), found.evaluated
    if isinstance(found, Failed):
        return found.status.message
    assert isinstance(found, Unschedulable)
    diagnosis = found.diagnosis
    statuses = {
        row: (status.plugin, status.code, status.reasons)
        for row, status in diagnosis.status_by_row().items()
    }
    plugins, pending = diagnosis.unschedulable_plugins, diagnosis.pending_plugins
    return statuses, plugins, pending, diagnosis.absent.reasons


def make_attempt(framework, pod, nodes, *, extended=False):
    queued = QueuedPodInfo(pod, timestamp=0.0)
    return Attempt(queued, framework, CycleState(), nodes, extended=extended)


def make_framework(*plugins, nominated_pods=()):
    pods = {f"q{row}": make_pod(f"q{row}", name_of(row)) for row in nominated_pods}
    nominator = Nominator(pods.get, None)
    for pod in pods.values():
        nominator.add(pod)
    handle = RuntimeHandle(
        gates=SimpleNamespace(enabled=lambda name: False),
        listers=FixedListers(),
        snapshot=lambda: NODES,
        nominator=nominator,
        activate=lambda pods: None,
        client=None,
        recorder=None,
        metrics=Metrics(),
        profile_name="default-scheduler",
    )
    everyone = (*plugins, BY_TIME)
    plugins_at = {
        point: [plugin for plugin in everyone if hasattr(plugin, method)]
        for point, method in METHOD_OF_POINT.items()
    }
    return Framework(handle, plugins_at, weights={"Any": 1, "Judge": 1})


rows = st.integers(0, SIZE - 1)
few = st.frozensets(rows, max_size=30)
some = few | st.builds(
    lambda every, offset: frozenset(range(offset, SIZE, every)), st.integers(1, 5), rows
)
none_but_few = st.builds(lambda spared: frozenset(range(SIZE)) - spared, few)
some_candidates = st.builds(
    lambda every, spared: frozenset(range(0, SIZE, every)) - spared, st.integers(1, 3), few
)

cases = st.builds(
    Case,
    start=rows,
    rejected=some | none_but_few,
    refused=some,
    pending=few,
    erring=st.just(frozenset()) | st.frozensets(rows, max_size=2),
    nominated_pods=few,
    candidates=st.none() | st.frozensets(rows, min_size=1, max_size=9) | some_candidates,
    nominated=st.none() | rows,
    scored=st.booleans(),
    extended=st.booleans(),
    failed=some | st.just(frozenset(range(SIZE))),
    dropped=few,
)
