"""What is remembered of dry runs equals what a new one would find, whatever happened in between."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec import structs

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.listers import FixedListers
from kscheduler.runtime.preemption.dry_run import DryRun
from kscheduler.runtime.preemption.dry_run_cache import MAX_TEMPLATES, DryRunCache
from kscheduler.runtime.preemption.potential_victims import DisruptionBudgets
from kscheduler.state.pod_info import PodInfo
from tests.plugins.evictions import Stage, far_from, make_budget, make_node, make_pod, summary_of

# Between the times at which pods are started.
FIRST_SECOND = 1_767_225_600
PROFILE = "default-scheduler"
NAMES = ("n0", "n1", "n2")
nodes = st.sampled_from(NAMES)


def preemptor(pod, number):
    """Another replica: its spec is the same object."""
    name = f"replica-{number}"
    metadata = structs.replace(pod.metadata, name=name, uid=f"uid-{name}")
    return PodInfo(structs.replace(pod, metadata=metadata))


class Changing(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.stage = Stage([make_node(name, "8") for name in NAMES])
        self.memory = DryRunCache(self.stage.handle.nominator)
        self.budgets = ()
        self.running = {}
        self.nominated_pods = self.stage.handle.nominator._pods
        self.now = FIRST_SECOND
        self.names = iter(range(1_000_000))
        self.preemptors = [
            make_pod("p", "6", priority=5, port=80),
            make_pod("q", "3", priority=2),
        ]

    @rule(
        node=nodes,
        cpu=st.integers(1, 3),
        priority=st.integers(-1, 6),
        start=st.one_of(st.none(), st.integers(0, 59)),
        port=st.sampled_from([0, 80]),
        app=st.sampled_from(["", "x", "y"]),
    )
    def add(self, node, cpu, priority, start, port, app):
        pod = make_pod(
            f"v{next(self.names)}",
            str(cpu),
            node=node,
            priority=priority,
            start=start,
            labels={"app": app} if app else {},
            **({"port": port} if port else {}),
        )
        self.running[pod.name] = pod
        self.stage.cache.add_pod(PodInfo(pod))

    @rule(data=st.data())
    def remove(self, data):
        if self.running:
            name = data.draw(st.sampled_from(sorted(self.running)))
            self.stage.cache.remove_pod(PodInfo(self.running.pop(name)))

    @rule(node=nodes, cpu=st.sampled_from(["4", "8"]), cordoned=st.booleans())
    def change(self, node, cpu, cordoned):
        changed = make_node(node, cpu)
        spec = structs.replace(changed.spec, unschedulable=cordoned)
        self.stage.cache.update_node(structs.replace(changed, spec=spec))

    @rule(node=nodes, priority=st.sampled_from([1, 4, 6]), number=st.integers(0, 2))
    def nominate(self, node, priority, number):
        pod = PodInfo(make_pod("nominated", "2", priority=priority))
        if number:
            pod = preemptor(self.preemptors[0], number)
        self.nominated_pods[node] = [pod]
        self.stage.handle.nominator.changes.add(node)

    @rule(node=nodes)
    def remove_nomination(self, node):
        self.nominated_pods.pop(node, None)
        self.stage.handle.nominator.changes.add(node)

    @rule(app=st.sampled_from(["x", "y"]), allowed=st.integers(0, 2))
    def budget(self, app, allowed):
        self.budgets = (make_budget("b", allowed, app=app),)
        self.stage.listers._others = FixedListers(self.budgets)

    @rule(seconds=st.integers(0, 30))
    def time_goes_by(self, seconds):
        self.now += seconds

    @rule(wanted=st.integers(1, 3), number=st.integers(0, 2), which=st.integers(0, 1))
    def compare(self, wanted, number, which):
        pod = preemptor(self.preemptors[which], number)
        table = self.stage.cache.snapshot()
        cycle = CycleState()
        self.stage.framework.run_pre_filter(cycle, pod, table)
        assert self.stage.framework.filters_locally(cycle)
        remembering, new = (
            DryRun(
                self.stage.framework,
                cycle,
                pod,
                table,
                budgets=DisruptionBudgets(self.budgets),
                now_ns=self.now * 10**9,
                known=known,
            ).run(np.arange(len(table)), wanted)
            for known in (self.memory.outcomes_for(pod, table, self.budgets), None)
        )
        assert summary_of(remembering) == summary_of(new)

    @invariant()
    def nothing_is_out_of_date(self):
        self.compare(3, 0, 0)


TestChanging = Changing.TestCase
TestChanging.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


def evaluated(stage, pod):
    """Preempt without anybody going, and tell how often NodeResourcesFit was asked."""
    counter = stage.metrics.plugin_evaluation_total.labels("NodeResourcesFit", "Filter", PROFILE)
    before = counter.value
    node, *_ = stage.victims_of(pod)
    return node, counter.value - before


def crowded(plugins=()):
    names = [f"n{number}" for number in range(6)]
    return Stage(
        [make_node(name) for name in names],
        [make_pod(f"v-{name}", "3", node=name) for name in names],
        plugins=plugins,
    )


def test_the_next_replica_profits_and_others_do_not():
    stage = crowded()
    pod = make_pod("p", "3", priority=1)
    first, more = evaluated(stage, pod)
    again, less = evaluated(stage, preemptor(pod, 1).pod)
    assert (first, again) == ("n0", "n0")
    # All nodes once without pods and once with, after all were asked to begin with.
    assert (more, less) == (18, 6)
    other, as_many = evaluated(stage, make_pod("q", "3", priority=1))
    assert (other, as_many) == ("n0", 18)


def test_plugins_that_look_from_one_node_to_others_are_asked_again():
    stage = crowded()
    pod = make_pod("p", "3", priority=1, affinity=far_from(app="x"))
    counts = [evaluated(stage, preemptor(pod, number).pod)[1] for number in range(2)]
    assert counts[0] == counts[1] == 18


def test_plugins_that_promise_nothing_are_asked_again():
    class Curious:
        name = "Curious"

        def filter(self, cycle, pod, nodes):
            return ()

    stage = crowded([Curious()])
    pod = make_pod("p", "3", priority=1)
    counts = [evaluated(stage, preemptor(pod, number).pod)[1] for number in range(2)]
    assert counts == [18, 18]


def test_few_templates_are_remembered():
    stage = crowded()
    memory = DryRunCache(stage.handle.nominator)
    pods = [make_pod(f"p{number}", "3", priority=1) for number in range(2 * MAX_TEMPLATES + 1)]
    table = stage.cache.snapshot()
    for pod in pods:
        memory.outcomes_for(PodInfo(pod), table, ())[0] = ((pod.name, None, ""),)
    assert memory.outcomes_for(PodInfo(pods[0]), table, ()) == {}
    assert memory.outcomes_for(PodInfo(pods[-1]), table, ()) != {}


def found(stage, memory, pod, now_ns):
    table, cycle = stage.cache.snapshot(), CycleState()
    stage.framework.run_pre_filter(cycle, pod, table)
    known = memory.outcomes_for(pod, table, ())
    dry_run = DryRun(
        stage.framework,
        cycle,
        pod,
        table,
        budgets=DisruptionBudgets(()),
        now_ns=now_ns,
        known=known,
    )
    candidates, *_ = summary_of(dry_run.run(np.arange(len(table)), len(table)))
    return {node: victims for node, (victims, _) in candidates.items()}


def test_a_promise_stands_in_the_way_of_others_only():
    stage = crowded()
    memory, pod = DryRunCache(stage.handle.nominator), make_pod("p", "3", priority=1)
    first, second = preemptor(pod, 1), preemptor(pod, 2)
    stage.handle.nominator._pods["n0"] = [first]
    stage.handle.nominator.changes.add("n0")
    assert "n0" not in found(stage, memory, second, FIRST_SECOND)
    assert "n0" in found(stage, memory, first, FIRST_SECOND)
    assert "n0" not in found(stage, memory, second, FIRST_SECOND)


def test_who_was_started_in_the_future_is_looked_at_again_when_it_is_past():
    pods = [
        make_pod("ahead", "2", node="n0", start=30),
        make_pod("not-started", "2", node="n0"),
    ]
    stage = Stage([make_node("n0")], pods)
    memory, pod = DryRunCache(stage.handle.nominator), make_pod("p", "2", priority=1)
    now, later = (10**9 * (FIRST_SECOND + second) for second in (10, 50))
    # The one that was started first is kept.
    assert found(stage, memory, preemptor(pod, 1), now) == {"n0": ["ahead"]}
    assert found(stage, memory, preemptor(pod, 2), later) == {"n0": ["not-started"]}
