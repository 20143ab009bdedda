"""Where the loop spends its time: its stack, looked at a hundred times a second by a thread.

Each look counts the CPU time that the loop has used since the one before; a loop that only waited
is not counted.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from dataclasses import dataclass, field

from kscheduler.errors import KschedulerError
from kscheduler.serving.profiling.stacks import Stack, stack_of

INTERVAL_SECONDS = 0.01
# Of the time between two looks; less is what being woken costs.
IDLE_SHARE = 0.05


class BusyError(KschedulerError):
    """Somebody is sampling already."""


@dataclass(slots=True)
class Samples:
    """Stacks in the order they were seen, each with the nanoseconds of CPU it stands for."""

    started: float
    seconds: float = 0.0
    seen: list[tuple[Stack, int]] = field(default_factory=list)


class Sampler:
    """One at a time: two would count each other's doing."""

    def __init__(self) -> None:
        self._busy = False

    async def sample(self, seconds: float) -> Samples:
        """Looks at the calling thread for a while."""
        if self._busy:
            raise BusyError("cpu profiling already in use")
        self._busy = True
        samples = Samples(time.time())
        stop = threading.Event()
        thread = threading.Thread(
            target=_watch,
            args=(threading.get_ident(), stop, samples),
            name="profiler",
            daemon=True,
        )
        begun = time.monotonic()
        try:
            thread.start()
            await asyncio.sleep(seconds)
        finally:
            stop.set()
            self._busy = False
        samples.seconds = time.monotonic() - begun
        return samples


def _watch(thread: int, stop: threading.Event, samples: Samples) -> None:
    clock = time.pthread_getcpuclockid(thread)
    last = time.clock_gettime_ns(clock)
    while not stop.wait(INTERVAL_SECONDS):
        used = time.clock_gettime_ns(clock) - last
        last += used
        if used > IDLE_SHARE * INTERVAL_SECONDS * 1e9:
            samples.seen.append((stack_of(sys._current_frames().get(thread)), used))
