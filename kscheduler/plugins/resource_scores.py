"""How full a node would be, as a score: three strategies and the balance between resources.
 Pure functions over matrices [nodes, resources]; a resource that a node does not have (allocatable
0) does not count for that node. Integer division truncates, as upstream's does; all operands are
non-negative unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.verdict import MAX_NODE_SCORE, Scores

Matrix = NDArray[np.int64]  # [nodes, resources]
Weights = NDArray[np.int64]  # [resources]
Strategy = Callable[[Matrix, Matrix, Weights], Scores]


def least_allocated(requested: Matrix, allocatable: Matrix, weights: Weights) -> Scores:
    """0..100 per node: the emptier it would be after placement, the higher."""
    free = np.maximum(allocatable - requested, 0)
    return _weighted(free * MAX_NODE_SCORE, allocatable, weights)


def most_allocated(requested: Matrix, allocatable: Matrix, weights: Weights) -> Scores:
    """0..100 per node: the fuller it would be after placement, the higher."""
    return _weighted(np.minimum(requested, allocatable) * MAX_NODE_SCORE, allocatable, weights)


def _weighted(numerator: Matrix, allocatable: Matrix, weights: Weights) -> Scores:
    exists = allocatable > 0
    # Integer division before weighting, as upstream does; otherwise scores differ by one.
    percent = numerator // np.where(exists, allocatable, 1)
    weight = np.where(exists, weights, 0)
    return (percent * weight).sum(axis=1) // np.maximum(weight.sum(axis=1), 1)


def requested_to_capacity_ratio(shape: Sequence[tuple[int, int]]) -> Strategy:
    """A strategy after the user's curve: utilisation in percent → score 0..100, straight lines
    between points.
    """
    curve = np.array([_on_curve(shape, percent) for percent in range(101)], np.int64)

    def score(requested: Matrix, allocatable: Matrix, weights: Weights) -> Scores:
        exists = allocatable > 0
        capacity = np.where(exists, allocatable, 1)
        over = requested > allocatable
        utilisation = np.where(over, 100, requested * 100 // capacity)
        points = np.where(exists, curve[np.where(exists, utilisation, 0)], 0)
        # Resources that score nothing do not dilute the others.
        weight = np.where(points > 0, weights, 0)
        total = weight.sum(axis=1)
        mean = (points * weight).sum(axis=1) / np.maximum(total, 1)
        return np.where(total > 0, np.floor(mean + 0.5), 0).astype(np.int64)

    return score


def _on_curve(shape: Sequence[tuple[int, int]], percent: int) -> int:
    first_x, first_y = shape[0]
    if percent <= first_x:
        return first_y
    for (x0, y0), (x1, y1) in pairwise(shape):
        if percent <= x1:
            # int() truncates toward zero on falling segments, which // would not.
            return y0 + int((y1 - y0) * (percent - x0) / (x1 - x0))
    return shape[-1][1]


def balance_gain(used: Matrix, with_pod: Matrix, allocatable: Matrix) -> Scores:
    """50..100 per node: 75 if the pod leaves the balance between resources as it is, more if it
    improves it.
    """
    change = 50 + _balance(with_pod, allocatable) - _balance(used, allocatable)
    return 50 + change // 2


def _balance(amounts: Matrix, allocatable: Matrix) -> Scores:
    """0..100: 100 when all resources that the node has are used to the same fraction."""
    exists = allocatable > 0
    fractions = np.minimum(amounts / np.where(exists, allocatable, 1), 1.0)
    if fractions.shape[1] == 2 and exists.all():
        spread = np.abs(fractions[:, 0] - fractions[:, 1]) / 2
    else:
        spread = _spread(np.where(exists, fractions, 0.0), exists)
    return ((1 - spread) * MAX_NODE_SCORE).astype(np.int64)


def _spread(fractions: NDArray[np.float64], exists: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Standard deviation over the resources a node has; half the distance where there are exactly
    two.
    """
    count = exists.sum(axis=1)
    mean = fractions.sum(axis=1) / np.maximum(count, 1)
    squares = np.where(exists, (fractions - mean[:, None]) ** 2, 0.0)
    deviation = np.sqrt(squares.sum(axis=1) / np.maximum(count, 1))
    highest = np.where(exists, fractions, -np.inf).max(axis=1)
    lowest = np.where(exists, fractions, np.inf).min(axis=1)
    two = count == 2
    deviation[two] = (highest[two] - lowest[two]) / 2
    deviation[count < 2] = 0.0
    return deviation
