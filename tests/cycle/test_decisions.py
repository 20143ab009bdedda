"""Decisions that are kept: what is told of an attempt, how attempts fold, what room they take."""

import msgspec
import numpy as np
import pytest

from kscheduler.api.explanation import (
    NodeCounts,
    PluginFault,
    QueueWait,
    RejectedNodes,
    ScorePlugin,
    Step,
)
from kscheduler.cycle.attempt import at_once
from kscheduler.decisions import decision_log
from kscheduler.decisions.decision_log import DecisionLog
from kscheduler.decisions.explain import View, decision_of
from kscheduler.framework.plugin import Wait
from kscheduler.framework.status import failed, rejected, unresolvable, unschedulable
from kscheduler.runtime.out_of_tree.health import Fault, FaultReport
from tests.kit.objects import make_node

THREE = ("n1", "n2", "n3")


@pytest.fixture(name="told")
def _told():
    def told(rig, name="p"):
        return decision_of(rig.decisions.get("ns", name))

    return told


def scoring(scripted, name="Likes", **points):
    def score(cycle, pod, nodes):
        return np.array([points.get(one, 0) for one in nodes.names])

    return scripted(name, score=score)


def rejecting(scripted, name, reasons):
    def judge(cycle, pod, nodes):
        for node, (make, reason) in reasons.items():
            yield make(np.isin(nodes.names, [node]), reason)

    return scripted(name, filter=judge)


async def test_a_placed_pod_is_told_with_scores_margin_and_steps(make_rig, scripted, told):
    rig = make_rig(
        scoring(scripted, n1=10, n2=70, n3=30),
        rejecting(scripted, "Refuses", {"n1": (unschedulable, "no room")}),
        nodes=THREE,
    )
    await rig.placed()
    decision = told(rig)
    assert decision.summary == (
        "It is on n2, one of 2 that fit of 3 nodes that were looked at: its score is the highest, "
        "40 above n3's."
    )
    last = decision.last
    assert (decision.outcome, decision.node, decision.attempts) == ("Scheduled", "n2", 1)
    assert last.nodes == NodeCounts(total=3, evaluated=3, feasible=2, not_evaluated=0)
    assert last.rejections == (
        RejectedNodes(
            plugin="Refuses", reason="no room", count=1, preemption_might_help=True, nodes=("n1",)
        ),
    )
    assert last.scores.plugins == (ScorePlugin("Likes", 1),)
    assert [(one.node, one.total, one.raw) for one in last.scores.nodes] == [
        ("n2", 70, (70,)),
        ("n3", 30, (30,)),
    ]
    assert (last.scores.runner_up, last.scores.margin, last.scores.ties) == ("n3", 40, 1)
    assert [step.point for step in last.steps] == ["Reserve", "Permit", "PreBind", "Bind"]
    assert decision.first is None


async def test_ties_are_told_as_drawn(make_rig, scripted, told):
    rig = make_rig(scoring(scripted), nodes=THREE)
    await rig.placed()
    assert "drawn among 3 nodes with the highest score" in told(rig).summary


async def test_a_nominated_node_is_told_as_the_only_one_tried(make_rig, told):
    rig = make_rig(nodes=THREE)
    await rig.placed(nominated_node_name="n3")
    assert told(rig).summary == "It is on n3, the node nominated for it, where it fits."
    assert told(rig).last.only_tried == "nominated"


def test_attempts_that_end_alike_are_counted(make_rig, scripted, refusing, told):
    rig = make_rig(refusing(), nodes=THREE)
    rig.add()
    for _ in range(4):
        rig.schedule()
        rig.now += 400
        rig.queue.flush_unschedulable_leftover(rig.now)
        rig.now += 20
        rig.queue.flush_backoff_completed(rig.now)
    decision = told(rig)
    (end,) = decision.outcomes
    assert (end.outcome, end.count) == ("Unschedulable", 4)
    assert end.message == "0/3 nodes are available: 3 no room."
    assert (decision.first.number, decision.last.number, decision.attempts) == (1, 4, 4)
    assert decision.summary.startswith("None of 3 nodes can take it: 3 nodes: no room.")
    assert "attempt 4" in decision.summary
    assert rig.decisions.entries == 1


def test_reasons_that_preemption_cannot_lift_are_marked(make_rig, scripted, told):
    rig = make_rig(
        rejecting(
            scripted,
            "Refuses",
            {"n1": (unresolvable, "wrong zone"), "n2": (unschedulable, "no room")},
        ),
        rejecting(scripted, "Last", {"n3": (unresolvable, "wrong zone")}),
        nodes=THREE,
    )
    rig.add()
    rig.schedule()
    told_of = {(one.plugin, one.reason): one for one in told(rig).last.rejections}
    assert not told_of["Refuses", "wrong zone"].preemption_might_help
    assert told_of["Refuses", "no room"].preemption_might_help
    assert told_of["Last", "wrong zone"].nodes == ("n3",)


@pytest.mark.parametrize(
    ("point", "answer", "outcome"),
    [
        ("reserve", rejected("not now"), "Unschedulable"),
        ("permit", failed("broken"), "Error"),
    ],
)
def test_the_point_that_ended_an_attempt_is_told(make_rig, scripted, told, point, answer, outcome):
    rig = make_rig(scripted("Ends", **{point: answer}))
    rig.add()
    assert rig.schedule() is None
    decision = told(rig)
    assert (decision.outcome, decision.node, decision.last.node) == (outcome, "", "n1")
    assert decision.last.steps[-1].point == point.capitalize()
    assert "It was to go to n1" in decision.summary


def test_the_node_of_an_attempt_that_failed_is_told_only_to_whom_may_list_nodes(make_rig, scripted):
    """The pod is not there, so nothing else tells it."""
    rig = make_rig(scripted("Ends", permit=failed("broken")), nodes=THREE)
    rig.add()
    assert rig.schedule() is None
    entry = rig.decisions.get("ns", "p")
    decision = decision_of(entry, View(node_names=False))
    assert decision.summary.startswith("It was to go to a node, but Permit failed: ")
    text = msgspec.json.encode(decision).decode()
    assert not [node for node in THREE if node in text]
    assert entry.last.node in decision_of(entry).summary


async def test_a_binding_that_fails_is_told(make_rig, scripted, told):
    rig = make_rig(scripted("Binds", bind=failed("no answer")))
    rig.add()
    await rig.bind(rig.schedule())
    last = told(rig).last
    assert last.steps[-1] == Step(point="Bind", code="Error", message=last.message)
    assert "no answer" in last.message


def test_a_pod_that_cannot_be_decided_on_is_told(make_rig, scripted, told):
    rig = make_rig(scripted("Raises", pre_filter=ValueError("oops")))
    rig.add()
    rig.schedule()
    assert told(rig).outcome == "Error"
    assert "oops" in told(rig).summary


def test_names_stay_true_when_nodes_have_gone(make_rig, refusing, told):
    rig = make_rig(refusing(), nodes=THREE)
    rig.add()
    rig.schedule()
    for name in THREE:
        rig.cache.remove_node(make_node(name))
    assert told(rig).last.rejections[0].nodes == THREE


async def test_the_newest_pod_of_a_name_is_told(make_rig, refusing, told):
    rig = make_rig(nodes=THREE)
    await rig.placed(uid="one")
    await rig.placed(uid="two")
    decision = told(rig)
    assert (decision.pod_uid, decision.attempts) == ("two", 1)


async def test_the_log_keeps_within_its_bytes_and_drops_the_oldest(make_rig):
    rig = make_rig(nodes=THREE)
    rig.decisions.max_bytes = 8000
    heard = []
    rig.decisions.watch(lambda kind, entry: heard.append((kind, entry.name)))
    for number in range(20):
        await rig.placed(f"p{number}")
    kept = [entry.name for entry in rig.decisions.all()]
    assert kept == [f"p{number}" for number in range(20 - len(kept), 20)]
    assert 1 < len(kept) < 10
    assert rig.decisions.bytes <= 8000
    assert rig.decisions.evictions == 20 - len(kept)
    assert [name for kind, name in heard if kind == "DELETED"] == [
        f"p{number}" for number in range(20 - len(kept))
    ]


def test_many_messages_of_one_pod_are_counted_as_others(make_rig, scripted, told):
    count = iter(range(1000))
    rig = make_rig(scripted("Raises", pre_filter=lambda *_: failed(f"oops {next(count)}")))
    rig.add()
    for _ in range(40):
        rig.schedule()
        rig.now += 400
        rig.queue.flush_backoff_completed(rig.now)
    decision = told(rig)
    assert sum(end.count for end in decision.outcomes) == 40
    assert len(decision.outcomes) == decision_log.MAX_ENDS + 1
    assert decision.outcomes[-1].message == decision_log.OTHER


def test_a_record_that_cannot_be_made_costs_the_record_only(make_rig, monkeypatch, log_text):
    def broken(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr(decision_log, "record_of", broken)
    rig = make_rig()
    rig.add()
    assert rig.schedule().node == "n1"
    assert "Decision was not recorded" in log_text()


def test_without_a_log_nothing_is_kept(make_rig):
    rig = make_rig()
    rig.loop._decisions = rig.binder._decisions = None
    rig.add()
    attempt = at_once(rig.loop.schedule_one(rig.queue.pop()))
    assert attempt.record is None
    assert isinstance(rig.decisions, DecisionLog)
    assert rig.decisions.entries == 0


def test_the_wait_is_told_by_queue_and_what_ended_it(make_rig, refusing, told):
    rig = make_rig(refusing(), nodes=THREE)
    rig.add()
    rig.now += 2
    rig.schedule()
    assert told(rig).last.waits == (QueueWait("Active", 2.0),)
    rig.now += 400
    rig.queue.flush_unschedulable_leftover(rig.now)
    rig.now += 3
    rig.schedule()
    last = told(rig).last
    assert last.waits == (QueueWait("Unschedulable", 400.0), QueueWait("Active", 3.0))
    assert (last.woken_by, last.waited_seconds) == ("UnschedulableTimeout", 403.0)


async def test_plugins_that_held_the_pod_at_permit_are_told(make_rig, scripted, told):
    rig = make_rig(scripted("Holds", permit=Wait(60.0)))
    rig.add()
    attempt = rig.schedule()
    rig.waiting_pods.get(attempt.pod.uid).allow("Holds")
    await rig.bind(attempt)
    assert told(rig).last.steps[:3] == (
        Step(point="Reserve", code="Success"),
        Step(point="Permit", plugin="Holds", code="Wait"),
        Step(point="Permit", code="Success"),
    )


def test_a_rejection_after_the_decision_names_the_plugin(make_rig, scripted, told):
    rig = make_rig(scripted("Ends", reserve=rejected("not now")))
    rig.add()
    rig.schedule()
    assert told(rig).last.steps[-1].plugin == "Ends"


def test_faults_of_plugins_belong_to_the_attempt_that_ends_next(make_rig, refusing, told):
    rig = make_rig(refusing(), nodes=THREE)
    pod = rig.add()
    fault = FaultReport("Mine", "Filter", Fault.TIMEOUT, "timed out")
    rig.decisions.fault(pod, fault)
    rig.schedule()
    assert told(rig).last.faults == (PluginFault("Mine", "Filter", "timeout", "timed out"),)


async def test_a_fault_after_the_binding_is_added_to_its_record(make_rig, told):
    rig = make_rig(nodes=THREE)
    pod = await rig.placed()
    rig.decisions.fault(pod, FaultReport("Mine", "PostBind", Fault.EXCEPTION, "oops"))
    assert [fault.message for fault in told(rig).last.faults] == ["oops"]


def test_faults_of_pods_that_never_end_are_bounded(make_rig, new_pod):
    rig = make_rig()
    for number in range(decision_log.MAX_FAULTY_PODS + 10):
        pod = new_pod(uid=f"u{number}")
        rig.decisions.fault(pod, FaultReport("Mine", "Filter", Fault.EXCEPTION, "oops"))
    assert len(rig.decisions._faults) == decision_log.MAX_FAULTY_PODS
