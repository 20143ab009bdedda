"""Calls to the plugins at one extension point of one profile: timed, counted and contained.

A plugin that raises has answered with an Error: it costs its pod this attempt, and is loud about
it. The functions that call plugins are marked, so that a thread that wants to know which plugin is
at work (see `cycle.slow_decisions`) finds it in the stack of the thread that decides:

    @calls_plugins("Filter", by="plugin")
    def run_filter(self, …):

`by` is the local variable that holds the plugin, or its name, while the call lasts. Noting the
plugin before every call instead would cost a decision 2 % of its 100 µs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import perf_counter
from types import CodeType, FrameType
from typing import Any, NamedTuple, ParamSpec, TypeVar

from kscheduler import logs
from kscheduler.errors import KschedulerError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugin import Wait
from kscheduler.framework.status import Code, Status, is_unsettled
from kscheduler.metrics import Counter, Histogram, Metrics
from kscheduler.runtime.tracebacks import FailureCounts, is_told, traceback_of
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__)

_REJECTED = {
    "PreBind": "Pod rejected by PreBind plugin",
    "Bind": "Pod rejected by Bind plugin",
}

A = TypeVar("A")
P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])


class PluginCall(NamedTuple):
    plugin: str
    extension_point: str


class _Caller(NamedTuple):
    # "" stands for the label of the function's own `self`, a PluginCalls.
    extension_point: str
    variable: str


_callers: dict[CodeType, _Caller] = {}


def calls_plugins(extension_point: str = "", *, by: str) -> Callable[[F], F]:
    """Marks a function without wrapping it, so that a call of it costs what it did."""

    def mark(function: F) -> F:
        _callers[function.__code__] = _Caller(extension_point, by)
        return function

    return mark


class PluginCalls:
    """`label` is the extension point as metrics and log lines name it, e.g. `PreFilter`."""

    def __init__(self, label: str, profile: str, metrics: Metrics) -> None:
        self.label = label
        self._log = logs.logger(__name__, label)
        self._profile = profile
        self._metrics = metrics
        self._failures = FailureCounts()
        # By code; a list, because looking an enum member up in a dict costs more than observing.
        self._durations: list[Histogram | None] = [None] * len(Code)

    def observe(self, status: Status | None, started: float) -> None:
        """All plugins of the point have answered; `started` is a reading of perf_counter."""
        code = Code.SUCCESS if status is None else status.code
        series = self._durations[code]
        if series is None:
            family = self._metrics.framework_extension_point_duration_seconds
            series = self._durations[code] = family.labels(self.label, code.text, self._profile)
        series.observe(perf_counter() - started)

    def observe_plugin(self, plugin: str, code: Code, started: float, part: str = "") -> None:
        """One plugin has answered, in a sampled attempt; `part` is a sub-step with its own name."""
        family = self._metrics.plugin_execution_duration_seconds
        series = family.labels(plugin, part or self.label, code.text)
        series.observe(perf_counter() - started)

    def timed(self, plugin: str, ask: Callable[P, A], part: str = "") -> Callable[P, A]:
        """The call with its duration observed, for sampled attempts.

        It is made once, next to the plain call, so that attempts that are not sampled pay nothing.
        """

        def call(*args: P.args, **kwargs: P.kwargs) -> A:
            started = perf_counter()
            code = Code.ERROR
            try:
                answer = ask(*args, **kwargs)
                code = _code(answer)
                return answer
            finally:
                self.observe_plugin(plugin, code, started, part)

        return call

    def evaluations(self, plugin: str) -> Counter:
        """The series of plugin_evaluation_total for a plugin; exported from zero."""
        family = self._metrics.plugin_evaluation_total
        return family.labels(plugin, self.label, self._profile)

    @calls_plugins(by="plugin")
    def call(
        self,
        plugin: str,
        call: Callable[[CycleState, PodInfo, str], A],
        cycle: CycleState,
        pod: PodInfo,
        node: str,
    ) -> A | Status:
        """A plugin's answer about the pod and its node; an Error if it raises."""
        started = perf_counter()
        answer: A | Status
        try:
            answer = call(cycle, pod, node)
        except Exception as error:
            answer = self.exception_status(plugin, error)
        if cycle.sampled:
            self.observe_plugin(plugin, _code(answer), started)
        return answer

    async def call_async(
        self,
        plugin: str,
        call: Callable[[CycleState, PodInfo, str], Awaitable[Status | None]],
        cycle: CycleState,
        pod: PodInfo,
        node: str,
    ) -> Status | None:
        """`call` for plugins that may wait; being cancelled is not an answer."""
        started = perf_counter()
        try:
            answer = await call(cycle, pod, node)
        except Exception as error:
            answer = self.exception_status(plugin, error)
        if cycle.sampled:
            self.observe_plugin(plugin, _code(answer), started)
        return answer

    def failure_of(
        self, plugin: str, answer: Status | None, pod: PodInfo, node: str
    ) -> Status | None:
        """None for success, a rejection in the plugin's name, or an error in upstream's words."""
        if answer is None or answer.code is Code.SUCCESS:
            return None
        if answer.rejected:
            if v := self._log.v(4):
                what = _REJECTED.get(self.label, "Pod rejected by plugin")
                ref = logs.ref(pod.pod)
                v.info(what, pod=ref, node=node, plugin=plugin, status=answer.message)
            return answer.by(plugin)
        self.log_failure(plugin, answer, pod, node)
        text = f'running {self.label} plugin "{plugin}": {answer.message}'
        return Status(Code.ERROR, (text,), unsettled=answer.unsettled)

    def log_failure(self, plugin: str, answer: Status, pod: PodInfo, node: str) -> None:
        """An error that a plugin returned, in upstream's words for this extension point."""
        details = {"pod": logs.ref(pod.pod), "plugin": plugin}
        # Upstream adds the node to the logger of Reserve and Permit at -v=4 only.
        if self.label not in ("Reserve", "Permit") or self._log.shown_name:
            details["node"] = node
        what = "Plugin Failed" if self.label == "Bind" else "Plugin failed"
        self._log.error(answer.message, what, **details)

    def exception_status(self, plugin: str, error: Exception) -> Status:
        """The Error that an exception of a plugin counts as; it is counted, and logged the first
        time that it happens at its place (`tracebacks`).
        """
        self._metrics.kscheduler_plugin_exceptions_total.labels(
            plugin, self.label, self._profile
        ).inc()
        text, where = text_of(error), {"plugin": plugin, "extensionPoint": self.label}
        count = self._failures.count(plugin, error)
        if count == 1:
            log.error(text, "Plugin failed", **where, stack=traceback_of(error))
        elif is_told(count):
            log.error(text, "Plugin failed again", **where, failures=count)
        return Status(Code.ERROR, (text,), plugin, is_unsettled(error))


def _code(answer: object) -> Code:
    if isinstance(answer, Status):
        return answer.code
    return Code.WAIT if isinstance(answer, Wait) else Code.SUCCESS


def text_of(error: BaseException) -> str:
    """Errors meant to be shown speak for themselves; others need their type to be understood."""
    if isinstance(error, KschedulerError):
        return str(error)
    name = type(error).__name__
    try:
        return f"{name}: {error}"
    except Exception:  # An exception whose __str__ raises.
        return name


def plugin_in_stack(innermost: FrameType | None) -> PluginCall | None:
    """The outermost plugin in the stack: when preemption runs all filters, that is its own time."""
    found: tuple[FrameType, _Caller] | None = None
    frame = innermost
    while frame is not None:
        caller = _callers.get(frame.f_code)
        if caller is not None:
            found = frame, caller
        frame = frame.f_back
    if found is None:
        return None
    values, caller = found[0].f_locals, found[1]
    plugin = values.get(caller.variable)
    if plugin is None:
        return None
    name = plugin if isinstance(plugin, str) else plugin.name
    return PluginCall(name, caller.extension_point or values["self"].label)
