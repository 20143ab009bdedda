"""/metrics/slis: what health checks have said, each time somebody asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client import Metric

from kscheduler.serving.metrics_page import STARTED


class HealthMetrics:
    """Series are named by check and endpoint, of which there are few."""

    def __init__(self) -> None:
        self._healthy: dict[tuple[str, str], bool] = {}
        self._asked: Counter[tuple[str, str, str]] = Counter()
        self._is_pristine = True

    def observe(self, endpoint: str, check: str, *, healthy: bool) -> None:
        self._healthy[check, endpoint] = healthy
        self._asked[check, "success" if healthy else "error", endpoint] += 1

    def reset(self) -> None:
        """Upstream forgets when it started, too."""
        self._healthy.clear()
        self._asked.clear()
        self._is_pristine = False

    def collect(self) -> Iterator[Metric]:
        state = Metric(
            "kubernetes_healthcheck",
            "[STABLE] Whether a health check passed when last asked.",
            "gauge",
        )
        for (check, endpoint), healthy in sorted(self._healthy.items()):
            state.add_sample(
                "kubernetes_healthcheck", {"name": check, "type": endpoint}, float(healthy)
            )
        total = Metric(
            "kubernetes_healthchecks", "[STABLE] Results of health checks so far.", "counter"
        )
        for (check, status, endpoint), count in sorted(self._asked.items()):
            labels = {"name": check, "status": status, "type": endpoint}
            total.add_sample("kubernetes_healthchecks_total", labels, count)
        yield from (state, total)
        if self._is_pristine:
            start = Metric(
                "process_start_time_seconds",
                "[ALPHA] When the process started, in seconds since the epoch.",
                "gauge",
            )
            start.add_sample("process_start_time_seconds", {}, STARTED)
            yield start
