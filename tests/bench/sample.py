"""A made-up measurement, for the tests of what is done with measurements."""

from tests.bench.results import Case, Entry, Figures, Measured

PLAIN = Case("plain", 5000, 3000)


def measured(who, pods_per_second=100.0, case=PLAIN, number=1, cpu=1.0, peak=100.0):
    figures = Figures(
        seconds=1.0,
        pods_per_second=pods_per_second,
        start_seconds=1.0,
        scheduler_cpu_ms=cpu,
        apiserver_cpu_ms=1.0,
        etcd_cpu_ms=1.0,
        bench_cpu_ms=0.1,
        peak_megabytes=peak,
    )
    return Measured(Entry(case, who, number), figures, "2026-01-01T00:00:00Z", 0.5)
