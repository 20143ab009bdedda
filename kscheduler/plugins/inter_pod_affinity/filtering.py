"""Filter by required terms: nodes with pods in their domains that a pod must be near, or avoid.

Three rules in this order: the pod's affinity, its anti-affinity, and the anti-affinity of existing
pods. A node is rejected by the first it breaks.

Mirrors filtering.go of the plugin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import islice

import msgspec
import numpy as np
from msgspec.structs import replace

from kscheduler.api.labels import brief
from kscheduler.api.meta import EMPTY
from kscheduler.framework.in_tree import MAX_DETAILS, Detail, UpdatePods
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


class PreFilterState(msgspec.Struct):
    """The rules of one attempt, kept up to date with pods that are added or removed in a what-if.

    The pod's own terms name their namespaces. Terms over labels that no node has are not among
    them: anti-affinity is never broken there, and affinity (`unmeetable`) always.
    """

    pod: PodInfo
    namespace_labels: Mapping[str, str]
    affinity: Sequence[AffinityTerm]
    anti_affinity: AffinityTerms
    # Pods that match all affinity terms; pods that match anti-affinity terms; pods that carry
    # anti-affinity terms which this pod matches.
    affinity_counts: DomainCounts
    anti_affinity_counts: DomainCounts
    existing_anti_affinity_counts: DomainCounts
    # Whether the pod matches its own affinity terms.
    matches_itself: bool = False
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
    ) -> PreFilterState:
        """`existing` are the required anti-affinity terms of other pods that match this one.

        `topology` may have nodes as the domains of `kubernetes.io/hostname`, whatever their labels.
        For affinity that does not hold where it has terms over other keys as well: one pod must
        match them all, wherever it is. Then `by_label` is used.
        """
        keys, index = nodes.label_keys, nodes.index
        carried = [(key, counts) for key, _, counts in existing]
        existing_counts = DomainCounts(topology, nodes, carried)
        affinity = []
        for term in pod.required_affinity:
            if term.topology_key not in keys:
                none = DomainCounts(topology, nodes)
                return cls(
                    pod,
                    namespace_labels,
                    (),
                    NO_TERMS,
                    none,
                    none,
                    existing_counts,
                    unmeetable=True,
                )
            affinity.append(resolve(term))
        if affinity:
            # One pod must match all terms; it then counts once in the domains of each key.
            counts = index.matching_all(affinity)
            affinity_keys = {term.topology_key for term in affinity}
            of_affinity = topology if affinity_keys == _ONLY_HOSTNAME else by_label
            affinity_counts = DomainCounts(
                of_affinity, nodes, [(key, counts) for key in affinity_keys]
            )
            matches_itself = matches_all(affinity, pod)
        else:
            affinity_counts, matches_itself = DomainCounts(topology, nodes), False
        if pod.required_anti_affinity:
            anti_affinity = pod.required_anti_affinity
            resolved = tuple([resolve(term) for term in anti_affinity if term.topology_key in keys])
            # Mostly nothing is to be resolved; terms that are known already keep their indexes.
            if resolved != anti_affinity:
                anti_affinity = AffinityTerms(resolved)
            anti_affinity_counts = DomainCounts(
                topology,
                nodes,
                [(term.topology_key, index.matching_all((term,))) for term in anti_affinity],
            )
        else:
            anti_affinity, anti_affinity_counts = NO_TERMS, DomainCounts(topology, nodes)
        return cls(
            pod,
            namespace_labels,
            affinity,
            anti_affinity,
            affinity_counts,
            anti_affinity_counts,
            existing_counts,
            matches_itself=matches_itself,
        )

    def clone(self) -> PreFilterState:
        return replace(
            self,
            affinity_counts=self.affinity_counts.clone(),
            anti_affinity_counts=self.anti_affinity_counts.clone(),
            existing_anti_affinity_counts=self.existing_anti_affinity_counts.clone(),
        )

    def update_with_pod(self, other: PodInfo, row: int, by: int, nodes: Nodes) -> None:
        """As if the other pod were added to the row (`by` 1) or removed from it (-1)."""
        for counts, key in self._counted_in(other, nodes.label_keys):
            counts.add(key, row, by, nodes)

    def _counted_in(
        self, other: PodInfo, label_keys: Set[str]
    ) -> Iterator[tuple[DomainCounts, str]]:
        """The counts that the other pod is part of, and for which topology key."""
        if self.unmeetable:
            return
        pod = self.pod
        carried = other.required_anti_affinity
        for term in carried.meaning(pod.namespace, pod.labels, self.namespace_labels):
            if term.topology_key in label_keys:
                yield self.existing_anti_affinity_counts, term.topology_key
        if self.affinity and matches_all(self.affinity, other):
            for key in {term.topology_key for term in self.affinity}:
                yield self.affinity_counts, key
        for term in self.anti_affinity.meaning(other.namespace, other.labels, EMPTY):
            yield self.anti_affinity_counts, term.topology_key

    def track_pods(self, pods: Sequence[PodInfo], row_of_pod: Rows, nodes: Nodes) -> UpdatePods:
        """Track many pods on many rows, see `TracksPodsByRow`.

        Pods with the same namespace, labels and terms count alike, which is worked out once.
        """
        weights: dict[tuple[DomainCounts, str], Totals] = {}
        known: dict[object, Counter[tuple[DomainCounts, str]]] = {}
        for number, other in enumerate(pods):
            kind = other.namespace, id(other.label_set), id(other.required_anti_affinity)
            counted_in = known.get(kind)
            if counted_in is None:
                counted_in = known[kind] = Counter(self._counted_in(other, nodes.label_keys))
            for which, times in counted_in.items():
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
            broken = ~self._satisfies_affinity(nodes)
            yield unresolvable(broken, REASON_AFFINITY)
        conflict = self.anti_affinity_counts.in_any_domain(nodes)
        if conflict is not None:
            first = conflict if broken is None else conflict & ~broken
            yield unschedulable(first, REASON_ANTI_AFFINITY)
            broken = conflict if broken is None else conflict | broken
        conflict = self.existing_anti_affinity_counts.in_any_domain(nodes)
        if conflict is not None:
            first = conflict if broken is None else conflict & ~broken
            yield unschedulable(first, REASON_EXISTING)

    def describe_rejected(self, nodes: Nodes, reason: str) -> Iterator[Detail]:
        """Which topology keys, with the terms over them, reject how many of these nodes."""
        terms: Sequence[AffinityTerm]
        if reason == REASON_AFFINITY:
            if self.unmeetable:
                keys = [term.topology_key for term in self.pod.required_affinity[:MAX_DETAILS]]
                for key in dict.fromkeys(keys):
                    if key not in nodes.label_keys:
                        yield Detail(f"no node has the label {key}", len(nodes))
                return
            said, terms, counts = "no pod that matches", self.affinity, self.affinity_counts
            if self.matches_itself and counts.none_anywhere:
                keys = sorted({term.topology_key for term in terms[:MAX_DETAILS]})
                yield Detail(f"without the label {' and '.join(keys)}", len(nodes))
                return
        elif reason == REASON_ANTI_AFFINITY:
            said, counts = "anti-affinity to pods that match", self.anti_affinity_counts
            terms = self.anti_affinity
        else:
            said, terms = "anti-affinity of pods there", ()
            counts = self.existing_anti_affinity_counts
        for key, there in islice(counts.by_key(nodes), MAX_DETAILS):
            number = int(np.count_nonzero(there))
            count = len(nodes) - number if reason == REASON_AFFINITY else number
            if count:
                over = [one for one in islice(terms, MAX_DETAILS) if one.topology_key == key]
                named = " and ".join(f"{{{brief(one.selector)}}}" for one in over)
                yield Detail(f"{said} {named}{' ' * bool(named)}in the same {key}", count)

    def _satisfies_affinity(self, nodes: Nodes) -> Mask:
        """The first pod of a group with affinity to itself may go wherever there are domains."""
        counts = self.affinity_counts
        if not self.matches_itself:
            return counts.in_all_domains(nodes)
        if counts.tracks_rows:
            return np.where(
                counts.none_anywhere_by_row(nodes),
                counts.has_all_labels(nodes),
                counts.in_all_domains(nodes),
            )
        if counts.none_anywhere:
            return counts.has_all_labels(nodes)
        return counts.in_all_domains(nodes)


def matches_all(terms: Sequence[AffinityTerm], pod: PodInfo) -> bool:
    """Whether the pod matches all of these terms, as far as they name namespaces."""
    return all(term.matches(pod.namespace, pod.labels, EMPTY) for term in terms)
