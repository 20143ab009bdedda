"""Metrics of the process: component-base's (version, feature gates), caches, and process_*."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from prometheus_client import Metric
from prometheus_client.registry import Collector

from kscheduler.caches import Cache
from kscheduler.metrics.registry import ALPHA, BETA, EVERYTHING, Registry, Selection

Caches = Callable[[], Iterable[Cache]]
PROC = Path("/proc")
# Of /proc/self/stat, behind the name of the program.
_USER_TICKS, _SYSTEM_TICKS, _START_TICKS, _VIRTUAL_BYTES, _RESIDENT_PAGES = 11, 12, 19, 20, 21
# The value of client_golang where there is no limit: all bits of 64.
UNLIMITED = float(2**64 - 1)


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
        self.kscheduler_events_dropped_total = self.counters(
            "kscheduler_events_dropped_total",
            ALPHA,
            "Events about pods that were not written because too many waited.",
        ).labels()


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


class ProcessMetrics(Collector):
    """Metrics of this process, read from /proc at each scrape; none where there is no /proc."""

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc
        self._ticks_per_second = os.sysconf("SC_CLK_TCK")
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        # Seconds since the epoch: a process's start is counted in ticks from there.
        self._booted_at = 0.0
        with suppress(OSError):
            for line in self._read("stat").splitlines():
                if line.startswith("btime "):
                    self._booted_at = float(line.split()[1])

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        try:
            fields = self._read("self/stat").rpartition(") ")[2].split()
            descriptors = len(os.listdir(self._proc / "self/fd"))
        except OSError:
            return
        ticks = int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])
        started = self._booted_at + int(fields[_START_TICKS]) / self._ticks_per_second
        yield _counter(
            "process_cpu_seconds", "CPU time used, in seconds.", ticks / self._ticks_per_second
        )
        yield _gauge("process_open_fds", "Open file descriptors.", descriptors)
        yield _gauge(
            "process_max_fds", "File descriptors it may open.", _limit(resource.RLIMIT_NOFILE)
        )
        yield _gauge(
            "process_virtual_memory_bytes", "Address space in use.", int(fields[_VIRTUAL_BYTES])
        )
        yield _gauge(
            "process_virtual_memory_max_bytes",
            "Address space it may use.",
            _limit(resource.RLIMIT_AS),
        )
        resident = int(fields[_RESIDENT_PAGES]) * self._page_bytes
        yield _gauge("process_resident_memory_bytes", "Memory in use.", resident)
        yield _gauge(
            "process_start_time_seconds", "When it started, in seconds since the epoch.", started
        )
        yield from self._network()

    def _network(self) -> Iterator[Metric]:
        """Bytes of the network namespace: the kernel does not count by process."""
        try:
            lines = self._read("self/net/netstat").splitlines()
        except OSError:
            return
        # A line of names and the line of their values.
        rows = [line.split()[1:] for line in lines if line.startswith("IpExt:")]
        octets = dict(zip(*rows, strict=True)) if len(rows) == 2 else {}
        for name, key, text in (
            ("receive", "InOctets", "Bytes received over the network."),
            ("transmit", "OutOctets", "Bytes sent over the network."),
        ):
            if key in octets:
                yield _counter(f"process_network_{name}_bytes", text, int(octets[key]))

    def _read(self, name: str) -> str:
        return (self._proc / name).read_text(errors="replace")


def _limit(which: int) -> float:
    soft, _ = resource.getrlimit(which)
    return UNLIMITED if soft == resource.RLIM_INFINITY else float(soft)


def _gauge(name: str, text: str, value: float) -> Metric:
    metric = Metric(name, text, "gauge")
    metric.add_sample(name, {}, value)
    return metric


def _counter(name: str, text: str, value: float) -> Metric:
    metric = Metric(name, text, "counter")
    metric.add_sample(f"{name}_total", {}, value)
    return metric
