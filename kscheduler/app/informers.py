"""Informers of a scheduler: one per collection of the API server that its plugins read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from kscheduler.api.core import Node, Pod
from kscheduler.api.meta import ApiObject
from kscheduler.api.resources import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    RESOURCES,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    Resource,
)
from kscheduler.client.informers.informer import Informer, InformerFactory
from kscheduler.errors import ConfigError
from kscheduler.framework.listers import FixedLister, FollowedLister, Lister

T = TypeVar("T", bound=ApiObject)

# Pods that have ended take nothing of their node any more, and are never listed or watched.
UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"

READ_BY: Mapping[str, tuple[Resource, ...]] = {
    "DefaultPreemption": (POD_DISRUPTION_BUDGETS,),
    "DynamicResources": (RESOURCE_CLAIMS, RESOURCE_SLICES, DEVICE_CLASSES, DEVICE_TAINT_RULES),
    "InterPodAffinity": (NAMESPACES,),
    "NodeVolumeLimits": (
        CSI_NODES,
        CSI_DRIVERS,
        PERSISTENT_VOLUMES,
        PERSISTENT_VOLUME_CLAIMS,
        STORAGE_CLASSES,
        VOLUME_ATTACHMENTS,
    ),
    "PodTopologySpread": (SERVICES, REPLICATION_CONTROLLERS, REPLICA_SETS, STATEFUL_SETS),
    "VolumeBinding": (
        PERSISTENT_VOLUMES,
        PERSISTENT_VOLUME_CLAIMS,
        STORAGE_CLASSES,
        CSI_NODES,
        CSI_DRIVERS,
        CSI_STORAGE_CAPACITIES,
    ),
    "VolumeRestrictions": (PERSISTENT_VOLUME_CLAIMS,),
    "VolumeZone": (PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS, STORAGE_CLASSES),
}


# Kinds by the name under which plugins register for their events, such as storage.k8s.io/CSINode.
_BY_EVENT: Mapping[str, Resource] = {
    f"{resource.group}/{resource.kind}".lstrip("/"): resource
    for resources in READ_BY.values()
    for resource in resources
}


class Informers:
    """The informers of one scheduler; plugins read them as listers.

    Pods and nodes are always watched, other kinds when a plugin reads them, is woken by them, or
    is an out-of-tree plugin that has asked for them. Nothing is listed before `factory.start`.
    """

    def __init__(self, factory: InformerFactory, plugins: Iterable[str]) -> None:
        self.factory = factory
        self.pods: Informer[Pod] = factory.informer(PODS, field_selector=UNFINISHED)
        self.nodes: Informer[Node] = factory.informer(NODES)
        resources = {resource for name in plugins for resource in READ_BY.get(name, ())}
        self._by_kind = {resource.struct: factory.informer(resource) for resource in resources}
        self._by_kind |= {PODS.struct: self.pods, NODES.struct: self.nodes}

    def lister(self, kind: type[T], /) -> FollowedLister[T]:
        """The objects of this kind; none at all if no plugin that runs reads them."""
        return self._by_kind.get(kind, FixedLister({}))

    def follow(
        self, resource: Resource, namespace: str, field_selector: str, label_selector: str
    ) -> Lister[Any]:
        """For out-of-tree plugins, in their constructors; an informer there is anyway is shared."""
        if not (namespace or field_selector or label_selector):
            known = self._by_kind.get(resource.struct)
            if known is not None and resource in RESOURCES:
                return known
        if resource.struct is ApiObject:
            name = f"{resource.plural}.{resource.version}.{resource.group}"
            if namespace or field_selector or label_selector:
                raise ConfigError(f"{name} has no struct of its own and can only be followed whole")
            return self.factory.dynamic(name)
        return self.factory.informer(
            resource,
            namespace=namespace,
            field_selector=field_selector,
            label_selector=label_selector,
        )

    def of_event(self, resource: str) -> Informer[Any] | None:
        """The informer of a kind as plugins name it in events: `storage.k8s.io/CSINode`,
        `foos.v1.example.com`; None if that names no kind.
        """
        known = _BY_EVENT.get(resource)
        if known is not None:
            return self._by_kind.setdefault(known.struct, self.factory.informer(known))
        return self.factory.dynamic(resource)
