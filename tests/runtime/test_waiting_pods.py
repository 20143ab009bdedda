"""Waiting for permission: the first decision wins, and time decides for those who do not."""

import asyncio

import pytest

from kscheduler.api.core import Pod
from kscheduler.api.meta import ObjectMeta
from kscheduler.framework.status import Code, Status
from kscheduler.runtime.waiting_pods import WaitingPod, WaitingPods
from kscheduler.state.pod_info import PodInfo

POD = PodInfo(Pod(ObjectMeta(name="p", namespace="default", uid="u1")))
ALLOWED = Status(Code.SUCCESS)


def waiting(**timeouts):
    return WaitingPod(POD, timeouts, now=100.0)


def test_a_pod_held_by_two_plugins_goes_when_both_have_allowed_it():
    pod = waiting(a=10, b=10)
    pod.allow("a")
    assert (set(pod.pending_plugins), pod.expire(100.0)) == ({"b"}, None)
    pod.allow("b")
    assert pod.expire(100.0) == ALLOWED


def test_allowing_by_a_plugin_that_does_not_hold_the_pod_changes_nothing():
    pod = waiting(a=10)
    pod.allow("stranger")
    assert pod.expire(100.0) is None


@pytest.mark.parametrize(
    ("timeouts", "now", "want"),
    [
        pytest.param({"a": 10, "b": 20}, 109.9, None, id="not yet"),
        pytest.param(
            {"a": 10, "b": 20},
            110.0,
            "rejected due to timeout after waiting 10s at plugin a",
            id="the shorter time counts",
        ),
        pytest.param(
            {"a": 900, "b": 1000},
            1200.0,
            "rejected due to timeout after waiting 15m0s at plugin a",
            id="the first to run out is named, however late one looks",
        ),
    ],
)
def test_time_running_out_rejects(timeouts, now, want):
    decision = waiting(**timeouts).expire(now)
    assert (decision and decision.message) == want
    assert decision is None or (decision.code, decision.plugin) == (Code.UNSCHEDULABLE, "a")


def test_a_plugin_that_allowed_in_time_does_not_time_out():
    pod = waiting(a=10, b=20)
    pod.allow("a")
    assert pod.expire(115.0) is None
    assert pod.expire(120.0).plugin == "b"


@pytest.mark.parametrize(
    ("decide", "want"),
    [
        pytest.param(
            lambda pod: pod.reject("a", "no"), Status(Code.UNSCHEDULABLE, ("no",), "a"), id="reject"
        ),
        pytest.param(
            lambda pod: pod.preempt("a", "go"), Status(Code.ERROR, ("go",), "a"), id="preempt"
        ),
        pytest.param(lambda pod: pod.allow("a"), ALLOWED, id="allow"),
    ],
)
def test_the_first_decision_wins_and_later_ones_are_told(decide, want):
    pod = waiting(a=10)
    decide(pod)
    assert [pod.reject("b", "late"), pod.preempt("b", "late")] == [False, False]
    pod.allow("a")
    assert pod.expire(1e9) == want


def test_only_the_first_rejection_took_effect():
    pod = waiting(a=10)
    assert [pod.reject("a", "no"), pod.reject("a", "no")] == [True, False]


async def test_waiting_ends_with_the_decision():
    pod = waiting(a=10)
    decision = asyncio.create_task(pod.decision(lambda: 100.0))
    await asyncio.sleep(0)
    assert not decision.done()
    pod.allow("a")
    assert await decision == ALLOWED


async def test_waiting_ends_when_time_is_up():
    loop = asyncio.get_running_loop()
    pod = WaitingPod(POD, {"a": 0.01}, now=loop.time())
    assert (await pod.decision(loop.time)).message == (
        "rejected due to timeout after waiting 10ms at plugin a"
    )


async def test_a_decision_made_before_anyone_waits_is_not_lost():
    pod = waiting(a=10)
    pod.reject("a", "no")
    assert (await pod.decision(lambda: 100.0)).message == "no"


def test_pods_are_found_by_uid_until_removed():
    pods = WaitingPods()
    pod = pods.add(POD, {"a": 1.0}, 0.0)
    assert (pods.get("u1"), list(pods), len(pods)) == (pod, [pod], 1)
    pods.remove("u1")
    assert (pods.get("u1"), list(pods)) == (None, [])


def test_a_waiting_pod_that_is_going_away_is_rejected_once():
    pods = WaitingPods()
    pod = pods.add(POD, {"a": 1.0}, 0.0)
    assert [pods.reject("u1"), pods.reject("u1"), pods.reject("unknown")] == [True, False, False]
    assert pod.expire(0.0) == Status(Code.UNSCHEDULABLE, ("removed",))
