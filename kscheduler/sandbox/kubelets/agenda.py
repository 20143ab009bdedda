"""What is going to happen to pods, and when."""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass

from kscheduler.sandbox.store import Key


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do to one incarnation of a pod."""

    action: str
    key: Key
    uid: str


class Agenda:
    """Steps by the moment they are due; the same step is entered once."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Step]] = []
        self._entered: set[Step] = set()
        self._sequence = itertools.count()

    def enter(self, step: Step, moment: float) -> None:
        if step not in self._entered:
            self._entered.add(step)
            heapq.heappush(self._heap, (moment, next(self._sequence), step))

    def pop_due(self, now: float, limit: int) -> list[Step]:
        due: list[Step] = []
        while self._heap and self._heap[0][0] <= now and len(due) < limit:
            step = heapq.heappop(self._heap)[2]
            self._entered.discard(step)
            due.append(step)
        return due

    def wait(self, now: float, longest: float) -> float:
        """Seconds until the next step is due, at most `longest`."""
        return min(longest, max(self._heap[0][0] - now, 0)) if self._heap else longest
