"""One extension point of one profile: how long it takes, and what happens when a plugin raises."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import ParamSpec, TypeVar

from kscheduler import logs
from kscheduler.errors import KschedulerError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugin import Wait
from kscheduler.framework.status import Code, Status, is_unsettled
from kscheduler.metrics import Counter, Histogram, Metrics
from kscheduler.runtime.plugin_in_stack import calls_plugins
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__)

_REJECTED = {
    "PreBind": "Pod rejected by PreBind plugin",
    "Bind": "Pod rejected by Bind plugin",
}

# Of a stack that is logged, the innermost.
MOST_FRAMES = 20

A = TypeVar("A")
P = ParamSpec("P")


class ExtensionPoint:
    """`name` is what metrics and log lines call it, e.g. `PreFilter`."""

    def __init__(self, name: str, profile: str, metrics: Metrics) -> None:
        self.name = name
        self._log = logs.logger(__name__, name)
        self._profile = profile
        self._metrics = metrics
        # By code, because looking an enum member up in a dict costs more than observing.
        self._durations: list[Histogram | None] = [None] * len(Code)

    def took(self, status: Status | None, started: float) -> None:
        """All plugins of the point have answered; `started` is a reading of perf_counter."""
        code = Code.SUCCESS if status is None else status.code
        series = self._durations[code]
        if series is None:
            family = self._metrics.framework_extension_point_duration_seconds
            series = self._durations[code] = family.labels(self.name, code.text, self._profile)
        series.observe(perf_counter() - started)

    def plugin_took(self, plugin: str, code: Code, started: float, part: str = "") -> None:
        """One plugin has answered, in a sampled attempt; `part` is a sub-step with its own name."""
        family = self._metrics.plugin_execution_duration_seconds
        series = family.labels(plugin, part or self.name, code.text)
        series.observe(perf_counter() - started)

    def timed(self, plugin: str, ask: Callable[P, A], part: str = "") -> Callable[P, A]:
        """The same call for sampled attempts, so that the others need not ask whether they are."""

        def call(*args: P.args, **kwargs: P.kwargs) -> A:
            started = perf_counter()
            code = Code.ERROR
            try:
                answer = ask(*args, **kwargs)
                code = _code(answer)
                return answer
            finally:
                self.plugin_took(plugin, code, started, part)

        return call

    def evaluations(self, plugin: str) -> Counter:
        """The series that counts what a plugin judged; it is there from the start."""
        family = self._metrics.plugin_evaluation_total
        return family.labels(plugin, self.name, self._profile)

    @calls_plugins(by="plugin")
    def ask(
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
            answer = self.raised(plugin, error)
        if cycle.sampled:
            self.plugin_took(plugin, _code(answer), started)
        return answer

    async def ask_and_wait(
        self,
        plugin: str,
        call: Callable[[CycleState, PodInfo, str], Awaitable[Status | None]],
        cycle: CycleState,
        pod: PodInfo,
        node: str,
    ) -> Status | None:
        """`ask` for plugins that may wait; being cancelled is not an answer."""
        started = perf_counter()
        try:
            answer = await call(cycle, pod, node)
        except Exception as error:
            answer = self.raised(plugin, error)
        if cycle.sampled:
            self.plugin_took(plugin, _code(answer), started)
        return answer

    def unless_success(
        self, plugin: str, answer: Status | None, pod: PodInfo, node: str
    ) -> Status | None:
        """None for a success, a rejection in the plugin's name, or an error told in our words."""
        if answer is None or answer.code is Code.SUCCESS:
            return None
        if answer.rejected:
            if v := self._log.v(4):
                what = _REJECTED.get(self.name, "Pod rejected by plugin")
                told = {"pod": logs.ref(pod.pod), "node": node, "plugin": plugin}
                v.info(what, **told, status=answer.message)
            return answer.by(plugin)
        self.log_failure(plugin, answer, pod, node)
        text = f'running {self.name} plugin "{plugin}": {answer.message}'
        return Status(Code.ERROR, (text,), unsettled=answer.unsettled)

    def log_failure(self, plugin: str, answer: Status, pod: PodInfo, node: str) -> None:
        """An error that a plugin returned, in upstream's words for this extension point."""
        told = {"pod": logs.ref(pod.pod), "plugin": plugin}
        # Before PreBind the node is told as one of the details of -v=4.
        if self.name not in ("Reserve", "Permit") or self._log.shown_name:
            told["node"] = node
        what = "Plugin Failed" if self.name == "Bind" else "Plugin failed"
        self._log.error(answer.message, what, **told)

    def raised(self, plugin: str, error: Exception) -> Status:
        """A plugin that raises costs its pod this attempt, and is loud about it."""
        self._metrics.kscheduler_plugin_exceptions_total.labels(
            plugin, self.name, self._profile
        ).inc()
        stack = "".join(traceback.format_exception(error, limit=-MOST_FRAMES))
        text = text_of(error)
        log.error(text, "Plugin failed", plugin=plugin, extensionPoint=self.name, stack=stack)
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
    except Exception:  # Even that others can get wrong.
        return name
