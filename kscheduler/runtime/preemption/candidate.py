"""Candidates: nodes that would suit the pod without some victims, and which of them is best.

Mirrors pickOneNodeForPreemption and the helpers on start times and terminating pods of
pkg/scheduler/framework/preemption and pkg/scheduler/util.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from kscheduler.api.timestamps import TimestampError, parse_time_ns
from kscheduler.runtime.extenders.extenders import ExtenderAnswer
from kscheduler.state.pod_info import PodInfo

DISRUPTION_TARGET = "DisruptionTarget"
PREEMPTION_BY_SCHEDULER = "PreemptionByScheduler"
# Makes all priorities positive, so that more victims never weigh less than fewer.
PRIORITY_OFFSET = 1 << 31
# Victims of one candidate whose budgets are looked up for an explanation.
MOST_VICTIMS_TOLD = 64


@dataclass(frozen=True)
class Candidate:
    """A node that would suit the pod without these victims, the most important first."""

    node: str
    victims: tuple[PodInfo, ...]
    # Victims whose eviction exceeds a PodDisruptionBudget: how many, and their uids.
    num_pdb_violations: int = 0
    violating: frozenset[str] = frozenset()

    @cached_property
    def cost(self) -> tuple[int, int, int, int]:
        """Upstream's first four criteria; the smaller, the better, and the first counts most."""
        victims = self.victims
        # Lists rather than generators: half the time, and this runs for every candidate.
        weight = sum([victim.priority for victim in victims]) + PRIORITY_OFFSET * len(victims)
        return self.num_pdb_violations, victims[0].priority, weight, len(victims)

    def earliest_start_ns(self, now_ns: int) -> int:
        """The earliest start among the victims of the highest priority."""
        return min([now_ns if start is None else start for start in self._starts])

    @cached_property
    def _starts(self) -> frozenset[int | None]:
        """Starts of the victims of the highest priority; a candidate outlives many `now_ns`."""
        highest = max([victim.priority for victim in self.victims])
        return frozenset(start_ns(one) for one in self.victims if one.priority == highest)


class VictimBudgets(NamedTuple):
    """Names of disruption budgets, for each of the first MOST_VICTIMS_TOLD victims."""

    names: tuple[tuple[str, ...], ...]


class PreemptionAnswers(NamedTuple):
    """Answers of extenders that were asked about the candidates of an attempt."""

    answers: Sequence[ExtenderAnswer]


def pick_nodes_for_preemption(candidates: Sequence[Candidate], now_ns: int) -> list[Candidate]:
    """Candidates that are equally good under all criteria, by node name.

    Upstream takes any one of these.
    """
    least = min([one.cost for one in candidates], default=None)
    left = [one for one in candidates if one.cost == least]
    if len(left) > 1:
        # The fifth criterion: the latest of the earliest starts.
        starts = [one.earliest_start_ns(now_ns) for one in left]
        latest = max(starts)
        left = [one for one, start in zip(left, starts, strict=True) if start == latest]
    return sorted(left, key=lambda one: one.node)


def start_ns(pod: PodInfo) -> int | None:
    """Nanoseconds since 1970 when the pod's kubelet acknowledged it; None, which counts as now, if
    none has yet.
    """
    started = pod.pod.status.start_time
    return None if started is None else _parsed_time(started)


@lru_cache(maxsize=1 << 16)
def _parsed_time(text: str) -> int | None:
    try:
        return parse_time_ns(text)
    except TimestampError:
        return None


def is_terminating_by_preemption(pod: PodInfo) -> bool:
    """Whether the pod is being deleted because the scheduler preempted it."""
    condition = pod.pod.condition(DISRUPTION_TARGET) if pod.terminating else None
    return (
        condition is not None
        and condition.status == "True"
        and condition.reason == PREEMPTION_BY_SCHEDULER
    )
