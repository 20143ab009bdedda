"""Nominated pods that are kept between attempts equal those that a fresh look shows."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kscheduler.api.core import Node, Pod, PodSpec, PodStatus
from kscheduler.api.meta import ObjectMeta
from kscheduler.metrics import Metrics
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.runtime.filter_with_nominated import NominatedBesidePriority
from kscheduler.state.cache import Cache
from kscheduler.state.pod_info import PodInfo
from tests.queue.profiles import PROFILE, FakeProfile

NAMES = st.sampled_from(["a", "b", "c", "d"])
NODES = st.sampled_from(["n0", "n1", "n2"])
PRIORITIES = st.sampled_from([0, 5, 9])


def pod_of(name, priority, nominated=""):
    return PodInfo(
        Pod(
            metadata=ObjectMeta(name=name, namespace="ns", uid=f"uid-{name}"),
            spec=PodSpec(scheduler_name=PROFILE, priority=priority),
            status=PodStatus(nominated_node_name=nominated),
        )
    )


def expected(nominator, pod, nodes):
    return {
        row: [
            (one.uid, one.priority)
            for one in nominator.pods_for_node(name)
            if one.priority >= pod.priority and one.uid != pod.uid
        ]
        for row, name in enumerate(nodes.names)
    }


def seen(beside, pod, nodes):
    nominated = beside.refresh(pod.uid, nodes)
    found = {row: nominated.pods.get(row, ()) for row in range(len(nodes))}
    assert nominated.marked.tolist() == [bool(pods) for pods in found.values()]
    assert nominated.rows.tolist() == [row for row, pods in found.items() if pods]
    assert nominated.counts.tolist() == [len(pods) for pods in found.values() if pods]
    return {row: [(one.uid, one.priority) for one in pods] for row, pods in found.items()}


class Nominations(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.cache = Cache()
        for name in ("n0", "n1"):
            self.cache.add_node(Node(metadata=ObjectMeta(name=name)))
        self.queue = SchedulingQueue({PROFILE: FakeProfile()}, Metrics())
        self.beside = {}
        self.popped = []

    @rule(name=NAMES, priority=PRIORITIES, node=NODES)
    def add(self, name, priority, node):
        if f"uid-{name}" not in self.queue.in_flight:
            self.queue.add(pod_of(name, priority, node), now=0)

    @rule(name=NAMES, priority=PRIORITIES, node=st.one_of(NODES, st.just("")))
    def update(self, name, priority, node):
        queued = self.queue.get(f"ns/{name}")
        if queued is not None:
            self.queue.update(queued.pod, pod_of(name, priority, node), now=0)

    @rule(name=NAMES)
    def delete(self, name):
        self.queue.delete(pod_of(name, 0))

    @rule()
    def pop(self):
        queued = self.queue.pop()
        if queued is not None:
            self.popped.append(queued)

    @rule(node=st.one_of(NODES, st.none()))
    def give_back(self, node):
        if self.popped:
            queued = self.popped.pop()
            self.queue.nominator.add(queued.pod, node)
            self.queue.add_unschedulable_if_not_present(queued, now=0)

    @rule()
    def done(self):
        if self.popped:
            uid = self.popped.pop().uid
            self.queue.nominator.remove(uid)
            self.queue.done(uid)

    @rule(name=NODES)
    def node_comes_or_goes(self, name):
        node = Node(metadata=ObjectMeta(name=name))
        known = self.cache.snapshot().row_of(name) is not None
        (self.cache.remove_node if known else self.cache.add_node)(node)

    @rule(name=NAMES, priority=PRIORITIES)
    def ask(self, name, priority):
        nodes, pod = self.cache.snapshot(), pod_of(name, priority)
        nominator = self.queue.nominator
        if priority not in self.beside:
            self.beside[priority] = NominatedBesidePriority(nominator, priority)
        assert seen(self.beside[priority], pod, nodes) == expected(nominator, pod, nodes)

    @invariant()
    def every_pod_sees_what_is_nominated(self):
        self.ask("z", 0)


TestNominations = Nominations.TestCase
TestNominations.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
