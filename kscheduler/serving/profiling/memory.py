"""Objects in memory that the collector knows, by type.

Exact sizes would need every allocation to be traced, which costs twice the memory; this counts the
objects that exist, and only on request. Objects that were set aside at start (`gc.freeze`) are
reported as one number.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
import time
from collections.abc import Mapping

# How long objects are counted without a break, and how many types are listed.
BUDGET_SECONDS = 0.004
MAX_TYPES = 200
OTHERS = "(other types)"

Held = tuple[int, int]  # objects, bytes


async def by_type() -> Mapping[str, Held]:
    """Numbers and bytes of objects by type, those with most bytes first."""
    found: dict[type, list[int]] = {}
    rest_at = time.monotonic() + BUDGET_SECONDS
    objects = gc.get_objects()
    # From the end, which is cheap to cut off: a counted object may be freed before the next pause.
    while objects:
        for one in objects[-100:]:
            counted = found.setdefault(type(one), [0, 0])
            counted[0] += 1
            counted[1] += sys.getsizeof(one, 0)
        del objects[-100:], one
        if time.monotonic() >= rest_at:
            await asyncio.sleep(0)
            rest_at = time.monotonic() + BUDGET_SECONDS
    ordered = sorted(found.items(), key=lambda item: item[1][1], reverse=True)
    shown: dict[str, Held] = {}
    for rank, (kind, (count, size)) in enumerate(ordered):
        name = f"{kind.__module__}.{kind.__qualname__}" if rank < MAX_TYPES else OTHERS
        earlier = shown.get(name, (0, 0))
        shown[name] = (earlier[0] + count, earlier[1] + size)
    return shown


def as_text(held: Mapping[str, Held]) -> str:
    count = sum(count for count, _ in held.values())
    size = sum(size for _, size in held.values())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    lines = [
        f"heap profile: {count}: {size} [{count}: {size}] @ heap/1",
        *(f"{number}: {bytes_}\t{name}" for name, (number, bytes_) in held.items()),
        "",
        f"# objects set aside at start = {gc.get_freeze_count()}",
        f"# objects per generation = {gc.get_count()}",
        f"# peak resident set, KiB = {peak}",
        "",
    ]
    return "\n".join(lines)
