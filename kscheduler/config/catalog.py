"""The in-tree plugins of kube-scheduler 1.37: where each can run, which are on by default.

Configuration has to know all of them, because it says which names exist, at which points they may
be enabled and in which order they run, whether or not the plugin does anything in a given
cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kscheduler.config.model import Plugin
from kscheduler.extension_points import Point


class Gates(Protocol):
    """Feature gates, as far as configuration needs them."""

    def enabled(self, name: str) -> bool: ...


FILTERS = frozenset((Point.PRE_FILTER, Point.FILTER))
SCORES = frozenset((Point.PRE_SCORE, Point.SCORE))

IN_TREE: Mapping[str, frozenset[Point]] = {
    "DefaultBinder": frozenset((Point.BIND,)),
    "DefaultPreemption": frozenset(
        (Point.PRE_ENQUEUE, Point.POST_FILTER, Point.POD_GROUP_POST_FILTER)
    ),
    "DeferredPodScheduling": FILTERS | {Point.PERMIT},
    "DynamicResources": FILTERS
    | {
        Point.PRE_ENQUEUE,
        Point.POST_FILTER,
        Point.POD_GROUP_POST_FILTER,
        Point.SCORE,
        Point.RESERVE,
        Point.PRE_BIND,
    },
    "GangScheduling": frozenset((Point.PRE_ENQUEUE, Point.PERMIT)),
    "ImageLocality": frozenset((Point.SCORE,)),
    "InterPodAffinity": FILTERS | SCORES,
    "NodeAffinity": FILTERS | SCORES,
    "NodeDeclaredFeatures": FILTERS,
    "NodeName": FILTERS,
    "NodePorts": FILTERS,
    "NodeResourcesBalancedAllocation": SCORES,
    "NodeResourcesFit": FILTERS | SCORES | {Point.PLACEMENT_SCORE},
    "NodeUnschedulable": FILTERS,
    "NodeVolumeLimits": FILTERS,
    "PodGroupPodsCount": frozenset((Point.PLACEMENT_SCORE,)),
    "PodTopologySpread": FILTERS | SCORES,
    "PrioritySort": frozenset((Point.QUEUE_SORT,)),
    "SchedulingGates": frozenset((Point.PRE_ENQUEUE,)),
    "TaintToleration": FILTERS | SCORES,
    "TopologyPlacementGenerator": frozenset((Point.PLACEMENT_GENERATE,)),
    "VolumeBinding": FILTERS | SCORES | {Point.RESERVE, Point.PRE_BIND},
    "VolumeRestrictions": FILTERS,
    "VolumeZone": FILTERS,
}

# In-tree plugins that run at filter or score points without being able to sign a pod; any of them
# in a profile switches batching off there.
UNSIGNABLE = frozenset(("DeferredPodScheduling",))

DEFAULT_PLUGINS = (
    Plugin(name="SchedulingGates"),
    Plugin(name="PrioritySort"),
    Plugin(name="NodeName"),
    Plugin(name="NodeUnschedulable"),
    Plugin(name="TaintToleration", weight=3),
    Plugin(name="NodeAffinity", weight=2),
    Plugin(name="NodePorts"),
    Plugin(name="NodeResourcesFit", weight=1),
    Plugin(name="VolumeRestrictions"),
    Plugin(name="NodeVolumeLimits"),
    Plugin(name="VolumeBinding"),
    Plugin(name="VolumeZone"),
    Plugin(name="PodTopologySpread", weight=2),
    Plugin(name="InterPodAffinity", weight=2),
    Plugin(name="DefaultPreemption"),
    Plugin(name="NodeResourcesBalancedAllocation", weight=1),
    Plugin(name="ImageLocality", weight=1),
    Plugin(name="DefaultBinder"),
)

# Which gate adds which plugin, and before which other one it goes; "" is the end of the list.
GATED_PLUGINS = (
    ("NodeDeclaredFeatures", Plugin(name="NodeDeclaredFeatures"), ""),
    (
        "InPlacePodVerticalScalingSchedulerPreemption",
        Plugin(name="DeferredPodScheduling"),
        "NodeResourcesFit",
    ),
    ("DynamicResourceAllocation", Plugin(name="DynamicResources", weight=2), "DefaultPreemption"),
    ("GenericWorkload", Plugin(name="GangScheduling"), ""),
    ("TopologyAwareWorkloadScheduling", Plugin(name="TopologyPlacementGenerator"), ""),
    ("TopologyAwareWorkloadScheduling", Plugin(name="PodGroupPodsCount", weight=1), ""),
)


def default_plugins(gates: Gates) -> tuple[Plugin, ...]:
    """What runs when nothing is configured, in order; all of it is enabled through multiPoint."""
    plugins = list(DEFAULT_PLUGINS)
    for gate, plugin, before in GATED_PLUGINS:
        if gates.enabled(gate):
            names = [p.name for p in plugins]
            plugins.insert(names.index(before) if before else len(plugins), plugin)
    return tuple(plugins)
