"""Plugins of kube-scheduler that configuration accepts and that are not built yet.

Pods are placed as if these did not exist, and the daemon says so at start. Collections that one of
them reads are watched all the same, as kube-scheduler would.
"""

from __future__ import annotations

from kscheduler.extension_points import Point
from kscheduler.framework.declaration import Declaration

DEFERRED_POD_SCHEDULING = Declaration(
    name="DeferredPodScheduling",
    points=frozenset({Point.PRE_FILTER, Point.FILTER, Point.PERMIT}),
    signs=False,
    gate="InPlacePodVerticalScalingSchedulerPreemption",
    missing="deferred resizes are not scheduled",
)

_PER_POD = "pod groups are scheduled pod by pod"

GANG_SCHEDULING = Declaration(
    name="GangScheduling",
    points=frozenset({Point.PRE_ENQUEUE, Point.PERMIT}),
    signs=True,
    gate="GenericWorkload",
    missing=_PER_POD,
)

TOPOLOGY_PLACEMENT_GENERATOR = Declaration(
    name="TopologyPlacementGenerator",
    points=frozenset({Point.PLACEMENT_GENERATE}),
    signs=True,
    gate="TopologyAwareWorkloadScheduling",
    missing=_PER_POD,
)

POD_GROUP_PODS_COUNT = Declaration(
    name="PodGroupPodsCount",
    points=frozenset({Point.PLACEMENT_SCORE}),
    signs=True,
    gate="TopologyAwareWorkloadScheduling",
    weight=1,
    missing=_PER_POD,
)
