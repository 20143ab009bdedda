"""NodeResourcesFit: a pod goes where what it asks for is left, and scores nodes by how full they
would be.

Mirrors pkg/scheduler/framework/plugins/noderesources/fit.go. Resources that devices serve are left
to DynamicResources on nodes that have none of them, and counted in devices where they are scored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kscheduler import logs
from kscheduler.api.core import Node
from kscheduler.api.quantity import MAX_INT64, MIN_INT64, nano_value
from kscheduler.api.requests import NON_ZERO_DEFAULTS, Counting, in_units, pod_requests
from kscheduler.api.resource import DeviceClass
from kscheduler.api.resource_names import CPU, MEMORY, PODS, is_extended, is_scalar
from kscheduler.api.resources import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from kscheduler.dra.device_classes import CLASS_PREFIX
from kscheduler.extension_points import Point
from kscheduler.framework.cluster_event import (
    ASSIGNED_POD,
    DEVICE_CLASS,
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
from kscheduler.framework.in_tree import Detail, Shortfall
from kscheduler.framework.status import (
    Code,
    Rejection,
    Scores,
    Status,
    rejected,
    unresolvable,
    unschedulable,
)
from kscheduler.plugins.helper import signers
from kscheduler.plugins.helper.row_memo import RowMemo
from kscheduler.plugins.node_resources.args import NodeResourcesFitArgs
from kscheduler.plugins.node_resources.devices import NOT_SIGNABLE, Column, DeviceBackedResources
from kscheduler.plugins.node_resources.resource_allocation import (
    Matrix,
    Strategy,
    StrategyOfOne,
    amounts_of_nodes,
    least_allocated,
    least_allocated_of_one,
    log_scores,
    most_allocated,
    most_allocated_of_one,
    requested_to_capacity_ratio,
)
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__, "Score.NodeResourcesFit")

NOT_PREPARED = 'error reading "PreFilterNodeResourcesFit" from cycleState: not found'
TOO_MANY_PODS = "Too many pods"
INSUFFICIENT = "Insufficient "
KEPT_FOR_NOMINATED = "what is left is kept for pods nominated to the node"
CONTAINERS_ONLY = Counting(pod_level=False)

# Resource and amount, in the order in which they are reported.
Requests = tuple[tuple[str, int], ...]
# What nodes lack for a pod, [nodes], as the bits of one number each: the lowest bit stands for a
# place among the node's pods; then each requested resource has two bits, one for "not enough is
# left", one for "never enough, even if the node were empty". Such numbers can be kept by row from
# one attempt to the next, and only bits that occur somewhere are turned into sentences.
Shortages = NDArray[np.int64]

_NO_PLACE = 1
_NOT_LEFT = 2
_NEVER = 4
_BITS_PER_RESOURCE = 2
# As many as there are bits for; more are judged in portions.
MAX_RESOURCES = 31


class PreFilterState(NamedTuple):
    """The pod's requests that Filter looks for, and those of them that devices may serve."""

    requests: Requests
    by_devices: tuple[str, ...] = ()


class PreScoreState(NamedTuple):
    """The pod's requests of each configured resource, in their order, as scoring counts them."""

    amounts: tuple[int, ...]


@plugin(
    args=NodeResourcesFitArgs,
    reads=(RESOURCE_CLAIMS, RESOURCE_SLICES, DEVICE_CLASSES, DEVICE_TAINT_RULES),
    weight=1,
    also_at=(Point.PLACEMENT_SCORE,),
)
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
        self._strategy_name = strategy.type
        self._strategy: Strategy = least_allocated
        self._strategy_of_one: StrategyOfOne | None = least_allocated_of_one
        ratio = strategy.requested_to_capacity_ratio
        if strategy.type == "MostAllocated":
            self._strategy, self._strategy_of_one = most_allocated, most_allocated_of_one
        elif strategy.type == "RequestedToCapacityRatio":
            self._strategy_of_one = None
            if ratio is not None:
                # The user writes scores 0..10.
                shape = [(point.utilization, point.score * 10) for point in ratio.shape]
                self._strategy = requested_to_capacity_ratio(shape)
        if not self._cpu_and_memory:
            self._strategy_of_one = None
        self._devices = DeviceBackedResources(handle)
        self._shortages = RowMemo(shortages, shortages_of_row, "resource_shortages")
        self._scores = RowMemo(self._score_nodes, self._score_row, "resource_fit_scores")
        self.caches = (self._shortages.cache, self._scores.cache)

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        requests = [one for one in pod.spec_requests.items() if one[1] > 0]
        if self._ignored or self._ignored_groups:
            requests = [
                (name, amount)
                for name, amount in requests
                if not is_extended(name)
                or (name not in self._ignored and name.split("/", 1)[0] not in self._ignored_groups)
            ]
        prefixed = pod.prefixed_requests
        by_devices = self._devices.among(prefixed) if prefixed else prefixed
        cycle.put(PreFilterState(tuple(requests), by_devices))
        return None

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Iterator[Rejection]:
        state = cycle.get(PreFilterState)
        if state is None:
            yield Rejection(nodes.valid, Code.ERROR, NOT_PREPARED)
            return
        look, by_devices = self._shortages.look, state.by_devices
        if not by_devices:
            yield from rejections(state.requests, lambda some: look(some, nodes))
            return
        yield from rejections(
            state.requests,
            lambda some: left_to_devices(look(some, nodes), some, by_devices, nodes),
        )

    def describe_rejected(
        self, cycle: CycleState, pod: PodInfo, nodes: Nodes, reason: str
    ) -> Iterator[Shortfall | Detail]:
        """Of the nodes that lack it, the one with most left. Where enough is left, the node was
        judged with the pods nominated to it.
        """
        if reason == TOO_MANY_PODS:
            resource, asked, free = PODS, 1, nodes.max_pods - nodes.pod_count
        else:
            resource = reason.removeprefix(INSUFFICIENT)
            asked = pod.spec_requests.get(resource, 0)
            column = nodes.resources.get(resource)
            if column is None:
                yield Shortfall(resource, asked, 0, 0)
                return
            free = nodes.allocatable[:, column] - nodes.requested[:, column]
        most = int(free.argmax())
        if free.item(most) >= asked:
            kept = free >= asked
            yield Detail(KEPT_FOR_NOMINATED, int(np.count_nonzero(kept)))
            free = np.where(kept, MIN_INT64, free)
            most = int(free.argmax())
        if free.item(most) != MIN_INT64:
            yield Shortfall(resource, asked, free.item(most), most)

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        cycle.put(self._score_request(pod))
        return None

    def score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        request = cycle.get(PreScoreState) or self._score_request(pod)
        if not self._cpu_and_memory and self._devices.among(self._resources):
            # Devices come and go without a change of their node.
            return self._score_nodes(request, nodes)
        return self._scores(request, nodes)

    def log_scored(self, cycle: CycleState, pod: PodInfo, nodes: Nodes, scores: Scores) -> None:
        if v := log.v(10):
            request = cycle.get(PreScoreState) or self._score_request(pod)
            amounts = amounts_of_nodes(self._resources, request.amounts, nodes, self._columns)
            log_scores(v, pod, nodes, self._strategy_name, amounts, scores)

    def _score_nodes(self, request: PreScoreState, nodes: Nodes) -> Scores:
        if self._cpu_and_memory:
            asked = np.array(request.amounts, np.int64)[:, None]
            requested = nodes.nonzero_requested.T + asked
            return self._strategy(requested, nodes.allocatable.T[:2], self._weights)
        # Extended resources that the pod does not request, or no node has, do not count.
        counted = [
            (columns, name, amount, weight)
            for name, amount, weight in zip(
                self._resources, request.amounts, self._weights, strict=True
            )
            if (amount or not is_scalar(name))
            and (columns := self._devices.columns(name, nodes)) is not None
        ]
        if not counted:
            return np.zeros(len(nodes), np.int64)
        columns, names, amounts, weights = zip(*counted, strict=True)
        allocatable: Matrix = np.stack([one for one, _ in columns])
        used: Matrix = np.stack([one for _, one in columns])
        # Pods that request no cpu or memory count as requesting some.
        for row, name in zip(used, names, strict=True):
            if name == CPU:
                row[:] = nodes.nonzero_requested[:, 0]
            elif name == MEMORY:
                row[:] = nodes.nonzero_requested[:, 1]
        requested = used + np.array(amounts, np.int64)[:, None]
        return self._strategy(requested, allocatable, weights)

    def _columns(self, resource: str, nodes: Nodes) -> tuple[Column, Column] | None:
        """Amounts of a resource that nodes have, in all and taken, as scoring counts it."""
        columns = self._devices.columns(resource, nodes)
        if columns is not None and resource in (CPU, MEMORY):
            return columns[0], nodes.nonzero_requested[:, 0 if resource == CPU else 1]
        return columns

    def _score_row(self, request: PreScoreState, nodes: Nodes, row: int) -> int | None:
        if self._strategy_of_one is None:
            return None
        used = nodes.nonzero_requested[row].tolist()
        requested = [used[0] + request.amounts[0], used[1] + request.amounts[1]]
        return self._strategy_of_one(requested, nodes.allocatable[row].tolist(), self._weights)

    def events_to_register(self) -> Sequence[EventWithHint]:
        classes = []
        if self._devices.enabled:
            changed = ClusterEvent(DEVICE_CLASS, Action.ADD | Action.UPDATE)
            classes = [EventWithHint(changed, self._class_changed)]
        return [
            EventWithHint(ClusterEvent(ASSIGNED_POD, Action.DELETE), self._pod_deleted),
            EventWithHint(
                ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE), self._node_changed
            ),
            *classes,
            EventWithHint(
                ClusterEvent(ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN), self._pod_scaled_down
            ),
            EventWithHint(ClusterEvent(TARGET_POD, Action.UPDATE_POD_SCALE_DOWN)),
        ]

    def sign(self, pod: PodInfo) -> Mapping[str, object] | Status:
        if self._devices.among(
            name for name in pod.prefixed_requests if pod.spec_requests.get(name)
        ):
            return rejected(NOT_SIGNABLE)
        return signers.requests(pod)

    def _score_request(self, pod: PodInfo) -> PreScoreState:
        """Requests of the containers alone: upstream's scorer does not know of requests at pod
        level, though what pods on nodes take includes them. A pod that requests no cpu or memory
        counts as requesting some.
        """
        requests = pod.requests
        amounts: Mapping[str, int]
        if pod.pod.spec.resources is None and pod.spec_requests is requests:
            amounts = {**requests, CPU: pod.nonzero_cpu, MEMORY: pod.nonzero_memory}
        else:
            amounts = in_units(pod_requests(pod.pod, CONTAINERS_ONLY, NON_ZERO_DEFAULTS))
        return PreScoreState(tuple([amounts.get(name, 0) for name in self._resources]))

    def _pod_deleted(self, pod: PodInfo, old: PodInfo, new: None) -> Hint:
        placed = old.node_name or old.pod.status.nominated_node_name
        return Hint.QUEUE if placed else Hint.SKIP

    def _node_changed(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        """An empty node must have room; what this profile ignores is asked for all the same."""
        after = _allocatable(new)
        wanted = {name: amount for name, amount in pod.spec_requests.items() if amount > 0}
        by_devices = [name for name in self._devices.among(wanted) if after.get(name, 0) <= 0]
        needed = {name: amount for name, amount in wanted.items() if name not in by_devices}
        if after.get(PODS, 0) < 1 or any(after.get(n, 0) < a for n, a in needed.items()):
            return Hint.SKIP
        if old is None or by_devices:
            return Hint.QUEUE
        before = _allocatable(old)
        grew = any(after.get(name, 0) > before.get(name, 0) for name in (PODS, *wanted))
        return Hint.QUEUE if grew else Hint.SKIP

    def _class_changed(self, pod: PodInfo, old: DeviceClass | None, new: DeviceClass) -> Hint:
        """A class helps if its name for pods is new, and this pod asks for it."""
        names = {new.spec.extended_resource_name}
        if old is None:
            names.add(CLASS_PREFIX + new.name)
        elif old.spec.extended_resource_name == new.spec.extended_resource_name:
            return Hint.SKIP
        return Hint.QUEUE if names & pod.spec_requests.keys() else Hint.SKIP

    def _pod_scaled_down(self, pod: PodInfo, old: PodInfo, new: PodInfo) -> Hint:
        if not new.node_name:
            return Hint.SKIP
        frees = any(
            amount > 0 and new.requests.get(name, 0) < old.requests.get(name, 0)
            for name, amount in pod.requests.items()
        )
        return Hint.QUEUE if frees else Hint.SKIP


def _allocatable(node: Node) -> dict[str, int]:
    amounts = {name: nano_value(amount) for name, amount in node.status.allocatable.items()}
    return in_units(amounts)


def shortages(requests: Requests, nodes: Nodes) -> Shortages:
    """Costs a few array operations per requested resource; see `Shortages`."""
    found = (nodes.pod_count >= nodes.max_pods).astype(np.int64)
    for index, (resource, amount) in enumerate(requests):
        column = nodes.resources.get(resource)
        if column is None:
            found |= _NEVER << (index * _BITS_PER_RESOURCE)
            continue
        capacity = nodes.allocatable[:, column]
        short = capacity - nodes.requested[:, column] < amount
        bits = np.where(short, np.where(capacity < amount, _NEVER, _NOT_LEFT), 0)
        found |= bits << (index * _BITS_PER_RESOURCE)
    found[~nodes.valid] = 0
    return found


def shortages_of_row(requests: Requests, nodes: Nodes, row: int) -> int | None:
    """`shortages` of one row, in plain arithmetic; None where int64 would not hold a difference."""
    if not nodes.valid.item(row):
        return 0
    found = _NO_PLACE if nodes.pod_count.item(row) >= nodes.max_pods.item(row) else 0
    capacities, taken = nodes.allocatable[row].tolist(), nodes.requested[row].tolist()
    for index, (resource, amount) in enumerate(requests):
        column = nodes.resources.get(resource)
        capacity, used = (0, 0) if column is None else (capacities[column], taken[column])
        left = capacity - used
        if not MIN_INT64 <= left <= MAX_INT64:
            return None
        if left < amount:
            bit = _NEVER if capacity < amount else _NOT_LEFT
            found |= bit << (index * _BITS_PER_RESOURCE)
    return found


def left_to_devices(
    lacking: Shortages, requests: Requests, by_devices: tuple[str, ...], nodes: Nodes
) -> Shortages:
    """The shortages but for those resources that devices serve where nodes have none of them."""
    for index, (resource, _) in enumerate(requests):
        if resource in by_devices:
            bits = (_NOT_LEFT | _NEVER) << (index * _BITS_PER_RESOURCE)
            column = nodes.resources.get(resource)
            if column is None:
                lacking = lacking & ~bits
            else:
                lacking = np.where(nodes.allocatable[:, column] > 0, lacking, lacking & ~bits)
    return lacking


def rejections(
    requests: Requests, shortages_of: Callable[[Requests], Shortages]
) -> Iterator[Rejection]:
    """One sentence per resource and whether preemption could help."""
    for start in range(0, max(len(requests), 1), MAX_RESOURCES):
        portion = requests[start : start + MAX_RESOURCES]
        found = shortages_of(portion)
        if not np.count_nonzero(found):
            continue
        occurring = int(np.bitwise_or.reduce(found))
        if occurring & _NO_PLACE and start == 0:
            yield unschedulable((found & _NO_PLACE).astype(np.bool_), TOO_MANY_PODS)
        for index, (resource, _) in enumerate(portion):
            shift, reason = index * _BITS_PER_RESOURCE, f"{INSUFFICIENT}{resource}"
            if occurring & (_NOT_LEFT << shift):
                yield unschedulable((found & (_NOT_LEFT << shift)).astype(np.bool_), reason)
            if occurring & (_NEVER << shift):
                yield unresolvable((found & (_NEVER << shift)).astype(np.bool_), reason)
