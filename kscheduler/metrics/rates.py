"""Rates of attempts over the last minute, from the counters of the attempts."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from kscheduler.metrics.instruments import Counter, Family

WINDOW_SECONDS = 60.0
# Samples closer together than this are not kept, so that a minute has at most so many.
SPACING_SECONDS = 1.0
RESULTS = ("scheduled", "unschedulable", "error")


class _Sample(NamedTuple):
    time: float
    # In the order of RESULTS.
    counts: tuple[float, ...]


class AttemptRates:
    """Samples of schedule_attempts_total, at most a minute old, and the rates they make.

    They are taken every second while the scheduling loop runs, and whenever somebody asks.
    """

    def __init__(self, attempts: Family[Counter]) -> None:
        self._attempts = attempts
        self._samples: deque[_Sample] = deque()

    def sample(self, now: float) -> None:
        """Takes a sample, and drops those that are too old. `now` never goes back."""
        samples = self._samples
        while samples and now - samples[0].time > WINDOW_SECONDS:
            samples.popleft()
        if samples and now - samples[-1].time < SPACING_SECONDS:
            return
        counts = self._counts()
        if samples and any(map(float.__lt__, counts, samples[-1].counts)):
            # The counters were set to zero; nothing is known of the time before.
            samples.clear()
        samples.append(_Sample(now, counts))

    def per_second(self, now: float) -> dict[str, float]:
        """Attempts per second by result, over the last minute or the part of it that is known.

        Empty as long as nothing is known: at the first question before the loop has run.
        """
        self.sample(now)
        oldest = self._samples[0]
        seconds = now - oldest.time
        if seconds < SPACING_SECONDS:
            return {}
        counted = zip(RESULTS, self._counts(), oldest.counts, strict=True)
        # A counter that was set to zero since the last sample has counted from there.
        return {result: max(0.0, new - old) / seconds for result, new, old in counted}

    def _counts(self) -> tuple[float, ...]:
        totals = dict.fromkeys(RESULTS, 0.0)
        for (result, _profile), counter in self._attempts.items():
            if result in totals:
                totals[result] += counter.value
        return tuple(totals.values())
