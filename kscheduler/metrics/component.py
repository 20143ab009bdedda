"""Metrics of component-base, as versions and feature gates are, and of caches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from kscheduler.caches import Cache
from kscheduler.metrics.instruments import exponential
from kscheduler.metrics.registry import ALPHA, BETA, EVERYTHING, Registry, Selection

Caches = Callable[[], Iterable[Cache]]


class ComponentMetrics(Registry):
    """Build, versions, feature gates, tasks, leadership."""

    def __init__(self, selection: Selection = EVERYTHING) -> None:
        super().__init__(selection)
        self.goroutines = self.gauges(
            "scheduler_goroutines", BETA, "Tasks under way, by what they do.", ("operation",)
        )
        self.leader_election_master_status = self.gauges(
            "leader_election_master_status", ALPHA, "1 while holding the named lease.", ("name",)
        )
        self.leader_election_slowpath_total = self.counters(
            "leader_election_slowpath_total",
            ALPHA,
            "Renewals that had to read the named lease first.",
            ("name",),
        )
        self.kubernetes_build_info = self.gauges(
            "kubernetes_build_info",
            BETA,
            "Always 1; the labels tell the build.",
            (
                "major",
                "minor",
                "git_version",
                "git_commit",
                "git_tree_state",
                "build_date",
                "go_version",
                "compiler",
                "platform",
            ),
        )
        self.kubernetes_feature_enabled = self.gauges(
            "kubernetes_feature_enabled",
            BETA,
            "1 for feature gates that are on.",
            ("name", "stage"),
        )
        self.version_info = self.gauges(
            "version_info",
            ALPHA,
            "Always 1; the labels tell which version is run, emulated and still compatible.",
            ("component", "binary", "emulation", "min_compat"),
        )
        self.kscheduler_tasks = self.gauges(
            "kscheduler_tasks",
            ALPHA,
            "Tasks of the main event loop, those that wait included.",
        )
        self.kscheduler_events_dropped_total = self.counters(
            "kscheduler_events_dropped_total",
            ALPHA,
            "Events about pods that were not written because too many waited.",
        ).labels()
        self.kscheduler_placement_reviews_total = self.counters(
            "kscheduler_placement_reviews_total",
            ALPHA,
            "Placement reviews by result: fits, does_not_fit, refused, limited or error.",
            ("result",),
        )
        self.kscheduler_placement_review_duration_seconds = self.histograms(
            "kscheduler_placement_review_duration_seconds",
            ALPHA,
            "Time from the request for a placement review to its answer.",
            buckets=exponential(0.001, 2, 15),
        )


class CacheMetrics(Registry):
    """Caches, read at each scrape; those of one name (one per profile, say) are summed."""

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
        """Read these from now on; their names are all known by now."""
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
