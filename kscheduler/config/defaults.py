"""Filling in what a configuration leaves out.

Mirrors pkg/scheduler/apis/config/v1/{defaults,default_plugins}.go. Differs: nothing.
"""

from __future__ import annotations

from functools import singledispatch
from typing import TypeVar

from kscheduler import logs
from kscheduler.config.catalog import Gates, default_plugins
from kscheduler.config.model import (
    DEFAULT_SCHEDULER_NAME,
    ClientConnectionConfiguration,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    Plugin,
    PluginConfig,
    Plugins,
    PluginSet,
)
from kscheduler.config.plugin_args import (
    CPU_AND_MEMORY,
    KINDS,
    DynamicResourcesArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PluginArgs,
    PodTopologySpreadArgs,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from kscheduler.config.wire import Model
from kscheduler.extension_points import Point
from kscheduler.gotext.duration import Duration

log = logs.logger(__name__)

M = TypeVar("M", bound=Model)

LEAST_UTILIZED_FIRST = (
    UtilizationShapePoint(utilization=0, score=10),
    UtilizationShapePoint(utilization=100, score=0),
)


def default_config(gates: Gates) -> KubeSchedulerConfiguration:
    """The configuration of a scheduler that was given none."""
    return with_defaults(KubeSchedulerConfiguration(), gates)


def with_defaults(config: KubeSchedulerConfiguration, gates: Gates) -> KubeSchedulerConfiguration:
    profiles = config.profiles or (KubeSchedulerProfile(),)
    if len(profiles) == 1 and "scheduler_name" not in profiles[0].model_fields_set:
        profiles = (changed(profiles[0], scheduler_name=DEFAULT_SCHEDULER_NAME),)
    config = changed(
        config,
        profiles=tuple(_profile(profile, gates) for profile in profiles),
        leader_election=_nonzero(config.leader_election, LeaderElectionConfiguration()),
        client_connection=_nonzero(config.client_connection, ClientConnectionConfiguration()),
    )
    if "enable_contention_profiling" in config.model_fields_set:
        return config
    return changed(config, enable_contention_profiling=config.enable_profiling)


def changed(model: M, **values: object) -> M:
    """A copy with these fields replaced."""
    return model.model_copy(update=values)


def _nonzero(given: M, defaults: M) -> M:
    """Empty strings and zero numbers count as not given; a bool that was given stays."""
    fields = type(given).model_fields
    empty = {f for f in fields if not getattr(given, f) and not isinstance(getattr(given, f), bool)}
    return changed(given, **{f: getattr(defaults, f) for f in empty})


def _profile(profile: KubeSchedulerProfile, gates: Gates) -> KubeSchedulerProfile:
    plugins = merge_plugins(profile.plugins, gates)
    given = [
        changed(entry, args=default_args(entry.args, gates))
        if isinstance(entry.args, PluginArgs)
        else entry
        for entry in profile.plugin_config
    ]
    named = {entry.name for entry in given}
    missing = [
        PluginConfig(name=name, args=default_args(KINDS[f"{name}Args"](), gates))
        for name in _enabled_names(plugins)
        if name not in named and f"{name}Args" in KINDS
    ]
    return changed(profile, plugins=plugins, plugin_config=(*given, *missing))


def _enabled_names(plugins: Plugins) -> list[str]:
    """Sorted; upstream forgets podGroupPostFilter here, and so do we."""
    points = [p.attr for p in Point if p is not Point.POD_GROUP_POST_FILTER]
    sets = [getattr(plugins, attr) for attr in (*points, "multi_point")]
    return sorted({plugin.name for plugin_set in sets for plugin in plugin_set.enabled})


def merge_plugins(custom: Plugins, gates: Gates) -> Plugins:
    """The user's choice on top of the default plugins, which are all enabled at multiPoint."""
    defaults = {"multi_point": default_plugins(gates)}
    return Plugins(
        **{
            attr: _merge_set(defaults.get(attr, ()), getattr(custom, attr))
            for attr in Plugins.model_fields
        }
    )


def _merge_set(defaults: tuple[Plugin, ...], custom: PluginSet) -> PluginSet:
    """A default the user also enables is replaced where it stands; the user's others follow.

    Of a name enabled twice the last copy replaces, and the first stays behind to be refused when
    the profile is built. Disabled and enabled at once means moved to the end.
    """
    disabled = {plugin.name for plugin in custom.disabled}
    by_name = {plugin.name: index for index, plugin in enumerate(custom.enabled)}
    kept = [] if "*" in disabled else [p for p in defaults if p.name not in disabled]
    enabled: list[Plugin] = []
    replacing: set[int] = set()
    for plugin in kept:
        index = by_name.get(plugin.name)
        if index is not None:
            log.info("Default plugin is explicitly re-configured; overriding", plugin=plugin.name)
            replacing.add(index)
        enabled.append(plugin if index is None else custom.enabled[index])
    enabled += (p for i, p in enumerate(custom.enabled) if i not in replacing)
    return PluginSet(
        enabled=tuple(enabled), disabled=tuple(Plugin(name=p.name) for p in custom.disabled)
    )


@singledispatch
def default_args(args: PluginArgs, gates: Gates) -> PluginArgs:
    """Arguments with what their kind leaves to circumstances filled in."""
    return args


@default_args.register
def _(args: NodeResourcesFitArgs, gates: Gates) -> PluginArgs:
    strategy = args.scoring_strategy or ScoringStrategy(type="LeastAllocated")
    resources = _weighted(strategy.resources)
    return changed(args, scoring_strategy=changed(strategy, resources=resources))


@default_args.register
def _(args: NodeResourcesBalancedAllocationArgs, gates: Gates) -> PluginArgs:
    return changed(args, resources=_weighted(args.resources))


def _weighted(resources: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    return tuple(changed(r, weight=r.weight or 1) for r in resources) or CPU_AND_MEMORY


@default_args.register
def _(args: PodTopologySpreadArgs, gates: Gates) -> PluginArgs:
    return changed(args, defaulting_type=args.defaulting_type or "System")


@default_args.register
def _(args: VolumeBindingArgs, gates: Gates) -> PluginArgs:
    if args.shape or not gates.enabled("StorageCapacityScoring"):
        return args
    return changed(args, shape=LEAST_UTILIZED_FIRST)


@default_args.register
def _(args: DynamicResourcesArgs, gates: Gates) -> PluginArgs:
    filter_timeout, binding_timeout = args.filter_timeout, args.binding_timeout
    if filter_timeout is None and gates.enabled("DRASchedulerFilterTimeout"):
        filter_timeout = Duration.of(10)
    if binding_timeout is None and binding_conditions(gates):
        binding_timeout = Duration.of(600)
    return changed(args, filter_timeout=filter_timeout, binding_timeout=binding_timeout)


def binding_conditions(gates: Gates) -> bool:
    """Whether devices may have conditions that PreBind waits for."""
    return gates.enabled("DRADeviceBindingConditions") and gates.enabled(
        "DRAResourceClaimDeviceStatus"
    )
