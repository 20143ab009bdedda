"""Which of several nodes to empty: the one where it hurts least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from kscheduler.runtime.preemption.victims import start_ns
from kscheduler.state.pod_info import PodInfo

# Makes all priorities positive, so that more victims never weigh less than fewer.
PRIORITY_OFFSET = 1 << 31


@dataclass(frozen=True)
class Candidate:
    """A node that would suit the pod without these victims, the most important first."""

    node: str
    victims: tuple[PodInfo, ...]
    # Of budgets for disruptions.
    violations: int = 0

    @cached_property
    def harm(self) -> tuple[int, int, int, int]:
        """The smaller, the better; what comes first counts more than all after it."""
        victims = self.victims
        weight = sum([victim.priority for victim in victims]) + PRIORITY_OFFSET * len(victims)
        return self.violations, victims[0].priority, weight, len(victims)

    def oldest_ns(self, now_ns: int) -> int:
        """When the first of the victims with the highest priority was started."""
        return min([now_ns if start is None else start for start in self._starts])

    @cached_property
    def _starts(self) -> frozenset[int | None]:
        """Of the victims with the highest priority."""
        highest = max([victim.priority for victim in self.victims])
        return frozenset(start_ns(one) for one in self.victims if one.priority == highest)


def best(candidates: Sequence[Candidate], now_ns: int) -> list[Candidate]:
    """The candidates that are equally good under all criteria, by name."""
    least = min([one.harm for one in candidates], default=None)
    left = [one for one in candidates if one.harm == least]
    if len(left) > 1:
        ages = [one.oldest_ns(now_ns) for one in left]
        youngest = max(ages)
        left = [one for one, age in zip(left, ages, strict=True) if age == youngest]
    return sorted(left, key=lambda one: one.node)
