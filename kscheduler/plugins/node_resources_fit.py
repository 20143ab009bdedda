"""NodeResourcesFit: a pod goes where what it asks for is left, and scores nodes by how full they
would be.

Mirrors pkg/scheduler/framework/plugins/noderesources/fit.go. Differs: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kscheduler.api.core import Node
from kscheduler.api.quantity import nano_value
from kscheduler.api.requests import NON_ZERO_DEFAULTS, Counting, in_units, pod_requests
from kscheduler.api.resource_names import CPU, MEMORY, PODS, is_extended, is_scalar
from kscheduler.config.plugin_args import NodeResourcesFitArgs, ScoringStrategy
from kscheduler.framework import fragments
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
from kscheduler.framework.handle import Handle
from kscheduler.framework.verdict import Rejection, Scores, Status, unresolvable, unschedulable
from kscheduler.plugins.resource_scores import (
    Strategy,
    least_allocated,
    most_allocated,
    requested_to_capacity_ratio,
)
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

TOO_MANY_PODS = "Too many pods"
CONTAINERS_ONLY = Counting(pod_level=False)


@dataclass(frozen=True, slots=True)
class FitRequest:
    """What the pod asks for and Filter has to find, in the order reasons are told."""

    wanted: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """What the pod counts for in scoring, per configured resource; unasked-for scalars are left
    out.
    """

    amounts: tuple[tuple[str, int, int], ...]  # resource, amount, weight


class NodeResourcesFit:
    name = "NodeResourcesFit"

    def __init__(self, args: NodeResourcesFitArgs, handle: Handle) -> None:
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        strategy = args.scoring_strategy
        assert strategy is not None  # Defaulting fills it in.
        self._weights = tuple((spec.name, spec.weight) for spec in strategy.resources)
        self._strategy = _formula(strategy)

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        wanted = tuple(
            (name, amount)
            for name, amount in pod.spec_requests.items()
            if amount > 0 and not self._ignores(name)
        )
        cycle.put(FitRequest(wanted))
        return None

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Iterator[Rejection]:
        yield unschedulable(nodes.pod_count >= nodes.max_pods, TOO_MANY_PODS)
        for resource, wanted in cycle[FitRequest].wanted:
            yield from _short_of(resource, wanted, nodes)

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        cycle.put(self._score_request(pod))
        return None

    def score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        request = cycle[ScoreRequest]
        shape = (len(nodes), len(request.amounts))
        requested, allocatable = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for i, (resource, amount, _) in enumerate(request.amounts):
            column = nodes.resources.get(resource)
            if column is not None:
                allocatable[:, i] = nodes.allocatable[:, column]
                requested[:, i] = _used(nodes, resource, column) + amount
        weights = np.array([weight for _, _, weight in request.amounts], np.int64)
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
        # Upstream's scorer does not know of requests at pod level; what is on nodes does count
        # them.
        amounts = in_units(pod_requests(pod.pod, CONTAINERS_ONLY, NON_ZERO_DEFAULTS))
        return ScoreRequest(
            tuple(
                (resource, amounts.get(resource, 0), weight)
                for resource, weight in self._weights
                if amounts.get(resource, 0) or not is_scalar(resource)
            )
        )

    def _pod_deleted(self, pod: PodInfo, old: PodInfo, new: None) -> Hint:
        placed = old.node_name or old.pod.status.nominated_node_name
        return Hint.QUEUE if placed else Hint.SKIP

    def _node_changed(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
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
            for name, amount in pod.spec_requests.items()
        )
        return Hint.QUEUE if frees else Hint.SKIP


def _short_of(resource: str, wanted: int, nodes: Nodes) -> Iterator[Rejection]:
    reason = f"Insufficient {resource}"
    column = nodes.resources.get(resource)
    if column is None:
        yield unresolvable(np.ones(len(nodes), np.bool_), reason)
        return
    capacity = nodes.allocatable[:, column]
    short = capacity - nodes.requested[:, column] < wanted
    if not short.any():
        return
    too_small = capacity < wanted  # even when empty: preemption cannot help
    yield unschedulable(short & ~too_small, reason)
    yield unresolvable(short & too_small, reason)


def _used(nodes: Nodes, resource: str, column: int) -> Scores:
    """What scoring takes as used: pods that ask for no cpu or memory count as asking for some."""
    if resource == CPU:
        return nodes.nonzero_requested[:, 0]
    if resource == MEMORY:
        return nodes.nonzero_requested[:, 1]
    return nodes.requested[:, column]


def _formula(strategy: ScoringStrategy) -> Strategy:
    if strategy.type == "MostAllocated":
        return most_allocated
    ratio = strategy.requested_to_capacity_ratio
    if strategy.type == "RequestedToCapacityRatio" and ratio is not None:
        # The user writes scores 0..10.
        return requested_to_capacity_ratio([(p.utilization, p.score * 10) for p in ratio.shape])
    return least_allocated


def _allocatable(node: Node) -> dict[str, int]:
    amounts = {name: nano_value(amount) for name, amount in node.status.allocatable.items()}
    return in_units(amounts)
