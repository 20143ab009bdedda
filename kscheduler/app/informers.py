"""Informers of a scheduler: one per collection of the API server that its plugins read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from kscheduler.api.core import Node, Pod
from kscheduler.api.meta import ApiObject
from kscheduler.api.resources import NODES, PODS, RESOURCES, Resource
from kscheduler.client.informers.informer import Informer, InformerFactory
from kscheduler.errors import ConfigError
from kscheduler.framework.cluster_event import OTHER_KINDS
from kscheduler.framework.listers import FixedLister, FollowedLister, Lister

T = TypeVar("T", bound=ApiObject)

# Pods that have ended take nothing of their node any more, and are never listed or watched.
UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


class Informers:
    """The informers of one scheduler; plugins read them as listers.

    Pods and nodes are always watched, other kinds when a plugin reads them, is woken by them, or
    is an out-of-tree plugin that has asked for them. Nothing is listed before `factory.start`.
    """

    def __init__(self, factory: InformerFactory, resources: Iterable[Resource]) -> None:
        self.factory = factory
        self.pods: Informer[Pod] = factory.informer(PODS, field_selector=UNFINISHED)
        self.nodes: Informer[Node] = factory.informer(NODES)
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
        known = OTHER_KINDS.get(resource)
        if known is not None:
            return self._by_kind.setdefault(known.struct, self.factory.informer(known))
        return self.factory.dynamic(resource)
