"""What the queue asks of a profile: who is next, who is held back, and which events wake whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from time import perf_counter

from kscheduler.extension_points import REJECTING_POINTS, points_of
from kscheduler.framework import cluster_event
from kscheduler.framework.cluster_event import WAKING_KINDS, Action, ClusterEvent, EventWithHint
from kscheduler.framework.in_tree import EnqueueExtensions, Plugin, PreEnqueuePlugin
from kscheduler.framework.status import Code, Status
from kscheduler.metrics import Metrics
from kscheduler.runtime.plugin_calls import PluginCalls
from kscheduler.state.pod_info import PodInfo


class PreEnqueueing:
    def __init__(self, profile: str, metrics: Metrics, plugins: Sequence[PreEnqueuePlugin]) -> None:
        self._point = PluginCalls("PreEnqueue", profile, metrics)
        self._plugins = tuple(plugins)
        # The same, each of them first in turn.
        self._beginning_with = {
            first.name: (first, *(plugin for plugin in plugins if plugin is not first))
            for first in plugins
        }

    def run_pre_enqueue(self, pod: PodInfo, first: str = "", /) -> Status | None:
        """The first refusal, or None; the plugin called `first` is asked before the others."""
        started = perf_counter()
        status = None
        for plugin in self._beginning_with.get(first, self._plugins):
            status = self._ask(plugin, pod)
            if status is not None:
                break
        # Upstream reports Success here whatever the answer.
        self._point.observe(None, started)
        return status

    def still_gates(self, pod: PodInfo, name: str, /) -> bool:
        """Whether the plugin that has refused the pod before would do so again."""
        gates = self._beginning_with.get(name)
        try:
            answer = gates[0].pre_enqueue(pod) if gates else None
        except Exception:
            # For whoever asks all of them to tell.
            return False
        return answer is not None and answer.rejected

    def _ask(self, plugin: PreEnqueuePlugin, pod: PodInfo) -> Status | None:
        try:
            answer = plugin.pre_enqueue(pod)
        except Exception as error:
            answer = self._point.exception_status(plugin.name, error)
        return None if answer is None or answer.code is Code.SUCCESS else answer.by(plugin.name)


def events_by_plugin(
    plugins: Iterable[Plugin], *, pod_groups: bool
) -> dict[str, Sequence[EventWithHint]]:
    """Per plugin that can reject pods, the events that may change its mind.

    A plugin that does not say hears of everything.
    """
    return {
        plugin.name: plugin.events_to_register()
        if isinstance(plugin, EnqueueExtensions)
        else any_change(pod_groups=pod_groups)
        for plugin in plugins
        if points_of(plugin) & REJECTING_POINTS
    }


def any_change(*, pod_groups: bool) -> list[EventWithHint]:
    kinds = (*WAKING_KINDS, cluster_event.POD_GROUP) if pod_groups else WAKING_KINDS
    return [EventWithHint(ClusterEvent(kind, Action.ALL)) for kind in kinds]


Registrations = Mapping[str, Sequence[EventWithHint]]
