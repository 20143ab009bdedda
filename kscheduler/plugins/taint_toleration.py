"""TaintToleration: nodes may repel pods; NoSchedule and NoExecute forbid, PreferNoSchedule costs
score.
 Mirrors pkg/scheduler/framework/plugins/tainttoleration. Differs: verdicts are computed per
distinct list of taints in the cluster (usually a handful) and looked up per node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kscheduler.api.core import Node, Taint, Toleration
from kscheduler.api.taints import HARD_EFFECTS, PREFER_NO_SCHEDULE, find_untolerated, is_tolerated
from kscheduler.framework import fragments
from kscheduler.framework.cluster_event import (
    NODE,
    TARGET_POD,
    Action,
    ClusterEvent,
    EventWithHint,
    Hint,
)
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle
from kscheduler.framework.normalize import share_of_best
from kscheduler.framework.verdict import Mask, Rejection, Scores, unresolvable
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

REASON = "node(s) had untolerated taint(s)"
REMEMBERED = 1024


@dataclass(slots=True)
class _Verdicts:
    """What one list of tolerations makes of each distinct taint list, by the list's id."""

    forbidden: Mask
    discouraged: Scores


class TaintToleration:
    name = "TaintToleration"

    def __init__(self, args: object, handle: Handle) -> None:
        self._numeric = handle.gates.enabled("TaintTolerationComparisonOperators")
        self._remembered: dict[tuple[Toleration, ...], _Verdicts] = {}

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Iterator[Rejection]:
        forbidden = self._verdicts(pod, nodes).forbidden
        if forbidden.any():
            yield unresolvable(forbidden[nodes.taint_set], REASON)

    def score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        return self._verdicts(pod, nodes).discouraged[nodes.taint_set]

    def normalize(self, cycle: CycleState, pod: PodInfo, scores: Scores, nodes: Nodes) -> Scores:
        return share_of_best(scores, reverse=True)

    def events_to_register(self) -> Sequence[EventWithHint]:
        return [
            EventWithHint(
                ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_TAINT), self._node_changed
            ),
            EventWithHint(ClusterEvent(TARGET_POD, Action.UPDATE_POD_TOLERATION)),
        ]

    def sign(self, pod: PodInfo) -> Mapping[str, object]:
        return fragments.tolerations(pod)

    def _verdicts(self, pod: PodInfo, nodes: Nodes) -> _Verdicts:
        tolerations = pod.pod.spec.tolerations
        verdicts = self._remembered.get(tolerations)
        if verdicts is None or len(verdicts.forbidden) < len(nodes.taint_sets):
            if len(self._remembered) >= REMEMBERED:
                self._remembered.clear()
            verdicts = self._remembered[tolerations] = self._judge(tolerations, nodes.taint_sets)
        return verdicts

    def _judge(
        self, tolerations: tuple[Toleration, ...], taint_sets: Sequence[tuple[Taint, ...]]
    ) -> _Verdicts:
        soft = tuple(t for t in tolerations if t.effect in ("", PREFER_NO_SCHEDULE))
        return _Verdicts(
            np.array([self._forbids(taints, tolerations) for taints in taint_sets], np.bool_),
            np.array([self._discourages(taints, soft) for taints in taint_sets], np.int64),
        )

    def _forbids(self, taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> bool:
        found = find_untolerated(taints, tolerations, HARD_EFFECTS, numeric_operators=self._numeric)
        return found is not None

    def _discourages(self, taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> int:
        return sum(
            taint.effect == PREFER_NO_SCHEDULE
            and not is_tolerated(taint, tolerations, numeric_operators=self._numeric)
            for taint in taints
        )

    def _node_changed(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        tolerations = pod.pod.spec.tolerations
        was_closed = old is None or self._forbids(old.spec.taints, tolerations)
        now_open = not self._forbids(new.spec.taints, tolerations)
        return Hint.QUEUE if was_closed and now_open else Hint.SKIP
