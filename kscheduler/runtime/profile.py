"""Frameworks of the configured profiles: each with its plugins, in their places.

Which plugin runs where was settled by `config.profiles`; here they are constructed, each once per
profile, whatever number of points it extends. Configuration knows all of upstream's plugins; one
that the registry does not have is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from kscheduler.config.model import KubeSchedulerProfile
from kscheduler.config.profiles import Completed, EffectivePlugins
from kscheduler.errors import ConfigError
from kscheduler.extension_points import JUDGING_POINTS, METHOD_OF_POINT
from kscheduler.framework.handle import Factory
from kscheduler.framework.in_tree import Plugin
from kscheduler.runtime.framework import Framework
from kscheduler.runtime.handle import RuntimeHandle
from kscheduler.runtime.plugin_calls import text_of


def build_frameworks(
    completed: Completed,
    registry: Mapping[str, Factory],
    handle_for: Callable[[str], RuntimeHandle],
    shared_objects: dict[type, Any] | None = None,
) -> dict[str, Framework]:
    """One Framework per profile, by scheduler name; `handle_for` is given that name.

    What plugins of all profiles share goes into the `shared_objects`.

    ConfigError if a plugin refuses its arguments or its constructor raises anything else.
    """
    frameworks = {}
    shared_objects = {} if shared_objects is None else shared_objects
    for profile in completed.config.profiles:
        name = profile.scheduler_name
        try:
            frameworks[name] = build_framework(
                profile,
                completed.plugins[name],
                registry,
                replace(handle_for(name), shared_objects=shared_objects),
            )
        except ConfigError as error:
            raise ConfigError(
                f"initializing profiles: creating profile for scheduler name {name}: {error}"
            ) from error
    return frameworks


def build_framework(
    profile: KubeSchedulerProfile,
    effective: EffectivePlugins,
    registry: Mapping[str, Factory],
    shared: RuntimeHandle,
) -> Framework:
    handle = replace(shared, profile_name=profile.scheduler_name, framework=lambda: framework)
    args = {entry.name: entry.args for entry in profile.plugin_config}
    named = dict.fromkeys(name for some in effective.by_point.values() for name in some)
    plugins: dict[str, Plugin] = {}
    for name in named:
        if name in registry:
            try:
                plugins[name] = registry[name](args.get(name), handle)
            except Exception as error:
                raise ConfigError(f'initializing plugin "{name}": {text_of(error)}') from error
    # Configuration goes by the points of upstream's plugin; ours need not have a method for each.
    plugins_at = {
        point: [
            plugins[name]
            for name in effective[point]
            if name in plugins and hasattr(plugins[name], method)
        ]
        for point, method in METHOD_OF_POINT.items()
    }
    # The series of plugins that judge nodes exist before the first pod.
    evaluations = handle.metrics.plugin_evaluation_total
    for point in JUDGING_POINTS:
        for name in effective[point]:
            evaluations.labels(name, point.label, handle.profile_name)
    framework: Framework = Framework(
        handle,
        plugins_at,
        weights=effective.score_weights,
        percentage_of_nodes_to_score=profile.percentage_of_nodes_to_score,
    )
    return framework
