"""NodeResourcesFit: a pod goes where what it asks for is left, and scores nodes by how full they
would be.

Mirrors pkg/scheduler/framework/plugins/noderesources/fit.go. Differs: resources that devices stand
behind are taken for what the node says of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kscheduler.api.core import Node
from kscheduler.api.quantity import nano_value
from kscheduler.api.requests import NON_ZERO_DEFAULTS, Counting, in_units, pod_requests
from kscheduler.api.resource_names import CPU, MEMORY, PODS, is_extended, is_scalar
from kscheduler.extension_points import Point
from kscheduler.framework import sign_fragments as fragments
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
from kscheduler.framework.row_memo import RowMemo
from kscheduler.framework.status import Code, Rejection, Scores, Status
from kscheduler.plugins.node_resources.args import NodeResourcesFitArgs, ScoringStrategy
from kscheduler.plugins.node_resources.scores import (
    Matrix,
    Strategy,
    least_allocated,
    most_allocated,
    requested_to_capacity_ratio,
)
from kscheduler.plugins.node_resources.scores_of_one import (
    StrategyOfOne,
    least_allocated_of_one,
    most_allocated_of_one,
)
from kscheduler.plugins.node_resources.shortages import (
    Wanted,
    rejections,
    shortages,
    shortages_of_row,
)
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

NOT_PREPARED = 'error reading "PreFilterNodeResourcesFit" from cycleState: not found'
CONTAINERS_ONLY = Counting(pod_level=False)


class FitRequest(NamedTuple):
    """What the pod asks for and Filter has to find."""

    wanted: Wanted


class ScoreRequest(NamedTuple):
    """What the pod counts for in scoring: of each configured resource, in their order."""

    amounts: tuple[int, ...]


@plugin(args=NodeResourcesFitArgs, weight=1, also_at=(Point.PLACEMENT_SCORE,))
class NodeResourcesFit:
    name = "NodeResourcesFit"
    local = True

    def __init__(self, args: NodeResourcesFitArgs, handle: Handle) -> None:
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        strategy = args.scoring_strategy
        assert strategy is not None  # Defaulting fills it in.
        self._resources = tuple(spec.name for spec in strategy.resources)
        self._cpu_and_memory = self._resources == (CPU, MEMORY)
        self._weights = tuple(spec.weight for spec in strategy.resources)
        self._strategy = _formula(strategy)
        self._strategy_of_one = _formula_of_one(strategy) if self._cpu_and_memory else None
        self._shortages = RowMemo(shortages, shortages_of_row, "resource_shortages")
        self._scores = RowMemo(self._score_nodes, self._score_row, "resource_fit_scores")
        self.caches = (self._shortages.cache, self._scores.cache)

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        wanted = [one for one in pod.spec_requests.items() if one[1] > 0]
        if self._ignored or self._ignored_groups:
            wanted = [one for one in wanted if not self._ignores(one[0])]
        cycle.put(FitRequest(tuple(wanted)))
        return None

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Iterator[Rejection]:
        request = cycle.get(FitRequest)
        if request is None:
            yield Rejection(nodes.valid, Code.ERROR, NOT_PREPARED)
            return
        yield from rejections(request.wanted, lambda wanted: self._shortages.look(wanted, nodes))

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        cycle.put(self._score_request(pod))
        return None

    def score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        return self._scores(cycle.get(ScoreRequest) or self._score_request(pod), nodes)

    def _score_nodes(self, request: ScoreRequest, nodes: Nodes) -> Scores:
        if self._cpu_and_memory:
            asked = np.array(request.amounts, np.int64)[:, None]
            requested = nodes.nonzero_requested.T + asked
            return self._strategy(requested, nodes.allocatable.T[:2], self._weights)
        return self._score_any(request.amounts, nodes)

    def _score_row(self, request: ScoreRequest, nodes: Nodes, row: int) -> int | None:
        if self._strategy_of_one is None:
            return None
        used = nodes.nonzero_requested[row].tolist()
        requested = [used[0] + request.amounts[0], used[1] + request.amounts[1]]
        return self._strategy_of_one(requested, nodes.allocatable[row].tolist(), self._weights)

    def _score_any(self, amounts: Sequence[int], nodes: Nodes) -> Scores:
        counted = [
            (position, name)
            for position, (name, amount) in enumerate(zip(self._resources, amounts, strict=True))
            if name in nodes.resources and (amount or not is_scalar(name))
        ]
        if not counted:
            return np.zeros(len(nodes), np.int64)
        positions = [position for position, _ in counted]
        names = [name for _, name in counted]
        requested = _used(nodes, names) + np.array(amounts, np.int64)[positions, None]
        allocatable = nodes.allocatable.T[[nodes.resources[name] for name in names]]
        weights = [self._weights[position] for position in positions]
        return self._strategy(requested, allocatable, weights)

    def events_to_register(self) -> Sequence[EventWithHint]:
        return [
            EventWithHint(ClusterEvent(ASSIGNED_POD, Action.DELETE), self._pod_deleted),
            EventWithHint(
                ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE), self._node_changed
            ),
            EventWithHint(
                ClusterEvent(ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN), self._pod_scaled_down
            ),
            EventWithHint(ClusterEvent(TARGET_POD, Action.UPDATE_POD_SCALE_DOWN)),
        ]

    def sign(self, pod: PodInfo) -> Mapping[str, object]:
        return fragments.requests(pod)

    def _ignores(self, resource: str) -> bool:
        if not is_extended(resource):
            return False
        return resource in self._ignored or resource.split("/", 1)[0] in self._ignored_groups

    def _score_request(self, pod: PodInfo) -> ScoreRequest:
        amounts = _counted_in_scoring(pod)
        return ScoreRequest(tuple([amounts.get(name, 0) for name in self._resources]))

    def _pod_deleted(self, pod: PodInfo, old: PodInfo, new: None) -> Hint:
        placed = old.node_name or old.pod.status.nominated_node_name
        return Hint.QUEUE if placed else Hint.SKIP

    def _node_changed(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        """An empty node must have room; what this profile ignores is asked for all the same."""
        after = _allocatable(new)
        wanted = {name: amount for name, amount in pod.spec_requests.items() if amount > 0}
        if after.get(PODS, 0) < 1 or any(after.get(n, 0) < a for n, a in wanted.items()):
            return Hint.SKIP
        if old is None:
            return Hint.QUEUE
        before = _allocatable(old)
        grew = any(after.get(name, 0) > before.get(name, 0) for name in (PODS, *wanted))
        return Hint.QUEUE if grew else Hint.SKIP

    def _pod_scaled_down(self, pod: PodInfo, old: PodInfo, new: PodInfo) -> Hint:
        if not new.node_name:
            return Hint.SKIP
        frees = any(
            amount > 0 and new.requests.get(name, 0) < old.requests.get(name, 0)
            for name, amount in pod.requests.items()
        )
        return Hint.QUEUE if frees else Hint.SKIP


def _counted_in_scoring(pod: PodInfo) -> Mapping[str, int]:
    """By its containers alone: upstream's scorer does not know of requests at pod level, though
    what pods on nodes take includes them. Who asks for no cpu or memory counts as asking for some.
    """
    reported_on = pod.spec_requests is not pod.requests
    if pod.pod.spec.resources is None and not reported_on:
        return {**pod.requests, CPU: pod.nonzero_cpu, MEMORY: pod.nonzero_memory}
    return in_units(pod_requests(pod.pod, CONTAINERS_ONLY, NON_ZERO_DEFAULTS))


def _used(nodes: Nodes, names: Sequence[str]) -> Matrix:
    """What is taken of these resources, with something assumed for pods that name no amount."""
    used: Matrix = nodes.requested.T[[nodes.resources[name] for name in names]]
    for row, name in zip(used, names, strict=True):
        if name == CPU:
            row[:] = nodes.nonzero_requested[:, 0]
        elif name == MEMORY:
            row[:] = nodes.nonzero_requested[:, 1]
    return used


def _formula(strategy: ScoringStrategy) -> Strategy:
    if strategy.type == "MostAllocated":
        return most_allocated
    ratio = strategy.requested_to_capacity_ratio
    if strategy.type == "RequestedToCapacityRatio" and ratio is not None:
        # The user writes scores 0..10.
        return requested_to_capacity_ratio([(p.utilization, p.score * 10) for p in ratio.shape])
    return least_allocated


def _formula_of_one(strategy: ScoringStrategy) -> StrategyOfOne | None:
    """The same for one node; None where there is none that is faster."""
    formulas = {"LeastAllocated": least_allocated_of_one, "MostAllocated": most_allocated_of_one}
    return formulas.get(strategy.type)


def _allocatable(node: Node) -> dict[str, int]:
    amounts = {name: nano_value(amount) for name, amount in node.status.allocatable.items()}
    return in_units(amounts)
