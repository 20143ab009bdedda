"""What becomes of a pod whose attempt failed."""

import pytest

from kscheduler.api.core import PodCondition
from kscheduler.api.timestamps import format_time
from kscheduler.cycle.failure import CLEAR, KEEP, Failure
from kscheduler.cycle.schedule import NO_NODES_AVAILABLE
from kscheduler.framework.status import Code, Status, failed, rejected

PROFILE = "default-scheduler"
REFUSAL = Failure(rejected("0/1 nodes are available: 1 no room."), frozenset({"Refuses"}))
ERROR = Failure(failed("broken"))


@pytest.fixture
def rig(make_rig, refusing):
    return make_rig(refusing())


def fail(rig, failure=REFUSAL):
    queued = rig.queue.pop()
    rig.failures.handle_scheduling_failure(queued, failure, started=0.0, now=rig.now)
    return queued


def report_of(rig, pod):
    """What the writer has been given and has not sent."""
    return rig.writer._unsent.get(pod.metadata.uid)


@pytest.mark.parametrize(
    ("failure", "result", "reason"),
    [
        pytest.param(REFUSAL, "unschedulable", "Unschedulable", id="rejected"),
        pytest.param(
            Failure(Status(Code.PENDING, ("wait",))), "unschedulable", "Unschedulable", id="pending"
        ),
        pytest.param(Failure(NO_NODES_AVAILABLE), "unschedulable", "Unschedulable", id="no nodes"),
        pytest.param(ERROR, "error", "SchedulerError", id="error"),
    ],
)
def test_event_condition_and_metrics_say_why(rig, failure, result, reason):
    pod = rig.add(version="7")
    fail(rig, failure)
    message = failure.status.message
    assert rig.events == [(PROFILE, pod, "Warning", "FailedScheduling", "Scheduling", message)]
    assert report_of(rig, pod).condition == PodCondition(
        type="PodScheduled",
        status="False",
        reason=reason,
        message=message,
        observed_generation=7,
        last_transition_time=format_time(rig.now),
    )
    assert rig.counts("schedule_attempts_total") == {(result, PROFILE): 1}
    [series] = rig.metrics.scheduling_attempt_duration_seconds._series
    assert series == (result, PROFILE)


def test_the_condition_has_the_whole_message(rig):
    pod = rig.add()
    fail(rig, Failure(failed("x" * 5000)))
    assert len(report_of(rig, pod).condition.message) == 5000


@pytest.mark.parametrize(
    ("failure", "place"),
    [
        pytest.param(REFUSAL, "unschedulable", id="rejected by someone who can be told of events"),
        pytest.param(ERROR, "backoff", id="errors are tried again"),
        pytest.param(Failure(NO_NODES_AVAILABLE), "backoff", id="so is an empty cluster"),
        pytest.param(Failure(rejected("by nobody")), "backoff", id="and what nobody rejected"),
    ],
)
def test_the_pod_is_queued_again(rig, failure, place):
    rig.add()
    queued = fail(rig, failure)
    assert rig.where == {place: ["p"]}
    assert queued.unschedulable_plugins == failure.unschedulable_plugins
    assert len(rig.queue.in_flight) == 0


def test_rejectors_of_the_attempt_before_are_forgotten(rig):
    rig.add()
    fail(rig, Failure(rejected("x"), frozenset({"Refuses"}), frozenset({"Refuses"})))
    rig.now += 3600
    rig.queue.flush_unschedulable_leftover(rig.now)
    queued = fail(rig, ERROR)
    assert queued.unschedulable_plugins == queued.pending_plugins == set()


def test_the_latest_version_is_queued_told_of_and_written_to(rig):
    pod = rig.add()
    queued = rig.queue.pop()
    current = rig.change(pod)
    rig.failures.handle_scheduling_failure(queued, REFUSAL, started=0.0, now=rig.now)
    assert rig.queue.get("ns/p").pod.pod is current
    assert rig.events[0][1] is current
    assert report_of(rig, pod).pod is current


def test_what_was_compiled_is_kept_while_the_pod_is_the_same(rig):
    rig.add()
    queued = rig.queue.pop()
    compiled = queued.pod
    rig.failures.handle_scheduling_failure(queued, REFUSAL, started=0.0, now=rig.now)
    assert queued.pod is compiled


def test_a_pod_that_is_gone_is_not_queued(rig, log_text):
    pod = rig.add()
    queued = rig.queue.pop()
    del rig.pods[pod.key]
    rig.failures.handle_scheduling_failure(queued, REFUSAL, started=0.0, now=rig.now)
    assert rig.where == {}
    assert len(rig.queue.in_flight) == 0
    assert len(rig.events) == 1
    assert (
        '"Pod doesn\'t exist in informer cache" pod="ns/p" err="pod \\"p\\" not found"'
        in log_text()
    )


def test_a_pod_that_somebody_else_has_bound_is_not_queued(rig, log_text):
    pod = rig.add()
    queued = rig.queue.pop()
    rig.change(pod, spec={"node_name": "n1"})
    rig.failures.handle_scheduling_failure(queued, REFUSAL, started=0.0, now=rig.now)
    assert rig.where == {}
    assert len(rig.queue.in_flight) == 0
    assigned = "Pod has been assigned to node. Abort adding it back to queue."
    assert f'"{assigned}" pod="ns/p" node="n1"' in log_text()


def test_a_pod_that_was_recreated_hears_nothing_of_its_predecessor(rig, new_pod):
    pod = rig.add()
    queued = rig.queue.pop()
    rig.pods[pod.key] = new_pod(uid="another")
    rig.failures.handle_scheduling_failure(queued, REFUSAL, started=0.0, now=rig.now)
    assert rig.where == {}
    assert len(rig.queue.in_flight) == 0
    assert rig.events == []
    assert report_of(rig, pod) is None
    assert rig.counts("schedule_attempts_total") == {("unschedulable", PROFILE): 1}


@pytest.mark.parametrize(
    ("failure_says", "pod_says", "want"),
    [
        pytest.param(CLEAR, "n1", None, id="cleared"),
        pytest.param(KEEP, "n1", "n1", id="kept as the status has it"),
        pytest.param(KEEP, "", None, id="nothing to keep"),
        pytest.param("n2", "n1", "n2", id="another node"),
    ],
)
def test_nominations_take_effect_at_once(rig, failure_says, pod_says, want):
    pod = rig.add(nominated_node_name=pod_says)
    fail(rig, Failure(rejected("x"), frozenset({"Refuses"}), nominated_node=failure_says))
    assert rig.queue.nominator.node_of(pod.metadata.uid) == want
    assert report_of(rig, pod).nominated_node == failure_says


@pytest.mark.parametrize(
    ("failure", "want"),
    [
        (
            REFUSAL,
            'I "Unable to schedule pod; no fit; waiting" pod="ns/p" '
            'err="0/1 nodes are available: 1 no room."',
        ),
        (
            Failure(NO_NODES_AVAILABLE),
            'I "Unable to schedule pod; no nodes are registered to the cluster; waiting" '
            'pod="ns/p"',
        ),
        (
            ERROR,
            'E "Error scheduling pod; retrying" err="broken" logger="UnhandledError" pod="ns/p"',
        ),
    ],
    ids=["rejected", "no nodes", "error"],
)
def test_the_log_says_why(rig, log_text, failure, want):
    rig.add()
    fail(rig, failure)
    lines = [f"{line[0]} {line.partition('] ')[2]}" for line in log_text().splitlines()]
    assert want in lines
