"""How full a single node would be, as a score: the formulas of `resource_scores` for one node.

In plain arithmetic, which for one node is ten times faster than arrays. Numbers that an array of
int64 or float64 would not hold exactly, and nodes that lack a resource, are left to the formulas
over arrays: the answer is None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kscheduler.framework.status import MAX_NODE_SCORE

Amounts = Sequence[int]  # cpu and memory first; what follows is not looked at
# Requested with the pod, allocatable, weights.
StrategyOfOne = Callable[[Amounts, Amounts, Sequence[int]], int | None]

# Beyond, a float64 is no longer exact and a percentage may not fit into an int64.
LARGEST = 1 << 53


def least_allocated_of_one(
    requested: Amounts, allocatable: Amounts, weights: Sequence[int]
) -> int | None:
    points = 0
    for index, weight in enumerate(weights):
        used, capacity = requested[index], allocatable[index]
        if not _is_usual(used, capacity):
            return None
        points += max(capacity - used, 0) * MAX_NODE_SCORE // capacity * weight
    return points // sum(weights)


def most_allocated_of_one(
    requested: Amounts, allocatable: Amounts, weights: Sequence[int]
) -> int | None:
    points = 0
    for index, weight in enumerate(weights):
        used, capacity = requested[index], allocatable[index]
        if not _is_usual(used, capacity):
            return None
        points += min(used, capacity) * MAX_NODE_SCORE // capacity * weight
    return points // sum(weights)


def balance_gain_of_one(used: Amounts, asked: Amounts, allocatable: Amounts) -> int | None:
    cpu, memory = allocatable[:2]
    cpu_before, memory_before = used[:2]
    cpu_after, memory_after = cpu_before + asked[0], memory_before + asked[1]
    if not (_is_usual(cpu_after, cpu) and _is_usual(memory_after, memory)):
        return None
    if cpu_before < 0 or memory_before < 0:
        return None
    before = abs(min(cpu_before / cpu, 1.0) - min(memory_before / memory, 1.0)) * 0.5
    after = abs(min(cpu_after / cpu, 1.0) - min(memory_after / memory, 1.0)) * 0.5
    gain = int((1.0 - after) * MAX_NODE_SCORE) - int((1.0 - before) * MAX_NODE_SCORE)
    return (gain + 150) >> 1


def _is_usual(used: int, capacity: int) -> bool:
    return 0 < capacity < LARGEST and 0 <= used < LARGEST
