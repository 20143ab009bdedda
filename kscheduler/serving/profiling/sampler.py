"""A sampling profiler: the loop's stack, taken every hundredth second of CPU.

The kernel counts that time and signals; the stack seen is the one that the signal found. (A
second thread would mostly see the places where the interpreter lets it run.) A loop that
only waits uses no time and is not seen.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import re
import signal
import time
from tempfile import TemporaryFile
from types import CodeType, FrameType
from typing import Any, NamedTuple

import msgspec

from kscheduler.errors import KschedulerError

INTERVAL_SECONDS = 0.01


class BusyError(KschedulerError):
    """Another request is sampling already."""


class Samples(msgspec.Struct):
    """Stacks in the order they were seen, each with the nanoseconds of CPU it stands for."""

    started: float
    seconds: float = 0.0
    seen: list[tuple[Stack, int]] = msgspec.field(default_factory=list)


class Sampler:
    """One at a time: there is one timer. For the main thread, where the loop is."""

    def __init__(self) -> None:
        self._busy = False

    async def sample(self, seconds: float) -> Samples:
        if self._busy:
            raise BusyError("cpu profiling already in use")
        self._busy = True
        samples = Samples(time.time())
        begun, last = time.monotonic(), time.process_time_ns()

        def take_sample(number: int, frame: FrameType | None) -> None:
            nonlocal last
            now = time.process_time_ns()
            samples.seen.append((stack_of(frame), now - last))
            last = now

        signal.signal(signal.SIGPROF, take_sample)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL_SECONDS, INTERVAL_SECONDS)
        try:
            await asyncio.sleep(seconds)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            # Not the default: a signal that is still on its way would end the process.
            signal.signal(signal.SIGPROF, signal.SIG_IGN)
            self._busy = False
        samples.seconds = time.monotonic() - begun
        return samples


# Lines of faulthandler.
_THREAD = re.compile(r"(?:Current thread|Thread) 0x([0-9a-f]+)")
_PLACE = re.compile(r'  File "(.*)", line (\d+) in (.*)')
# Deeper stacks lose their outer end.
MAX_DEPTH = 128


class Place(NamedTuple):
    """A line of a function."""

    function: str
    file: str
    first_line: int
    line: int

    def __str__(self) -> str:
        return f"{self.function} {self.file}:{self.line}"


Stack = tuple[Place, ...]


def place(code: CodeType, line: int | None) -> Place:
    return Place(code.co_qualname, code.co_filename, code.co_firstlineno, line or 0)


def stack_of(frame: FrameType | None) -> Stack:
    """The frame and its callers."""
    places: list[Place] = []
    while frame is not None and len(places) < MAX_DEPTH:
        places.append(place(frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(places)


def stacks_of_threads() -> dict[int, Stack]:
    """The stack of each thread, by its identity; without the functions' first lines.

    The interpreter writes them down itself, in one go. Reading frames of threads that run meanwhile
    can end the process (python/cpython #99110).
    """
    # In memory where that can be: a container's disk may be read-only.
    in_memory = hasattr(os, "memfd_create")
    with open(os.memfd_create("stacks"), "w+b") if in_memory else TemporaryFile() as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        text = file.read().decode(errors="replace")
    stacks: dict[int, list[Place]] = {}
    places: list[Place] = []
    for line in text.splitlines():
        if thread := _THREAD.match(line):
            places = stacks[int(thread[1], 16)] = []
        elif found := _PLACE.match(line):
            places.append(Place(found[3], found[1], 0, int(found[2])))
    return {number: tuple(places) for number, places in stacks.items()}


def stack_of_task(task: asyncio.Task[Any]) -> Stack:
    """The frames a task waits in, innermost first."""
    places: list[Place] = []
    waiting: Any = task.get_coro()
    while waiting is not None and len(places) < MAX_DEPTH:
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None)
        if frame is not None:
            places.append(place(frame.f_code, frame.f_lineno))
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)
    return tuple(reversed(places))
