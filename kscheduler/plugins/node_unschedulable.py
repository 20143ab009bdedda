"""NodeUnschedulable: keeps pods off cordoned nodes.

Mirrors pkg/scheduler/framework/plugins/nodeunschedulable. Differs: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from kscheduler.api.core import Node
from kscheduler.api.taints import UNSCHEDULABLE_TAINT, is_tolerated
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
from kscheduler.framework.status import Rejection, Status, unresolvable
from kscheduler.plugins.helper import signers
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

REASON = "node(s) were unschedulable"


@plugin(also_at=(Point.PRE_FILTER,))
class NodeUnschedulable:
    name = "NodeUnschedulable"
    local = True

    def __init__(self, args: object, handle: Handle) -> None:
        self._numeric = handle.gates.enabled("TaintTolerationComparisonOperators")

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Nothing to prepare; asked and counted as upstream's is."""
        return None

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Iterator[Rejection]:
        if np.count_nonzero(nodes.unschedulable) and not self._tolerates(pod):
            yield unresolvable(nodes.unschedulable, REASON)

    def events_to_register(self) -> Sequence[EventWithHint]:
        return [
            EventWithHint(
                ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_TAINT), self._node_changed
            ),
            EventWithHint(
                ClusterEvent(TARGET_POD, Action.UPDATE_POD_TOLERATION), self._tolerations_changed
            ),
        ]

    def sign(self, pod: PodInfo) -> Mapping[str, object]:
        return signers.tolerations(pod)

    def _tolerates(self, pod: PodInfo) -> bool:
        tolerations = pod.pod.spec.tolerations
        return is_tolerated(UNSCHEDULABLE_TAINT, tolerations, numeric_operators=self._numeric)

    def _node_changed(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        was_closed = old is None or old.spec.unschedulable
        return Hint.QUEUE if was_closed and not new.spec.unschedulable else Hint.SKIP

    def _tolerations_changed(self, pod: PodInfo, old: PodInfo, new: PodInfo) -> Hint:
        return Hint.QUEUE if self._tolerates(new) else Hint.SKIP
