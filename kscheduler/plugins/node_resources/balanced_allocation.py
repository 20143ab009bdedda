"""NodeResourcesBalancedAllocation: prefers nodes whose resources a pod brings into balance.

Mirrors pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go. Differs: selectors of
device classes are evaluated, where upstream panics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kscheduler import logs
from kscheduler.api.resource_names import CPU, MEMORY, is_scalar
from kscheduler.api.resources import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.declaration import plugin
from kscheduler.framework.handle import Handle
from kscheduler.framework.status import MAX_NODE_SCORE, SKIP, Scores, Status, rejected
from kscheduler.plugins.helper import signers
from kscheduler.plugins.helper.row_memo import RowMemo
from kscheduler.plugins.node_resources.args import NodeResourcesBalancedAllocationArgs
from kscheduler.plugins.node_resources.devices import NOT_SIGNABLE, DeviceBackedResources
from kscheduler.plugins.node_resources.resource_allocation import (
    Amounts,
    Matrix,
    all_exist,
    amounts_of_nodes,
    is_exact,
    log_scores,
    truncated,
)
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__, "Score.NodeResourcesBalancedAllocation")

# The score of a node whose balance the pod does not change.
BALANCE_KEPT = 75

Fractions = NDArray[np.float64]


class PreScoreState(NamedTuple):
    """The pod's requests of each configured resource, in their order."""

    amounts: tuple[int, ...]


@plugin(
    args=NodeResourcesBalancedAllocationArgs,
    reads=(RESOURCE_CLAIMS, RESOURCE_SLICES, DEVICE_CLASSES, DEVICE_TAINT_RULES),
    weight=1,
)
class NodeResourcesBalancedAllocation:
    name = "NodeResourcesBalancedAllocation"

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, handle: Handle) -> None:
        self._resources = tuple(spec.name for spec in args.resources)
        self._cpu_and_memory = self._resources == (CPU, MEMORY)
        self._devices = DeviceBackedResources(handle)
        self._scores = RowMemo(self._score_nodes, self._score_row, "balanced_allocation_scores")
        self.caches = (self._scores.cache,)

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        request = self._request(pod)
        if not any(request.amounts):
            return SKIP
        cycle.put(request)
        return None

    def score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        request = cycle.get(PreScoreState) or self._request(pod)
        if not self._cpu_and_memory and self._devices.among(self._resources):
            # Devices come and go without a change of their node.
            return self._score_nodes(request, nodes)
        return self._scores(request, nodes)

    def log_scored(self, cycle: CycleState, pod: PodInfo, nodes: Nodes, scores: Scores) -> None:
        if v := log.v(10):
            request = cycle.get(PreScoreState) or self._request(pod)
            amounts = amounts_of_nodes(
                self._resources, request.amounts, nodes, self._devices.columns
            )
            log_scores(v, pod, nodes, self.name, amounts, scores)

    def _score_nodes(self, request: PreScoreState, nodes: Nodes) -> Scores:
        amounts = request.amounts
        if not any(amounts):
            return np.zeros(len(nodes), np.int64)
        if self._cpu_and_memory:
            asked = np.array(amounts, np.int64)[:, None]
            return balance_gain(nodes.requested.T[:2], asked, nodes.allocatable.T[:2])
        counted = [
            (*columns, amount)
            for name, amount in zip(self._resources, amounts, strict=True)
            if (amount or not is_scalar(name))
            and (columns := self._devices.columns(name, nodes)) is not None
        ]
        if not counted:
            return np.full(len(nodes), BALANCE_KEPT)
        allocatable, used, requested = zip(*counted, strict=True)
        asked = np.array(requested, np.int64)[:, None]
        return balance_gain(np.stack(used), asked, np.stack(allocatable))

    def _score_row(self, request: PreScoreState, nodes: Nodes, row: int) -> int | None:
        amounts = request.amounts
        if not self._cpu_and_memory or not any(amounts):
            return None
        return balance_gain_of_one(
            nodes.requested[row].tolist(), amounts, nodes.allocatable[row].tolist()
        )

    def sign(self, pod: PodInfo) -> Mapping[str, object] | Status:
        if self._devices.among(
            name for name in pod.prefixed_requests if pod.spec_requests.get(name)
        ):
            return rejected(NOT_SIGNABLE)
        return signers.requests(pod)

    def _request(self, pod: PodInfo) -> PreScoreState:
        requests = pod.requests
        return PreScoreState(tuple([requests.get(name, 0) for name in self._resources]))


def balance_gain(used: Matrix, asked: Matrix, allocatable: Matrix) -> Scores:
    """50..100 per node: 75 if the pod leaves the balance between resources as it is, more if it
    improves it. `asked` is one column: what the pod asks of each resource.
    """
    # The shape: before and after, resources, nodes.
    fractions = np.empty((2, *used.shape))
    fractions[0] = used
    fractions[1] = used + asked
    if len(used) == 2 and all_exist(allocatable):
        fractions /= allocatable.astype(np.float64)
        np.minimum(fractions, 1.0, out=fractions)
        # Between two resources the standard deviation is half the distance.
        spread = fractions[:, 0] - fractions[:, 1]
        np.abs(spread, out=spread)
        spread *= 0.5
    else:
        exists = allocatable != 0
        fractions /= np.where(exists, allocatable, 1.0)
        np.minimum(fractions, 1.0, out=fractions)
        spread = np.stack([_deviation(one, exists) for one in fractions])
    # Fractions within 0..1 are never further apart.
    if spread.max(initial=0.0) > 0.5:
        return _gain_of_wrapped(spread)
    np.subtract(1.0, spread, out=spread)
    spread *= MAX_NODE_SCORE
    before, after = spread.astype(np.int64)
    # 50 and half of 50..100 after less 50..100 before, which is never negative.
    after -= before
    after += 150
    after >>= 1
    return after


def _gain_of_wrapped(spread: Fractions) -> Scores:
    """The gain where requests have wrapped around and fractions are negative."""
    balance = (1.0 - spread) * MAX_NODE_SCORE
    # Beyond int64 x86 converts to the lowest number of all, below as above.
    lowest, fits = np.iinfo(np.int64).min, np.abs(balance) < 2.0**63
    before, after = np.where(fits, np.where(fits, balance, 0.0).astype(np.int64), lowest)
    half = MAX_NODE_SCORE // 2
    return half + truncated(half + after - before, 2)


def _deviation(fractions: Fractions, exists: NDArray[np.bool_]) -> Fractions:
    """Standard deviation over the resources each node has; half the distance where there are two.

    Summed resource by resource, in the order given: another order may round differently.
    """
    count = np.maximum(exists.sum(axis=0), 1)
    total = np.zeros(fractions.shape[1])
    for one, there in zip(fractions, exists, strict=True):
        total += np.where(there, one, 0.0)
    mean = total / count
    squares = np.zeros_like(total)
    for one, there in zip(fractions, exists, strict=True):
        distance = one - mean
        squares += np.where(there, distance * distance, 0.0)
    deviation = np.sqrt(squares / count)
    # Where two resources exist, nothing but those two; fractions may be negative, but not above 1.
    highest = np.where(exists, fractions, -np.inf).max(axis=0, initial=-np.inf)
    lowest = np.where(exists, fractions, 1.0).min(axis=0, initial=1.0)
    highest, lowest = np.where(count == 2, highest, 0.0), np.where(count == 2, lowest, 0.0)
    deviation = np.where(count == 2, (highest - lowest) / 2, deviation)
    return np.where(count < 2, 0.0, deviation)


def balance_gain_of_one(used: Amounts, asked: Amounts, allocatable: Amounts) -> int | None:
    """`balance_gain` for one node, cpu and memory; None where only arrays are exact."""
    cpu, memory = allocatable[:2]
    cpu_before, memory_before = used[:2]
    cpu_after, memory_after = cpu_before + asked[0], memory_before + asked[1]
    if not (is_exact(cpu_after, cpu) and is_exact(memory_after, memory)):
        return None
    if cpu_before < 0 or memory_before < 0:
        return None
    before = abs(min(cpu_before / cpu, 1.0) - min(memory_before / memory, 1.0)) * 0.5
    after = abs(min(cpu_after / cpu, 1.0) - min(memory_after / memory, 1.0)) * 0.5
    gain = int((1.0 - after) * MAX_NODE_SCORE) - int((1.0 - before) * MAX_NODE_SCORE)
    return (gain + 150) >> 1
