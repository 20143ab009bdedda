"""Health endpoints: named checks behind /healthz, /livez and /readyz, worded as an API server does.

Their results so far are what /metrics/slis shows.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from kscheduler import logs
from kscheduler.gotext.strconv import quote

if TYPE_CHECKING:
    from prometheus_client import Metric

log = logs.logger(__name__)

# When the process started, in seconds since the epoch; several pages show it.
STARTED = int(time.time())

# A check answers None when all is well, otherwise why not.
Probe = Callable[[], str | None]


class Check(msgspec.Struct, frozen=True):
    name: str
    probe: Probe
    # A remark worth knowing although all is well; printed beside the name.
    remark: Callable[[], str] = str


def ping() -> str | None:
    return None


PING = Check("ping", ping)


class Report(msgspec.Struct, frozen=True):
    """An endpoint's answer."""

    healthy: bool
    text: str


def examine(
    endpoint: str,
    checks: Sequence[Check],
    *,
    exclude: frozenset[str],
    verbose: bool,
    metrics: HealthMetrics,
) -> Report:
    """Run an endpoint's checks; a failure is always told in full, success only on request."""
    lines: list[str] = []
    failures: dict[str, str] = {}
    for check in checks:
        if check.name in exclude:
            lines.append(f"[+]{check.name} excluded: ok\n")
            continue
        reason = check.probe()
        metrics.observe(endpoint, check.name, healthy=reason is None)
        if reason is None:
            remark = check.remark()
            lines.append(f"[+]{check.name} ok{remark and f': {remark}'}\n")
        else:
            failures[check.name] = reason
            lines.append(f"[-]{check.name} failed: reason withheld\n")
    unknown = sorted(exclude - {check.name for check in checks})
    if unknown:
        names = ",".join(map(quote, unknown))
        lines.append(f"warn: some health checks cannot be excluded: no matches for {names}\n")
    if failures:
        # The endpoint is public, so reasons are for the log only.
        reasons = "".join(f"[-]{name} failed: {reason}\n" for name, reason in failures.items())
        log.v(2).text_info(f"{','.join(failures)} check failed: {endpoint}\n{reasons}")
        return Report(healthy=False, text="".join(lines) + f"{endpoint} check failed\n")
    if verbose:
        return Report(healthy=True, text="".join(lines) + f"{endpoint} check passed\n")
    return Report(healthy=True, text="ok")


def examine_one(check: Check) -> Report:
    """One check by its own path; here the reason is told."""
    reason = check.probe()
    if reason is None:
        return Report(healthy=True, text=check.remark() or "ok")
    return Report(healthy=False, text=f"internal server error: {reason}\n")


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
        from prometheus_client import Metric

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
