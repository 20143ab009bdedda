"""Work that a call does, counted instead of timed.

Two counts that do not depend on the machine: lines of Python executed, and bytes allocated,
numpy's arrays included (it reports its buffers to tracemalloc). Bytes are added up line by line:
what a line allocated at its peak beyond what was alive before it, so that temporary arrays count
although they are gone a moment later. C code that neither allocates nor calls back (`x in
a_list`, a reduction) is seen by the lines that call it only.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

from kscheduler.app.memory import caches_of
from kscheduler.state.cache import Cache


class Work(NamedTuple):
    lines: int
    bytes: int

    def ratio(self, smaller: Work) -> float:
        """How many times the work of a smaller input this is, by the count that grew most."""
        return max(self.lines / max(smaller.lines, 1), self.bytes / max(smaller.bytes, 1))


def forget_shared() -> None:
    """Empties the caches that all schedulers of a process share, so that a count does not depend on
    what was counted before it.
    """
    for _ in range(2):
        for cache in caches_of(Cache(), ()):
            cache.age()


def work_of(call: Callable[[], object]) -> Work:
    """Lines and bytes of one call, in the thread that makes it."""
    lines = allocated = before = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal lines, allocated, before
        now, peak = tracemalloc.get_traced_memory()
        allocated += max(0, peak - before)
        lines += event == "line"
        before = now
        tracemalloc.reset_peak()
        return trace

    tracemalloc.start(1)
    outer = sys.gettrace()
    collects = gc.isenabled()
    # A collection would run finalizers of whatever garbage other tests have left.
    gc.disable()
    try:
        before, _ = tracemalloc.get_traced_memory()
        sys.settrace(trace)
        call()
    finally:
        sys.settrace(outer)
        if collects:
            gc.enable()
        tracemalloc.stop()
    return Work(lines, allocated)
