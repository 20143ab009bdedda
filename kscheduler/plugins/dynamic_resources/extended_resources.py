"""Extended resources that devices serve: the claim that the scheduler makes for a pod itself.

A pod that asks for `example.com/gpu: 2` where nodes have no such resource, but a device class is
meant by that name, gets a claim of its own ("the special claim"). It exists in memory only until
the pod is bound, when it is created and named in the pod's status:

    PreFilter   an empty special claim, or the one that an earlier attempt left behind
    Filter      per node its requests: which resources are served by devices depends on the node
    Reserve     … allocated like any other claim
    PreBind     created, allocated and reserved; the pod's status tells containers their requests
    Unreserve   deleted again; a claim that was left behind is deleted by PostFilter

Mirrors extendeddynamicresources.go. Differs: on a node that has all of the resources itself a pod
with other claims gets no special claim, where upstream makes one without requests and then fails.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from kscheduler.api.core import Container, ContainerExtendedResourceRequest, Pod
from kscheduler.api.meta import ObjectMeta, OwnerReference
from kscheduler.api.quantity import NANO, nano_value
from kscheduler.api.resource import (
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from kscheduler.dra.claims import EXTENDED_RESOURCE_CLAIM
from kscheduler.dra.device_classes import DeviceClasses, may_stand_for_class
from kscheduler.framework.status import Mask
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

# No valid name, so that it cannot be that of a claim in the API server.
IN_MEMORY_NAME = "<extended-resources>"

Mappings = tuple[ContainerExtendedResourceRequest, ...]


class ExtendedResources(NamedTuple):
    """Extended resources that a pod asks for, by name, at least one of them served by devices."""

    # The names of the device classes.
    by_devices: Mapping[str, str]
    # Resources for which there is no class.
    others: tuple[str, ...]


class ServedByDevices(NamedTuple):
    """Nodes on which the same resources are served by devices."""

    nodes: Mask
    resources: frozenset[str]


def extended_resources_of(pod: PodInfo, classes: DeviceClasses) -> ExtendedResources | None:
    """None if no device class stands behind anything that the pod asks for."""
    if not pod.prefixed_requests:
        return None
    asked = [
        name
        for name in pod.prefixed_requests
        if pod.spec_requests.get(name) and may_stand_for_class(name)
    ]
    if not asked:
        return None
    found = {name: classes.of_extended_resource(name) for name in asked}
    by_devices = {name: one.name for name, one in found.items() if one is not None}
    if not by_devices:
        return None
    return ExtendedResources(by_devices, tuple([name for name in asked if found[name] is None]))


def special_claim_for(pod: Pod) -> ResourceClaim:
    """A claim in memory, without requests yet; its uid is made up."""
    owner = OwnerReference(
        api_version="v1", kind="Pod", name=pod.name, uid=pod.uid, controller=True
    )
    return ResourceClaim(
        metadata=ObjectMeta(
            namespace=pod.namespace,
            name=IN_MEMORY_NAME,
            uid=str(uuid.uuid4()),
            generate_name=f"{pod.name}-extended-resources-",
            owner_references=(owner,),
            annotations={EXTENDED_RESOURCE_CLAIM: "true"},
        )
    )


def is_in_memory(claim: ResourceClaim) -> bool:
    return claim.metadata.name == IN_MEMORY_NAME


def to_create(claim: ResourceClaim) -> ResourceClaim:
    """The special claim as it is sent to the API server, which gives it name and uid."""
    return replace(claim, metadata=replace(claim.metadata, name="", uid=""))


def with_requests(claim: ResourceClaim, requests: Sequence[DeviceRequest]) -> ResourceClaim:
    return replace(claim, spec=ResourceClaimSpec(devices=DeviceClaim(requests=tuple(requests))))


def without_others(asked: ExtendedResources, nodes: Nodes) -> Mask | None:
    """Nodes that do not list a resource for which there is no class; None if all of them do.

    A node may list a resource of which it has none: it is looked at one by one.
    """
    lacking = None
    for name in asked.others:
        column = nodes.resources.get(name)
        empty = nodes.valid if column is None else nodes.allocatable[:, column] == 0
        positions = [
            position
            for position in np.flatnonzero(empty & nodes.valid).tolist()
            if name not in nodes.node(position).status.allocatable
        ]
        if positions:
            lacking = np.zeros(len(nodes), np.bool_) if lacking is None else lacking
            lacking[positions] = True
    return lacking


def served_by_devices(asked: ExtendedResources, nodes: Nodes) -> Iterator[ServedByDevices]:
    """The nodes by which of the resources devices serve there: those that a node has none of."""
    names = list(asked.by_devices)
    by_devices = np.ones((len(names), len(nodes)), np.bool_)
    for row, name in zip(by_devices, names, strict=True):
        column = nodes.resources.get(name)
        if column is not None:
            np.equal(nodes.allocatable[:, column], 0, out=row)
    if by_devices.all():
        yield ServedByDevices(nodes.valid, frozenset(names))
        return
    patterns, pattern_of = np.unique(by_devices, axis=1, return_inverse=True)
    for number, pattern in enumerate(patterns.T):
        resources = frozenset(name for name, is_so in zip(names, pattern, strict=True) if is_so)
        yield ServedByDevices(pattern_of.reshape(-1) == number, resources)


def requests_and_mappings(
    pod: Pod, class_of: Mapping[str, str]
) -> tuple[list[DeviceRequest], Mappings]:
    """The special claim's requests for these resources, sorted by name, and who uses them.

    Containers that keep running, sidecars included, get requests of their own. Init containers
    that end use those of containers that start later; what one of them needs beyond that is
    requested once, for the one that needs most, and used by all.
    """
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    ending = [index for index, one in enumerate(pod.spec.init_containers) if not one.restartable]
    for resource in sorted(class_of):
        of_resource = _ForResource(resource, class_of[resource])
        lasting: list[DeviceRequest | None] = [None] * len(containers)
        for index, container in enumerate(containers):
            if index >= len(pod.spec.init_containers) or container.restartable:
                lasting[index], used = of_resource.ask(index, container, ())
                mappings += used
        most: DeviceRequest | None = None
        names: set[str] = set()
        shared: list[ContainerExtendedResourceRequest] = []
        for index in ending:
            request, used = of_resource.ask(index, containers[index], lasting[index:])
            shared += used
            if request is not None:
                names.add(request.name)
                if most is None or _count(most) < _count(request):
                    most = request
        if most is not None:
            requests.append(most)
            shared = [
                replace(one, request_name=most.name) if one.request_name in names else one
                for one in shared
            ]
        requests += [request for request in lasting if request is not None]
        mappings += shared
    requests.sort(key=lambda request: request.name)
    return requests, tuple(mappings)


class _ForResource:
    """Requests for one resource."""

    def __init__(self, resource: str, class_name: str) -> None:
        self._resource = resource
        self._class_name = class_name

    def ask(
        self, index: int, container: Container, reusable: Iterable[DeviceRequest | None]
    ) -> tuple[DeviceRequest | None, list[ContainerExtendedResourceRequest]]:
        """The request for devices that the reusable ones do not cover, and all it uses."""
        asked = container.resources.requests
        amount, rest = divmod(nano_value(asked.get(self._resource, 0)), NANO)
        if not amount or rest:
            return None, []
        used: list[ContainerExtendedResourceRequest] = []
        for request in reusable:
            if request is not None:
                used.append(self._mapping(container, request.name))
                amount -= _count(request)
                if amount <= 0:
                    return None, used
        position = sorted(asked).index(self._resource)
        exactly = ExactDeviceRequest(
            device_class_name=self._class_name, allocation_mode="ExactCount", count=amount
        )
        own = DeviceRequest(name=f"container-{index}-request-{position}", exactly=exactly)
        used.append(self._mapping(container, own.name))
        return own, used

    def _mapping(self, container: Container, request: str) -> ContainerExtendedResourceRequest:
        return ContainerExtendedResourceRequest(
            container_name=container.name, resource_name=self._resource, request_name=request
        )


def _count(request: DeviceRequest) -> int:
    return request.exactly.count if request.exactly is not None else 0
