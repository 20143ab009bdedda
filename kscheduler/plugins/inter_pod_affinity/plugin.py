"""InterPodAffinity: pods choose to be near other pods, or far from them.

Mirrors pkg/scheduler/framework/plugins/interpodaffinity. Differs: nothing.

With the gate InterPodAffinityHostnameFastPath required terms over `kubernetes.io/hostname` are
about the node itself, even if several nodes carry the same value. That is no shortcut here, but it
can be seen: such nodes are told apart, and the plugin has a say wherever any pod carries such a
required anti-affinity term, whomever it means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from kscheduler.api.core import Namespace, Node
from kscheduler.api.labels import SelectorError
from kscheduler.api.meta import EMPTY
from kscheduler.api.requests import is_resize_deferred
from kscheduler.api.resources import NAMESPACES
from kscheduler.config.field_errors import FieldError, Path, invalid
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
from kscheduler.framework.plugin import UpdatePods
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
from kscheduler.plugins.inter_pod_affinity.preferences import Opinion, Preferences, normalized
from kscheduler.plugins.inter_pod_affinity.required_terms import RequiredTerms, means_all
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
        # What a term of others is worth, by kind, in terms of its weight.
        self._factors = [(TermKind.PREFERRED_AFFINITY, 1), (TermKind.PREFERRED_ANTI_AFFINITY, -1)]
        if args.hard_pod_affinity_weight > 0:
            self._factors.append((TermKind.REQUIRED_AFFINITY, args.hard_pod_affinity_weight))
        self._ignores_existing = args.ignore_preferred_terms_of_existing_pods
        self._namespaces = handle.listers.lister(Namespace)
        named_namespaces = NamedNamespaces(self._namespaces)
        self._resolve = named_namespaces.resolve
        self._topology = Topology()
        self._hostname_is_node = handle.gates.enabled("InterPodAffinityHostnameFastPath")
        self._of_required = (
            Topology(hostname_is_node=True) if self._hostname_is_node else self._topology
        )
        topologies = {self._topology, self._of_required}
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
        has_a_say = bool(pod.required_affinity or pod.required_anti_affinity) or (
            self._hostname_is_node and nodes.index.number_carried(kind, HOSTNAME) > 0
        )
        if not existing and not has_a_say:
            return SKIP
        terms = RequiredTerms.of(
            pod,
            nodes,
            self._of_required,
            by_label=self._topology,
            resolve=self._resolve,
            existing=existing,
            namespace_labels=labels,
        )
        if not has_a_say and terms.avoiding.are_none:
            return SKIP
        cycle.put(terms)
        return None

    def add_pod(
        self, cycle: CycleState, pod: PodInfo, added: PodInfo, row: int, nodes: Nodes
    ) -> Status | None:
        return self._change(cycle, added, row, 1, nodes)

    def remove_pod(
        self, cycle: CycleState, pod: PodInfo, removed: PodInfo, row: int, nodes: Nodes
    ) -> Status | None:
        return self._change(cycle, removed, row, -1, nodes)

    def track_pods_by_row(
        self, cycle: CycleState, pods: Sequence[PodInfo], row_of_pod: Rows, nodes: Nodes
    ) -> UpdatePods:
        return cycle[RequiredTerms].track_pods(pods, row_of_pod, nodes)

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Iterator[Rejection]:
        terms = cycle.get(RequiredTerms)
        if terms is None:
            yield Rejection(np.ones(len(nodes), np.bool_), Code.ERROR, NO_PRE_FILTER)
            return
        yield from terms.rejections(nodes)

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        if self._ignores_existing and not _has_preferences(pod):
            return SKIP
        if pod.affinity_error:
            return failed(f"failed to parse pod: {pod.affinity_error}")
        opinions = list(self._opinions(pod, nodes))
        if not opinions:
            return SKIP
        preferences = Preferences(opinions, nodes, self._topology)
        if not preferences.exist:
            return SKIP
        cycle.put(preferences)
        return None

    def score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        preferences = cycle.get(Preferences)
        if preferences is None:
            raise KschedulerError(NO_PRE_SCORE)
        return preferences.raw(nodes)

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
        return {} if self._ignores_existing else {"v1.Pod.Labels": dict(pod.labels)}

    def _change(
        self, cycle: CycleState, changed: PodInfo, row: int, by: int, nodes: Nodes
    ) -> Status | None:
        terms = cycle.get(RequiredTerms)
        if terms is None:
            return failed(NO_PRE_FILTER)
        terms.change(changed, row, by, nodes)
        return None

    def _opinions(self, pod: PodInfo, nodes: Nodes) -> Iterator[Opinion]:
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
        if not all(_is_placed(changed) for changed in (old, new) if changed is not None):
            return Hint.SKIP
        _raise_if_broken(pod)
        if new is None:
            assert old is not None
            helps = _is_shunned(pod, old)
            if not helps:
                _raise_if_broken(old)
                helps = _is_shunned(old, pod)
        elif old is None:
            helps = _is_wanted(pod, new)
        else:
            helps = (_is_wanted(pod, new) and not _is_wanted(pod, old)) or (
                _is_shunned(pod, old) and not _is_shunned(pod, new)
            )
        return Hint.QUEUE if helps else Hint.SKIP

    def _node_changed(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        _raise_if_broken(pod)
        before = None if old is None else old.metadata.labels
        after = new.metadata.labels
        for term in pod.required_affinity:
            if _joins_domain(term.topology_key, before, after):
                return Hint.QUEUE
        for term in pod.required_anti_affinity:
            if _leaves_domain(term.topology_key, before, after):
                return Hint.QUEUE
        return Hint.SKIP


def _has_preferences(pod: PodInfo) -> bool:
    """Even unparsable ones count."""
    affinity = pod.pod.spec.affinity
    return affinity is not None and any(
        terms is not None and bool(terms.preferred)
        for terms in (affinity.pod_affinity, affinity.pod_anti_affinity)
    )


def _is_placed(pod: PodInfo) -> bool:
    return bool(pod.node_name or pod.pod.status.nominated_node_name)


def _is_wanted(pod: PodInfo, other: PodInfo) -> bool:
    """Whether the other pod is what the pod must be near.

    Here as in `_is_shunned` namespaces are taken by name only, as upstream does: a pod that is
    meant because of the labels of its namespace goes unnoticed.
    """
    return bool(pod.required_affinity) and means_all(pod.required_affinity, other)


def _is_shunned(pod: PodInfo, other: PodInfo) -> bool:
    """Whether the other pod is one that the pod must be far from."""
    terms = pod.required_anti_affinity
    return any(True for _ in terms.meaning(other.namespace, other.labels, EMPTY))


def _joins_domain(key: str, before: Mapping[str, str] | None, after: Mapping[str, str]) -> bool:
    if before is None:
        return key in after
    return key in after and before.get(key) != after[key]


def _leaves_domain(key: str, before: Mapping[str, str] | None, after: Mapping[str, str]) -> bool:
    """A new node counts: it may be in no domain at all."""
    if before is None:
        return True
    return key in before and before[key] != after.get(key)


def _raise_if_broken(pod: PodInfo) -> None:
    if pod.affinity_error:
        raise SelectorError(pod.affinity_error)
