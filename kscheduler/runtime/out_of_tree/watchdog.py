"""Ends calls that do not return.

A plugin's code runs in the one thread that everything else runs in, so a call that hangs would stop
the daemon. While such code runs a timer of the process is set; when it goes off, its signal
interrupts whatever the code is doing, sleeping and waiting for a socket included, and raises there.
It goes off again and again, should the code swallow that. What cannot be interrupted is a library
that computes without ever coming back to Python.

Only code of plugins is interrupted: where it calls back into ours, that is finished first.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NamedTuple, TypeVar

from kscheduler import logs

T = TypeVar("T")

log = logs.logger(__name__)


class OverdueError(BaseException):
    """Raised inside of a plugin's code; no `except Exception` there is meant to stop it."""


class _Before(NamedTuple):
    """What was being watched when another watch began."""

    watching: bool
    timer: tuple[float, float]


class Watchdog:
    """One per process is at work at a time; without one of its own thread it watches nothing."""

    def __init__(self) -> None:
        self._watching = False
        # How often the call under way, or the last one, was to be interrupted.
        self.interruptions = 0
        self._works = False

    def install(self) -> None:
        """Signals reach the main thread only; elsewhere calls last as long as they last."""
        if self._works:
            return
        if threading.current_thread() is not threading.main_thread():
            log.text_warning("Plugins are not interrupted outside of the main thread")
            return
        signal.signal(signal.SIGALRM, self._went_off)
        self._works = True

    def begin(self, seconds: float) -> _Before | None:
        """Until `end`, the code that runs may be interrupted."""
        if not self._works or not seconds:
            return None
        before = _Before(self._watching, signal.setitimer(signal.ITIMER_REAL, seconds, seconds))
        self.interruptions = 0
        self._watching = True
        return before

    def end(self, before: _Before | None) -> None:
        if before is not None:
            self._watching = before.watching
            signal.setitimer(signal.ITIMER_REAL, *before.timer)

    def check(self, before: _Before | None) -> None:
        """After `end`: who swallowed the interruption, and answered after all, was late as well."""
        if before is not None and self.interruptions:
            raise OverdueError

    def pause(self) -> bool:
        """Until `resume`, nothing is interrupted; that it is late is remembered."""
        before, self._watching = self._watching, False
        return before

    def resume(self, before: bool) -> None:  # noqa: FBT001 - what `pause` returned
        self._watching = before
        if before and self.interruptions:
            raise OverdueError

    @contextmanager
    def ours(self) -> Iterator[None]:
        """For our own code when a plugin calls it: inside, nothing is interrupted."""
        before = self.pause()
        try:
            yield
        finally:
            self.resume(before)

    def _went_off(self, signum: int, frame: FrameType | None) -> None:
        self.interruptions += 1
        if self._watching:
            raise OverdueError


class Stepwise(Awaitable[T]):
    """Awaits something with `enter` and `leave` called around every step it takes.

    Between two steps others run, and theirs is not this one's time. What is thrown in when it
    `is_over` ends it, willing or not.
    """

    def __init__(
        self,
        work: Awaitable[T],
        enter: Callable[[], Any],
        leave: Callable[[Any], None],
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self._work = work
        self._enter = enter
        self._leave = leave
        self._is_over = is_over

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._work.__await__()
        step: Callable[[], Any] = lambda: next(steps)  # noqa: E731
        while True:
            entered = self._enter()
            try:
                waited_for = step()
            except StopIteration as stop:
                result: T = stop.value
                return result
            finally:
                self._leave(entered)
            try:
                sent = yield waited_for
            except BaseException as error:
                step = _throwing(steps, error, end=self._is_over())
            else:
                step = _sending(steps, sent)


def _sending(steps: Any, value: Any) -> Callable[[], Any]:
    return (lambda: next(steps)) if value is None else (lambda: steps.send(value))


def _throwing(steps: Any, error: BaseException, *, end: bool) -> Callable[[], Any]:
    def step() -> Any:
        if not end:
            return steps.throw(error)
        with suppress(Exception):  # It would rather go on, and may not.
            steps.close()
        raise error

    return step
