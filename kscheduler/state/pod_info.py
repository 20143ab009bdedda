"""A pod as decisions see it: compiled once per version of the object, then only read.

Mirrors PodInfo of pkg/scheduler/framework. Differs: a pod that cannot be understood (a quantity
that is none) is kept with the problem in `error`, so that only this pod fails; upstream's decoder
never lets such a pod in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from msgspec import structs

from kscheduler.api.core import Pod
from kscheduler.api.node_selector import RequiredNodeAffinity, required_node_affinity
from kscheduler.api.quantity import QuantityError
from kscheduler.api.requests import (
    ACCOUNTED,
    RESIZE_PENDING,
    Counting,
    in_units,
    non_zero_requests,
    pod_requests,
)
from kscheduler.api.resource_names import CPU, MEMORY, PODS
from kscheduler.state.affinity_term import AffinityTerm, TermKind, WeightedTerm, parse_terms
from kscheduler.state.host_ports import ANY_IP, TCP, HostPort, ports_conflict

__all__ = ["AffinityTerm", "HostPort", "PodInfo", "TermKind", "ports_conflict"]


class PodInfo:
    """One version of a pod. What is costly to work out is worked out when first asked for.

    `requests` is what the pod takes of its node (the kubelet's reports included), `spec_requests`
    what it asks for; both in milli-CPU and whole units, and only of resources that are counted.
    `nonzero_cpu` and `nonzero_memory` assume something for containers that ask for nothing.
    """

    __slots__ = (
        "_counting",
        "affinity_error",
        "carried_terms",
        "claims",
        "error",
        "has_affinity",
        "host_ports",
        "key",
        "label_set",
        "labels",
        "name",
        "namespace",
        "node_name",
        "nonzero_cpu",
        "nonzero_memory",
        "pod",
        "preferred_affinity",
        "preferred_anti_affinity",
        "priority",
        "requests",
        "required_affinity",
        "required_anti_affinity",
        "required_node_affinity",
        "spec_requests",
        "terminating",
        "uid",
    )

    pod: Pod
    uid: str
    key: str
    namespace: str
    name: str
    labels: Mapping[str, str]
    priority: int
    node_name: str
    terminating: bool

    requests: dict[str, int]
    spec_requests: dict[str, int]
    nonzero_cpu: int
    nonzero_memory: int
    error: str

    has_affinity: bool
    required_affinity: tuple[AffinityTerm, ...]
    required_anti_affinity: tuple[AffinityTerm, ...]
    preferred_affinity: tuple[WeightedTerm, ...]
    preferred_anti_affinity: tuple[WeightedTerm, ...]
    affinity_error: str
    # Each term of each list, as the pods' index counts them.
    carried_terms: tuple[tuple[TermKind, AffinityTerm, int], ...]

    # nodeSelector and required node affinity, ready for `Nodes.selector_mask`.
    required_node_affinity: RequiredNodeAffinity
    host_ports: tuple[HostPort, ...]
    # `namespace/name` of each claim a volume names, as often as it is named.
    claims: tuple[str, ...]
    # Keys and values in one sorted tuple: equal for pods with equal labels.
    label_set: tuple[str, ...]

    def __init__(self, pod: Pod, counting: Counting = ACCOUNTED) -> None:
        metadata = pod.metadata
        self.pod = pod
        self.uid = metadata.uid
        self.key = pod.key
        self.namespace = metadata.namespace
        self.name = metadata.name
        self.labels = metadata.labels
        self.priority = pod.priority
        self.node_name = pod.spec.node_name
        self.terminating = metadata.deletion_timestamp is not None
        self._counting = counting

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Called for a slot that is still empty: fills it, and those that come with it."""
            fill = _FILLED_BY.get(name)
            if fill is None:
                raise AttributeError(name)
            fill(self)
            return getattr(self, name)

    def assigned_to(self, node_name: str) -> PodInfo:
        """The same pod, as if the API server had bound it already."""
        twin = PodInfo.__new__(PodInfo)
        for slot in _KEPT_ON_ASSIGNMENT:
            setattr(twin, slot, getattr(self, slot))
        spec = structs.replace(self.pod.spec, node_name=node_name)
        twin.pod = structs.replace(self.pod, spec=spec)
        twin.node_name = node_name
        return twin

    def __repr__(self) -> str:
        return f"PodInfo({self.key!r}, uid={self.uid!r}, node={self.node_name!r})"

    def _fill_requests(self) -> None:
        pod = self.pod
        self.error = ""
        try:
            self.requests = _counted(pod, self._counting)
            if _asks_for_everything(pod) and not _is_reported_on(pod):
                self.nonzero_cpu = self.requests[CPU]
                self.nonzero_memory = self.requests[MEMORY]
            else:
                self.nonzero_cpu, self.nonzero_memory = non_zero_requests(pod, self._counting)
        except QuantityError as error:
            self.error = str(error)
            self.requests = {}
            self.nonzero_cpu = self.nonzero_memory = 0

    def _fill_spec_requests(self) -> None:
        if self.error or not _is_reported_on(self.pod):
            self.spec_requests = self.requests
        else:
            self.spec_requests = _counted(self.pod, _without_status(self._counting))

    def _fill_terms(self) -> None:
        affinity = self.pod.spec.affinity
        self.has_affinity = affinity is not None and (
            affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None
        )
        self.affinity_error = ""
        self.required_affinity = self.required_anti_affinity = ()
        self.preferred_affinity = self.preferred_anti_affinity = ()
        self.carried_terms = ()
        if self.has_affinity:
            self._fill_parsed_terms()

    def _fill_parsed_terms(self) -> None:
        terms, self.affinity_error = parse_terms(self.pod)
        self.required_affinity = _unweighted(terms.get(TermKind.REQUIRED_AFFINITY, ()))
        self.required_anti_affinity = _unweighted(terms.get(TermKind.REQUIRED_ANTI_AFFINITY, ()))
        self.preferred_affinity = terms.get(TermKind.PREFERRED_AFFINITY, ())
        self.preferred_anti_affinity = terms.get(TermKind.PREFERRED_ANTI_AFFINITY, ())
        self.carried_terms = tuple(
            (kind, term, weight) for kind, listed in terms.items() for weight, term in listed
        )

    def _fill_required_node_affinity(self) -> None:
        self.required_node_affinity = required_node_affinity(self.pod)

    def _fill_host_ports(self) -> None:
        """Of containers and of init containers that keep running; the others give theirs back."""
        spec = self.pod.spec
        sidecars = [container for container in spec.init_containers if container.restartable]
        self.host_ports = tuple(
            [
                HostPort(port.host_ip or ANY_IP, port.protocol or TCP, port.host_port)
                for container in (*spec.containers, *sidecars)
                for port in container.ports
                if port.host_port > 0
            ]
        )

    def _fill_claims(self) -> None:
        claims = [volume.persistent_volume_claim for volume in self.pod.spec.volumes]
        self.claims = tuple([f"{self.namespace}/{claim.claim_name}" for claim in claims if claim])

    def _fill_label_set(self) -> None:
        self.label_set = tuple(chain.from_iterable(sorted(self.labels.items())))


_FILLED_BY = {
    **dict.fromkeys(("requests", "nonzero_cpu", "nonzero_memory", "error"), PodInfo._fill_requests),
    "spec_requests": PodInfo._fill_spec_requests,
    **dict.fromkeys(
        (
            "has_affinity",
            "required_affinity",
            "required_anti_affinity",
            "preferred_affinity",
            "preferred_anti_affinity",
            "affinity_error",
            "carried_terms",
        ),
        PodInfo._fill_terms,
    ),
    "required_node_affinity": PodInfo._fill_required_node_affinity,
    "host_ports": PodInfo._fill_host_ports,
    "claims": PodInfo._fill_claims,
    "label_set": PodInfo._fill_label_set,
}

# Where a pod may go is no longer asked once it is somewhere.
_KEPT_ON_ASSIGNMENT = tuple(slot for slot in PodInfo.__slots__ if slot != "required_node_affinity")


def _counted(pod: Pod, counting: Counting) -> dict[str, int]:
    requests = in_units(pod_requests(pod, counting))
    # A pod takes one place on its node, whatever it says.
    requests.pop(PODS, None)
    return requests


def _asks_for_everything(pod: Pod) -> bool:
    """Every container names cpu and memory, so that there is no default to fall back on."""
    spec = pod.spec
    if spec.resources is not None or not spec.containers:
        return False
    return all(
        CPU in container.resources.requests and MEMORY in container.resources.requests
        for container in chain(spec.containers, spec.init_containers)
    )


def _is_reported_on(pod: Pod) -> bool:
    """Whether a kubelet had a chance to say anything that counts beside the spec."""
    status = pod.status
    return bool(
        status.container_statuses
        or status.init_container_statuses
        or status.resources is not None
        or status.allocated_resources is not None
        or status.node_allocatable_resource_claim_statuses
        or pod.condition(RESIZE_PENDING)
    )


@lru_cache(maxsize=16)
def _without_status(counting: Counting) -> Counting:
    return replace(counting, status=False)


def _unweighted(terms: tuple[WeightedTerm, ...]) -> tuple[AffinityTerm, ...]:
    return tuple(term for _, term in terms)
