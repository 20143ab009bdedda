"""PreEnqueue, and the registrations for events: what the queue asks of a profile."""

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
    """Runs the PreEnqueue plugins, which gate pods."""

    def __init__(self, profile: str, metrics: Metrics, plugins: Sequence[PreEnqueuePlugin]) -> None:
        self._point = PluginCalls("PreEnqueue", profile, metrics)
        self._plugins = tuple(plugins)
        # By name of the plugin that comes first: the one that gated a pod is likely to do so again.
        self._beginning_with = {
            first.name: (first, *(plugin for plugin in plugins if plugin is not first))
            for first in plugins
        }

    def run_pre_enqueue(self, pod: PodInfo, first: str = "", /) -> Status | None:
        """The first rejection, or None; the plugin called `first` is asked before the others."""
        started = perf_counter()
        status = None
        for plugin in self._beginning_with.get(first, self._plugins):
            try:
                answer = plugin.pre_enqueue(pod)
            except Exception as error:
                answer = self._point.exception_status(plugin.name, error)
            if answer is not None and answer.code is not Code.SUCCESS:
                status = answer.by(plugin.name)
                break
        # Upstream reports Success here whatever the answer.
        self._point.observe(None, started)
        return status

    def still_gates(self, pod: PodInfo, name: str, /) -> bool:
        """Whether the plugin that gated the pod before would do so again."""
        gates = self._beginning_with.get(name)
        try:
            answer = gates[0].pre_enqueue(pod) if gates else None
        except Exception:
            # `run_pre_enqueue`, which comes next, reports it.
            return False
        return answer is not None and answer.rejected


def events_by_plugin(
    plugins: Iterable[Plugin], *, pod_groups: bool
) -> dict[str, Sequence[EventWithHint]]:
    """Per plugin that can reject pods, the events that may make such a pod schedulable.

    A plugin that does not register events gets all of them.
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
