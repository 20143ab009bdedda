"""Caches of answers and of shared parts: how full they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from kscheduler.caches import Cache
from kscheduler.metrics.registry import ALPHA, EVERYTHING, Registry, Selection

Caches = Callable[[], Iterable[Cache]]


class CacheMetrics(Registry):
    """Read when somebody looks. Caches of one name, one per profile, say, are told as one."""

    def __init__(self, selection: Selection = EVERYTHING) -> None:
        super().__init__(selection)
        self.kscheduler_cache_bytes = self.gauges(
            "kscheduler_cache_bytes",
            ALPHA,
            "Estimated bytes of a cache of answers or shared parts.",
            ("cache",),
        )
        self.kscheduler_cache_entries = self.gauges(
            "kscheduler_cache_entries",
            ALPHA,
            "Entries of a cache of answers or shared parts.",
            ("cache",),
        )
        self.kscheduler_cache_evictions_total = self.counters(
            "kscheduler_cache_evictions_total",
            ALPHA,
            "Entries that had to make room for others in a cache of answers or shared parts.",
            ("cache",),
        )

    def watch_caches(self, caches: Caches) -> None:
        """Tells of these from now on; their names are all known by now."""
        for name in {cache.name for cache in caches()}:
            self.kscheduler_cache_bytes.labels(name).read_from(
                partial(_total, caches, name, lambda cache: cache.bytes)
            )
            self.kscheduler_cache_entries.labels(name).read_from(
                partial(_total, caches, name, lambda cache: cache.entries)
            )
            self.kscheduler_cache_evictions_total.labels(name).read_from(
                partial(_total, caches, name, lambda cache: cache.evictions)
            )


def _total(caches: Caches, name: str, number: Callable[[Cache], int]) -> int:
    return sum(number(cache) for cache in caches() if cache.name == name)
