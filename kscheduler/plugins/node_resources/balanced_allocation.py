"""NodeResourcesBalancedAllocation: prefers nodes whose resources a pod brings into balance.

Mirrors pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go. Differs: resources
that devices stand behind are not counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kscheduler.api.resource_names import CPU, MEMORY, is_scalar
from kscheduler.framework import sign_fragments as fragments
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.declaration import plugin
from kscheduler.framework.handle import Handle
from kscheduler.framework.row_memo import RowMemo
from kscheduler.framework.status import SKIP, Scores, Status
from kscheduler.plugins.node_resources.args import NodeResourcesBalancedAllocationArgs
from kscheduler.plugins.node_resources.scores import balance_gain
from kscheduler.plugins.node_resources.scores_of_one import balance_gain_of_one
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo


class BalanceRequest(NamedTuple):
    """What the pod asks for of each configured resource, in their order."""

    amounts: tuple[int, ...]


@plugin(args=NodeResourcesBalancedAllocationArgs, weight=1)
class NodeResourcesBalancedAllocation:
    name = "NodeResourcesBalancedAllocation"

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, handle: Handle) -> None:
        self._resources = tuple(spec.name for spec in args.resources)
        self._cpu_and_memory = self._resources == (CPU, MEMORY)
        self._scores = RowMemo(self._score_nodes, self._score_row, "balanced_allocation_scores")
        self.caches = (self._scores.cache,)

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        request = self._request(pod)
        if not any(request.amounts):
            return SKIP
        cycle.put(request)
        return None

    def score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        return self._scores(cycle.get(BalanceRequest) or self._request(pod), nodes)

    def _score_nodes(self, request: BalanceRequest, nodes: Nodes) -> Scores:
        amounts = request.amounts
        if not any(amounts):
            return np.zeros(len(nodes), np.int64)
        if self._cpu_and_memory:
            asked = np.array(amounts, np.int64)[:, None]
            return balance_gain(nodes.requested.T[:2], asked, nodes.allocatable.T[:2])
        return self._score_any(amounts, nodes)

    def _score_row(self, request: BalanceRequest, nodes: Nodes, row: int) -> int | None:
        amounts = request.amounts
        if not self._cpu_and_memory or not any(amounts):
            return None
        return balance_gain_of_one(
            nodes.requested[row].tolist(), amounts, nodes.allocatable[row].tolist()
        )

    def _score_any(self, amounts: Sequence[int], nodes: Nodes) -> Scores:
        counted = [
            (nodes.resources[name], amount)
            for name, amount in zip(self._resources, amounts, strict=True)
            if name in nodes.resources and (amount or not is_scalar(name))
        ]
        columns = [column for column, _ in counted]
        asked = np.array([amount for _, amount in counted], np.int64)[:, None]
        return balance_gain(nodes.requested.T[columns], asked, nodes.allocatable.T[columns])

    def sign(self, pod: PodInfo) -> Mapping[str, object]:
        return fragments.requests(pod)

    def _request(self, pod: PodInfo) -> BalanceRequest:
        requests = pod.requests
        return BalanceRequest(tuple([requests.get(name, 0) for name in self._resources]))
