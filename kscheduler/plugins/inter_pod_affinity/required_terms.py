"""Required affinity and anti-affinity at work: where the pods are that a pod must be near or avoid.

Three rules in this order: the pod's affinity, its anti-affinity, and the anti-affinity of pods that
are there already. A node is rejected by the first it breaks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from kscheduler.api.meta import EMPTY
from kscheduler.framework.plugin import UpdatePods
from kscheduler.framework.status import Mask, Rejection, Rows, unresolvable, unschedulable
from kscheduler.plugins.inter_pod_affinity.domain_counts import DomainCounts
from kscheduler.state.affinity_term import NO_TERMS, AffinityTerm, AffinityTerms
from kscheduler.state.carried_terms import CarriedOver
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.topology import HOSTNAME, Topology, Totals

_ONLY_HOSTNAME = {HOSTNAME}

REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"


@dataclass(slots=True)
class RequiredTerms:
    """The rules of one attempt; follows pods that are added or removed to see what if.

    The pod's own terms name the namespaces they are about. Terms over labels that no node has are
    not among them: anti-affinity is never broken there, and affinity (`unmeetable`) always.
    """

    pod: PodInfo
    namespace_labels: Mapping[str, str]
    affinity: Sequence[AffinityTerm]
    anti_affinity: AffinityTerms
    # Pods that affinity is about, pods that anti-affinity is about, and pods whose is about this.
    wanted: DomainCounts
    unwanted: DomainCounts
    avoiding: DomainCounts
    # The pod is itself what its affinity is about.
    means_itself: bool = False
    # No node can meet the pod's affinity.
    unmeetable: bool = False

    @classmethod
    def of(
        cls,
        pod: PodInfo,
        nodes: Nodes,
        topology: Topology,
        *,
        by_label: Topology,
        resolve: Callable[[AffinityTerm], AffinityTerm],
        existing: Sequence[CarriedOver],
        namespace_labels: Mapping[str, str],
    ) -> RequiredTerms:
        """`existing` are the required anti-affinity terms of other pods that mean this one.

        `topology` may have nodes as the domains of `kubernetes.io/hostname`, whatever their labels.
        Affinity is not to be seen that way where it has terms over other keys as well: one pod must
        meet them all, wherever it is.
        """
        keys, index = nodes.label_keys, nodes.index
        avoiding = DomainCounts(topology, nodes, [(key, counts) for key, _, counts in existing])
        affinity = []
        for term in pod.required_affinity:
            if term.topology_key not in keys:
                none = DomainCounts(topology, nodes)
                return cls(
                    pod, namespace_labels, (), NO_TERMS, none, none, avoiding, unmeetable=True
                )
            affinity.append(resolve(term))
        if affinity:
            # One pod must meet all terms; it then counts once in the domains of each key.
            counts = index.matching_all(affinity)
            wanted_in = {term.topology_key for term in affinity}
            of_affinity = topology if wanted_in == _ONLY_HOSTNAME else by_label
            wanted = DomainCounts(of_affinity, nodes, [(key, counts) for key in wanted_in])
            means_itself = means_all(affinity, pod)
        else:
            wanted, means_itself = DomainCounts(topology, nodes), False
        if pod.required_anti_affinity:
            away = pod.required_anti_affinity
            resolved = tuple([resolve(term) for term in away if term.topology_key in keys])
            if resolved != away:
                away = AffinityTerms(resolved)
            unwanted = DomainCounts(
                topology, nodes, [(term.topology_key, index.matching_all((term,))) for term in away]
            )
        else:
            away, unwanted = NO_TERMS, DomainCounts(topology, nodes)
        return cls(
            pod,
            namespace_labels,
            affinity,
            away,
            wanted,
            unwanted,
            avoiding,
            means_itself=means_itself,
        )

    def clone(self) -> RequiredTerms:
        return replace(
            self,
            wanted=self.wanted.clone(),
            unwanted=self.unwanted.clone(),
            avoiding=self.avoiding.clone(),
        )

    def change(self, other: PodInfo, row: int, by: int, nodes: Nodes) -> None:
        """As if the other pod came to the row, or left it."""
        for counts, key in self._touched_by(other, nodes.label_keys):
            counts.change(key, row, by, nodes)

    def _touched_by(
        self, other: PodInfo, label_keys: Set[str]
    ) -> Iterator[tuple[DomainCounts, str]]:
        """The counts in which the other pod counts, and for which key."""
        if self.unmeetable:
            return
        pod = self.pod
        carried = other.required_anti_affinity
        for term in carried.meaning(pod.namespace, pod.labels, self.namespace_labels):
            if term.topology_key in label_keys:
                yield self.avoiding, term.topology_key
        if self.affinity and means_all(self.affinity, other):
            for key in {term.topology_key for term in self.affinity}:
                yield self.wanted, key
        for term in self.anti_affinity.meaning(other.namespace, other.labels, EMPTY):
            yield self.unwanted, term.topology_key

    def track_pods(self, pods: Sequence[PodInfo], row_of_pod: Rows, nodes: Nodes) -> UpdatePods:
        """Track many pods on many rows, see `TracksPodsByRow`.

        Pods with the same namespace, labels and terms count alike, which is worked out once.
        """
        weights: dict[tuple[DomainCounts, str], Totals] = {}
        known: dict[object, Counter[tuple[DomainCounts, str]]] = {}
        for number, other in enumerate(pods):
            kind = other.namespace, id(other.label_set), id(other.required_anti_affinity)
            touched = known.get(kind)
            if touched is None:
                touched = known[kind] = Counter(self._touched_by(other, nodes.label_keys))
            for which, times in touched.items():
                if which not in weights:
                    weights[which] = np.zeros(len(pods))
                weights[which][number] = times
        updates = [
            counts.track_pods(key, each, row_of_pod, nodes)
            for (counts, key), each in weights.items()
        ]

        def update(which: Rows, by: int) -> None:
            for update_counts in updates:
                update_counts(which, by)

        return update

    def rejections(self, nodes: Nodes) -> Iterator[Rejection]:
        broken: Mask | None = None
        if self.unmeetable:
            yield unresolvable(np.ones(len(nodes), np.bool_), REASON_AFFINITY)
            return
        if self.affinity:
            broken = ~self._near_enough(nodes)
            yield unresolvable(broken, REASON_AFFINITY)
        too_near = self.unwanted.around(nodes)
        if too_near is not None:
            fresh = too_near if broken is None else too_near & ~broken
            yield unschedulable(fresh, REASON_ANTI_AFFINITY)
            broken = too_near if broken is None else too_near | broken
        too_near = self.avoiding.around(nodes)
        if too_near is not None:
            fresh = too_near if broken is None else too_near & ~broken
            yield unschedulable(fresh, REASON_EXISTING)

    def _near_enough(self, nodes: Nodes) -> Mask:
        """The first pod of a group that wants to be together may go wherever there are domains."""
        wanted = self.wanted
        if not self.means_itself:
            return wanted.all_around(nodes)
        if wanted.has_own_worlds:
            return np.where(wanted.none(nodes), wanted.within(nodes), wanted.all_around(nodes))
        return wanted.within(nodes) if wanted.are_none else wanted.all_around(nodes)


def means_all(terms: Sequence[AffinityTerm], pod: PodInfo) -> bool:
    """Whether the pod is what all of these terms mean, as far as they name namespaces."""
    return all(term.matches(pod.namespace, pod.labels, EMPTY) for term in terms)
