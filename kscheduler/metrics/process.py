"""prometheus-client's registry of all that is printed, and the metrics process_*.

Imported by the first scrape: prometheus-client takes 15 ms, which the first binding need not wait
for.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from prometheus_client import CollectorRegistry, GCCollector, Metric, PlatformCollector
from prometheus_client.registry import Collector

from kscheduler.metrics.registry import AnyFamily

PROC = Path("/proc")
# Of /proc/self/stat, behind the name of the program.
_USER_TICKS, _SYSTEM_TICKS, _START_TICKS, _VIRTUAL_BYTES, _RESIDENT_PAGES = 11, 12, 19, 20, 21
# The value of client_golang where there is no limit: all bits of 64.
UNLIMITED = float(2**64 - 1)


def new_registry(families: Mapping[str, AnyFamily]) -> CollectorRegistry:
    """A registry that collects these families, whichever there are at each scrape."""
    registry = CollectorRegistry()
    registry.register(_Families(families))
    registry.register(ProcessMetrics())
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


class _Families(Collector):
    """All families, read at each scrape."""

    def __init__(self, families: Mapping[str, AnyFamily]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return (family.collect() for _, family in sorted(self._families.items()) if family)

    def describe(self) -> Iterable[Metric]:
        return ()


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
