"""How full a node would be, as a score: three strategies and the balance between resources.

Pure functions over matrices [resources, nodes]; a resource that a node does not have (allocatable
0) does not count for that node. Usually every node has every resource, which is checked first as it
halves the work.

Arithmetic is that of Go's int64, which scores beyond 92 PB per node depend on: products and sums
wrap around, as numpy's do, and divisions truncate towards zero, as numpy's do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.shape_score import broken_linear_function
from kscheduler.framework.status import MAX_NODE_SCORE, Scores

Matrix = NDArray[np.int64]  # [resources, nodes]
Weights = Sequence[int]  # [resources]
Fractions = NDArray[np.float64]
# Requested with the pod, allocatable, weights.
Strategy = Callable[[Matrix, Matrix, Weights], Scores]


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
    if _all_exist(allocatable):
        if part.min(initial=0) >= 0:
            part //= allocatable
            if len(weights) == 2 and weights[0] == weights[1]:
                return (part[0] + part[1]) >> 1
            return np.array(weights).dot(part) // sum(weights)
        return _truncated(np.array(weights).dot(_truncated(part, allocatable)), sum(weights))
    exists = allocatable != 0
    part = _truncated(part, np.where(exists, allocatable, 1))
    weight = exists * np.array(weights)[:, None]
    return _truncated((part * weight).sum(axis=0), np.maximum(weight.sum(axis=0), 1))


def _truncated(numbers: NDArray[np.int64], divisors: NDArray[np.int64] | int) -> NDArray[np.int64]:
    """The quotients without their fractions; numpy's own rounds negative ones down."""
    quotients, rests = np.divmod(numbers, divisors)
    quotients += (rests != 0) & ((numbers < 0) != (np.asarray(divisors) < 0))
    return quotients


def _all_exist(allocatable: Matrix) -> bool:
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


def balance_gain(used: Matrix, asked: Matrix, allocatable: Matrix) -> Scores:
    """50..100 per node: 75 if the pod leaves the balance between resources as it is, more if it
    improves it. `asked` is one column: what the pod asks of each resource.
    """
    fractions = np.empty((2, *used.shape))
    fractions[0] = used
    fractions[1] = used + asked
    if len(used) == 2 and _all_exist(allocatable):
        fractions /= allocatable.astype(np.float64)
        np.minimum(fractions, 1.0, out=fractions)
        spread = _half_the_distance(fractions)
    else:
        exists = allocatable != 0
        fractions /= np.where(exists, allocatable, 1.0)
        np.minimum(fractions, 1.0, out=fractions)
        spread = np.stack([_spread(one, exists) for one in fractions])
    # Fractions within 0..1 are never further apart.
    if spread.max(initial=0.0) > 0.5:
        return _unusual_gain(spread)
    np.subtract(1.0, spread, out=spread)
    spread *= MAX_NODE_SCORE
    before, after = spread.astype(np.int64)
    # 50 and half of 50..100 after less 50..100 before, which is never negative.
    after -= before
    after += 150
    after >>= 1
    return after


def _unusual_gain(spread: Fractions) -> Scores:
    """The gain where requests have wrapped around and fractions are negative."""
    balance = (1.0 - spread) * MAX_NODE_SCORE
    # Beyond int64 x86 converts to the lowest number of all, below as above.
    lowest, fits = np.iinfo(np.int64).min, np.abs(balance) < 2.0**63
    before, after = np.where(fits, np.where(fits, balance, 0.0).astype(np.int64), lowest)
    half = MAX_NODE_SCORE // 2
    return half + _truncated(half + after - before, 2)


def _half_the_distance(fractions: Fractions) -> Fractions:
    """Between two resources, before and after: what the standard deviation comes to."""
    distance: Fractions = fractions[:, 0] - fractions[:, 1]
    np.abs(distance, out=distance)
    distance *= 0.5
    return distance


def _spread(fractions: Fractions, exists: NDArray[np.bool_]) -> Fractions:
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
