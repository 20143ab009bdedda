"""One call to an out-of-tree plugin: bounded in time, its answer checked, its fault recorded.

A fault is raised on as an exception, because that is what the runtime turns into an Error of this
one plugin at this one point, with an event for the pod. In passing it is counted.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, TypeVar

from kscheduler.api.core import Pod
from kscheduler.extension_points import Point
from kscheduler.framework.handle import Recorder
from kscheduler.gotext.duration import Duration
from kscheduler.runtime.out_of_tree.health import (
    KEEPS_FAILING,
    Fault,
    Limits,
    PluginFault,
    PluginHealth,
)
from kscheduler.runtime.out_of_tree.watchdog import (
    Cancellation,
    OverdueError,
    Stepwise,
    Watchdog,
)
from kscheduler.runtime.plugin_calls import text_of

A = TypeVar("A")

# How Python, numpy and msgspec say that something must not be written to.
_READ_ONLY = re.compile(
    r"read-only|WRITEABLE|immutable type|does not support item (assignment|deletion)|"
    r"has no (setter|deleter)|'mappingproxy' object has no attribute"
)

_BIND, _SCORE = Point.BIND.label, Point.SCORE.label

TAKEN_OUT_REASON = "PluginTakenOut"

# The backoff after repeated timeouts, as a multiple of the time the interrupted call took.
BACKOFF_FACTOR = 12


class Guard:
    """All calls to one plugin of one profile."""

    def __init__(
        self, health: PluginHealth, watchdog: Watchdog, limits: Limits, recorder: Recorder
    ) -> None:
        self.health = health
        self.watchdog = watchdog
        self._limits = limits
        self._recorder = recorder
        self._backoff = TimeoutBackoff(limits.call_seconds)

    @property
    def taken_out(self) -> bool:
        """Whether the plugin is not to be called any more."""
        return self.health.taken_out

    def call(
        self,
        point: str,
        pod: Pod | None,
        check: Callable[[Any], A],
        method: Callable[..., Any],
        *args: Any,
    ) -> A:
        """The plugin's answer as `check` returns it; raises what the plugin did wrong."""
        if self._backoff:
            self._refuse_in_backoff(point, pod)
        watchdog, outer = self.watchdog, None
        try:
            outer = watchdog.begin(self._limits.call_seconds)
            try:
                answer = method(*args)
            finally:
                watchdog.end(outer)
            watchdog.check(outer)
            result = check(answer)
        except OverdueError:
            # The signal may have come in before `end` was reached, or within it.
            watchdog.end(outer)
            self._backoff.timed_out(point, watchdog.interruptions)
            self._raise_timeout(point, pod, self._limits.call_seconds)
        except BaseException as error:  # To exit, or to cancel its caller, is no right of it.
            self._raise_fault(point, pod, error)
        self._backoff.answered(point)
        # A score is known to be right only once its range was checked, after all plugins gave
        # theirs (`Guarded`).
        if point != _SCORE:
            self.health.succeeded(point)
        return result

    async def call_async(
        self, point: str, pod: Pod | None, check: Callable[[Any], A], work: Callable[[], Any]
    ) -> A:
        """Like `call` for a method that may wait: `work` answers, or returns an awaitable.

        Each step of the plugin is bounded by `call_seconds`, all of it by `wait_seconds`.
        """
        if self._backoff:
            self._refuse_in_backoff(point, pod)
        watchdog, limits = self.watchdog, self._limits
        bound = asyncio.timeout(limits.wait_seconds or None)
        cancellation = Cancellation(limits.call_seconds)

        def before_step() -> tuple[int, Any]:
            return cancellation.requests(), watchdog.begin(limits.call_seconds)

        def after_step(entered: tuple[int, Any]) -> None:
            requests, outer = entered
            watchdog.end(outer)
            cancellation.end_step(requests)
            watchdog.check(outer)

        try:
            async with cancellation.deadline, bound:
                steps = _awaited(work)
                answer = await Stepwise(steps, before_step, after_step, cancellation.is_over)
            cancellation.raise_if_requested()
            result = check(answer)
        except OverdueError:
            self._backoff.timed_out(point, watchdog.interruptions)
            self._raise_timeout(point, pod, limits.call_seconds)
        except BaseException as error:
            cancellation.raise_if_requested()
            if bound.expired():
                self._raise_timeout(point, pod, limits.wait_seconds)
            self._raise_fault(point, pod, error)
        self._backoff.answered(point)
        self.health.succeeded(point)
        return result

    def record_fault(self, point: str, pod: Pod | None, error: Exception) -> None:
        """Counts a fault; the plugin may have to be taken out because of it."""
        fault = error.fault if isinstance(error, PluginFault) else Fault.EXCEPTION
        health = self.health
        if health.failed(point, fault, text_of(error), pod) and pod is not None:
            note = (
                f'Plugin "{health.plugin}" was taken out of profile {health.profile} because it '
                f"kept failing at {point}: {text_of(error)}"
            )
            self._recorder.event(pod, "Warning", TAKEN_OUT_REASON, "Scheduling", note)

    def _refuse_in_backoff(self, point: str, pod: Pod | None) -> None:
        refusal = self._backoff.refusal(point)
        if refusal is not None:
            self.health.was_not_called(point, refusal.fault, str(refusal), pod)
            raise refusal

    def _raise_timeout(self, point: str, pod: Pod | None, seconds: float) -> NoReturn:
        text = f"timed out: it had not answered after {Duration.of(seconds)}"
        fault = PluginFault(Fault.TIMEOUT, text)
        # A binding that it had sent may take effect after all.
        fault.unsettled = point == _BIND
        self._raise_fault(point, pod, fault)

    def _raise_fault(self, point: str, pod: Pod | None, error: BaseException) -> NoReturn:
        """Raises the error itself, or a fault that says what it means."""
        text = text_of(error)
        if isinstance(error, PluginFault):
            fault: Exception = error
        elif _READ_ONLY.search(text):
            fault = PluginFault(Fault.MUTATION, f"tried to change what it was given: {text}")
        elif isinstance(error, Exception):
            fault = error
        else:
            fault = PluginFault(Fault.EXCEPTION, text)
        self.record_fault(point, pod, fault)
        if fault is error:
            raise error
        raise fault from error


class TimeoutBackoff:
    """Keeps a plugin that hangs from taking all of the loop's time.

    Every call that does not return holds up the whole scheduler until it is interrupted, and there
    may be a thousand pods to ask about, or an event every second to ask again. A plugin that timed
    out several times in a row at an extension point is therefore not called there for a while:
    pods that need the answer fail at once, and all others get the loop.
    """

    def __init__(self, call_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = call_seconds
        self._clock = clock
        # Timeouts since the last answer in time, by extension point; without any it is absent.
        self._timeouts: dict[str, int] = {}
        # By extension point, when the backoff is over and how long it is.
        self._backoffs: dict[str, tuple[float, float]] = {}

    def __bool__(self) -> bool:
        return bool(self._timeouts)

    def refusal(self, point: str) -> PluginFault | None:
        """Why the plugin is not called now, if it is not."""
        until, seconds = self._backoffs.get(point, (0.0, 0.0))
        if self._clock() >= until:
            return None
        count, backoff = self._timeouts[point], Duration.of(seconds)
        text = f"timed out {count} times in a row and is not asked for {backoff}"
        return PluginFault(Fault.TIMEOUT, text)

    def timed_out(self, point: str, interruptions: int = 1) -> None:
        """`interruptions` is how many it took to end the call."""
        count = self._timeouts[point] = self._timeouts.get(point, 0) + 1
        if count >= KEEPS_FAILING:
            seconds = self._seconds * interruptions * BACKOFF_FACTOR
            self._backoffs[point] = self._clock() + seconds, seconds

    def answered(self, point: str) -> None:
        if self._timeouts:
            self._timeouts.pop(point, None)
            self._backoffs.pop(point, None)


async def _awaited(work: Callable[[], Any]) -> Any:
    answer = work()
    return await answer if isinstance(answer, Awaitable) else answer
