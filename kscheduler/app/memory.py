"""Memory that comes back: caches are aged, and what was freed is returned to the system.

Without that, what hostile or merely large objects filled the caches with would stay until something
else takes its place, and the C library would keep what it got for them.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from kscheduler.api import labels, quantity, resource_names, sharing, validation
from kscheduler.caches import Cache
from kscheduler.plugins.volume_binding import volume_traits
from kscheduler.runtime.framework import Framework
from kscheduler.state import cache as node_cache
from kscheduler.state import pod_info
from kscheduler.state.pod_template import PodTemplate

# Answers that were not asked for in one to two of these are forgotten. Making one again takes some
# microseconds to a millisecond, so that little is lost in a quiet time.
AGING_SECONDS = 15.0


def caches_of(nodes: node_cache.Cache, frameworks: Iterable[Framework]) -> Iterator[Cache]:
    """All caches that a scheduler fills, those that all schedulers of a process share included.

    Shared parts come last: what they are part of, others may have just forgotten.
    """
    for module in (quantity, resource_names, validation, labels):
        yield from module.CACHES
    yield from pod_info.CACHES
    yield from PodTemplate.CACHES
    yield from volume_traits.CACHES
    yield from nodes.caches
    yield from chain.from_iterable(framework.caches for framework in frameworks)
    yield from sharing.CACHES


async def age_caches(caches: Callable[[], Iterable[Cache]]) -> None:
    """Until cancelled. A few milliseconds each time: caches of 100 MB hold 100,000 entries."""
    trim = _trim()
    while True:
        await asyncio.sleep(AGING_SECONDS)
        for cache in caches():
            cache.age()
            await asyncio.sleep(0)
        trim()


def _trim() -> Callable[[], object]:
    """Returns free pages in the midst of the heap, where the C library knows how to (glibc)."""
    try:
        function: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return lambda: None
    return lambda: function(0)
