"""Differences between two configurations: in what they do, not in how they are written.

Both are completed first, so that a default that is spelled out is no difference, and neither is the
order of fields. Plugins are compared at the points where they really run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kscheduler.config.catalog import Catalog
from kscheduler.config.dump import scalar_text, to_tree
from kscheduler.config.model import KubeSchedulerConfiguration, KubeSchedulerProfile
from kscheduler.config.profiles import EffectivePlugins, expand
from kscheduler.extension_points import Point

INDENT = "  "


def differences(
    old: KubeSchedulerConfiguration, new: KubeSchedulerConfiguration, catalog: Catalog
) -> Iterator[str]:
    """One line per difference, those of a profile indented below its name; none if there is none.

    ConfigError for a profile that cannot be built.
    """
    trees = [to_tree(one) for one in (old, new)]
    for tree in trees:
        del tree["profiles"]
    yield from _changes(trees[0], trees[1])
    by_name = [{profile.scheduler_name: profile for profile in one.profiles} for one in (old, new)]
    for name in dict.fromkeys([*by_name[0], *by_name[1]]):
        before, after = by_name[0].get(name), by_name[1].get(name)
        if before is None or after is None:
            yield f"profile {name}: {'added' if before is None else 'removed'}"
            continue
        lines = list(_profile_changes(before, after, catalog))
        if lines:
            yield f"profile {name}:"
            yield from (INDENT + line for line in lines)


def _profile_changes(
    old: KubeSchedulerProfile, new: KubeSchedulerProfile, catalog: Catalog
) -> Iterator[str]:
    yield from _changes(
        old.percentage_of_nodes_to_score,
        new.percentage_of_nodes_to_score,
        "percentageOfNodesToScore",
    )
    before, after = expand(old, catalog.points_of), expand(new, catalog.points_of)
    names = sorted({name for one in (before, after) for point in Point for name in one[point]})
    for name in names:
        yield from _plugin_changes(name, before, after)
    for point in Point:
        if point in (Point.PRE_SCORE, Point.SCORE):
            continue  # Scores are added up, in whatever order.
        both = [
            [n for n in one[point] if n in other[point]]
            for one, other in ((before, after), (after, before))
        ]
        if both[0] != both[1]:
            yield f"{point}: plugins run in another order: {', '.join(after[point])}"
    args = [
        {entry.name: to_tree(entry)["args"] for entry in one.plugin_config} for one in (old, new)
    ]
    for name in names:
        # Of a plugin that is new or gone the arguments are no change of their own.
        if all(any(name in one[point] for point in Point) for one in (before, after)):
            yield from _changes(args[0].get(name), args[1].get(name), f"{name} args")


def _plugin_changes(name: str, before: EffectivePlugins, after: EffectivePlugins) -> Iterator[str]:
    ran = [point for point in Point if name in before[point]]
    runs = [point for point in Point if name in after[point]]
    weights = [one.score_weights.get(name) for one in (before, after)]
    weight = f", weight {weights[1]}" if weights[1] is not None else ""
    if not ran:
        yield f"{name}: on at {', '.join(runs)}{weight}"
    elif not runs:
        yield f"{name}: off (was on at {', '.join(ran)})"
    else:
        if added := [point for point in runs if point not in ran]:
            yield f"{name}: on at {', '.join(added)}, too{weight if Point.SCORE in added else ''}"
        if removed := [point for point in ran if point not in runs]:
            yield f"{name}: off at {', '.join(removed)}"
        if None not in weights and weights[0] != weights[1]:
            yield f"{name}: weight {weights[0]} → {weights[1]}"


def _changes(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Changes between two trees of plain values, each with its path."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            below = f"{path}.{key}" if path else str(key)
            yield from _changes(old.get(key), new.get(key), below)
    elif _is_list(old) and _is_list(new) and len(old) == len(new):
        for i, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _changes(one, other, f"{path}[{i}]")
    elif old != new:
        yield f"{path}: {_shown(old)} → {_shown(new)}"


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _shown(value: object) -> str:
    return "nothing" if value is None else scalar_text(value)
