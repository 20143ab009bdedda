"""PostFilter: no node fits, so plugins try to make room; the first that succeeds ends it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from time import perf_counter

from msgspec.structs import replace

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.in_tree import PostFilterPlugin
from kscheduler.framework.plugin import PostFilterResult
from kscheduler.framework.status import Code, Diagnosis, Status
from kscheduler.metrics import Metrics
from kscheduler.runtime.plugin_calls import PluginCalls, calls_plugins
from kscheduler.state.pod_info import PodInfo

Preparation = Callable[[], Awaitable[PostFilterResult]]


class _Answers:
    """The combined answer of the first `count` plugins."""

    def __init__(self) -> None:
        self.count = 0
        self.conclusion = PostFilterResult(Status(Code.UNSCHEDULABLE))

    def add(self, plugin: str, result: PostFilterResult) -> bool:
        """Whether this settles it."""
        self.count += 1
        before, status = self.conclusion, result.status
        if status.code is Code.SUCCESS:
            self.conclusion = result
            return True
        if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            self.conclusion = PostFilterResult(status.by(plugin), result.nominated_node)
            return True
        if not status.rejected:
            self.conclusion = PostFilterResult(Status(Code.ERROR, status.reasons, plugin))
            return True
        nominated = result.nominated_node
        self.conclusion = PostFilterResult(
            Status(
                Code.UNSCHEDULABLE,
                before.status.reasons + status.reasons,
                before.status.plugin or plugin,
            ),
            before.nominated_node if nominated is None else nominated,
        )
        return False


class PostFiltering:
    """Runs the PostFilter plugins.

    A plugin whose answer depends on a preparation makes the rest of the run asynchronous: the
    result then has a preparation that goes on from that plugin.
    """

    def __init__(self, profile: str, metrics: Metrics, plugins: Sequence[PostFilterPlugin]) -> None:
        self._point = PluginCalls("PostFilter", profile, metrics)
        self._plugins = plugins

    def run_post_filter(
        self, cycle: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        started = perf_counter()
        result = self._ask_all(cycle, pod, diagnosis, _Answers())
        if result.preparation is not None:
            return replace(result, preparation=partial(self._end, result.preparation, started))
        self._point.observe(result.status, started)
        return result

    async def _end(self, preparation: Preparation, started: float) -> PostFilterResult:
        """Observes the point once its outcome, and how long it took, is known."""
        result = await preparation()
        self._point.observe(result.status, started)
        return result

    def _ask_all(
        self, cycle: CycleState, pod: PodInfo, diagnosis: Diagnosis, answers: _Answers
    ) -> PostFilterResult:
        """Runs the remaining plugins until one succeeds, rules it out, fails, or has to wait."""
        for plugin in self._plugins[answers.count :]:
            started = perf_counter()
            result = self._ask(plugin, cycle, pod, diagnosis)
            if result.preparation is not None:
                rest = partial(self._go_on, cycle, pod, diagnosis, answers, plugin, result, started)
                return replace(result, preparation=rest)
            self._observe_plugin(cycle, plugin, result, started)
            if answers.add(plugin.name, result):
                break
        return answers.conclusion

    async def _go_on(
        self,
        cycle: CycleState,
        pod: PodInfo,
        diagnosis: Diagnosis,
        answers: _Answers,
        plugin: PostFilterPlugin,
        result: PostFilterResult,
        started: float,
    ) -> PostFilterResult:
        """The plugin's answer after its preparation, and then those of the remaining plugins."""
        while result.preparation is not None:
            try:
                result = await result.preparation()
            except Exception as error:
                result = self._failed(plugin, error)
        self._observe_plugin(cycle, plugin, result, started)
        if answers.add(plugin.name, result):
            return answers.conclusion
        rest = self._ask_all(cycle, pod, diagnosis, answers)
        while rest.preparation is not None:
            rest = await rest.preparation()
        return rest

    @calls_plugins("PostFilter", by="plugin")
    def _ask(
        self, plugin: PostFilterPlugin, cycle: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        try:
            return plugin.post_filter(cycle, pod, diagnosis)
        except Exception as error:
            return self._failed(plugin, error)

    def _observe_plugin(
        self, cycle: CycleState, plugin: PostFilterPlugin, result: PostFilterResult, started: float
    ) -> None:
        if cycle.sampled:
            self._point.observe_plugin(plugin.name, result.status.code, started)

    def _failed(self, plugin: PostFilterPlugin, error: Exception) -> PostFilterResult:
        raised = self._point.exception_status(plugin.name, error)
        text = f'running PostFilter plugin "{plugin.name}": {raised.message}'
        return PostFilterResult(Status(Code.ERROR, (text,), plugin.name))
