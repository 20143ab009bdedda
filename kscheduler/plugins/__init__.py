"""The in-tree plugins, one module each, under the names they have in kube-scheduler.

In: compiled pods and columns of nodes. Out: masks, scores and hints. A plugin knows neither the
queue nor the network and no other plugin; what two of them need lives in `framework` or below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kscheduler.framework.handle import Factory, Handle
from kscheduler.framework.in_tree import Plugin
from kscheduler.plugins.default_binder import DefaultBinder
from kscheduler.plugins.default_preemption import DefaultPreemption
from kscheduler.plugins.image_locality import ImageLocality
from kscheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from kscheduler.plugins.node_affinity import NodeAffinity
from kscheduler.plugins.node_declared_features import NodeDeclaredFeatures
from kscheduler.plugins.node_name import NodeName
from kscheduler.plugins.node_ports import NodePorts
from kscheduler.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from kscheduler.plugins.node_resources.fit import NodeResourcesFit
from kscheduler.plugins.node_unschedulable import NodeUnschedulable
from kscheduler.plugins.node_volume_limits import NodeVolumeLimits
from kscheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from kscheduler.plugins.priority_sort import PrioritySort
from kscheduler.plugins.scheduling_gates import SchedulingGates
from kscheduler.plugins.taint_toleration import TaintToleration
from kscheduler.plugins.volume_binding import VolumeBinding
from kscheduler.plugins.volume_restrictions import VolumeRestrictions
from kscheduler.plugins.volume_zone import VolumeZone


def _plain(make: Callable[[], Plugin]) -> Factory:
    """For plugins that need neither arguments nor anything of the scheduler around them."""

    def factory(args: Any, handle: Handle) -> Plugin:
        return make()

    return factory


IN_TREE: Mapping[str, Factory] = {
    "DefaultBinder": DefaultBinder,
    "DefaultPreemption": DefaultPreemption,
    "ImageLocality": _plain(ImageLocality),
    "InterPodAffinity": InterPodAffinity,
    "NodeAffinity": NodeAffinity,
    "NodeDeclaredFeatures": _plain(NodeDeclaredFeatures),
    "NodeName": _plain(NodeName),
    "NodePorts": _plain(NodePorts),
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocation,
    "NodeResourcesFit": NodeResourcesFit,
    "NodeUnschedulable": NodeUnschedulable,
    "NodeVolumeLimits": NodeVolumeLimits,
    "PodTopologySpread": PodTopologySpread,
    "PrioritySort": _plain(PrioritySort),
    "SchedulingGates": _plain(SchedulingGates),
    "TaintToleration": TaintToleration,
    "VolumeBinding": VolumeBinding,
    "VolumeRestrictions": VolumeRestrictions,
    "VolumeZone": VolumeZone,
}

# Known to configuration, but not built yet: pods are placed as if these did not exist, and the
# daemon says so at start.
NOT_BUILT: Mapping[str, str] = {
    "DeferredPodScheduling": "deferred resizes are not scheduled",
    "DynamicResources": "resource claims are not looked at",
    "GangScheduling": "pod groups are scheduled pod by pod",
    "PodGroupPodsCount": "pod groups are scheduled pod by pod",
    "TopologyPlacementGenerator": "pod groups are scheduled pod by pod",
}
