"""NodeName: a pod that names its node goes there or nowhere.

Mirrors pkg/scheduler/framework/plugins/nodename. Differs: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from kscheduler.extension_points import Point
from kscheduler.framework.cluster_event import NODE, Action, ClusterEvent, EventWithHint
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.declaration import plugin
from kscheduler.framework.plugin import NodeNames
from kscheduler.framework.status import Rejection, unresolvable
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

REASON = "node(s) didn't match the requested node name"


@plugin(also_at=(Point.PRE_FILTER,))
class NodeName:
    name = "NodeName"
    local = True

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> NodeNames | None:
        return NodeNames(frozenset({pod.node_name})) if pod.node_name else None

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Iterator[Rejection]:
        if pod.node_name:
            row = nodes.row_of(pod.node_name)
            others = nodes.rows != row if row is not None else np.ones(len(nodes), np.bool_)
            yield unresolvable(others, REASON)

    def events_to_register(self) -> Sequence[EventWithHint]:
        return [EventWithHint(ClusterEvent(NODE, Action.ADD))]

    def sign(self, pod: PodInfo) -> Mapping[str, object]:
        return {"v1.Pod.Spec.NodeName": pod.node_name}
