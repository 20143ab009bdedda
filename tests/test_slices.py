"""Long work with rests in between."""

import asyncio

import pytest

from kscheduler import slices
from kscheduler.slices import BUSY_SHARE, BUSY_SLICE_SECONDS, IdleSlices, Slices


@pytest.fixture
def clocks(monkeypatch):
    """[wall time, CPU time], and the seconds slept."""
    now, slept = [0.0, 0.0], []

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr(slices.asyncio, "sleep", sleep)
    monkeypatch.setattr(slices.time, "thread_time", lambda: now[1])
    return now, slept


async def test_a_slice_is_due_when_its_time_is_used_up(clocks):
    now, slept = clocks
    one = Slices(0.25, lambda: now[0])
    assert not one.due()
    now[:] = [0.25, 0.125]
    assert one.due()
    await one.rest()
    assert not one.due()
    assert slept == [0.125]


async def test_what_was_worked_adds_up_and_standing_still_does_not(clocks):
    now, slept = clocks
    one = Slices(0.25, lambda: now[0])
    for _ in range(3):
        now[:] = [now[0] + 10, now[1] + 0.125]
        await one.rest()
    now[1] += 0.0625
    one.finish()
    assert one.worked_seconds == 0.4375
    assert slept == [0.125] * 3


async def test_one_long_step_is_not_answered_by_a_long_sleep(clocks):
    now, slept = clocks
    one = Slices(0.25, lambda: now[0])
    now[:] = [60.0, 60.0]
    await one.rest()
    assert slept == [0.25]


async def test_others_run_in_a_rest():
    turns = []

    async def other():
        turns.append(1)

    task = asyncio.create_task(other())
    await Slices(0).rest()
    assert (turns, task.done()) == ([1], True)


@pytest.fixture
def timed_clocks(monkeypatch, clocks):
    """The same where sleeping passes the time; others work the share of it that is third."""
    now, slept = clocks
    share = [1.0]

    async def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds
        now[1] += seconds * share[0]

    monkeypatch.setattr(slices.asyncio, "sleep", sleep)
    return now, slept, share


@pytest.mark.parametrize(("others_work", "rest"), [(1.0, 1), (0.5, 2), (0.0, 4)])
async def test_while_others_are_busy_work_takes_a_small_share(timed_clocks, others_work, rest):
    now, slept, share = timed_clocks
    share[0] = others_work
    one = IdleSlices(lambda: True, 0.25, lambda: now[0])
    now[:] = [BUSY_SLICE_SECONDS, BUSY_SLICE_SECONDS]
    assert one.due()
    await one.rest()
    expected = rest * BUSY_SLICE_SECONDS * (1 / BUSY_SHARE - 1)
    assert sum(slept) == pytest.approx(expected, abs=slices.BUSY_CHECK_SECONDS)


async def test_work_goes_on_when_others_have_nothing_to_do(timed_clocks):
    now, slept, _ = timed_clocks
    busy = iter([True, True, False, False])
    one = IdleSlices(lambda: next(busy), 0.25, lambda: now[0])
    now[:] = [1.0, 1.0]
    await one.rest()
    assert sum(slept) <= slices.BUSY_CHECK_SECONDS
    now[0] += 0.2
    assert not one.due()
