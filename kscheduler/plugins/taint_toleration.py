"""TaintToleration: nodes may repel pods; NoSchedule and NoExecute forbid, PreferNoSchedule costs
score.

Mirrors pkg/scheduler/framework/plugins/tainttoleration. Differs: verdicts are computed per
distinct list of taints in the cluster (usually a handful) and looked up per node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from kscheduler import logs
from kscheduler.api.core import Node, Taint, Toleration
from kscheduler.api.taints import (
    HARD_EFFECTS,
    PREFER_NO_SCHEDULE,
    TolerationIndex,
    find_untolerated,
    taint_text,
)
from kscheduler.caches import BoundedCache, size_of
from kscheduler.errors import KschedulerError
from kscheduler.extension_points import Point
from kscheduler.framework.cluster_event import (
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
from kscheduler.framework.in_tree import MAX_DETAILS, Detail
from kscheduler.framework.status import MAX_NODE_SCORE, Rejection, Scores, Status, unresolvable
from kscheduler.plugins.helper import signers
from kscheduler.plugins.helper.normalize_score import share_of_best
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__, "FilterWithNominatedPods.Filter.TaintToleration")

REASON = "node(s) had untolerated taint(s)"
NOT_PREPARED = 'failed to read "PreScoreTaintToleration" from cycleState: not found'
MAX_BYTES = 2 << 20
# Verdicts on longer lists of tolerations are kept for the pod being decided only: there can be as
# many of these as pods, each of a megabyte.
MOST_REMEMBERED_TOLERATIONS = 64

Tolerations = tuple[Toleration, ...]
TaintSets = Sequence[tuple[Taint, ...]]


class Verdicts:
    """Verdicts on each distinct list of taints, by its number, for one list of tolerations."""

    __slots__ = ("_taint_sets", "any_discourages", "any_forbids", "discouraging", "forbidding")

    def __init__(self, taint_sets: TaintSets, forbidding: list[bool], discouraging: list[int]):
        self._taint_sets = taint_sets
        self.forbidding = np.array(forbidding, np.bool_)
        self.discouraging = np.array(discouraging, np.int64)
        self.any_forbids = any(forbidding)
        self.any_discourages = any(discouraging)

    @property
    def nbytes(self) -> int:
        return self.forbidding.nbytes + self.discouraging.nbytes

    def cover(self, taint_sets: TaintSets) -> bool:
        """Whether these are the lists that were judged, and none has been added since."""
        return self._taint_sets is taint_sets and len(taint_sets) == len(self.forbidding)


@plugin(weight=3, also_at=(Point.PRE_FILTER,))
class TaintToleration:
    name = "TaintToleration"
    local = True

    def __init__(self, args: object, handle: Handle) -> None:
        self._numeric = handle.gates.enabled("TaintTolerationComparisonOperators")
        self._remembered: BoundedCache[Tolerations, Verdicts] = BoundedCache(
            "toleration_verdicts", MAX_BYTES
        )
        self.caches = (self._remembered,)
        # Those of the pod being decided, which asks twice, and often those of the next one.
        self._last: tuple[Tolerations, Verdicts] | None = None

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Nothing to prepare; asked and counted as upstream's is."""
        return None

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Iterator[Rejection]:
        verdicts = self._verdicts(pod, nodes)
        if verdicts.any_forbids:
            yield unresolvable(verdicts.forbidding[nodes.taint_set], REASON)

    def log_rejected(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        v, ref = log.v(4), logs.ref(pod.pod)
        if not v:
            return
        for position, name in enumerate(nodes.names):
            taint = find_untolerated(
                nodes.node(position).spec.taints,
                pod.pod.spec.tolerations,
                HARD_EFFECTS,
                numeric_operators=self._numeric,
            )
            if taint is not None:
                v.info(
                    "node had untolerated taints",
                    node=logs.ObjectRef("", name),
                    pod=ref,
                    untoleratedTaint=_shown(taint),
                )

    def describe_rejected(
        self, cycle: CycleState, pod: PodInfo, nodes: Nodes, reason: str
    ) -> Iterator[Detail]:
        """The first untolerated taint of each node, of the most frequent lists of taints."""
        tolerations = pod.pod.spec.tolerations
        if len(tolerations) > MOST_REMEMBERED_TOLERATIONS:
            return
        counts = np.bincount(nodes.taint_set)
        most_frequent = counts.argsort()[: -MAX_DETAILS - 1 : -1]
        found: dict[str, int] = {}
        for number in most_frequent[counts[most_frequent] > 0].tolist():
            taint = find_untolerated(
                nodes.taint_sets[number], tolerations, numeric_operators=self._numeric
            )
            if taint is not None:
                text = f"untolerated taint {taint_text(taint)}"
                found[text] = found.get(text, 0) + int(counts[number])
        for text, count in found.items():
            yield Detail(text, count)

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        cycle.put(self._verdicts(pod, nodes))
        return None

    def score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        """The number of PreferNoSchedule taints of each node that the pod does not tolerate."""
        verdicts = cycle.get(Verdicts)
        if verdicts is None:
            raise KschedulerError(NOT_PREPARED)
        if not verdicts.any_discourages:
            return np.zeros(len(nodes), np.int64)
        return verdicts.discouraging[nodes.taint_set]

    def normalize(self, cycle: CycleState, pod: PodInfo, scores: Scores, nodes: Nodes) -> Scores:
        if not cycle[Verdicts].any_discourages:
            return scores + MAX_NODE_SCORE
        return share_of_best(scores, reverse=True)

    def events_to_register(self) -> Sequence[EventWithHint]:
        return [
            EventWithHint(
                ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_TAINT), self._node_changed
            ),
            EventWithHint(ClusterEvent(TARGET_POD, Action.UPDATE_POD_TOLERATION)),
        ]

    def sign(self, pod: PodInfo) -> Mapping[str, object]:
        return signers.tolerations(pod)

    def _verdicts(self, pod: PodInfo, nodes: Nodes) -> Verdicts:
        tolerations, taint_sets = pod.pod.spec.tolerations, nodes.taint_sets
        last = self._last
        if last is not None and last[0] is tolerations and last[1].cover(taint_sets):
            return last[1]
        if len(tolerations) > MOST_REMEMBERED_TOLERATIONS:
            verdicts = self._judged(tolerations, taint_sets)
        else:
            known = self._remembered.get(tolerations)
            if known is not None and known.cover(taint_sets):
                verdicts = known
            else:
                verdicts = self._judged(tolerations, taint_sets)
                cost = verdicts.nbytes + size_of(tolerations, self._remembered.largest)
                self._remembered.put(tolerations, verdicts, cost)
        self._last = tolerations, verdicts
        return verdicts

    def _judged(self, tolerations: Tolerations, taint_sets: TaintSets) -> Verdicts:
        """In time linear in both: a pod may have thousands of tolerations."""
        index = TolerationIndex(tolerations, numeric_operators=self._numeric)
        return Verdicts(
            taint_sets,
            [index.first_untolerated(taints) is not None for taints in taint_sets],
            [
                sum(
                    taint.effect == PREFER_NO_SCHEDULE and not index.tolerates(taint)
                    for taint in taints
                )
                for taints in taint_sets
            ],
        )

    def _forbids(self, taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> bool:
        found = find_untolerated(taints, tolerations, HARD_EFFECTS, numeric_operators=self._numeric)
        return found is not None

    def _node_changed(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        tolerations = pod.pod.spec.tolerations
        was_closed = old is None or self._forbids(old.spec.taints, tolerations)
        now_open = not self._forbids(new.spec.taints, tolerations)
        return Hint.QUEUE if was_closed and now_open else Hint.SKIP


def _shown(taint: Taint) -> dict[str, str]:
    """The taint as upstream's log shows it: as JSON."""
    shown = {"key": taint.key, "value": taint.value, "effect": taint.effect}
    if not taint.value:
        del shown["value"]
    if taint.time_added is not None:
        shown["timeAdded"] = taint.time_added
    return shown
