"""Long work on the event loop, cut into slices so that other tasks run in between.

    slices = Slices()
    for pod in pods:
        ...
        if slices.due():
            await slices.rest()

A slice is a few milliseconds. After it the work sleeps for as long as it took: others have at least
half of the time, however long the work is in all. `IdleSlices` are for work that should not be
noticed at all while there is something better to do.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

# A decision or a binding that is ready waits no longer than this for the work.
SLICE_SECONDS = 0.004


class Slices:
    """One piece of long work; `worked_seconds` is the CPU time of its finished slices."""

    __slots__ = ("_cpu_began", "_ends", "_seconds", "_timer", "worked_seconds")

    def __init__(
        self,
        seconds: float = SLICE_SECONDS,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._seconds = seconds
        self._timer = timer
        self.worked_seconds = 0.0
        self._begin()

    def due(self) -> bool:
        """Whether the slice has used up its time; about 60 ns, so it can be asked per object."""
        return self._timer() >= self._ends

    async def rest(self) -> None:
        """Other tasks run; the next slice begins when this returns."""
        worked = self.finish()
        await asyncio.sleep(min(worked, self._seconds))
        self._begin()

    def finish(self) -> float:
        """The end of a slice; its CPU seconds."""
        # CPU time of this thread: a machine that stood still has not worked.
        worked = time.thread_time() - self._cpu_began
        self.worked_seconds += worked
        return worked

    def _begin(self) -> None:
        self._ends = self._timer() + self._seconds
        self._cpu_began = time.thread_time()


# Of the loop's time, while others are busy.
BUSY_SHARE = 0.025
BUSY_SLICE_SECONDS = 0.001
# The longest rest, in times of the work that others should have done by then.
MAX_WAIT_FOR_OTHERS = 4
# How soon it is noticed that they are no longer.
BUSY_CHECK_SECONDS = 0.02


class IdleSlices(Slices):
    """Work for idle time. While others are busy it is done in short slices and takes a small share
    of the time; else it takes all the time that there is, slice by slice.
    """

    __slots__ = ("_is_busy",)

    def __init__(
        self,
        is_busy: Callable[[], bool],
        seconds: float = SLICE_SECONDS,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._is_busy = is_busy
        super().__init__(seconds, timer)

    async def rest(self) -> None:
        """Ends when others have worked as long as they should, in CPU time of this thread: on a
        machine that is busy with other things, time alone says little. Where they mostly wait, as
        for an API server, it ends after some time all the same.
        """
        others = self.finish() * (1 / BUSY_SHARE - 1)
        cpu_until = time.thread_time() + others
        until = self._timer() + others * MAX_WAIT_FOR_OTHERS
        await asyncio.sleep(0)
        while (  # noqa: ASYNC110
            self._is_busy()
            and (left := cpu_until - time.thread_time()) > 0
            and self._timer() < until
        ):
            # Never a moment only: looking takes time, too.
            await asyncio.sleep(min(max(left, SLICE_SECONDS), BUSY_CHECK_SECONDS))
        self._begin()

    def _begin(self) -> None:
        super()._begin()
        if self._is_busy():
            self._ends = self._timer() + BUSY_SLICE_SECONDS
