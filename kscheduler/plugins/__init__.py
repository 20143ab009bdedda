"""In-tree plugins, under the names they have in kube-scheduler: a module or a package each. Only
`node_headroom` is not from there.

In: compiled pods and columns of nodes. Out: masks, scores and hints. A plugin knows neither the
queue nor the network and no other plugin; what several need lives in `helper` or below.

A plugin declares itself beside its class (`framework.declaration`): arguments, what it reads, the
gate and weight it has by default. Here it is one line of `REGISTRY`; everything else that knows of
plugins (configuration, informers, the reference pages) is derived from the declarations. Importing
this package imports no plugin; the functions below do. `node_name` is the shortest to read first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kscheduler.api.resources import Resource
    from kscheduler.config.catalog import Catalog
    from kscheduler.framework.declaration import Declaration
    from kscheduler.framework.handle import Factory

# `module:Class`, in the order of the default configuration (upstream's default_plugins.go), which
# is the order in which plugins run at each point. A gated plugin has its place here whether its
# gate is on or not.
REGISTRY = (
    "scheduling_gates:SchedulingGates",
    "priority_sort:PrioritySort",
    "node_name:NodeName",
    "node_unschedulable:NodeUnschedulable",
    "taint_toleration:TaintToleration",
    "node_affinity.plugin:NodeAffinity",
    "node_ports:NodePorts",
    "not_built_yet:DEFERRED_POD_SCHEDULING",
    "node_resources.fit:NodeResourcesFit",
    "volume_restrictions:VolumeRestrictions",
    "node_volume_limits.plugin:NodeVolumeLimits",
    "volume_binding.plugin:VolumeBinding",
    "volume_zone:VolumeZone",
    "pod_topology_spread.plugin:PodTopologySpread",
    "inter_pod_affinity.plugin:InterPodAffinity",
    "dynamic_resources.plugin:DynamicResources",
    "default_preemption:DefaultPreemption",
    "node_resources.balanced_allocation:NodeResourcesBalancedAllocation",
    "image_locality:ImageLocality",
    "default_binder:DefaultBinder",
    "node_declared_features:NodeDeclaredFeatures",
    "not_built_yet:GANG_SCHEDULING",
    "not_built_yet:TOPOLOGY_PLACEMENT_GENERATOR",
    "not_built_yet:POD_GROUP_PODS_COUNT",
    # In no profile that does not name it.
    "node_headroom:NodeHeadroom",
)


@cache
def declarations() -> tuple[Declaration, ...]:
    """Declarations of all in-tree plugins, in the order of `REGISTRY`."""
    found: list[Declaration] = []
    for line in REGISTRY:
        module, _, name = line.partition(":")
        declared: Any = getattr(import_module(f"{__name__}.{module}"), name)
        found.append(getattr(declared, "declaration", declared))
    return tuple(found)


@cache
def catalog() -> Catalog:
    """Plugins as configuration knows them."""
    from kscheduler.config.catalog import Catalog

    return Catalog.of(declarations())


@cache
def factories() -> Mapping[str, Factory]:
    """Makers of the plugins that are built, by name."""
    return {one.name: one.make for one in declarations() if one.plugin_class is not None}


@cache
def not_built() -> Mapping[str, str]:
    """Plugins that are not built: by name, what scheduling is like without them."""
    return {one.name: one.missing for one in declarations() if one.plugin_class is None}


def resources_read(names: Iterable[str]) -> frozenset[Resource]:
    """Collections besides pods and nodes that the in-tree plugins of these names read."""
    wanted = frozenset(names)
    return frozenset(
        resource for one in declarations() if one.name in wanted for resource in one.reads
    )
