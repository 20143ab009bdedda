"""The status of this instance: what it is, whether it leads, and how much there is to do."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from kscheduler.api.explanation import (
    CONFIGURATION_GENERATION,
    ExtensionPointPlugins,
    PluginHealth,
    ProfileStatus,
    SchedulerStatus,
    ScorePlugin,
)
from kscheduler.api.meta import ObjectMeta
from kscheduler.api.timestamps import format_time, steady_time
from kscheduler.config.dump import to_tree
from kscheduler.config.plugin_args import RawArgs
from kscheduler.config.profiles import Completed
from kscheduler.config.wire import Model
from kscheduler.extension_points import Point
from kscheduler.gotext.json_text import marshal
from kscheduler.serving.health import STARTED
from kscheduler.version import KUBERNETES_VERSION, __version__

if TYPE_CHECKING:
    from kscheduler.app.daemon import Daemon
    from kscheduler.app.scheduler import Scheduler
    from kscheduler.decisions.decision_log import DecisionLog

# Hexadecimal digits of the configuration's hash that are shown.
HASH_DIGITS = 12


def scheduler_status(daemon: Daemon, now: float | None = None) -> SchedulerStatus:
    """The status at this moment; `now` is a reading of `steady_time`, for the rates."""
    scheduler, elector = daemon.scheduler, daemon.elector
    identity = socket.gethostname() if elector is None else elector.config.identity
    started = format_time(STARTED)
    return SchedulerStatus(
        metadata=ObjectMeta(name=identity, creation_timestamp=started),
        version=__version__,
        kubernetes_version=KUBERNETES_VERSION,
        identity=identity,
        leader=daemon.leads,
        started=started,
        profiles=tuple(scheduler.frameworks),
        configuration_hash=hashlib.sha256(daemon.configz()).hexdigest()[:HASH_DIGITS],
        configuration_generation=CONFIGURATION_GENERATION,
        snapshot_generation=scheduler.cache.snapshot().generation,
        queue=scheduler.queue.sizes(),
        cache={
            "nodes": scheduler.cache.node_count,
            "pods": scheduler.cache.pod_count,
            "assumedPods": scheduler.cache.assumed_pod_count,
        },
        decisions=_decisions(scheduler.decisions),
        rates=scheduler.loop.rates.per_second(steady_time() if now is None else now),
        plugins=plugin_health(scheduler),
        configuration=profiles_in_force(daemon.cc.completed),
    )


def _decisions(log: DecisionLog | None) -> Mapping[str, int]:
    if log is None:
        return {}
    return {
        "kept": log.entries,
        "bytes": log.bytes,
        "maxBytes": log.max_bytes,
        "dropped": log.evictions,
    }


def plugin_health(scheduler: Scheduler) -> tuple[PluginHealth, ...]:
    """Out-of-tree plugins by profile; a plugin that failed now and then counts as healthy."""
    return tuple(
        PluginHealth(
            name=health.plugin,
            profile=health.profile,
            healthy=health.trouble is None,
            faults=health.fault_count,
            message=health.trouble or "",
        )
        for health in scheduler.out_of_tree.health
    )


def profiles_in_force(completed: Completed) -> tuple[ProfileStatus, ...]:
    """Profiles as they were built: plugins by extension point in call order, and arguments."""
    arguments = {
        profile.scheduler_name: {
            entry.name: msgspec.Raw(_arguments(entry.args).encode())
            for entry in profile.plugin_config
            if entry.args is not None
        }
        for profile in completed.written.profiles
    }
    found = []
    for name, effective in completed.plugins.items():
        weights_of = {
            Point.SCORE: effective.score_weights,
            Point.PLACEMENT_SCORE: effective.placement_score_weights,
        }
        points = tuple(
            ExtensionPointPlugins(
                point=point.value,
                plugins=tuple(
                    ScorePlugin(name=plugin, weight=weights_of.get(point, {}).get(plugin, 0))
                    for plugin in plugins
                ),
            )
            for point, plugins in effective.by_point.items()
            if plugins
        )
        found.append(ProfileStatus(name, points, arguments.get(name, {})))
    return tuple(found)


def _arguments(arguments: Model) -> str:
    return arguments.text if isinstance(arguments, RawArgs) else marshal(to_tree(arguments))
