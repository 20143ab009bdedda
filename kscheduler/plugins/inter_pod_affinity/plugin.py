"""InterPodAffinity: pods choose to be near other pods, or far from them.

Mirrors pkg/scheduler/framework/plugins/interpodaffinity. Differs: nothing.

With the gate InterPodAffinityHostnameFastPath required terms over `kubernetes.io/hostname` are
about the node itself, even if several nodes carry the same value. That is no shortcut here, but it
can be seen: such nodes are separate domains, and PreFilter does not skip wherever any pod carries
such a required anti-affinity term, whether this pod matches it or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from kscheduler.api.core import Namespace, Node
from kscheduler.api.field_errors import FieldError, Path, invalid
from kscheduler.api.labels import SelectorError
from kscheduler.api.meta import EMPTY
from kscheduler.api.requests import is_resize_deferred
from kscheduler.api.resources import NAMESPACES
from kscheduler.config.plugin_args import Gates, PluginArgs
from kscheduler.config.wire import Int32
from kscheduler.errors import KschedulerError
from kscheduler.framework.cluster_event import (
    ASSIGNED_POD,
    NODE,
    TARGET_POD,
    Action,
    ClusterEvent,
    EventWithHint,
    Hint,
)
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.declaration import plugin
from kscheduler.framework.handle import Handle
from kscheduler.framework.in_tree import Detail, UpdatePods
from kscheduler.framework.status import (
    SKIP,
    Code,
    Rejection,
    Rows,
    Scores,
    Status,
    failed,
    rejected,
    rejected_for_good,
)
from kscheduler.plugins.inter_pod_affinity.filtering import PreFilterState, matches_all
from kscheduler.plugins.inter_pod_affinity.scoring import (
    PreScoreState,
    WeightedCounts,
    normalized,
)
from kscheduler.plugins.inter_pod_affinity.terms import NamedNamespaces
from kscheduler.state.affinity_term import TermKind
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.topology import HOSTNAME, Topology

NO_PRE_FILTER = 'error reading "PreFilterInterPodAffinity" from cycleState: not found'
NO_PRE_SCORE = 'failed to read "PreScoreInterPodAffinity" from cycleState: not found'


class InterPodAffinityArgs(PluginArgs):
    # Worth of a required affinity term of another pod in scoring; 0 leaves those out.
    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def errors(self, path: Path, gates: Gates) -> Iterator[FieldError]:
        weight = self.hard_pod_affinity_weight
        if not 0 <= weight <= 100:
            yield invalid(path / "hardPodAffinityWeight", weight, "not in valid range [0, 100]")


@plugin(args=InterPodAffinityArgs, weight=2, reads=(NAMESPACES,))
class InterPodAffinity:
    name = "InterPodAffinity"

    def __init__(self, args: InterPodAffinityArgs, handle: Handle) -> None:
        # Kinds of terms of existing pods that count, and times what their weights count.
        self._factors = [(TermKind.PREFERRED_AFFINITY, 1), (TermKind.PREFERRED_ANTI_AFFINITY, -1)]
        if args.hard_pod_affinity_weight > 0:
            self._factors.append((TermKind.REQUIRED_AFFINITY, args.hard_pod_affinity_weight))
        self._ignores_preferred_of_existing = args.ignore_preferred_terms_of_existing_pods
        self._namespaces = handle.listers.lister(Namespace)
        named_namespaces = NamedNamespaces(self._namespaces)
        self._resolve = named_namespaces.resolve
        self._topology = Topology()
        self._hostname_is_node = handle.gates.enabled("InterPodAffinityHostnameFastPath")
        self._required_topology = (
            Topology(hostname_is_node=True) if self._hostname_is_node else self._topology
        )
        topologies = {self._topology, self._required_topology}
        self.caches = (
            *named_namespaces.caches,
            *(cache for topology in topologies for cache in topology.caches),
        )
        self._skips_resizes = handle.gates.enabled("InPlacePodVerticalScalingSchedulerPreemption")

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        if self._skips_resizes and is_resize_deferred(pod.pod):
            return SKIP
        if pod.affinity_error:
            return rejected_for_good(f"parsing pod: {pod.affinity_error}")
        labels = self._labels_of_namespace(pod)
        kind = TermKind.REQUIRED_ANTI_AFFINITY
        existing = nodes.index.carried(kind, pod, labels, nodes)
        cannot_skip = bool(pod.required_affinity or pod.required_anti_affinity) or (
            self._hostname_is_node and nodes.index.number_carried(kind, HOSTNAME) > 0
        )
        if not existing and not cannot_skip:
            return SKIP
        state = PreFilterState.of(
            pod,
            nodes,
            self._required_topology,
            by_label=self._topology,
            resolve=self._resolve,
            existing=existing,
            namespace_labels=labels,
        )
        if not cannot_skip and state.existing_anti_affinity_counts.none_anywhere:
            return SKIP
        cycle.put(state)
        return None

    def add_pod(
        self, cycle: CycleState, pod: PodInfo, added: PodInfo, row: int, nodes: Nodes
    ) -> Status | None:
        return self._update(cycle, added, row, 1, nodes)

    def remove_pod(
        self, cycle: CycleState, pod: PodInfo, removed: PodInfo, row: int, nodes: Nodes
    ) -> Status | None:
        return self._update(cycle, removed, row, -1, nodes)

    def track_pods_by_row(
        self, cycle: CycleState, pods: Sequence[PodInfo], row_of_pod: Rows, nodes: Nodes
    ) -> UpdatePods:
        return cycle[PreFilterState].track_pods(pods, row_of_pod, nodes)

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Iterator[Rejection]:
        state = cycle.get(PreFilterState)
        if state is None:
            yield Rejection(np.ones(len(nodes), np.bool_), Code.ERROR, NO_PRE_FILTER)
            return
        yield from state.rejections(nodes)

    def describe_rejected(
        self, cycle: CycleState, pod: PodInfo, nodes: Nodes, reason: str
    ) -> Iterator[Detail]:
        state = cycle.get(PreFilterState)
        if state is not None:
            yield from state.describe_rejected(nodes, reason)

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        if self._ignores_preferred_of_existing:
            # Terms of the pod's own, even if they cannot be parsed.
            affinity = pod.pod.spec.affinity
            own = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ()
            if not any(terms is not None and terms.preferred for terms in own):
                return SKIP
        if pod.affinity_error:
            return failed(f"failed to parse pod: {pod.affinity_error}")
        terms = list(self._preferred_terms(pod, nodes))
        if not terms:
            return SKIP
        state = PreScoreState(terms, nodes, self._topology)
        if not state.has_scores:
            return SKIP
        cycle.put(state)
        return None

    def score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        state = cycle.get(PreScoreState)
        if state is None:
            raise KschedulerError(NO_PRE_SCORE)
        return state.raw(nodes)

    def normalize(self, cycle: CycleState, pod: PodInfo, scores: Scores, nodes: Nodes) -> Scores:
        return normalized(scores)

    def events_to_register(self) -> Sequence[EventWithHint]:
        assigned = Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE
        node = Action.ADD | Action.UPDATE_NODE_LABEL
        return [
            EventWithHint(ClusterEvent(ASSIGNED_POD, assigned), self._assigned_pod_changed),
            EventWithHint(ClusterEvent(TARGET_POD, Action.UPDATE_POD_LABEL)),
            EventWithHint(ClusterEvent(NODE, node), self._node_changed),
        ]

    def sign(self, pod: PodInfo) -> Mapping[str, object] | Status:
        if pod.has_affinity:
            return rejected("pods with InterPodAffinity are not signable")
        return {} if self._ignores_preferred_of_existing else {"v1.Pod.Labels": dict(pod.labels)}

    def _update(
        self, cycle: CycleState, changed: PodInfo, row: int, by: int, nodes: Nodes
    ) -> Status | None:
        state = cycle.get(PreFilterState)
        if state is None:
            return failed(NO_PRE_FILTER)
        state.update_with_pod(changed, row, by, nodes)
        return None

    def _preferred_terms(self, pod: PodInfo, nodes: Nodes) -> Iterator[WeightedCounts]:
        """The pod's own preferred terms, then those of existing pods that match it."""
        index, labels = nodes.index, self._labels_of_namespace(pod)
        if pod.preferred_affinity or pod.preferred_anti_affinity:
            own = [*pod.preferred_affinity]
            own += [(-weight, term) for weight, term in pod.preferred_anti_affinity]
            for weight, term in own:
                if term.topology_key in nodes.label_keys:
                    counts = index.matching_all((self._resolve(term),))
                    yield term.topology_key, weight, counts
        for kind, factor in self._factors:
            for key, weight, sums in index.carried(kind, pod, labels, nodes):
                yield key, factor * weight, sums

    def _labels_of_namespace(self, pod: PodInfo) -> Mapping[str, str]:
        namespace = self._namespaces.get(pod.namespace)
        return EMPTY if namespace is None else namespace.metadata.labels

    def _assigned_pod_changed(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> Hint:
        for changed in (old, new):
            if changed is not None and not (
                changed.node_name or changed.pod.status.nominated_node_name
            ):
                return Hint.SKIP
        _raise_if_broken(pod)
        if new is None:
            assert old is not None
            helps = _matches_anti_affinity(pod, old)
            if not helps:
                _raise_if_broken(old)
                helps = _matches_anti_affinity(old, pod)
        elif old is None:
            helps = _matches_affinity(pod, new)
        else:
            helps = (_matches_affinity(pod, new) and not _matches_affinity(pod, old)) or (
                _matches_anti_affinity(pod, old) and not _matches_anti_affinity(pod, new)
            )
        return Hint.QUEUE if helps else Hint.SKIP

    def _node_changed(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        """A node that joins a domain may satisfy affinity, one that leaves it anti-affinity.

        A new node counts as leaving: it may be in no domain at all.
        """
        _raise_if_broken(pod)
        before = None if old is None else old.metadata.labels
        after = new.metadata.labels
        for term in pod.required_affinity:
            key = term.topology_key
            if key in after and (before is None or before.get(key) != after[key]):
                return Hint.QUEUE
        for term in pod.required_anti_affinity:
            key = term.topology_key
            if before is None or (key in before and before[key] != after.get(key)):
                return Hint.QUEUE
        return Hint.SKIP


def _matches_affinity(pod: PodInfo, other: PodInfo) -> bool:
    """Whether the other pod matches all required affinity terms of the pod.

    Here as in `_matches_anti_affinity` namespaces are taken by name only, as upstream does: a pod
    that matches because of the labels of its namespace goes unnoticed.
    """
    return bool(pod.required_affinity) and matches_all(pod.required_affinity, other)


def _matches_anti_affinity(pod: PodInfo, other: PodInfo) -> bool:
    """Whether the other pod matches any required anti-affinity term of the pod."""
    terms = pod.required_anti_affinity
    return any(True for _ in terms.meaning(other.namespace, other.labels, EMPTY))


def _raise_if_broken(pod: PodInfo) -> None:
    if pod.affinity_error:
        raise SelectorError(pod.affinity_error)
