"""Waiting for a condition, never for a duration."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

T = TypeVar("T")

# Long enough for a machine that stands still for a while: only a failing test waits so long.
PATIENCE_SECONDS = 60.0
SHORTEST_PAUSE_SECONDS = 0.0005
LONGEST_PAUSE_SECONDS = 0.01


async def until(
    condition: Callable[[], T | Awaitable[T]],
    what: str = "",
    *,
    seconds: float = PATIENCE_SECONDS,
    longest_pause: float = LONGEST_PAUSE_SECONDS,
) -> T:
    """Wait until `condition()` is true, and return its value.

    The condition may be a coroutine function. Other tasks run before it is asked again, at once at
    first and less often later. If it does not come true in time, the AssertionError says `what` was
    waited for.
    """
    deadline = time.monotonic() + seconds
    pause = SHORTEST_PAUSE_SECONDS
    while not (value := await _value_of(condition)):
        _check(deadline, seconds, what, condition, value)
        await asyncio.sleep(pause)
        pause = min(2 * pause, longest_pause)
    return value


def block_until(
    condition: Callable[[], T], what: str = "", *, seconds: float = PATIENCE_SECONDS
) -> T:
    """Like `until`, for what other processes bring about and tests without an event loop."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        _check(deadline, seconds, what, condition, value)
        time.sleep(LONGEST_PAUSE_SECONDS)
    return value


async def _value_of(condition: Callable[[], T | Awaitable[T]]) -> T:
    value = condition()
    return await value if inspect.isawaitable(value) else cast("T", value)


def _check(
    deadline: float, seconds: float, what: str, condition: Callable[[], object], value: object
) -> None:
    if time.monotonic() > deadline:
        name = what or getattr(condition, "__code__", condition)
        raise AssertionError(f"not within {seconds:.0f} s: {name}; last answer: {value!r}")
