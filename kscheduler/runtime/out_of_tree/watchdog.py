"""Bounds on the time of plugin code: calls that do not return, waits that do not end.

A plugin's code runs in the one thread that everything else runs in, so a call that hangs would stop
the daemon. While such code runs a timer of the process is set; when it goes off, its signal
interrupts whatever the code is doing, sleeping and waiting for a socket included, and raises there.
It goes off again and again, should the code swallow that. A library that computes without ever
coming back to Python cannot be interrupted.

Only code of plugins is interrupted: where it calls back into ours, that is finished first.

    Watchdog       the timer, around calls that return an answer
    Stepwise       awaits a coroutine with the watchdog around each of its steps
    Cancellation   tells cancellations by others apart from the plugin's own
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any, NamedTuple, TypeVar

from kscheduler import logs

T = TypeVar("T")

log = logs.logger(__name__)


class OverdueError(BaseException):
    """Raised inside of a plugin's code; no `except Exception` there is meant to stop it."""


class _Outer(NamedTuple):
    """State of the watch that was under way when another began inside of it."""

    watching: bool
    timer: tuple[float, float]


class Watchdog:
    """One per process is at work at a time; outside of the main thread it watches nothing."""

    def __init__(self) -> None:
        self._watching = False
        # How often the timer went off during the call under way, or the last one.
        self.interruptions = 0
        self._installed = False

    def install(self) -> None:
        """Signals reach the main thread only; elsewhere calls last as long as they last."""
        if self._installed:
            return
        if threading.current_thread() is not threading.main_thread():
            log.text_warning("Plugins are not interrupted outside of the main thread")
            return
        signal.signal(signal.SIGALRM, self._interrupt)
        self._installed = True

    def begin(self, seconds: float) -> _Outer | None:
        """Until `end`, the code that runs may be interrupted."""
        if not self._installed or not seconds:
            return None
        outer = _Outer(self._watching, signal.setitimer(signal.ITIMER_REAL, seconds, seconds))
        self.interruptions = 0
        self._watching = True
        return outer

    def end(self, outer: _Outer | None) -> None:
        if outer is not None:
            self._watching = outer.watching
            signal.setitimer(signal.ITIMER_REAL, *outer.timer)

    def check(self, outer: _Outer | None) -> None:
        """After `end`: code that swallowed the interruption and answered after all was late."""
        if outer is not None and self.interruptions:
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
    def paused(self) -> Iterator[None]:
        """For our own code when a plugin calls it: inside, nothing is interrupted."""
        before = self.pause()
        try:
            yield
        finally:
            self.resume(before)

    def _interrupt(self, signum: int, frame: FrameType | None) -> None:
        self.interruptions += 1
        if self._watching:
            raise OverdueError


class Stepwise(Awaitable[T]):
    """Awaits something with `before_step` and `after_step` called around every step it takes.

    Between two steps other tasks run, and theirs is not this one's time. An exception thrown in
    when `is_over` says so ends it, whether it would go on or not.
    """

    def __init__(
        self,
        work: Awaitable[T],
        before_step: Callable[[], Any],
        after_step: Callable[[Any], None],
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self._work = work
        self._before_step = before_step
        # Called with what `before_step` returned.
        self._after_step = after_step
        self._is_over = is_over

    def __await__(self) -> Generator[Any, Any, T]:
        # What `await` does, spelled out: drive the coroutine by next, send and throw, and pass
        # on to the event loop whatever it waits for.
        steps: Any = self._work.__await__()
        step: Callable[[], Any] = partial(next, steps)
        while True:
            entered = self._before_step()
            try:
                waited_for = step()
            except StopIteration as stop:
                result: T = stop.value
                return result
            finally:
                self._after_step(entered)
            try:
                sent = yield waited_for
            except BaseException as error:
                step = _throwing(steps, error, end=self._is_over())
            else:
                step = partial(next, steps) if sent is None else partial(steps.send, sent)


def _throwing(steps: Any, error: BaseException, *, end: bool) -> Callable[[], Any]:
    def step() -> Any:
        if not end:
            return steps.throw(error)
        with suppress(Exception):  # It would rather go on, and may not.
            steps.close()
        raise error

    return step


class Cancellation:
    """Cancellations of the current task while a plugin's coroutine runs in it.

    Others may cancel the task: the end of a lease, preemption, a bound on the time. That goes
    through the plugin's code, which may clean up but not stay: if it goes on waiting it has
    `patience` seconds, then `deadline` expires and it is over. A plugin that cancels the task
    itself, or raises CancelledError on its own, is just at fault.
    """

    def __init__(self, patience: float) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task: asyncio.Task[Any] = task
        self._requests_at_start = task.cancelling()
        self._patience = patience
        self.deadline = asyncio.timeout(None)

    def is_over(self) -> bool:
        return self.deadline.expired()

    def requests(self) -> int:
        """The number of cancellations requested so far; read before a step of the plugin."""
        return self._task.cancelling()

    def end_step(self, requests_before: int) -> None:
        """Takes back what the step requested itself: nothing else ran meanwhile."""
        while self._task.cancelling() > requests_before:
            self._task.uncancel()
        if self._is_requested and self._patience and self.deadline.when() is None:
            self.deadline.reschedule(asyncio.get_running_loop().time() + self._patience)

    def raise_if_requested(self) -> None:
        """A cancellation by others takes effect, whatever the plugin made of it."""
        if self._is_requested:
            raise asyncio.CancelledError

    @property
    def _is_requested(self) -> bool:
        return self._task.cancelling() > self._requests_at_start
