"""Health endpoints: named checks behind /healthz, /livez and /readyz, told as an API server tells
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

# A check answers None when all is well, otherwise why not.
Probe = Callable[[], str | None]


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    probe: Probe


def ping() -> str | None:
    return None


PING = Check("ping", ping)


@dataclass(frozen=True, slots=True)
class Report:
    """What to answer: healthy or not, and the text."""

    healthy: bool
    text: str


def examine(
    endpoint: str, checks: Sequence[Check], *, exclude: frozenset[str], verbose: bool
) -> Report:
    """Run an endpoint's checks; a failure is always told in full, success only on request."""
    lines: list[str] = []
    healthy = True
    for check in checks:
        if check.name in exclude:
            lines.append(f"[+]{check.name} excluded: ok\n")
        elif check.probe() is None:
            lines.append(f"[+]{check.name} ok\n")
        else:
            healthy = False
            lines.append(f"[-]{check.name} failed: reason withheld\n")
    unknown = sorted(exclude - {check.name for check in checks})
    if unknown:
        names = ",".join(f'"{name}"' for name in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {names}\n")
    if not healthy:
        return Report(healthy=False, text="".join(lines) + f"{endpoint} check failed\n")
    if verbose:
        return Report(healthy=True, text="".join(lines) + f"{endpoint} check passed\n")
    return Report(healthy=True, text="ok")


def examine_one(check: Check) -> Report:
    """One check by its own path; here the reason is told."""
    reason = check.probe()
    if reason is None:
        return Report(healthy=True, text="ok")
    return Report(healthy=False, text=f"internal server error: {reason}\n")
