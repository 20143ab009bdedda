"""Facts that follow from a pod's spec alone, worked out once for all pods made of its parts.

Pods of one workload have equal specs, and `api.sharing` makes their parts the same objects. So
templates are told apart by identity, which costs next to nothing; pods that share nothing have a
template each. A template is also the key under which others (plugins, say) remember what they have
worked out from a spec; `bytes` is what it then keeps alive.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, ClassVar, NamedTuple

from msgspec import json, structs

from kscheduler.api.core import Pod, PodSpec, PodStatus
from kscheduler.api.meta import ObjectMeta
from kscheduler.api.node_selector import required_node_affinity
from kscheduler.api.quantity import QuantityError
from kscheduler.api.requests import (
    RESIZE_PENDING,
    Counting,
    in_units,
    non_zero_requests,
    pod_requests,
)
from kscheduler.api.resource_names import CPU, MEMORY, PODS
from kscheduler.caches import EXPANSION, BoundedCache
from kscheduler.state.affinity_term import (
    NO_TERMS,
    AffinityTerms,
    TermKind,
    WeightedTerm,
    parse_terms,
)
from kscheduler.state.disks import disk_uses
from kscheduler.state.host_ports import ANY_IP, TCP, HostPort

MEBIBYTE = 1 << 20
# A template itself; and what it derives from its spec, in bytes per byte of the spec's JSON, where
# measured up to 2.5.
TEMPLATE_BYTES = 1500
DERIVED = 3

# Of a spec only this differs between pods of one workload.
assert PodSpec.__struct_fields__[0] == "node_name"


_encode = json.Encoder().encode


class Taken(NamedTuple):
    """Requests of a pod, in milli-CPU and whole units of resources that are counted.

    Besides that cpu and memory, with something assumed for containers that ask for nothing, and
    what is wrong with the pod's quantities, in which case it takes nothing.
    """

    requests: dict[str, int]
    nonzero_cpu: int
    nonzero_memory: int
    error: str


class PodTemplate:
    """A spec in a namespace, wherever a pod that is made from it may be."""

    __slots__ = (
        "_counting",
        "_pod",
        "affinity_error",
        "bytes",
        "carried_terms",
        "claims",
        "derived",
        "disks",
        "has_affinity",
        "host_ports",
        "image_names",
        "preferred_affinity",
        "preferred_anti_affinity",
        "prefixed_requests",
        "required_affinity",
        "required_anti_affinity",
        "required_node_affinity",
        "taken",
    )

    # Some 8 KB each; what they share with pods that are there is counted as well.
    _known: ClassVar[BoundedCache[tuple[object, ...], PodTemplate]] = BoundedCache(
        "pod_templates", 8 * MEBIBYTE
    )
    # By the spec itself, which all pods of a workload share until they are placed.
    _by_spec: ClassVar[BoundedCache[tuple[object, ...], tuple[PodTemplate, PodSpec]]] = (
        BoundedCache("pod_templates_by_spec", 4 * MEBIBYTE)
    )
    # By template and the kubelet's reports, which pods of a workload share as well.
    _reported: ClassVar[BoundedCache[tuple[object, ...], tuple[Taken, PodStatus]]] = BoundedCache(
        "pod_reports", 2 * MEBIBYTE
    )
    CACHES = (_known, _by_spec, _reported)

    def __init__(self, namespace: str, spec: PodSpec, counting: Counting) -> None:
        # Of this pod nothing is reported, so that all there is to know about it is its spec.
        self._pod = pod = Pod(ObjectMeta(namespace=namespace), structs.replace(spec, node_name=""))
        self._counting = counting
        self.bytes = TEMPLATE_BYTES + (EXPANSION + DERIVED) * len(_encode(pod.spec))
        self.taken = _taken(pod, counting)
        # Names with a prefix, which nearly no pod asks for: only such resources devices may serve.
        self.prefixed_requests = tuple([name for name in self.taken.requests if "/" in name])
        self.host_ports = _host_ports(spec)
        self.image_names = _image_names(spec)
        self.claims = _claims(namespace, spec)
        self.disks = disk_uses(spec) if spec.volumes else ()
        # nodeSelector and required node affinity, ready for `Nodes.selector_mask`.
        self.required_node_affinity = required_node_affinity(pod)
        affinity = spec.affinity
        self.has_affinity = affinity is not None and (
            affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None
        )
        terms, self.affinity_error = parse_terms(pod) if self.has_affinity else ({}, "")
        self.required_affinity = _unweighted(terms.get(TermKind.REQUIRED_AFFINITY, ()))
        self.required_anti_affinity = _unweighted(terms.get(TermKind.REQUIRED_ANTI_AFFINITY, ()))
        self.preferred_affinity = terms.get(TermKind.PREFERRED_AFFINITY, ())
        self.preferred_anti_affinity = terms.get(TermKind.PREFERRED_ANTI_AFFINITY, ())
        # Each term of each list, as the pods' index counts them.
        self.carried_terms = tuple(
            [(kind, term, weight) for kind, listed in terms.items() for weight, term in listed]
        )
        # What plugins work out from the spec, each under a key of its own; it lives as long.
        self.derived: dict[object, Any] = {}

    @classmethod
    def of(cls, namespace: str, spec: PodSpec, counting: Counting) -> PodTemplate:
        # What is remembered by identity is held as well, lest something else should get it.
        if spec.node_name:
            return cls._made_of(namespace, spec, counting)
        key = (id(spec), namespace, id(counting))
        known = cls._by_spec.get(key)
        if known is None:
            known = cls._made_of(namespace, spec, counting), spec
            cls._by_spec.put(key, known, known[0].bytes)
        return known[0]

    @classmethod
    def _made_of(cls, namespace: str, spec: PodSpec, counting: Counting) -> PodTemplate:
        key = (namespace, id(counting), *map(id, structs.astuple(spec)[1:]))
        known = cls._known.get(key)
        if known is None:
            known = cls(namespace, spec, counting)
            cls._known.put(key, known, known.bytes + 8 * len(key))
        return known

    def taken_by(self, pod: Pod) -> Taken:
        """Requests of a pod of this template, given what its kubelet reports."""
        status = pod.status
        if _reports_more_than_containers(status):
            return _taken(pod, self._counting)
        if not _reports_containers(status):
            return self.taken
        key = (self, id(status.container_statuses), id(status.init_container_statuses))
        known = self._reported.get(key)
        if known is None:
            known = _taken(pod, self._counting), status
            self._reported.put(key, known, self.bytes + EXPANSION * len(_encode(status)))
        return known[0]


def counted(pod: Pod, counting: Counting) -> dict[str, int]:
    requests = in_units(pod_requests(pod, counting))
    # A pod takes one place on its node, whatever it says.
    requests.pop(PODS, None)
    return requests


def _taken(pod: Pod, counting: Counting) -> Taken:
    try:
        requests = counted(pod, counting)
        if _asks_for_everything(pod):
            return Taken(requests, requests[CPU], requests[MEMORY], "")
        return Taken(requests, *non_zero_requests(pod, counting), "")
    except QuantityError as error:
        return Taken({}, 0, 0, str(error))


def _asks_for_everything(pod: Pod) -> bool:
    """Every container names cpu and memory, so that there is no default to fall back on."""
    spec, status = pod.spec, pod.status
    if spec.resources is not None or not spec.containers:
        return False
    if _reports_containers(status) or _reports_more_than_containers(status):
        return False
    return all(
        CPU in container.resources.requests and MEMORY in container.resources.requests
        for container in chain(spec.containers, spec.init_containers)
    )


def _reports_containers(status: PodStatus) -> bool:
    return bool(status.container_statuses or status.init_container_statuses)


def _reports_more_than_containers(status: PodStatus) -> bool:
    return (
        status.resources is not None
        or status.allocated_resources is not None
        or bool(status.node_allocatable_resource_claim_statuses)
        or any(condition.type == RESIZE_PENDING for condition in status.conditions)
    )


def _host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """Of containers and of init containers that keep running; the others give theirs back."""
    sidecars = [container for container in spec.init_containers if container.restartable]
    return tuple(
        [
            HostPort(port.host_ip or ANY_IP, port.protocol or TCP, port.host_port)
            for container in (*spec.containers, *sidecars)
            for port in container.ports
            if port.host_port > 0
        ]
    )


def _image_names(spec: PodSpec) -> tuple[str, ...]:
    """As often as they are named: by containers and as volumes."""
    names = [container.image for container in spec.containers]
    if spec.init_containers:
        names += [container.image for container in spec.init_containers]
    if spec.volumes:
        names += [volume.image.reference for volume in spec.volumes if volume.image is not None]
    return tuple(names)


def _claims(namespace: str, spec: PodSpec) -> tuple[str, ...]:
    """`namespace/name` of each claim a volume names, as often as it is named."""
    claims = [volume.persistent_volume_claim for volume in spec.volumes]
    return tuple([f"{namespace}/{claim.claim_name}" for claim in claims if claim])


def _unweighted(terms: tuple[WeightedTerm, ...]) -> AffinityTerms:
    return AffinityTerms([term for _, term in terms]) if terms else NO_TERMS
