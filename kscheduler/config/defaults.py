"""Filling in what a configuration leaves out.

Mirrors pkg/scheduler/apis/config/v1/{defaults,default_plugins}.go. Differs: nothing.
"""

from __future__ import annotations

from typing import TypeVar

from kscheduler import logs
from kscheduler.config.catalog import Catalog
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
from kscheduler.config.plugin_args import Gates, PluginArgs
from kscheduler.config.wire import Model
from kscheduler.extension_points import Point

log = logs.logger(__name__)

M = TypeVar("M", bound=Model)


def default_config(catalog: Catalog, gates: Gates) -> KubeSchedulerConfiguration:
    """The configuration of a scheduler that was given none."""
    return with_defaults(KubeSchedulerConfiguration(), catalog, gates)


def with_defaults(
    config: KubeSchedulerConfiguration, catalog: Catalog, gates: Gates
) -> KubeSchedulerConfiguration:
    profiles = config.profiles or (KubeSchedulerProfile(),)
    if len(profiles) == 1 and "scheduler_name" not in profiles[0].model_fields_set:
        profiles = (changed(profiles[0], scheduler_name=DEFAULT_SCHEDULER_NAME),)
    config = changed(
        config,
        profiles=tuple(_profile(profile, catalog, gates) for profile in profiles),
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


def _profile(profile: KubeSchedulerProfile, catalog: Catalog, gates: Gates) -> KubeSchedulerProfile:
    plugins = merge_plugins(profile.plugins, catalog.default_plugins(gates))
    given = [
        changed(entry, args=entry.args.with_defaults(gates))
        if isinstance(entry.args, PluginArgs)
        else entry
        for entry in profile.plugin_config
    ]
    # Sorted; upstream forgets podGroupPostFilter here, and so do we.
    points = [p.attr for p in Point if p is not Point.POD_GROUP_POST_FILTER]
    sets = [getattr(plugins, attr) for attr in (*points, "multi_point")]
    enabled = sorted({plugin.name for plugin_set in sets for plugin in plugin_set.enabled})
    named = {entry.name for entry in given}
    missing = [
        PluginConfig(name=name, args=args_type().with_defaults(gates))
        for name in enabled
        if name not in named and (args_type := catalog.args_of(name)) is not None
    ]
    return changed(profile, plugins=plugins, plugin_config=(*given, *missing))


def merge_plugins(custom: Plugins, defaults: tuple[Plugin, ...]) -> Plugins:
    """The user's choice on top of the default plugins, which are all enabled at multiPoint."""
    return Plugins(
        **{
            attr: _merge_set(defaults if attr == "multi_point" else (), getattr(custom, attr))
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
