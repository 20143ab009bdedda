"""NodeResourcesBalancedAllocation: prefers nodes whose resources a pod brings into balance.

Mirrors pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go. Differs: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kscheduler.api.resource_names import is_scalar
from kscheduler.config.plugin_args import NodeResourcesBalancedAllocationArgs
from kscheduler.framework import fragments
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle
from kscheduler.framework.verdict import SKIP, Scores, Status
from kscheduler.plugins.resource_scores import balance_gain
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo


@dataclass(frozen=True, slots=True)
class BalanceRequest:
    amounts: tuple[tuple[str, int], ...]


class NodeResourcesBalancedAllocation:
    name = "NodeResourcesBalancedAllocation"

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, handle: Handle) -> None:
        self._resources = tuple(spec.name for spec in args.resources)

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        asked = [(name, pod.requests.get(name, 0)) for name in self._resources]
        if not any(amount for _, amount in asked):
            return SKIP
        counted = tuple((name, amount) for name, amount in asked if amount or not is_scalar(name))
        cycle.put(BalanceRequest(counted))
        return None

    def score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        amounts = cycle[BalanceRequest].amounts
        shape = (len(nodes), len(amounts))
        used, allocatable = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for i, (resource, _) in enumerate(amounts):
            column = nodes.resources.get(resource)
            if column is not None:
                allocatable[:, i] = nodes.allocatable[:, column]
                used[:, i] = nodes.requested[:, column]
        asked = np.array([amount for _, amount in amounts], np.int64)
        return balance_gain(used, used + asked, allocatable)

    def sign(self, pod: PodInfo) -> Mapping[str, object]:
        return fragments.requests(pod)
