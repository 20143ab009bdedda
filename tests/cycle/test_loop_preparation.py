"""An attempt that waits for the room that PostFilter makes ends as if it had been there at once."""

import asyncio

import pytest

from kscheduler.framework.plugin import PostFilterResult
from kscheduler.framework.status import Code, Status, failed

SOON = PostFilterResult(Status(Code.SUCCESS, ("soon",)), "n1")
REFUSED = "0/1 nodes are available: 1 no room. "


def nominating(scripted, work):
    result = PostFilterResult(Status(Code.SUCCESS), None, work)
    return scripted("Nominates", post_filter=result)


@pytest.fixture
def prepared(make_rig, refusing, scripted):
    async def run(work):
        rig = make_rig(refusing(), nominating(scripted, work))
        rig.add()
        running = asyncio.create_task(rig.loop.run())
        for _ in range(100):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait({running})
        return rig

    return run


def failure_of(rig):
    return [event for event in rig.told if event[:2] == ("event", "FailedScheduling")]


async def test_success_leaves_the_nomination_behind(prepared):
    async def work():
        await asyncio.sleep(0)
        return SOON

    rig = await prepared(work)
    assert failure_of(rig) == [("event", "FailedScheduling", REFUSED + "soon")]
    assert rig.queue.nominator.node_of("uid-p") == "n1"


async def test_failure_is_told_instead_and_the_nomination_stays_as_it_was(prepared):
    async def work():
        return PostFilterResult(failed("server trouble"))

    rig = await prepared(work)
    assert failure_of(rig) == [("event", "FailedScheduling", REFUSED + "server trouble")]
    assert rig.queue.nominator.node_of("uid-p") is None


async def test_an_exception_costs_the_pod_its_attempt_and_nothing_else(prepared):
    async def work():
        raise RuntimeError("a bug")

    rig = await prepared(work)
    told = REFUSED + 'running PostFilter plugin "Nominates": RuntimeError: a bug'
    assert failure_of(rig) == [("event", "FailedScheduling", told)]
    assert "uid-p" not in rig.queue.in_flight


async def test_nobody_else_is_tried_meanwhile(make_rig, refusing, scripted):
    gate = asyncio.Event()

    async def work():
        await gate.wait()
        return SOON

    rig = make_rig(refusing(), nominating(scripted, work))
    rig.add("a")
    rig.add("b")
    running = asyncio.create_task(rig.loop.run())
    for _ in range(20):
        await asyncio.sleep(0)
    assert failure_of(rig) == []
    assert len(list(rig.queue.in_flight)) == 1
    gate.set()
    for _ in range(20):
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait({running})
    assert len(failure_of(rig)) == 2
