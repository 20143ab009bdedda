"""Judging nodes slice by slice until there are enough is to find what judging all of them finds."""

import random
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kscheduler.api.core import Node, NodeStatus, Pod, PodStatus
from kscheduler.api.meta import ObjectMeta
from kscheduler.cycle.schedule import Failed, Feasible, Scheduler
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle
from kscheduler.framework.listers import FixedListers
from kscheduler.framework.per_node import adapted
from kscheduler.framework.plugin import METHOD_OF_POINT, NodeNames
from kscheduler.framework.runtime import Framework
from kscheduler.framework.verdict import (
    SKIP,
    Code,
    Rejection,
    rejected,
    unresolvable,
    unschedulable,
)
from kscheduler.metrics import Metrics
from kscheduler.queue.nominated import Nominator
from kscheduler.state.cache import Cache
from kscheduler.state.pod_info import PodInfo

SIZE = 400
BY_TIME = SimpleNamespace(name="ByTime", sort_key=lambda queued: queued.timestamp)
ANY = SimpleNamespace(name="Any", score=lambda cycle, pod, nodes: np.zeros(len(nodes), np.int64))


def make_pod(name="p", nominated=""):
    metadata = ObjectMeta(name=name, namespace="default", uid=name)
    return PodInfo(Pod(metadata=metadata, status=PodStatus(nominated_node_name=nominated)))


def make_nodes(count):
    cache = Cache()
    for number in range(count):
        status = NodeStatus(allocatable={"pods": "1"})
        metadata = ObjectMeta(name=f"n{number}", uid=str(number))
        cache.add_node(Node(metadata=metadata, status=status))
    return cache.snapshot()


NODES = make_nodes(SIZE)


@dataclass
class Case:
    """Who rejects which rows, and where the search begins."""

    start: int = 0
    rejected: frozenset[int] = frozenset()
    refused: frozenset[int] = frozenset()
    erring: frozenset[int] = frozenset()
    promised: frozenset[int] = frozenset()
    candidates: frozenset[int] | None = None
    nominated: int | None = None
    extended: bool = False
    asked: list[int] = field(default_factory=list)
    slices: int = 0

    def plugins(self, *, per_node):
        def marked(nodes, rows):
            return np.isin(nodes.rows, [*rows])

        def judge(cycle, pod, nodes):
            self.asked += nodes.rows.tolist()
            self.slices += 1
            yield unschedulable(marked(nodes, self.rejected), "rejected")
            yield unresolvable(marked(nodes, self.rejected & self.erring), "and for good")
            erring = marked(nodes, self.erring - self.rejected)
            yield Rejection(erring, Code.ERROR, "no idea")

        def room(cycle, pod, nodes):
            yield unschedulable(nodes.pod_count >= nodes.max_pods, "Too many pods")

        def refuse(cycle, pod, nodes):
            yield unschedulable(marked(nodes, self.refused), "refused")

        yield SimpleNamespace(name="Room", filter=room)
        yield SimpleNamespace(name="Judge", filter=judge, per_node=per_node)
        yield SimpleNamespace(name="Refuse", filter=refuse)
        if self.candidates is not None:
            names = NodeNames(frozenset(f"n{row}" for row in self.candidates))
            yield SimpleNamespace(name="Names", pre_filter=lambda *_: names)
        yield ANY

    def find(self, searches, *, per_node):
        """What is found by two searches in a row, and where the next one would begin."""
        extenders = SimpleNamespace(can_filter=True, can_prioritize=True) if self.extended else None
        scheduler = Scheduler(
            rng=random.Random(1), percentage_of_nodes_to_score=10, extenders=extenders
        )
        scheduler.next_start_node_index = self.start
        framework = make_framework(*self.plugins(per_node=per_node), promised=self.promised)
        return [self._search(scheduler, framework) for _ in range(searches)]

    def _search(self, scheduler, framework):
        cycle = CycleState()
        pod = make_pod(nominated="" if self.nominated is None else f"n{self.nominated}")
        search = scheduler.prepare(cycle, framework, pod, NODES, SimpleNamespace(signature=None))
        found = None
        if not (search.first and scheduler.fits_first(cycle, framework, pod, NODES, search)):
            found = scheduler.look(cycle, framework, pod, NODES, search)
        return told(found), told_diagnosis(search.diagnosis), scheduler.next_start_node_index


def told(found):
    if isinstance(found, Feasible):
        return found.rows.tolist(), found.evaluated
    if isinstance(found, Failed):
        return found.status
    return found and found.message


def told_diagnosis(diagnosis):
    return diagnosis.status_by_row(), diagnosis.unschedulable_plugins, diagnosis.absent


def make_framework(*plugins, promised=()):
    pods = {f"q{row}": make_pod(f"q{row}", f"n{row}") for row in promised}
    nominator = Nominator(pods.get, None)
    for pod in pods.values():
        nominator.add(pod)
    handle = Handle(
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


@settings(max_examples=150, deadline=None)
@given(
    st.builds(
        Case,
        start=rows,
        rejected=some | none_but_few,
        refused=some,
        erring=st.just(frozenset()) | st.frozensets(rows, max_size=2),
        promised=few,
        candidates=st.none() | st.frozensets(rows, min_size=100),
        nominated=st.none() | rows,
        extended=st.booleans(),
    )
)
# As many as wanted in the first slice, and after the last of them an error.
@example(Case(rejected=frozenset(range(4)), erring=frozenset({104})))
def test_what_is_found_is_the_same(case):
    assert case.find(2, per_node=True) == case.find(2, per_node=False)


@pytest.mark.parametrize(
    ("case", "asked"),
    [
        pytest.param(Case(), 105, id="one more than wanted, and some to spare"),
        pytest.param(
            Case(rejected=frozenset(range(0, SIZE, 2))), 207, id="as many again if half passed"
        ),
        pytest.param(Case(rejected=frozenset(range(SIZE))), SIZE, id="all if nobody passes"),
        pytest.param(Case(refused=frozenset(range(100, 400))), SIZE, id="all if just enough pass"),
        pytest.param(Case(erring=frozenset({3})), 105, id="no more after an error"),
    ],
)
def test_no_more_nodes_are_asked_about_than_needed(case, asked):
    case.find(1, per_node=True)
    assert len(case.asked) == len(set(case.asked))
    assert len(case.asked) == asked


@pytest.mark.parametrize(
    ("every", "slices"),
    [
        pytest.param(3, 3, id="as many as were needed last time, at once"),
        pytest.param(1, 4, id="not all at once because nobody passed last time"),
    ],
)
def test_the_next_search_goes_by_the_last_one(every, slices):
    case = Case(rejected=frozenset(range(0, SIZE, every)))
    case.find(2, per_node=True)
    assert case.slices == slices


def test_a_plugin_that_fails_fails_once_in_an_attempt():
    asked = []

    def filter_node(cycle, pod, node):
        asked.append(node.name)
        raise ValueError("oops")

    plugin = adapted(SimpleNamespace(name="Judge", filter_node=filter_node))
    scheduler = Scheduler(rng=random.Random(1), percentage_of_nodes_to_score=10)
    outcome = scheduler.decide(CycleState(), make_framework(plugin, ANY), make_pod(), NODES)
    assert outcome.status.message == 'running "Judge" filter plugin: ValueError: oops'
    assert asked == ["n0"]
    assert scheduler.next_start_node_index == 1


def test_a_plugin_that_takes_no_part_does_not_change_how_nodes_are_judged():
    asked = []

    def count(cycle, pod, nodes):
        asked.append(len(nodes))
        return ()

    skipping = SimpleNamespace(
        name="Judge", pre_filter=lambda *_: SKIP, filter_node=lambda *_: rejected("no")
    )
    counting = SimpleNamespace(name="Counting", filter=count)
    framework = make_framework(adapted(skipping), counting, ANY)
    scheduler = Scheduler(rng=random.Random(1), percentage_of_nodes_to_score=10)
    scheduler.decide(CycleState(), framework, make_pod(), NODES)
    assert asked == [SIZE]
