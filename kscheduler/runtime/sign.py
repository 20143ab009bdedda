"""Sign: signatures of pods; pods that no plugin distinguishes get equal ones.

Every plugin that judges nodes contributes the part of the pod that its verdicts depend on. If one
of them cannot name that part, the pod has no signature; if one of them does not sign at all, no pod
of the profile has.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter

import msgspec

from kscheduler import logs
from kscheduler.framework.in_tree import Plugin, SignPlugin
from kscheduler.framework.status import Code, Status
from kscheduler.metrics import Metrics
from kscheduler.runtime.plugin_calls import PluginCalls
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__)

SCHEDULER_NAME = "v1.Pod.Spec.SchedulerName"


class Signing:
    """Runs the plugins that sign pods."""

    def __init__(
        self, profile: str, metrics: Metrics, judging: Iterable[Plugin], *, wanted: bool = True
    ) -> None:
        """`judging` are the plugins of PreFilter, Filter, PreScore and Score, perhaps repeated."""
        self._point = PluginCalls("Sign", profile, metrics)
        plugins = {plugin.name: plugin for plugin in judging}.values()
        self._plugins = [plugin for plugin in plugins if isinstance(plugin, SignPlugin)]
        self._enabled = wanted and len(self._plugins) == len(plugins)

    def sign(self, pod: PodInfo) -> bytes | None:
        started = perf_counter()
        signature = self._signature(pod) if self._enabled else None
        self._point.observe(None, started)
        return signature

    def _signature(self, pod: PodInfo) -> bytes | None:
        parts: dict[str, object] = {SCHEDULER_NAME: pod.pod.spec.scheduler_name}
        for plugin in tuple(self._plugins):
            started = perf_counter()
            try:
                part = plugin.sign(pod)
            except Exception as error:
                part = self._point.exception_status(plugin.name, error)
            code = part.code if isinstance(part, Status) else Code.SUCCESS
            self._point.observe_plugin(plugin.name, code, started)
            if isinstance(part, Status):
                if code is Code.ERROR:
                    log.error(part.message, "SignPod failed for plugin", plugin=plugin.name)
                # A plugin that cannot sign one pod often cannot sign any: asked first, it spares
                # the others the work.
                self._plugins.remove(plugin)
                self._plugins.insert(0, plugin)
                if v := log.v(5):
                    v.info(
                        "SignPod can't sign pod due to plugin",
                        plugin=plugin.name,
                        status=part.message,
                    )
                return None
            parts.update(part)
        return msgspec.json.encode(parts, order="deterministic")
