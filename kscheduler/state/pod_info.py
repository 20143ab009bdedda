"""A pod as decisions see it: compiled once per version of the object, then only read.

Mirrors PodInfo of pkg/scheduler/framework. Differs: a pod that cannot be understood (a quantity
that is none) is kept with the problem in `error`, so that only this pod fails; upstream's decoder
never lets such a pod in.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import chain

from msgspec import structs
from msgspec.structs import replace

from kscheduler.api.core import NodeAllocatableResourceClaimStatus, Pod
from kscheduler.api.quantity import QuantityError
from kscheduler.api.requests import ACCOUNTED, Counting
from kscheduler.caches import BoundedCache
from kscheduler.state.affinity_term import AffinityTerm, TermKind
from kscheduler.state.host_ports import HostPort
from kscheduler.state.pod_template import PodTemplate, counted

__all__ = ["AffinityTerm", "HostPort", "PodInfo", "TermKind"]


class PodInfo:
    """One version of a pod.

    `requests` is what the pod takes of its node (the kubelet's reports included), `spec_requests`
    what it asks for; both in milli-CPU and whole units, and only of resources that are counted.
    `nonzero_cpu` and `nonzero_memory` assume something for containers that ask for nothing.

    Most of it is copied from the pod's template, where everyone's questions about a spec are
    answered once; see there for what is not explained here.
    """

    __slots__ = (
        "_counting",
        "affinity_error",
        "carried_terms",
        "claims",
        "disks",
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
        "prefixed_requests",
        "priority",
        "requests",
        "required_affinity",
        "required_anti_affinity",
        "required_node_affinity",
        "spec_requests",
        "template",
        "terminating",
        "uid",
    )

    labels: Mapping[str, str]
    # Keys and values in one sorted tuple: equal for pods with equal labels.
    label_set: tuple[str, ...]

    def __init__(
        self, pod: Pod, counting: Counting = ACCOUNTED, template: PodTemplate | None = None
    ) -> None:
        """`template`: the pod's, where that is known already."""
        metadata, spec = pod.metadata, pod.spec
        self.pod = pod
        self.uid = metadata.uid
        self.key = pod.key
        self.namespace = metadata.namespace
        self.name = metadata.name
        self.labels = metadata.labels
        self.label_set = _label_set(metadata.labels)
        self.priority = spec.priority or 0
        self.node_name = spec.node_name
        self.terminating = metadata.deletion_timestamp is not None
        self._counting = counting
        if template is None:
            template = PodTemplate.of(metadata.namespace, spec, counting)
        self.template = template
        taken = template.taken_by(pod)
        self.requests, self.nonzero_cpu, self.nonzero_memory, self.error = taken
        self.spec_requests = template.taken.requests
        self.prefixed_requests = template.prefixed_requests
        if pod.status.node_allocatable_resource_claim_statuses and not self.error:
            # Claims count even here, and how much they add is found in the status.
            try:
                self.spec_requests = counted(pod, _without_status(counting))
            except QuantityError:
                self.spec_requests = {}
        self.host_ports = template.host_ports
        self.claims = template.claims
        self.disks = template.disks
        self.has_affinity = template.has_affinity
        self.affinity_error = template.affinity_error
        self.required_affinity = template.required_affinity
        self.required_anti_affinity = template.required_anti_affinity
        self.preferred_affinity = template.preferred_affinity
        self.preferred_anti_affinity = template.preferred_anti_affinity
        self.carried_terms = template.carried_terms
        self.required_node_affinity = template.required_node_affinity

    def renewed(self, pod: Pod) -> PodInfo:
        """Another version of the same pod, counted in the same way."""
        return PodInfo(pod, self._counting)

    def assigned_to(
        self,
        node_name: str,
        added: tuple[NodeAllocatableResourceClaimStatus, ...] | None = None,
    ) -> PodInfo:
        """This pod as if the API server had bound it already.

        `added`: what its devices add to its requests there; None leaves its status alone.
        """
        status = self.pod.status
        if added is not None:
            status = structs.replace(status, node_allocatable_resource_claim_statuses=added)
        spec = structs.replace(self.pod.spec, node_name=node_name)
        pod = structs.replace(self.pod, spec=spec, status=status)
        return PodInfo(pod, self._counting, self.template)

    def __repr__(self) -> str:
        return f"PodInfo({self.key!r}, uid={self.uid!r}, node={self.node_name!r})"


def _label_set(labels: Mapping[str, str]) -> tuple[str, ...]:
    known = _label_sets.get(id(labels))
    if known is None:
        label_set = tuple(chain.from_iterable(sorted(labels.items())))
        # With the labels themselves, lest others get their identity.
        known = label_set, labels
        # Each text is in both, in a slot of the map and one of the tuple.
        _label_sets.put(id(labels), known, sum(map(len, label_set)) + 100 * len(label_set))
    return known[0]


_label_sets: BoundedCache[int, tuple[tuple[str, ...], Mapping[str, str]]] = BoundedCache(
    "label_sets", 2 << 20
)
CACHES = (_label_sets,)


@lru_cache(maxsize=16)
def _without_status(counting: Counting) -> Counting:
    return replace(counting, status=False)
