"""Which of several nodes to empty: the one where it hurts least."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kscheduler.framework.preemption_dry_run import Candidate
from kscheduler.framework.preemption_victims import started_ns

# Makes all priorities positive, so that more victims never weigh less than fewer.
PRIORITY_OFFSET = 1 << 31


def best(candidates: Sequence[Candidate], now_ns: int) -> list[Candidate]:
    """The candidates that are equally good under all criteria, by name."""
    criteria: list[Callable[[Candidate], int]] = [
        lambda one: one.violations,
        lambda one: one.victims[0].priority,
        lambda one: sum(victim.priority + PRIORITY_OFFSET for victim in one.victims),
        lambda one: len(one.victims),
        lambda one: -_oldest_of_the_highest(one, now_ns),
    ]
    left = list(candidates)
    for criterion in criteria:
        if len(left) <= 1:
            break
        costs = [criterion(one) for one in left]
        lowest = min(costs)
        left = [one for one, cost in zip(left, costs, strict=True) if cost == lowest]
    return sorted(left, key=lambda one: one.node)


def _oldest_of_the_highest(candidate: Candidate, now_ns: int) -> int:
    """When the first of the victims with the highest priority was started."""
    highest = max(victim.priority for victim in candidate.victims)
    return min(
        started_ns(victim, now_ns) for victim in candidate.victims if victim.priority == highest
    )
