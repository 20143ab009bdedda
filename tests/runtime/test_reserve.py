"""Reserve and Permit: what stops a pod that already has a node, and who may hold it."""

import asyncio
from types import SimpleNamespace as Plugin

import pytest

from kscheduler.framework.plugin import Wait
from kscheduler.framework.status import Code, Status, failed, rejected
from kscheduler.runtime.reserve import Hold


def raising(*_):
    raise OSError("disk full")


def reserving(name, answer=None, log=None):
    log = [] if log is None else log
    return Plugin(
        name=name,
        reserve=lambda cycle, pod, node: (log.append(f"reserve {name} {node}"), answer)[1],
        unreserve=lambda cycle, pod, node: log.append(f"unreserve {name} {node}"),
    )


@pytest.mark.parametrize(
    ("answer", "want"),
    [
        pytest.param(None, None, id="success"),
        pytest.param(Status(Code.SUCCESS), None, id="success said aloud"),
        pytest.param(rejected("no"), Status(Code.UNSCHEDULABLE, ("no",), "A"), id="rejection"),
        pytest.param(
            failed("boom"), Status(Code.ERROR, ('running Reserve plugin "A": boom',)), id="error"
        ),
    ],
)
def test_reserve(answer, want, make_framework, cycle, pod):
    assert make_framework(reserving("A", answer)).run_reserve(cycle, pod, "n1") == want


def test_reserve_stops_at_the_first_failure_and_unreserve_spares_nobody(make_framework, cycle, pod):
    log = []
    framework = make_framework(
        reserving("A", None, log), reserving("B", rejected("no"), log), reserving("C", None, log)
    )
    framework.run_reserve(cycle, pod, "n1")
    framework.run_unreserve(cycle, pod, "n1")
    assert log == [
        "reserve A n1",
        "reserve B n1",
        "unreserve C n1",
        "unreserve B n1",
        "unreserve A n1",
    ]


def test_a_plugin_that_raises_while_unreserving_does_not_keep_the_others_from_it(
    make_framework, cycle, pod
):
    log = []
    bad = Plugin(name="B", reserve=lambda *_: None, unreserve=raising)
    make_framework(reserving("A", None, log), bad).run_unreserve(cycle, pod, "n1")
    assert log == ["unreserve A n1"]


async def test_what_plugins_undo_in_the_api_server_is_left_to_the_caller(
    make_framework, cycle, pod
):
    log = []

    def writing(name, fails=None):
        async def undo():
            log.append(name)
            if fails:
                raise fails

        return Plugin(name=name, reserve=lambda *_: None, unreserve=lambda *_: undo)

    framework = make_framework(writing("A"), reserving("B", None), writing("C", ValueError("boom")))
    undo = framework.run_unreserve(cycle, pod, "n1")
    assert log == []
    await undo()
    assert log == ["C", "A"]


def permitting(name, answer):
    return Plugin(name=name, permit=lambda cycle, pod, node: answer)


@pytest.mark.parametrize(
    ("answers", "want"),
    [
        pytest.param([None, None], None, id="all agree"),
        pytest.param([Wait(10), None], Hold({"A": 10}), id="one waits"),
        pytest.param([Wait(10), Wait(5)], Hold({"A": 10, "B": 5}), id="two wait"),
        pytest.param([Wait(3600)], Hold({"A": 900}), id="no longer than a quarter of an hour"),
        pytest.param(
            [Wait(10), rejected("no")],
            Status(Code.UNSCHEDULABLE, ("no",), "B"),
            id="a rejection beats waiting",
        ),
        pytest.param(
            [failed("boom"), Wait(10)],
            Status(Code.ERROR, ('running Permit plugin "A": boom',), "A"),
            id="an error ends it",
        ),
    ],
)
def test_permit(answers, want, make_framework, cycle, pod):
    plugins = [permitting(name, answer) for name, answer in zip("AB", answers, strict=False)]
    assert make_framework(*plugins).run_permit(cycle, pod, "n1") == want


def test_a_permit_plugin_that_raises(make_framework, cycle, pod):
    framework = make_framework(Plugin(name="A", permit=raising))
    text = 'running Permit plugin "A": OSError: disk full'
    assert framework.run_permit(cycle, pod, "n1") == Status(Code.ERROR, (text,), "A")


def test_waiting_is_a_status_of_its_own_in_metrics(make_framework, cycle, pod, metrics):
    make_framework(permitting("A", Wait(1))).run_permit(cycle, pod, "n1")
    family = metrics.framework_extension_point_duration_seconds
    assert family.labels("Permit", "Wait", "default-scheduler").count == 1


async def test_a_pod_that_nobody_holds_does_not_wait(make_framework, pod):
    framework = make_framework()
    assert not framework.is_waiting(pod)
    assert await framework.wait_on_permit(pod) is None


@pytest.mark.parametrize(
    ("decide", "want", "result"),
    [
        pytest.param(lambda waiting: waiting.allow("A"), None, "Success", id="allowed"),
        pytest.param(
            lambda waiting: waiting.reject("A", "no"),
            Status(Code.UNSCHEDULABLE, ("no",), "A"),
            "Unschedulable",
            id="rejected",
        ),
        pytest.param(
            lambda waiting: waiting.preempt("A", "preempted"),
            Status(Code.ERROR, ("waiting on permit for pod: preempted",), "A"),
            "Error",
            id="preempted",
        ),
    ],
)
async def test_waiting_on_permit(decide, want, result, make_framework, handle, pod, metrics):
    framework = make_framework()
    framework.hold(pod, Hold({"A": 60.0}))
    assert framework.is_waiting(pod)
    task = asyncio.create_task(framework.wait_on_permit(pod))
    await asyncio.sleep(0)
    decide(handle.waiting_pods.get(pod.uid))
    assert await task == want
    assert not framework.is_waiting(pod)
    assert metrics.permit_wait_duration_seconds.labels(result).count == 1


async def test_a_pod_stops_waiting_when_the_wait_is_cancelled(make_framework, pod):
    framework = make_framework()
    framework.hold(pod, Hold({"A": 60.0}))
    task = asyncio.create_task(framework.wait_on_permit(pod))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not framework.is_waiting(pod)
