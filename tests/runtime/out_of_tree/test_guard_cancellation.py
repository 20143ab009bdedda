"""A plugin can neither end the process nor cancel its caller, nor stay when it is cancelled."""

import asyncio
import sys

import pytest

from kscheduler.framework import Code, Status


class Odd(BaseException):
    pass


class MuteError(Exception):
    def __str__(self):
        raise ValueError("no words")


def raising(error):
    def method(*_):
        raise error

    return method


async def cancel_itself(*_):
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def exit_later(*_):
    await asyncio.sleep(0)
    sys.exit(3)


async def cancel_later(*_):
    await asyncio.sleep(0)
    raise asyncio.CancelledError


def stay(*_):
    return staying()


async def staying():
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            continue


async def return_when_cancelled(*_):
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        return


async def raise_when_cancelled(*_):
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        raise ValueError("oops") from None


@pytest.mark.parametrize(
    ("error", "text"),
    [
        pytest.param(SystemExit(3), "SystemExit: 3", id="exits"),
        pytest.param(KeyboardInterrupt(), "KeyboardInterrupt: ", id="interrupts"),
        pytest.param(asyncio.CancelledError(), "CancelledError: ", id="cancels"),
        pytest.param(GeneratorExit(), "GeneratorExit: ", id="ends a generator"),
        pytest.param(Odd("odd"), "Odd: odd", id="raises what is no Exception"),
        pytest.param(MuteError(), "MuteError", id="raises what cannot be told"),
    ],
)
def test_whatever_a_plugin_raises_is_its_own_fault(
    error, text, guarded, make_framework, cycle, pod, faults
):
    framework = make_framework(guarded(reserve=raising(error)))
    status = framework.run_reserve(cycle, pod, "n0")
    assert status == Status(Code.ERROR, (f'running Reserve plugin "A": {text}',))
    assert faults() == {("Reserve", "exception"): 1}


@pytest.mark.parametrize(
    ("bind", "text"),
    [
        pytest.param(exit_later, "SystemExit: 3", id="exits"),
        pytest.param(cancel_itself, "CancelledError: ", id="cancels its task"),
        pytest.param(cancel_later, "CancelledError: ", id="raises as if it were cancelled"),
        pytest.param(raising(SystemExit(3)), "SystemExit: 3", id="exits without waiting"),
    ],
)
async def test_whatever_a_plugin_that_waits_raises_is_its_own_fault(
    bind, text, guarded, make_framework, cycle, pod, faults
):
    framework = make_framework(guarded(bind=bind))
    status = await framework.run_bind(cycle, pod, "n0")
    assert status == Status(Code.ERROR, (f'running Bind plugin "A": {text}',))
    assert faults() == {("Bind", "exception"): 1}
    await asyncio.sleep(0)  # The task was not cancelled after all.


async def test_a_plugin_that_stays_when_its_time_is_over_is_left_behind(
    guarded, make_framework, cycle, pod, faults
):
    framework = make_framework(guarded(bind=stay))
    status = await framework.run_bind(cycle, pod, "n0")
    late = 'running Bind plugin "A": timed out: it had not answered after 200ms'
    assert status == Status(Code.ERROR, (late,))
    assert faults() == {("Bind", "timeout"): 1}


@pytest.mark.parametrize("bind", [stay, return_when_cancelled, raise_when_cancelled])
async def test_who_is_cancelled_by_others_stays_cancelled(
    bind, guarded, make_framework, cycle, pod, faults, limits
):
    patient = type(limits)(call_seconds=0.2, wait_seconds=60)
    framework = make_framework(guarded(bind=bind, limits=patient))
    binding = asyncio.create_task(framework.run_bind(cycle, pod, "n0"))
    await asyncio.sleep(0)
    binding.cancel()
    async with asyncio.timeout(10):
        with pytest.raises(asyncio.CancelledError):
            await binding
    assert faults() == {}


async def test_a_plugin_may_bound_its_own_waiting_as_often_as_it_likes(
    guarded, make_framework, cycle, pod, faults, limits
):
    async def bind(self, cycle, pod, node):
        for _ in range(3):
            try:
                async with asyncio.timeout(0.01):
                    await asyncio.sleep(60)
            except TimeoutError:
                continue

    patient = type(limits)(call_seconds=60, wait_seconds=60)
    framework = make_framework(guarded(bind=bind, limits=patient))
    assert await framework.run_bind(cycle, pod, "n0") is None
    assert faults() == {}
