"""Health endpoints: named checks behind /healthz, /livez and /readyz, told as an API server tells
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kscheduler import logs
from kscheduler.gotext.strconv import quote
from kscheduler.serving.health_metrics import HealthMetrics

log = logs.logger(__name__)

# A check answers None when all is well, otherwise why not.
Probe = Callable[[], str | None]


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    probe: Probe
    # What is worth knowing although all is well; told with the name.
    remark: Callable[[], str] = str


def ping() -> str | None:
    return None


PING = Check("ping", ping)


@dataclass(frozen=True, slots=True)
class Report:
    """What to answer: healthy or not, and the text."""

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
        _tell(endpoint, failures)
        return Report(healthy=False, text="".join(lines) + f"{endpoint} check failed\n")
    if verbose:
        return Report(healthy=True, text="".join(lines) + f"{endpoint} check passed\n")
    return Report(healthy=True, text="ok")


def _tell(endpoint: str, failures: Mapping[str, str]) -> None:
    """The endpoint is public, so reasons are for the log only."""
    reasons = "".join(f"[-]{name} failed: {reason}\n" for name, reason in failures.items())
    log.v(2).text_info(f"{','.join(failures)} check failed: {endpoint}\n{reasons}")


def examine_one(check: Check) -> Report:
    """One check by its own path; here the reason is told."""
    reason = check.probe()
    if reason is None:
        return Report(healthy=True, text=check.remark() or "ok")
    return Report(healthy=False, text=f"internal server error: {reason}\n")
