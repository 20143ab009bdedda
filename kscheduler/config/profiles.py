"""Profiles as they are built: which plugins really run at each extension point, in which order.

Mirrors pkg/scheduler/framework/runtime (expansion of multiPoint, weights) and
pkg/scheduler/profile. Differs: of several plugins whose arguments are refused, the first by name
is reported; upstream leaves that to chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from kscheduler import logs
from kscheduler.api.field_errors import FieldError, Path, aggregate
from kscheduler.config.catalog import Catalog
from kscheduler.config.defaults import changed
from kscheduler.config.extenders import with_built_extenders
from kscheduler.config.model import (
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    Plugin,
    Plugins,
    PluginSet,
)
from kscheduler.config.plugin_args import Gates
from kscheduler.errors import ConfigError
from kscheduler.extension_points import JUDGING_POINTS, Point
from kscheduler.gotext.strconv import quote

log = logs.logger(__name__)

# Plugin name → the points it extends; in-tree and out-of-tree plugins alike.
PointsOf = Mapping[str, frozenset[Point]]

MAX_NODE_SCORE = 100
MAX_TOTAL_SCORE = (1 << 63) - 1


class EffectivePlugins(msgspec.Struct, frozen=True):
    """Plugins of a profile: ordered names per point, and the weights where they matter."""

    scheduler_name: str
    by_point: Mapping[Point, tuple[str, ...]]
    score_weights: Mapping[str, int]
    placement_score_weights: Mapping[str, int]

    def __getitem__(self, point: Point) -> tuple[str, ...]:
        return self.by_point[point]

    def for_log(self) -> dict[str, Any]:
        """The plugins as the start-up line at verbosity 2 shows upstream's struct: every point by
        its Go name, in the order of the configuration's fields; multiPoint is spread by now.
        """
        weights_of = {
            Point.SCORE: self.score_weights,
            Point.PLACEMENT_SCORE: self.placement_score_weights,
        }
        enabled: dict[str, list[dict[str, Any]]] = {
            point.attr: [
                {"Name": name, "Weight": weights_of.get(point, {}).get(name, 0)} for name in names
            ]
            for point, names in self.by_point.items()
        }
        return {
            attr.title().replace("_", ""): {"Enabled": enabled.get(attr) or None, "Disabled": None}
            for attr in Plugins.model_fields
        }


class Completed(msgspec.Struct, frozen=True):
    """A configuration that a scheduler can be started with.

    `config` is as loaded, with what building the extenders changed in it; `written` has its
    profiles as they were built, which leaves out arguments of plugins that do not run.
    """

    config: KubeSchedulerConfiguration
    written: KubeSchedulerConfiguration
    plugins: Mapping[str, EffectivePlugins]


def complete(config: KubeSchedulerConfiguration, catalog: Catalog, *, gates: Gates) -> Completed:
    """Builds extenders and profiles as far as configuration goes; raises ConfigError."""
    config = with_built_extenders(config)
    plugins: dict[str, EffectivePlugins] = {}
    for profile in config.profiles:
        try:
            _check_constructible(profile, catalog, gates)
            effective = expand(profile, catalog.points_of)
        except ConfigError as error:
            name = profile.scheduler_name
            raise _uninitialized(f"creating profile for scheduler name {name}: {error}") from error
        _check_beside_others(profile, effective, config.profiles[0], plugins)
        plugins[profile.scheduler_name] = effective
        if gates.enabled("OpportunisticBatching"):
            _log_disabled_signatures(effective, catalog.unsignable, extended=bool(config.extenders))
        if gates.enabled("GenericWorkload") and "GangScheduling" not in _needed(profile):
            log.error(
                None,
                "GenericWorkload is enabled, but GangScheduling plugin is not set. "
                "Gang scheduling using PodGroups may not work as expected.",
            )
    if not plugins:
        raise ConfigError("at least one profile is required")
    built = []
    for profile in config.profiles:
        # Arguments of plugins that run, by name; upstream drops the others.
        running = _needed(profile) & catalog.points_of.keys()
        entries = (e for e in profile.plugin_config if e.name in running and e.args is not None)
        by_name = tuple(sorted(entries, key=lambda entry: entry.name))
        built.append(changed(profile, plugin_config=by_name))
    return Completed(config, changed(config, profiles=tuple(built)), plugins)


def expand(profile: KubeSchedulerProfile, points_of: PointsOf) -> EffectivePlugins:
    """The plugins of a profile at every point, once multiPoint is spread over the points."""
    multi_point = profile.plugins.multi_point.enabled
    by_point: dict[Point, tuple[str, ...]] = {}
    for point in Point:
        # Enabled at the point itself: each must exist, fit there and stand there once.
        enabled: list[str] = []
        for name in _names(getattr(profile.plugins, point.attr).enabled):
            _check_exists(name, point, points_of)
            if point not in points_of[name]:
                raise ConfigError(f"plugin {quote(name)} does not extend {point.interface} plugin")
            if name in enabled:
                raise _repeated(name, point)
            enabled.append(name)
        by_point[point] = tuple(enabled)
    if multi_point:
        for point in Point:
            chosen: PluginSet = getattr(profile.plugins, point.attr)
            if "*" not in _names(chosen.disabled):
                by_point[point] = _spread(chosen, multi_point, point, points_of)
    where = f"for profile with scheduler name {quote(profile.scheduler_name)}"
    sorters = len(by_point[Point.QUEUE_SORT])
    if sorters != 1:
        raise ConfigError(f"only one queue sort plugin required {where}, but got {sorters}")
    if not by_point[Point.BIND]:
        raise ConfigError(f"at least one bind plugin is needed {where}")
    if len(by_point[Point.PLACEMENT_GENERATE]) > 1:
        raise ConfigError(f"at most one placement generate plugin is allowed {where}")
    return EffectivePlugins(
        profile.scheduler_name,
        by_point,
        _weights((*profile.plugins.score.enabled, *multi_point), Point.SCORE, points_of),
        _weights(
            (*profile.plugins.placement_score.enabled, *multi_point),
            Point.PLACEMENT_SCORE,
            points_of,
        ),
    )


def named_plugins(config: KubeSchedulerConfiguration) -> frozenset[str]:
    """All plugins that some profile enables somewhere, whether there is such a plugin or not."""
    return frozenset().union(*map(_needed, config.profiles))


def _names(plugins: tuple[Plugin, ...]) -> list[str]:
    return [plugin.name for plugin in plugins]


def _check_exists(name: str, point: Point, points_of: PointsOf) -> None:
    if name not in points_of:
        raise ConfigError(f"{point.interface} {quote(name)} does not exist")


def _repeated(name: str, point: Point) -> ConfigError:
    return ConfigError(f"plugin {quote(name)} already registered as {quote(point.interface)}")


def _spread(
    chosen: PluginSet, multi_point: tuple[Plugin, ...], point: Point, points_of: PointsOf
) -> tuple[str, ...]:
    """First what the point reconfigures of multiPoint, then the rest of it, then its own."""
    specific, disabled = _names(chosen.enabled), _names(chosen.disabled)
    overriding: set[str] = set()
    spread: list[str] = []
    for name in _names(multi_point):
        _check_exists(name, point, points_of)
        if point not in points_of[name] or name in disabled:
            continue
        if name in specific:
            overriding.add(name)
            log.info("MultiPoint plugin is explicitly re-configured; overriding", plugin=name)
        elif name in spread:
            raise _repeated(name, point)
        else:
            spread.append(name)
    first = [name for name in specific if name in overriding]
    last = [name for name in specific if name not in overriding]
    return (*first, *spread, *last)


def _weights(plugins: tuple[Plugin, ...], point: Point, points_of: PointsOf) -> dict[str, int]:
    """The first weight of each plugin that scores; the best total score has to fit an int64.

    The room left is computed in 64 bits, as upstream does: once negative weights have made the
    total negative it wraps around, and the next plugin is refused.
    """
    weights: dict[str, int] = {}
    total = 0
    for plugin in plugins:
        if point not in points_of[plugin.name] or plugin.name in weights:
            continue
        weights[plugin.name] = plugin.weight or 1
        highest = weights[plugin.name] * MAX_NODE_SCORE
        if highest > _wrapped(MAX_TOTAL_SCORE - total):
            kind = "score" if point is Point.SCORE else "placement score"
            raise ConfigError(f"{kind} plugins: total score of Score plugins could overflow")
        total = _wrapped(total + highest)
    return weights


def _wrapped(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _check_constructible(profile: KubeSchedulerProfile, catalog: Catalog, gates: Gates) -> None:
    """Whether every plugin that will run gets arguments it accepts."""
    seen: set[str] = set()
    for entry in profile.plugin_config:
        if entry.name in seen:
            raise ConfigError(f"repeated config for plugin {entry.name}")
        seen.add(entry.name)
    for name, problems in refused_args(profile, catalog, gates):
        raise ConfigError(f"initializing plugin {quote(name)}: {aggregate(problems)}")


def refused_args(
    profile: KubeSchedulerProfile, catalog: Catalog, gates: Gates
) -> Iterator[tuple[str, Sequence[FieldError | str]]]:
    """In-tree plugins that will run and refuse their arguments, by name, and why each does."""
    args_of = {entry.name: entry.args for entry in profile.plugin_config}
    for name in sorted(_needed(profile) & catalog.in_tree.keys()):
        plugin, args = catalog.in_tree[name], args_of.get(name)
        # A plugin whose gate is off does nothing, and takes anything.
        if plugin.args is None or (plugin.gate and not gates.enabled(plugin.gate)):
            continue
        if not isinstance(args, plugin.args):
            got = "<nil>" if args is None else "*runtime.Unknown"
            yield name, [plugin.args.wrong_type.format(want=plugin.args.__name__, got=got)]
        elif errors := list(args.errors(Path(), gates)):
            yield name, errors


def _needed(profile: KubeSchedulerProfile) -> set[str]:
    return {
        plugin.name
        for attr in type(profile.plugins).model_fields
        for plugin in getattr(profile.plugins, attr).enabled
    }


def _check_beside_others(
    profile: KubeSchedulerProfile,
    effective: EffectivePlugins,
    first: KubeSchedulerProfile,
    built: Mapping[str, EffectivePlugins],
) -> None:
    """All profiles feed one queue: they need names of their own and one order of pods."""
    name = profile.scheduler_name
    if not name:
        raise _uninitialized("scheduler name is needed")
    if name in built:
        raise _uninitialized(f"duplicate profile with scheduler name {quote(name)}")
    if not built:
        return
    (mine,) = effective[Point.QUEUE_SORT]
    (common,) = built[first.scheduler_name][Point.QUEUE_SORT]
    if mine != common:
        raise _uninitialized(
            f"different queue sort plugins for profile {quote(name)}: "
            f"{quote(mine)}, first: {quote(common)}"
        )
    if _args_of(profile, mine) != _args_of(first, mine):
        raise _uninitialized(f"different queue sort plugin args for profile {quote(name)}")


def _args_of(profile: KubeSchedulerProfile, name: str) -> object:
    return next((entry.args for entry in profile.plugin_config if entry.name == name), None)


def _uninitialized(reason: str) -> ConfigError:
    return ConfigError(f"initializing profiles: {reason}")


def _log_disabled_signatures(
    effective: EffectivePlugins, unsignable: frozenset[str], *, extended: bool
) -> None:
    """Says why pods of a profile share no decisions: some plugin there cannot sign them.

    With extenders upstream logs both lines, the second with no plugins.
    """
    profile = effective.scheduler_name
    if extended:
        log.info(
            "Disabling signatures for profile because it has extenders configured.",
            profile=profile,
        )
    silent = {n for point in JUDGING_POINTS for n in effective[point] if n in unsignable}
    if extended or silent:
        log.info(
            "Disabling signatures for profile because plugins do not support it.",
            profile=profile,
            plugins=sorted(silent),
        )
