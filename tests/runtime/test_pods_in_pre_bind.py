"""Calling off the work before binding: once, in time, and without mistaking a shutdown for it."""

import asyncio

import pytest

from kscheduler.runtime.pods_in_pre_bind import PodsInPreBind


async def test_a_pod_is_registered_only_while_inside():
    pods = PodsInPreBind()
    with pods.registered("u1") as entry:
        assert pods.get("u1") is entry
    assert pods.get("u1") is None


async def test_calling_off_cancels_the_task_once():
    pods = PodsInPreBind()

    async def bind():
        with pods.registered("u1") as entry:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                assert entry.was_cancelled_only_by_us()
            return entry.called_off, entry.mark_prebound(), asyncio.current_task().cancelling()

    task = asyncio.create_task(bind())
    await asyncio.sleep(0)
    entry = pods.get("u1")
    assert [entry.cancel("first"), entry.cancel("second")] == [True, True]
    assert await task == ("first", False, 0)


async def test_a_cancellation_from_elsewhere_is_passed_on():
    pods = PodsInPreBind()
    ours = []

    async def bind():
        with pods.registered("u1") as entry:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ours.append(entry.was_cancelled_only_by_us())
                raise

    task = asyncio.create_task(bind())
    await asyncio.sleep(0)
    pods.get("u1").cancel("preempted")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ours == [False]


async def test_once_prebound_it_is_too_late():
    pods = PodsInPreBind()
    with pods.registered("u1") as entry:
        assert [entry.mark_prebound(), entry.cancel("late"), entry.called_off] == [
            True,
            False,
            None,
        ]
