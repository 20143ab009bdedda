"""Work beside the loop: some at a time, each for itself, and gone with the app."""

import asyncio
import io

import pytest

from kscheduler import logs
from kscheduler.runtime.background import MAX_CONCURRENT, Background


@pytest.fixture
def logged():
    written = io.BytesIO()
    logs.configure(logs.Logging(), stderr=written)
    yield written
    logs.configure(logs.Logging())


@pytest.fixture
async def background():
    background = Background()
    running = asyncio.create_task(background.run())
    yield background
    running.cancel()
    await asyncio.wait({running})
    assert running.cancelled()


async def soon(condition):
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("did not happen")


async def test_work_left_before_and_after_the_start_is_done(background):
    done = []

    def work(name):
        async def do():
            done.append(name)

        return do

    background.add("a", work("a"))
    await soon(lambda: done == ["a"])
    background.add("b", work("b"))
    background.add("c", work("c"))
    await soon(lambda: done == ["a", "b", "c"])


async def test_failing_work_fails_alone(background, logged):
    done = asyncio.Event()

    async def fail():
        raise RuntimeError("oops")

    async def succeed():
        done.set()

    background.add("bad", fail)
    background.add("good", succeed)
    await soon(done.is_set)
    assert b"Background work failed" in logged.getvalue()


async def test_no_more_than_so_much_at_once(background):
    started, gate = [], asyncio.Event()

    async def wait():
        started.append(1)
        await gate.wait()

    for number in range(MAX_CONCURRENT + 5):
        background.add(str(number), wait)
    await soon(lambda: len(started) == MAX_CONCURRENT)
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(started) == MAX_CONCURRENT
    gate.set()
    await soon(lambda: len(started) == MAX_CONCURRENT + 5)


async def test_work_under_way_ends_with_the_app():
    background, ended = Background(), []

    async def wait():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(1)

    background.add("x", wait)
    running = asyncio.create_task(background.run())
    for _ in range(5):
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait({running})
    assert ended == [1]
