"""NodeAffinity: pods choose nodes by label or name; the profile may add an affinity of its own.

Mirrors pkg/scheduler/framework/plugins/nodeaffinity. Differs: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec
import numpy as np

from kscheduler.api import core
from kscheduler.api.core import Node
from kscheduler.api.labels import Selector, SelectorError, brief
from kscheduler.api.node_selector import (
    NODE_NAME_FIELD,
    NodeSelectorMatcher,
    PreferredTerms,
    RequiredNodeAffinity,
    compile_node_selector,
    compile_preferred,
)
from kscheduler.caches import BoundedCache, size_of
from kscheduler.errors import ConfigError
from kscheduler.framework.cluster_event import NODE, Action, ClusterEvent, EventWithHint, Hint
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.declaration import plugin
from kscheduler.framework.handle import Handle
from kscheduler.framework.in_tree import MAX_DETAILS, Detail
from kscheduler.framework.plugin import NodeNames
from kscheduler.framework.status import (
    SKIP,
    Rejection,
    Scores,
    Status,
    failed,
    rejected_for_good,
    unresolvable,
)
from kscheduler.plugins.helper.normalize_score import share_of_best
from kscheduler.plugins.node_affinity.args import NodeAffinity as AddedAffinity
from kscheduler.plugins.node_affinity.args import NodeAffinityArgs
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.selector_masks import NodeQuery, Weights

REASON_POD = "node(s) didn't match Pod's node affinity/selector"
REASON_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT = "pod affinity terms conflict"
# What preferences are worth by node (40 kB at 5,000 nodes), with the terms.
MAX_WORTH_BYTES = 2 << 20

_Canonical = list[tuple[str, str, list[str]]]


class Preferred(NamedTuple):
    """The pod's preferred terms."""

    terms: PreferredTerms


@plugin(args=NodeAffinityArgs, weight=2)
class NodeAffinity:
    name = "NodeAffinity"
    local = True

    def __init__(self, args: NodeAffinityArgs, handle: Handle) -> None:
        self._enforced: NodeSelectorMatcher | None = None
        self._encouraged: PreferredTerms | None = None
        self._worth: BoundedCache[PreferredTerms, Weights] = BoundedCache(
            "node_preferences", MAX_WORTH_BYTES
        )
        self.caches = (self._worth,)
        self._worth_as_of = 0
        if args.added_affinity is not None:
            self._add_affinity(args.added_affinity)

    def pre_filter(
        self, cycle: CycleState, pod: PodInfo, nodes: Nodes
    ) -> Status | NodeNames | None:
        required = _node_affinity(pod).required
        if required is None and self._enforced is None and pod.pod.spec.node_selector is None:
            return SKIP
        names = _named_nodes(required.node_selector_terms) if required is not None else None
        if names is None:
            return None
        return NodeNames(names) if names else rejected_for_good(REASON_CONFLICT)

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Iterator[Rejection]:
        matches = nodes.selector_mask(pod.required_node_affinity)
        if self._enforced is None:
            yield unresolvable(~matches, REASON_POD)
            return
        enforced = nodes.selector_mask(self._enforced)
        yield unresolvable(~enforced, REASON_ENFORCED)
        yield unresolvable(enforced & ~matches, REASON_POD)

    def describe_rejected(
        self, cycle: CycleState, pod: PodInfo, nodes: Nodes, reason: str
    ) -> Iterator[Detail]:
        """Which requirement nodes do not meet; of an affinity with several terms, which term."""
        if reason != REASON_POD:
            return
        required = pod.required_node_affinity
        parts: list[tuple[str, NodeQuery]] = [
            (f"node selector {brief((one,))}", Selector((one,)))
            for one in islice(required.labels, MAX_DETAILS)
        ]
        terms = () if required.affinity is None else required.affinity.terms
        if len(terms) == 1 and not terms[0].fields:
            parts += [
                (f"node affinity {brief((one,))}", Selector((one,)))
                for one in islice(terms[0].expressions, MAX_DETAILS)
            ]
        else:
            for term in terms[:MAX_DETAILS]:
                named = [brief(term.expressions), *map(str, term.fields[:MAX_DETAILS])]
                parts.append((f"node affinity term {','.join(filter(None, named))}", term))
        for text, query in parts[:MAX_DETAILS]:
            unmet = len(nodes) - int(np.count_nonzero(nodes.selector_mask(query)))
            if unmet:
                yield Detail(f"{text} is not met", unmet)

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        if not _node_affinity(pod).preferred and self._encouraged is None:
            return SKIP
        try:
            cycle.put(self._preferred(pod))
        except SelectorError as error:
            return failed(error)
        return None

    def score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        preferred = cycle.get(Preferred) or self._preferred(pod)
        total = self._worth_of(preferred.terms, nodes)
        if self._encouraged is not None:
            total = total + self._worth_of(self._encouraged, nodes)
        return total

    def normalize(self, cycle: CycleState, pod: PodInfo, scores: Scores, nodes: Nodes) -> Scores:
        return share_of_best(scores)

    def events_to_register(self) -> Sequence[EventWithHint]:
        changed = Action.ADD | Action.UPDATE_NODE_LABEL
        return [EventWithHint(ClusterEvent(NODE, changed), self._node_changed)]

    def sign(self, pod: PodInfo) -> Mapping[str, object]:
        affinity = pod.pod.spec.affinity
        own = affinity.node_affinity if affinity else None
        canonical: object = None
        if own is not None:
            # Terms in an order that does not depend on how the user wrote them.
            required = own.required.node_selector_terms if own.required else ()
            preferred = [(term.weight, _canonical_term(term.preference)) for term in own.preferred]
            canonical = {
                "Required": sorted(_canonical_term(term) for term in required),
                "Preferred": sorted(preferred),
            }
        return {
            "v1.Pod.Spec.Affinity.NodeAffinity": canonical,
            "v1.Pod.Spec.Affinity.NodeSelector": dict(pod.pod.spec.node_selector or {}),
        }

    def _preferred(self, pod: PodInfo) -> Preferred:
        """Terms of the pod itself, compiled once per template; raises SelectorError."""
        derived: dict[object, Preferred] = pod.template.derived
        known = derived.get(self)
        if known is None:
            known = derived[self] = Preferred(compile_preferred(_node_affinity(pod).preferred))
        return known

    def _worth_of(self, preferred: PreferredTerms, nodes: Nodes) -> Scores:
        """The weights of the terms that match each node, remembered until labels change."""
        if nodes.label_generation != self._worth_as_of:
            self._worth.clear()
            self._worth_as_of = nodes.label_generation
        worth = self._worth.get(preferred)
        if worth is None:
            worth = nodes.whole.preference(preferred)
            cost = worth.nbytes + size_of(preferred, self._worth.largest)
            self._worth.put(preferred, worth, cost)
        return worth.take(nodes.rows)

    def _add_affinity(self, added: AddedAffinity) -> None:
        """The affinity that the profile adds to that of every pod; raises ConfigError."""
        plain = added.model_dump(by_alias=True, exclude_none=True)
        affinity = msgspec.convert(plain, core.NodeAffinity)
        if affinity.required is not None:
            enforced = compile_node_selector(affinity.required)
            if enforced.error:
                raise ConfigError(
                    f"parsing addedAffinity.requiredDuringSchedulingIgnoredDuringExecution: "
                    f"{enforced.error}"
                )
            self._enforced = enforced
        if not affinity.preferred:
            return
        try:
            self._encouraged = compile_preferred(affinity.preferred)
        except SelectorError as error:
            raise ConfigError(
                f"parsing addedAffinity.preferredDuringSchedulingIgnoredDuringExecution: {error}"
            ) from error

    def _node_changed(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        enforced, metadata = self._enforced, new.metadata
        if enforced is not None and not enforced.matches(metadata.labels, metadata.name):
            return Hint.SKIP
        required = pod.required_node_affinity
        if not _matches_or_raises(required, new):
            return Hint.SKIP
        if old is not None and _matches_or_raises(required, old):
            return Hint.SKIP
        return Hint.QUEUE


def _node_affinity(pod: PodInfo) -> core.NodeAffinity:
    affinity = pod.pod.spec.affinity
    return (affinity.node_affinity if affinity else None) or core.NodeAffinity()


def _named_nodes(terms: Sequence[core.NodeSelectorTerm]) -> frozenset[str] | None:
    """The only nodes that any term can mean, going by names alone; None if some term names none."""
    if not terms:
        return None
    found: set[str] = set()
    for term in terms:
        named = [
            set(field.values)
            for field in term.match_fields
            if field.key == NODE_NAME_FIELD and field.operator == "In"
        ]
        if not named:
            return None
        found |= set.intersection(*named)
    return frozenset(found)


def _matches_or_raises(required: RequiredNodeAffinity, node: Node) -> bool:
    """A term that cannot be parsed is an error only where no other term matches."""
    if required.matches(node.metadata.labels, node.metadata.name):
        return True
    affinity = required.affinity
    if affinity is not None and affinity.error and required.labels.matches(node.metadata.labels):
        raise SelectorError(affinity.error)
    return False


def _canonical_term(term: core.NodeSelectorTerm) -> tuple[_Canonical, _Canonical]:
    def canonical(requirements: Sequence[core.NodeSelectorRequirement]) -> _Canonical:
        return sorted((r.key, r.operator, sorted(r.values)) for r in requirements)

    return canonical(term.match_expressions), canonical(term.match_fields)
