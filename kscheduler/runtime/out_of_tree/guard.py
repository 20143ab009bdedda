"""One call to a plugin from outside: bounded in time, its answer checked, its fault told.

A fault is raised on as an exception, because that is what the framework turns into an Error of this
one plugin at this one point, with an event for the pod. In passing it is counted.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NoReturn, TypeVar

from kscheduler.api.core import Pod
from kscheduler.framework.handle import Recorder
from kscheduler.gotext.duration import Duration
from kscheduler.runtime.extension_point import text_of
from kscheduler.runtime.out_of_tree.cancellation import Cancellation
from kscheduler.runtime.out_of_tree.health import Fault, Limits, PluginFault, PluginHealth
from kscheduler.runtime.out_of_tree.rests import Rests
from kscheduler.runtime.out_of_tree.watchdog import OverdueError, Stepwise, Watchdog

A = TypeVar("A")

# How Python, numpy and msgspec say that something must not be written to.
_READ_ONLY = re.compile(
    r"read-only|WRITEABLE|immutable type|does not support item (assignment|deletion)|"
    r"has no (setter|deleter)|'mappingproxy' object has no attribute"
)

# Scores are not right before all plugins have given theirs, and the range of them was looked at.
SCORE = "Score"

TAKEN_OUT_REASON = "PluginTakenOut"


class Guard:
    """All calls to one plugin of one profile."""

    def __init__(
        self, health: PluginHealth, watchdog: Watchdog, limits: Limits, recorder: Recorder
    ) -> None:
        self.health = health
        self.watchdog = watchdog
        self._limits = limits
        self._recorder = recorder
        self._rests = Rests(limits.call_seconds)

    @property
    def idle(self) -> bool:
        """Whether the plugin is not to be asked any more."""
        return self.health.taken_out

    def ask(
        self,
        point: str,
        pod: Pod | None,
        check: Callable[[Any], A],
        call: Callable[..., Any],
        *args: Any,
    ) -> A:
        """What `check` makes of the plugin's answer."""
        if self._rests:
            self._refuse(point)
        watchdog, before = self.watchdog, None
        try:
            before = watchdog.begin(self._limits.call_seconds)
            try:
                answer = call(*args)
            finally:
                watchdog.end(before)
            watchdog.check(before)
            result = check(answer)
        except OverdueError:
            watchdog.end(before)
            self._rests.late(point, self.watchdog.interruptions)
            self._overdue(point, pod, self._limits.call_seconds)
        except BaseException as error:  # To exit, or to cancel its caller, is no right of it.
            self._fault(point, pod, error)
        self._rests.in_time(point)
        if point != SCORE:
            self.health.succeeded(point)
        return result

    async def wait_for(
        self, point: str, pod: Pod | None, check: Callable[[Any], A], work: Callable[[], Any]
    ) -> A:
        """`ask` for what may wait: `work` answers, or returns something to be awaited."""
        if self._rests:
            self._refuse(point)
        bound = asyncio.timeout(self._limits.wait_seconds or None)
        cancelled = Cancellation(self._limits.call_seconds)
        enter, leave = partial(self._enter, cancelled), partial(self._leave, cancelled)
        try:
            async with cancelled.last, bound:
                answer = await Stepwise(_awaited(work), enter, leave, cancelled.is_over)
            cancelled.pass_on()
            result = check(answer)
        except OverdueError:
            self._rests.late(point, self.watchdog.interruptions)
            self._overdue(point, pod, self._limits.call_seconds)
        except BaseException as error:
            cancelled.pass_on()
            if bound.expired():
                self._overdue(point, pod, self._limits.wait_seconds)
            self._fault(point, pod, error)
        self._rests.in_time(point)
        self.health.succeeded(point)
        return result

    def _enter(self, cancelled: Cancellation) -> tuple[int, Any]:
        return cancelled.count(), self.watchdog.begin(self._limits.call_seconds)

    def _leave(self, cancelled: Cancellation, entered: tuple[int, Any]) -> None:
        count, before = entered
        self.watchdog.end(before)
        cancelled.stepped(count)
        self.watchdog.check(before)

    def _refuse(self, point: str) -> None:
        refusal = self._rests.refusal(point)
        if refusal is not None:
            self.health.was_not_asked(point, refusal.fault)
            raise refusal

    def _overdue(self, point: str, pod: Pod | None, seconds: float) -> NoReturn:
        text = f"timed out: it had not answered after {Duration.of(seconds)}"
        fault = PluginFault(Fault.TIMEOUT, text)
        # A binding that it had sent may take effect after all.
        fault.unsettled = point == "Bind"
        self._fault(point, pod, fault)

    def _fault(self, point: str, pod: Pod | None, error: BaseException) -> NoReturn:
        told = _told(error)
        self.blame(point, pod, told)
        if told is error:
            raise error
        raise told from error

    def blame(self, point: str, pod: Pod | None, told: Exception) -> None:
        """Count a fault; the plugin may have to go because of it."""
        fault = told.fault if isinstance(told, PluginFault) else Fault.EXCEPTION
        health = self.health
        if health.failed(point, fault, text_of(told)) and pod is not None:
            note = (
                f'Plugin "{health.plugin}" was taken out of profile {health.profile} because it '
                f"kept failing at {point}: {text_of(told)}"
            )
            self._recorder.event(pod, "Warning", TAKEN_OUT_REASON, "Scheduling", note)


async def _awaited(work: Callable[[], Any]) -> Any:
    answer = work()
    return await answer if isinstance(answer, Awaitable) else answer


def _told(error: BaseException) -> Exception:
    """The error itself, or one that says what it means."""
    if isinstance(error, PluginFault):
        return error
    text = text_of(error)
    if _READ_ONLY.search(text):
        return PluginFault(Fault.MUTATION, f"tried to change what it was given: {text}")
    return error if isinstance(error, Exception) else PluginFault(Fault.EXCEPTION, text)
