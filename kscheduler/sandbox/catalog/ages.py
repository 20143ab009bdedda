"""Durations as people read them in `kubectl get`: 42s, 5m10s, 3h, 2d4h."""

from __future__ import annotations

import time

from kscheduler.api.timestamps import parse_time

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_YEAR = 365 * _DAY
UNKNOWN = "<unknown>"


def age(timestamp: str | None, now: float | None = None) -> str:
    if not timestamp:
        return UNKNOWN
    return human_duration((time.time() if now is None else now) - parse_time(timestamp))


def human_duration(seconds: float) -> str:
    """At most two units, the second one only while it matters."""
    whole = max(int(seconds), 0)
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _two(whole: int, big: int, big_unit: str, small: int, small_unit: str) -> str:
    rest = whole % big // small
    return f"{whole // big}{big_unit}" + (f"{rest}{small_unit}" if rest else "")
