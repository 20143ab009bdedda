"""PostFilter: no node fits, so plugins try to make room; the first that succeeds ends it."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.extension_point import ExtensionPoint
from kscheduler.framework.plugin import PostFilterPlugin, PostFilterResult
from kscheduler.framework.verdict import Code, Diagnosis, Status
from kscheduler.metrics import Metrics
from kscheduler.state.pod_info import PodInfo


class PostFiltering:
    def __init__(self, profile: str, metrics: Metrics, plugins: Sequence[PostFilterPlugin]) -> None:
        self._point = ExtensionPoint("PostFilter", profile, metrics)
        self._plugins = plugins

    def run_post_filter(
        self, cycle: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        started = perf_counter()
        result = self._ask_all(cycle, pod, diagnosis)
        self._point.took(result.status, started)
        return result

    def _ask_all(self, cycle: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> PostFilterResult:
        nominated: str | None = None
        reasons: list[str] = []
        for plugin in self._plugins:
            result = self._ask(plugin, cycle, pod, diagnosis)
            status = result.status
            if status.code is Code.SUCCESS:
                return result
            if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return PostFilterResult(status.by(plugin.name), result.nominated_node)
            if not status.rejected:
                return PostFilterResult(Status(Code.ERROR, status.reasons, plugin.name))
            if result.nominated_node is not None:
                nominated = result.nominated_node
            reasons += status.reasons
        first = self._plugins[0].name if self._plugins else ""
        return PostFilterResult(Status(Code.UNSCHEDULABLE, tuple(reasons), first), nominated)

    def _ask(
        self, plugin: PostFilterPlugin, cycle: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        started = perf_counter()
        try:
            result = plugin.post_filter(cycle, pod, diagnosis)
        except Exception as error:
            result = PostFilterResult(self._point.raised(plugin.name, error))
        if cycle.sampled:
            self._point.plugin_took(plugin.name, result.status.code, started)
        return result
