"""Memory: a collector with short rounds, caches that age, and pages returned to the system.

**The collector.** CPython's goes through all objects of a generation in one piece, and with 200,000
pods a round over everything takes half a second. Here objects are looked at while they are young
and then set aside (`gc.freeze`): a round is over at most some 200,000 objects, 0.15 s, whatever the
size of the cluster.

Objects set aside are still freed when nothing refers to them any more; only cycles among them stay.
Structs of the API cannot form cycles and are not even tracked, and pods that come, are tried, bound
and deleted leave none. But out-of-tree plugins may, so when twice as many objects are set aside as
there were, one round looks at all of them again: one pause per doubling.

**Caches.** Without aging, the entries that hostile or merely large objects left in the caches would
stay until others take their place, and the C library would keep the pages it got for them. Where
memory is limited, caches are the first to go: a process near its limit (`memory_limit`) drops what
it can make again, and the older half of what it remembers of decisions. That costs time, and a
kernel that kills the process, or an allocation that fails, would cost more.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from kscheduler import logs
from kscheduler.api import labels, quantity, resource_names, sharing, validation
from kscheduler.app.memory_limit import MemoryUse, nearest_limit
from kscheduler.caches import Cache
from kscheduler.plugins.volume_binding import volume_traits
from kscheduler.runtime.framework import Framework
from kscheduler.state import cache as node_cache
from kscheduler.state import pod_info
from kscheduler.state.pod_template import PodTemplate

# New objects until a round over them; such rounds until one over their survivors; those until one
# over everything that was not set aside.
THRESHOLDS = (20_000, 4, 1)
OLDEST = 2
# Full rounds between two counts of the objects set aside: counting a million takes 5 ms.
COUNTED_EVERY = 16
# Fewer objects than this are not worth a second round.
FEWEST = 500_000

# Entries that were not asked for in one to two of these are forgotten. Making one again takes some
# microseconds to a millisecond, so that little is lost in a quiet time.
AGING_SECONDS = 15.0
# How often memory is held against its limit, the share of it from which on it is short, and how
# much more than could not be given back is worth another try before caches age again.
LOOK_SECONDS = 0.25
SHORT_SHARE = 0.9
GROWN_SHARE = 0.02

log = logs.logger(__name__)


class _FrozenObjects:
    """The objects set aside, as far as they were counted."""

    def __init__(self) -> None:
        self.rounds = 0
        self.most = FEWEST
        # Whether to count them after the next full round.
        self.uncounted = False

    def after_round(self, phase: str, info: dict[str, int]) -> None:
        """gc's callback: sets aside the survivors of every full round."""
        if phase != "stop" or info["generation"] != OLDEST:
            return
        gc.freeze()
        self.rounds += 1
        if self.uncounted:
            self.uncounted = False
            self.most = max(FEWEST, 2 * gc.get_freeze_count())
        elif self.rounds % COUNTED_EVERY == 0 and gc.get_freeze_count() > self.most:
            # The next full round goes over everything again.
            self.uncounted = True
            gc.unfreeze()


_frozen = _FrozenObjects()


def set_aside() -> None:
    """Sets aside all objects there are, uncollected, and has the collector run if it did not.

    For what is no garbage: modules, where some 2,000 of 90,000 objects are and finding them would
    take 40 ms, and the objects of the first lists, which cannot form cycles.
    """
    gc.freeze()
    gc.enable()


def freeze() -> None:
    """Collects and sets aside all objects there are.

    From then on the survivors of every full round are set aside as well, until `unfreeze`.
    """
    gc.collect()
    gc.freeze()
    _frozen.uncounted = True
    gc.set_threshold(*THRESHOLDS)
    if _frozen.after_round not in gc.callbacks:
        gc.callbacks.append(_frozen.after_round)


def unfreeze() -> None:
    """Everything counts as new: what a scheduler held is garbage, cycles included."""
    if _frozen.after_round in gc.callbacks:
        gc.callbacks.remove(_frozen.after_round)
    gc.unfreeze()


def caches_of(nodes: node_cache.Cache, frameworks: Iterable[Framework]) -> Iterator[Cache]:
    """All caches that a scheduler fills, those that all schedulers of a process share included.

    Shared parts come last: the entries they are part of may just have been forgotten.
    """
    for module in (quantity, resource_names, validation, labels):
        yield from module.CACHES
    yield from pod_info.CACHES
    yield from PodTemplate.CACHES
    yield from volume_traits.CACHES
    yield from nodes.caches
    of_frameworks = chain.from_iterable(framework.caches for framework in frameworks)
    yield from {id(cache): cache for cache in of_frameworks}.values()
    yield from sharing.CACHES


async def age_caches(
    caches: Callable[[], Iterable[Cache]],
    shed: Callable[[], object] = lambda: None,
    *,
    nearest_limit: Callable[[], MemoryUse | None] = nearest_limit,
    look_seconds: float = LOOK_SECONDS,
) -> None:
    """Until cancelled. A few milliseconds each time: caches of 100 MB hold 100,000 entries.

    `shed` gives up half of what else could be forgotten; it is called when memory is short.
    """
    trim = malloc_trim()
    looks, short_share = 0, SHORT_SHARE
    while True:
        await asyncio.sleep(look_seconds)
        looks += 1
        use = nearest_limit()
        if looks * look_seconds >= AGING_SECONDS:
            short_share = SHORT_SHARE
        elif use is None or use.share <= short_share:
            continue
        is_short = use is not None and use.share > short_share
        # Entries go that were not asked for since the last time: the second time that is all.
        for _ in range(2 if is_short else 1):
            for cache in caches():
                cache.age()
                await asyncio.sleep(0)
        if is_short:
            shed()
            # Cycles may hold what was given up.
            gc.collect()
        trim(0)
        looks = 0
        if is_short and use is not None:
            log.info("Memory is nearly used up, dropped caches", used=use.used, limit=use.limit)
            # What did not help is not done again at once: deciding without caches takes longer.
            left = nearest_limit()
            if left is not None:
                short_share = max(SHORT_SHARE, left.share + GROWN_SHARE)


def malloc_trim() -> Callable[[int], int]:
    """glibc's function that returns free pages in the midst of the heap; other C libraries have
    none, and there it does nothing.
    """
    try:
        function: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return lambda _pad: 0
    return function
