"""Scoring strategies: how much of a node's resources is allocated with the pod, as a score.

Functions over matrices [resources, nodes]; a resource that a node does not have (allocatable 0)
does not count for that node. Usually every node has every resource, which is checked first as it
halves the work.

Arithmetic is that of Go's int64, which scores beyond 92 PB per node depend on: products and sums
wrap around, as numpy's do, and divisions truncate towards zero, as numpy's do not.

For one node (`…_of_one`) plain arithmetic is ten times faster than arrays. Amounts that an array of
int64 or float64 would not hold exactly, and nodes that lack a resource, are left to the arrays: the
answer is None.

Mirrors least_allocated.go, most_allocated.go and requested_to_capacity_ratio.go of the plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.resource_names import is_scalar
from kscheduler.framework.status import MAX_NODE_SCORE, Scores
from kscheduler.logs import ObjectRef, Verbose, ref
from kscheduler.plugins.helper.shape_score import broken_linear_function
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

Matrix = NDArray[np.int64]  # [resources, nodes]
Weights = Sequence[int]  # [resources]
Amounts = Sequence[int]  # [resources] of one node: cpu and memory first, what follows is not used
# Requested with the pod, allocatable, weights.
Strategy = Callable[[Matrix, Matrix, Weights], Scores]
StrategyOfOne = Callable[[Amounts, Amounts, Weights], int | None]

# Beyond, a float64 is no longer exact and a percentage may not fit into an int64.
LARGEST = 1 << 53
# Below, no sum over 64 resources with weights up to 100 wraps around.
SUMS_FIT = 1 << 50


def amounts_of_nodes(
    resources: Sequence[str],
    asked: Amounts,
    nodes: Nodes,
    columns_of: Callable[[str, Nodes], tuple[NDArray[np.int64], NDArray[np.int64]] | None],
) -> tuple[Matrix, Matrix]:
    """Allocatable, and requested with the pod: 0 for resources that do not count.

    `columns_of` gives what nodes have of a resource, in all and taken.
    """
    allocatable = np.zeros((len(resources), len(nodes)), np.int64)
    requested = np.zeros_like(allocatable)
    for index, (name, amount) in enumerate(zip(resources, asked, strict=True)):
        if not amount and is_scalar(name):
            continue
        columns = columns_of(name, nodes)
        if columns is not None:
            allocatable[index], used = columns
            requested[index] = np.where(allocatable[index] != 0, used + amount, 0)
    return allocatable, requested


def log_scores(
    v: Verbose,
    pod: PodInfo,
    nodes: Nodes,
    scorer: str,
    amounts: tuple[Matrix, Matrix],
    scores: Scores,
) -> None:
    """One line per node: `amounts` are allocatable and requested with the pod."""
    what = "Listed internal info for allocatable resources, requested resources and score"
    allocatable, requested = (matrix.T.tolist() for matrix in amounts)
    for position, (name, score) in enumerate(zip(nodes.names, scores.tolist(), strict=True)):
        v.info(
            what,
            pod=ref(pod.pod),
            node=ObjectRef("", name),
            resourceAllocationScorer=scorer,
            allocatableResource=allocatable[position],
            requestedResource=requested[position],
            resourceScore=score,
        )


def least_allocated(requested: Matrix, allocatable: Matrix, weights: Weights) -> Scores:
    """0..100 per node: the emptier it would be after placement, the higher."""
    free = allocatable - requested
    if requested.min(initial=0) >= 0:
        np.maximum(free, 0, out=free)
    else:
        # A difference may have wrapped around, so that its sign does not tell which is greater.
        free[requested > allocatable] = 0
    return _weighted_percentage(free, allocatable, weights)


def most_allocated(requested: Matrix, allocatable: Matrix, weights: Weights) -> Scores:
    """0..100 per node: the fuller it would be after placement, the higher."""
    return _weighted_percentage(np.minimum(requested, allocatable), allocatable, weights)


def _weighted_percentage(part: Matrix, allocatable: Matrix, weights: Weights) -> Scores:
    """The mean percentage over the resources a node has; `part` is used up."""
    part *= MAX_NODE_SCORE
    # Divided before weighting, as upstream does; otherwise scores differ by one.
    if all_exist(allocatable):
        # Read as unsigned, a negative number is a huge one: one maximum finds both kinds.
        if part.view(np.uint64).max(initial=0) < SUMS_FIT:
            part //= allocatable
            if len(weights) == 2 and weights[0] == weights[1]:
                return (part[0] + part[1]) >> 1
            return np.array(weights).dot(part) // sum(weights)
        return truncated(np.array(weights).dot(truncated(part, allocatable)), sum(weights))
    exists = allocatable != 0
    part = truncated(part, np.where(exists, allocatable, 1))
    weight = exists * np.array(weights)[:, None]
    return truncated((part * weight).sum(axis=0), np.maximum(weight.sum(axis=0), 1))


def truncated(numbers: NDArray[np.int64], divisors: NDArray[np.int64] | int) -> NDArray[np.int64]:
    """Quotients towards zero; numpy's own are rounded down."""
    quotients, rests = np.divmod(numbers, divisors)
    quotients += (rests != 0) & ((numbers < 0) != (np.asarray(divisors) < 0))
    return quotients


def all_exist(allocatable: Matrix) -> bool:
    """Whether every node has every resource."""
    return np.count_nonzero(allocatable) == allocatable.size


def requested_to_capacity_ratio(shape: Sequence[tuple[int, int]]) -> Strategy:
    """A strategy after the user's curve: utilisation in percent → score 0..100, straight lines
    between points.
    """
    curve = broken_linear_function(shape)

    def score(requested: Matrix, allocatable: Matrix, weights: Weights) -> Scores:
        exists = allocatable != 0
        capacity = np.where(exists, allocatable, 1)
        # Rounded down where upstream truncates: below 0 the curve is flat.
        utilisation = np.where(requested > allocatable, 100, requested * 100 // capacity)
        points = curve[np.clip(utilisation, 0, 100)]
        # Resources that score nothing do not dilute the others.
        weight = (exists & (points > 0)) * np.array(weights)[:, None]
        total = np.maximum(weight.sum(axis=0), 1)
        # Rounded half up.
        return (2 * (points * weight).sum(axis=0) + total) // (2 * total)

    return score


def least_allocated_of_one(
    requested: Amounts, allocatable: Amounts, weights: Weights
) -> int | None:
    points = 0
    for index, weight in enumerate(weights):
        used, capacity = requested[index], allocatable[index]
        if not is_exact(used, capacity):
            return None
        points += max(capacity - used, 0) * MAX_NODE_SCORE // capacity * weight
    return points // sum(weights)


def most_allocated_of_one(requested: Amounts, allocatable: Amounts, weights: Weights) -> int | None:
    points = 0
    for index, weight in enumerate(weights):
        used, capacity = requested[index], allocatable[index]
        if not is_exact(used, capacity):
            return None
        points += min(used, capacity) * MAX_NODE_SCORE // capacity * weight
    return points // sum(weights)


def is_exact(used: int, capacity: int) -> bool:
    """Whether plain arithmetic gives what arrays would."""
    return 0 < capacity < LARGEST and 0 <= used < LARGEST
