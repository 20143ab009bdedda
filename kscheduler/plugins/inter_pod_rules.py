"""Required affinity and anti-affinity at work: where the pods are that a pod must be near or avoid.

Three rules in this order: the pod's affinity, its anti-affinity, and the anti-affinity of pods that
are there already. A node is rejected by the first it breaks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kscheduler.api.meta import EMPTY
from kscheduler.framework.verdict import Mask, Rejection, unresolvable, unschedulable
from kscheduler.plugins.domain_counts import DomainCounts
from kscheduler.plugins.topology import Topology
from kscheduler.state.affinity_term import AffinityTerm
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_index import CarriedTerm
from kscheduler.state.pod_info import PodInfo

REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"


class RequiredTerms:
    """The rules of one attempt; follows pods that are added or removed to see what if."""

    __slots__ = (
        "_affinity",
        "_affinity_terms",
        "_anti_affinity",
        "_anti_affinity_terms",
        "_existing",
        "_namespace_labels",
        "_pod",
    )

    def __init__(
        self,
        pod: PodInfo,
        nodes: Nodes,
        topology: Topology,
        *,
        affinity: Sequence[AffinityTerm],
        anti_affinity: Sequence[AffinityTerm],
        existing: Sequence[CarriedTerm],
        namespace_labels: Mapping[str, str],
    ) -> None:
        """The pod's own terms name their namespaces; `existing` are others' terms that mean it."""
        self._pod = pod
        self._affinity_terms = affinity
        self._anti_affinity_terms = anti_affinity
        self._namespace_labels = namespace_labels
        near = nodes.index.matching_all(affinity) if affinity else None
        self._affinity = DomainCounts(
            topology,
            nodes,
            # One pod must meet all terms; it counts once for each key.
            ((key, near) for key in {term.topology_key for term in affinity} if near is not None),
        )
        self._anti_affinity = DomainCounts(
            topology,
            nodes,
            ((term.topology_key, nodes.index.matching_all((term,))) for term in anti_affinity),
        )
        self._existing = DomainCounts(
            topology, nodes, ((carried.term.topology_key, carried.counts) for carried in existing)
        )

    @property
    def reject_nothing(self) -> bool:
        return (
            not self._affinity_terms and not self._anti_affinity_terms and self._existing.are_none
        )

    def clone(self) -> RequiredTerms:
        twin = RequiredTerms.__new__(RequiredTerms)
        twin._pod = self._pod
        twin._affinity_terms = self._affinity_terms
        twin._anti_affinity_terms = self._anti_affinity_terms
        twin._namespace_labels = self._namespace_labels
        twin._affinity = self._affinity.clone()
        twin._anti_affinity = self._anti_affinity.clone()
        twin._existing = self._existing.clone()
        return twin

    def change(self, other: PodInfo, row: int, by: int, nodes: Nodes) -> None:
        """As if the other pod came to the row, or left it."""
        pod = self._pod
        for term in other.required_anti_affinity:
            if term.matches(pod.namespace, pod.labels, self._namespace_labels):
                self._existing.change(term.topology_key, row, by, nodes)
        if self._affinity_terms and means_all(self._affinity_terms, other):
            for key in {term.topology_key for term in self._affinity_terms}:
                self._affinity.change(key, row, by, nodes)
        for term in self._anti_affinity_terms:
            if term.matches(other.namespace, other.labels, EMPTY):
                self._anti_affinity.change(term.topology_key, row, by, nodes)

    def rejections(self, nodes: Nodes) -> Iterator[Rejection]:
        broken: Mask | None = None
        if self._affinity_terms:
            broken = ~self._near_enough(nodes)
            yield unresolvable(broken, REASON_AFFINITY)
        for counts, reason in (
            (self._anti_affinity, REASON_ANTI_AFFINITY),
            (self._existing, REASON_EXISTING),
        ):
            too_near = counts.around(nodes)
            if too_near is None:
                continue
            yield unschedulable(too_near if broken is None else too_near & ~broken, reason)
            broken = too_near if broken is None else too_near | broken

    def _near_enough(self, nodes: Nodes) -> Mask:
        """The first pod of a group that wants to be together may go wherever there are domains."""
        if self._affinity.are_none and means_all(self._affinity_terms, self._pod):
            return self._affinity.within(nodes)
        return self._affinity.all_around(nodes)


def means_all(terms: Sequence[AffinityTerm], pod: PodInfo) -> bool:
    """Whether the pod is what all of these terms mean, as far as they name namespaces."""
    return all(term.matches(pod.namespace, pod.labels, EMPTY) for term in terms)
