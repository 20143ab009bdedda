"""DefaultPreemption's answers: texts, nominations, gate, registrations."""

import numpy as np
import pytest

from kscheduler.api.core import Pod
from kscheduler.framework.cluster_event import ASSIGNED_POD, Action, ClusterEvent, Hint
from kscheduler.framework.status import Code, Rejection, unresolvable, unschedulable
from kscheduler.plugins.default_preemption import DefaultPreemptionArgs
from kscheduler.state.pod_info import PodInfo
from tests.plugins.evictions import Stage, far_from, make_budget, make_node, make_pod

PREEMPTED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "PreemptionByScheduler",
}
HIGH = make_pod("high", "3", priority=10)


def answer(result):
    return result.status.code.text, result.status.message, result.nominated_node


class Only:
    """Refuses all nodes but some, for a reason that evictions do not change."""

    name = "Only"

    def __init__(self, *allowed, reject=unresolvable):
        self._allowed = allowed
        self._reject = reject

    def filter(self, cycle, pod, nodes):
        refused = [name not in self._allowed for name in nodes.names]
        yield self._reject(np.array(refused), "not this one")


def test_room_is_made_by_evicting_a_pod_of_lower_priority():
    stage = Stage([make_node("n1")], [make_pod("low", "2", node="n1")])
    text = "preemption: found a potential placement for pod on node n1, preempting 1 victims"
    assert answer(stage.preempt(HIGH)) == ("Success", text, "n1")
    assert stage.metrics.preemption_attempts_total.value == 1


@pytest.mark.parametrize(
    ("nodes", "pods", "plugins", "text"),
    [
        pytest.param(
            [make_node("n1")],
            [make_pod("equal", "2", priority=10, node="n1")],
            [],
            "0/1 nodes are available: 1 No preemption victims found for incoming pod.",
            id="pods of equal priority stay",
        ),
        pytest.param(
            [make_node("n1", "2")],
            [make_pod("low", "1", node="n1")],
            [],
            "0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
            id="the node would be too small when empty",
        ),
        pytest.param(
            [make_node("n1"), make_node("n2"), make_node("n3"), make_node("n4")],
            [
                make_pod("a", "2", priority=20, node="n1"),
                make_pod("b", "2", priority=20, node="n2"),
                make_pod("low-a", "1", node="n1"),
                make_pod("low-b", "1", node="n2"),
            ],
            [Only("n1", "n2")],
            "0/4 nodes are available: "
            "2 Insufficient cpu, 2 Preemption is not helpful for scheduling.",
            id="some nodes are beyond help, others remain full",
        ),
        pytest.param(
            [make_node("n1")],
            [make_pod("low", "2", node="n1")],
            [Only(reject=unschedulable)],
            "0/1 nodes are available: 1 not this one.",
            id="what remains to be said of a node without the victims",
        ),
    ],
)
def test_when_evictions_cannot_help_the_nomination_is_cleared(nodes, pods, plugins, text):
    stage = Stage(nodes, pods, plugins=plugins)
    assert answer(stage.preempt(HIGH)) == ("Unschedulable", f"preemption: {text}", "")


class TestEligibility:
    def test_a_pod_that_never_preempts_does_not(self):
        stage = Stage([make_node("n1")], [make_pod("low", "2", node="n1")])
        result = stage.preempt(make_pod("p", "3", priority=10, preemptionPolicy="Never"))
        text = "preemption: not eligible due to preemptionPolicy=Never."
        assert answer(result) == ("Unschedulable", text, None)

    @pytest.mark.parametrize(
        ("conditions", "priority", "waits"),
        [
            pytest.param([PREEMPTED], 0, True, id="a victim that is still going"),
            pytest.param([], 0, False, id="a pod that goes for its own reasons"),
            pytest.param([PREEMPTED], 10, False, id="no lower priority"),
            pytest.param([{**PREEMPTED, "status": "False"}], 0, False, id="not true"),
            pytest.param(
                [{**PREEMPTED, "reason": "EvictionByEvictionAPI"}], 0, False, id="evicted"
            ),
        ],
    )
    def test_who_waits_for_victims_looks_for_no_others(self, conditions, priority, waits):
        going = make_pod(
            "v", "2", priority=priority, node="n1", deleted=True, conditions=conditions
        )
        other = make_pod("other", "2", node="n2")
        stage = Stage([make_node("n1"), make_node("n2")], [going, other])
        result = stage.preempt(make_pod("p", "3", priority=10, nominated="n1"))
        text = "preemption: not eligible due to a terminating pod on the nominated node."
        if waits:
            assert answer(result) == ("Unschedulable", text, None)
        else:
            assert result.status.code is Code.SUCCESS

    def test_a_promise_holds_before_the_status_tells_of_it(self):
        going = make_pod("v", "2", node="n1", deleted=True, conditions=[PREEMPTED])
        other = make_pod("other", "2", node="n2")
        pod = make_pod("p", "3", priority=10)
        nominated_pods = {"n1": [PodInfo(pod)]}
        stage = Stage(
            [make_node("n1"), make_node("n2")], [going, other], nominated_pods=nominated_pods
        )
        text = "preemption: not eligible due to a terminating pod on the nominated node."
        # An answer of None here loses the nomination: it is not in the status yet.
        assert answer(stage.preempt(pod)) == ("Unschedulable", text, "n1")

    def test_a_nominated_node_that_will_never_do_is_no_reason_to_wait(self):
        going = make_pod("v", "2", node="n1", deleted=True, conditions=[PREEMPTED])
        other = make_pod("other", "2", node="n2")
        stage = Stage([make_node("n1"), make_node("n2")], [going, other], plugins=[Only("n2")])
        result = stage.preempt(make_pod("p", "3", priority=10, nominated="n1"))
        assert (result.status.code, result.nominated_node) == (Code.SUCCESS, "n2")

    def test_what_the_api_server_says_last_counts(self):
        stage = Stage([make_node("n1")], [make_pod("low", "2", node="n1")])
        stage.listers.pods["ns/high"] = make_pod("high", "3", preemptionPolicy="Never", priority=10)
        assert "preemptionPolicy=Never" in stage.preempt(HIGH).status.message

    @pytest.mark.parametrize("replaced", [True, False], ids=["replaced", "deleted"])
    def test_a_pod_that_is_gone_preempts_nobody(self, replaced):
        stage = Stage([make_node("n1")], [make_pod("low", "2", node="n1")])
        cycle, diagnosis = stage.refused(HIGH)
        stage.listers.pods.pop("ns/high")
        if replaced:
            stage.listers.pods["ns/high"] = Pod(metadata=make_pod("other").metadata)
        result = stage.plugin.post_filter(cycle, PodInfo(HIGH), diagnosis)
        assert answer(result) == ("Error", 'preemption: pod "high" not found', None)


class Failing:
    """Cannot judge some nodes once they are short of pods."""

    name = "Failing"

    def __init__(self, *names):
        self._names = names

    def filter(self, cycle, pod, nodes):
        bad = [
            name in self._names and count == 0
            for name, count in zip(nodes.names, nodes.pod_count.tolist(), strict=True)
        ]
        yield Rejection(np.array(bad), Code.ERROR, f"on {self._names[0]}")


class TestErrors:
    def test_are_of_no_interest_when_another_node_will_do(self):
        pods = [make_pod("a", "2", node="n1"), make_pod("b", "2", node="n2")]
        stage = Stage([make_node("n1"), make_node("n2")], pods, plugins=[Failing("n1")])
        assert stage.preempt(HIGH).nominated_node == "n2"

    def test_are_told_when_there_is_nothing_else(self):
        stage = Stage([make_node("n1")], [make_pod("a", "2", node="n1")], plugins=[Failing("n1")])
        text = 'preemption: running "Failing" filter plugin: on n1'
        assert answer(stage.preempt(HIGH)) == ("Error", text, None)

    def test_several_are_told_in_brackets(self):
        pods = [make_pod("a", "2", node="n1"), make_pod("b", "2", node="n2")]
        failing = [Failing("n1"), Failing("n2")]
        failing[1].name = "Broken"
        stage = Stage([make_node("n1"), make_node("n2")], pods, plugins=failing)
        message = stage.preempt(HIGH).status.message
        assert message in (
            'preemption: [running "Failing" filter plugin: on n1, '
            'running "Broken" filter plugin: on n2]',
            'preemption: [running "Broken" filter plugin: on n2, '
            'running "Failing" filter plugin: on n1]',
        )


class TestVictims:
    """Reprieve, budgets and importance on a node of 4 CPUs for a pod of 3."""

    @pytest.mark.parametrize(
        ("pods", "budgets", "want"),
        [
            pytest.param(
                [
                    make_pod("big", "3", priority=5, node="n1"),
                    make_pod("small", "1", priority=1, node="n1"),
                ],
                [],
                (["big"], 0),
                id="a big pod goes, a less important one that fits stays",
            ),
            pytest.param(
                [
                    make_pod("old", "2", start=1, node="n1"),
                    make_pod("new", "1", start=9, node="n1"),
                    make_pod("older", "1", start=0, node="n1"),
                ],
                [],
                (["old", "new"], 0),
                id="among equals the younger goes",
            ),
            pytest.param(
                [
                    make_pod("started", "1", start=9, node="n1"),
                    make_pod("not-started", "1", node="n1"),
                ],
                [],
                (["not-started"], 0),
                id="who has not started is the youngest",
            ),
            pytest.param(
                [
                    make_pod("a", "2", start=1, node="n1", labels={"app": "x"}),
                    make_pod("b", "2", start=2, node="n1", labels={"app": "x"}),
                ],
                [make_budget(allowed=1, app="x")],
                (["a", "b"], 1),
                id="the second of a budget of one violates it",
            ),
            pytest.param(
                [
                    make_pod("a", "2", start=1, node="n1", labels={"app": "x"}),
                    make_pod("b", "2", start=2, node="n1", labels={"app": "x"}),
                ],
                [make_budget(allowed=1, disrupted=["a"], app="x")],
                (["a", "b"], 0),
                id="who is disrupted already does not count",
            ),
            pytest.param(
                [
                    make_pod("guarded", "1", priority=1, node="n1", labels={"app": "x"}),
                    make_pod("free", "1", priority=5, node="n1"),
                ],
                [make_budget(app="x")],
                (["free"], 0),
                id="a budget protects the less important",
            ),
            pytest.param(
                [
                    make_pod("a", "2", priority=1, node="n1", labels={"app": "x"}),
                    make_pod("b", "2", priority=2, node="n1"),
                ],
                [make_budget(app="x")],
                (["b", "a"], 1),
                id="victims are told by importance, whatever their budgets",
            ),
            pytest.param(
                [make_pod("a", "2", node="n1", labels={"app": "x"})],
                [make_budget()],
                (["a"], 0),
                id="a budget for everybody is for nobody",
            ),
            pytest.param(
                [
                    make_pod("a", "1", start=1, node="n1", port=80),
                    make_pod("b", "1", start=0, node="n1"),
                ],
                [],
                (["a"], 0),
                id="a port that is wanted",
            ),
        ],
    )
    @pytest.mark.parametrize("alone", [False, True], ids=["together", "one by one"])
    def test_on_one_node(self, pods, budgets, want, alone):
        extra = [Following()] if alone else []
        stage = Stage([make_node("n1")], pods, budgets=budgets, plugins=extra)
        node, victims, violations = stage.victims_of(make_pod("p", "3", priority=10, port=80))
        assert (node, victims, violations) == ("n1", *want)

    def test_whom_the_pod_shuns_must_go(self):
        pods = [
            make_pod("x", "1", priority=5, node="n1", labels={"app": "x"}),
            make_pod("y", "1", priority=1, node="n1"),
        ]
        stage = Stage([make_node("n1")], pods)
        shy = make_pod("p", "1", priority=10, affinity=far_from(app="x"))
        assert stage.victims_of(shy) == ("n1", ["x"], 0)


class Following:
    """Follows pods from node to node, and has no objections."""

    name = "Following"

    def pre_filter(self, cycle, pod, nodes):
        return None

    def add_pod(self, cycle, pod, added, row, nodes):
        return None

    def remove_pod(self, cycle, pod, removed, row, nodes):
        return None

    def filter(self, cycle, pod, nodes):
        return ()


class TestGate:
    async def test_holds_the_pod_until_its_victims_are_seen_going(self):
        stage = Stage([make_node("n1")], [make_pod("low", "2", node="n1")])
        stage.preempt(HIGH)
        refusal = stage.plugin.pre_enqueue(PodInfo(HIGH))
        assert (refusal.code, refusal.message) == (
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            "waiting for the preemption for this pod to be finished",
        )
        await stage.settle()
        assert stage.plugin.pre_enqueue(PodInfo(HIGH)) is not None
        del stage.listers.pods["ns/low"]
        assert stage.plugin.pre_enqueue(PodInfo(HIGH)) is None

    def test_is_open_when_evictions_are_awaited_in_the_attempt(self):
        stage = Stage([make_node("n1")], [make_pod("low", "2", node="n1")], asynchronous=False)
        stage.preempt(HIGH)
        assert stage.plugin.pre_enqueue(PodInfo(HIGH)) is None

    def test_hears_of_deletions_and_leaves_them_to_others(self):
        (registered,) = Stage([]).plugin.events_to_register()
        assert registered.event == ClusterEvent(ASSIGNED_POD, Action.DELETE)
        assert registered.hint(PodInfo(HIGH), None, None) is Hint.SKIP

    def test_has_nothing_to_hear_without_background_evictions(self):
        assert Stage([], asynchronous=False).plugin.events_to_register() == []


class TestHowManyCandidates:
    """Nodes n1..n4 are tried in the order of the table, from a random one on."""

    def found(self, args, guarded):
        pods = [
            make_pod(f"v{i}", "2", node=f"n{i}", labels={"app": "x"} if i in guarded else {})
            for i in range(1, 5)
        ]
        nodes = [make_node(f"n{i}") for i in range(1, 5)]
        stage = Stage(nodes, pods, budgets=[make_budget(app="x")], args=args)
        cycle, diagnosis = stage.refused(HIGH)
        seen = []
        evaluator = stage.plugin.evaluator
        stage.handle.rng.randrange = lambda size: 0
        dry_run = evaluator._dry_run
        evaluator._dry_run = lambda *asked: seen.append(dry_run(*asked)) or seen[-1]
        evaluator.evaluate(cycle, PodInfo(HIGH), diagnosis)
        return [one.node for one in seen[0].candidates]

    def test_the_search_goes_on_until_one_violates_no_budget(self):
        args = DefaultPreemptionArgs(
            min_candidate_nodes_absolute=2, min_candidate_nodes_percentage=0
        )
        assert self.found(args, guarded={1, 2, 3}) == ["n4", "n1", "n2"]

    def test_enough_is_enough(self):
        args = DefaultPreemptionArgs(
            min_candidate_nodes_absolute=2, min_candidate_nodes_percentage=0
        )
        assert self.found(args, guarded={1}) == ["n2", "n1"]

    def test_a_share_of_the_nodes(self):
        args = DefaultPreemptionArgs(
            min_candidate_nodes_absolute=1, min_candidate_nodes_percentage=75
        )
        assert self.found(args, guarded=()) == ["n1", "n2", "n3"]

    def test_none_wanted_none_found(self):
        args = DefaultPreemptionArgs(
            min_candidate_nodes_absolute=0, min_candidate_nodes_percentage=1
        )
        assert self.found(args, guarded=()) == []
