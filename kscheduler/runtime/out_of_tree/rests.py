"""Keeps a plugin that hangs from taking all of the loop's time.

Every call that does not return holds up the whole scheduler until it is interrupted, and there may
be a thousand pods to ask about, or an event every second to ask again. Who was late several times
in a row at an extension point is therefore not asked there for a while: pods that need the answer
fail at once, and everyone else gets the loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from kscheduler.gotext.duration import Duration
from kscheduler.runtime.out_of_tree.health import KEEPS_FAILING, Fault, PluginFault

# A rest is so many times as long as the call that was interrupted.
LONGER = 12


class Rests:
    """Of one plugin in one profile, by extension point."""

    def __init__(self, call_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = call_seconds
        self._clock = clock
        # Late answers since the last one in time; points without any are not there.
        self._late: dict[str, int] = {}
        # When the rest is over, and how long it is.
        self._rests: dict[str, tuple[float, float]] = {}

    def __bool__(self) -> bool:
        return bool(self._late)

    def refusal(self, point: str) -> PluginFault | None:
        """Why the plugin is not asked now, if it is not."""
        until, seconds = self._rests.get(point, (0.0, 0.0))
        if self._clock() >= until:
            return None
        count, rest = self._late[point], Duration.of(seconds)
        text = f"timed out {count} times in a row and is not asked for {rest}"
        return PluginFault(Fault.TIMEOUT, text)

    def late(self, point: str, interruptions: int = 1) -> None:
        """`interruptions` is how many it took to end the call."""
        count = self._late[point] = self._late.get(point, 0) + 1
        if count >= KEEPS_FAILING:
            seconds = self._seconds * interruptions * LONGER
            self._rests[point] = self._clock() + seconds, seconds

    def in_time(self, point: str) -> None:
        if self._late:
            self._late.pop(point, None)
            self._rests.pop(point, None)
