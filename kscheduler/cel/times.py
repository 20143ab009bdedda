"""Durations and timestamps: reading, writing, arithmetic and the parts of a timestamp.

Mirrors cel-go with Go's time package: years 1 to 9999, UTC unless a zone is named.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kscheduler.cel.errors import EvaluationError
from kscheduler.cel.values import INT_MAX, INT_MIN, Duration, Timestamp
from kscheduler.gotext.duration import DurationError
from kscheduler.gotext.duration import parse_duration as go_parse_duration
from kscheduler.gotext.strconv import quote

SECOND = 10**9
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MIN_SECONDS, _MAX_SECONDS = -62135596800, 253402300799
_RFC3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})",
    re.ASCII,
)


def parse_duration(text: str) -> Duration | None:
    """The duration of a text like `1h30m`, None if it is none."""
    try:
        return Duration(int(go_parse_duration(text)))
    except DurationError:
        return None


def duration(nanos: int) -> Duration:
    """A duration within int64."""
    if not INT_MIN <= nanos <= INT_MAX:
        raise EvaluationError("integer overflow")
    return Duration(nanos)


def duration_text(value: Duration) -> str:
    """Seconds in the shortest decimal, like `5400s`."""
    return _plain(seconds_of(value)) + "s"


def seconds_of(value: Duration) -> float:
    """Seconds as a double, whole seconds and the rest added as Go does."""
    whole, rest = divmod(abs(value.nanos), SECOND)
    seconds = whole + rest / 1e9
    return -seconds if value.nanos < 0 else seconds


def _plain(number: float) -> str:
    """The shortest decimal without an exponent."""
    text = repr(number)
    if "e" in text or "E" in text:
        text = format(number, "f") if abs(number) >= 1 else f"{number:.20f}".rstrip("0")
        mantissa, _, exponent = repr(number).partition("e")
        digits = mantissa.replace(".", "").replace("-", "")
        if int(exponent) < 0:
            sign = "-" if number < 0 else ""
            text = sign + "0." + "0" * (-int(exponent) - 1) + digits
    return text.removesuffix(".0")


def whole_units(value: Duration, unit: int) -> int:
    """Whole hours, minutes, seconds or milliseconds, towards zero."""
    size = abs(value.nanos) // unit
    return -size if value.nanos < 0 else size


def timestamp(nanos: int, offset: int = 0) -> Timestamp:
    """A timestamp within the years 1 to 9999."""
    if not _MIN_SECONDS <= nanos // SECOND <= _MAX_SECONDS:
        raise EvaluationError("timestamp overflow")
    return Timestamp(nanos, offset)


def parse_timestamp(text: str) -> Timestamp | None:
    """The timestamp of an RFC 3339 text, None if it is none."""
    found = _RFC3339.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(found[i]) for i in range(1, 7))
    zone = found[8]
    offset = 0
    if zone != "Z":
        hours, minutes = int(zone[1:3]), int(zone[4:6])
        if hours > 24 or minutes > 60:
            return None
        offset = (hours * 60 + minutes) * 60 * (1 if zone[0] == "+" else -1)
    if hour > 23 or minute > 59 or second > 59 or not 1 <= month <= 12:
        return None
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= day <= (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]:
        return None
    # Year 0 is no Python date: it is 400 years, of 146,097 days, before year 400.
    days = (datetime(year or 400, month, day, tzinfo=UTC) - _EPOCH).days
    days -= 146097 if year == 0 else 0
    seconds = ((days * 24 + hour) * 60 + minute) * 60 + second - offset
    fraction = int((found[7] or "0")[:9].ljust(9, "0"))
    return timestamp(seconds * SECOND + fraction, offset)


def timestamp_text(value: Timestamp) -> str:
    """RFC 3339 with as many decimals as needed, in the offset the timestamp was written in."""
    seconds, rest = divmod(value.nanos, SECOND)
    shown = _EPOCH + timedelta(seconds=_clamped(seconds + value.offset))
    fraction = f".{rest:09d}".rstrip("0").rstrip(".")
    zone = "Z"
    if value.offset:
        hours, minutes = divmod(abs(value.offset) // 60, 60)
        zone = f"{'-' if value.offset < 0 else '+'}{hours:02d}:{minutes:02d}"
    text = f"{shown.year:04d}-{shown.month:02d}-{shown.day:02d}T"
    return f"{text}{shown.hour:02d}:{shown.minute:02d}:{shown.second:02d}{fraction}{zone}"


def _clamped(seconds: int) -> int:
    return max(_MIN_SECONDS, min(_MAX_SECONDS, seconds))


def add(value: Timestamp, span: Duration, sign: int = 1) -> Timestamp:
    """The timestamp later by the duration, or with -1 earlier."""
    return timestamp(value.nanos + sign * span.nanos, value.offset)


def part(value: Timestamp, function: str, zone: str | None) -> int:
    """Moment in the zone, by default UTC, as getFullYear, getMonth and so on see it."""
    seconds, rest = divmod(value.nanos, SECOND)
    if function == "getMilliseconds":
        if zone is not None:
            _zone(zone)
        return rest // 10**6
    try:
        shown = (_EPOCH + timedelta(seconds=seconds)).astimezone(
            UTC if zone is None else _zone(zone)
        )
    except OverflowError:
        shown = _EPOCH + timedelta(seconds=seconds)
    match function:
        case "getFullYear":
            return shown.year
        case "getMonth":
            return shown.month - 1
        case "getDate":
            return shown.day
        case "getDayOfMonth":
            return shown.day - 1
        case "getDayOfYear":
            return shown.timetuple().tm_yday - 1
        case "getDayOfWeek":
            return (shown.weekday() + 1) % 7
        case "getHours":
            return shown.hour
        case "getMinutes":
            return shown.minute
        case _:
            return shown.second


@lru_cache(256)
def _named_zone(name: str) -> tzinfo | None:
    if name in ("", "UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _zone(name: str) -> tzinfo:
    """A zone by its name or offset like `-08:00`."""
    hours_text, colon, minutes_text = name.partition(":")
    if not colon:
        if ".." in name or name.startswith("/") or "\\" in name:
            raise EvaluationError("time: invalid location name")
        zone = _named_zone(name) if len(name) <= 64 else None
        if zone is None:
            raise EvaluationError(f"unknown time zone {name}")
        return zone
    hours, minutes = _atoi(hours_text), _atoi(minutes_text)
    if not 0 <= minutes <= 59:
        raise EvaluationError(f"timezone offset minutes out of range [0, 59]: {name}")
    offset = hours * 60 - minutes if name[0] == "-" else hours * 60 + minutes
    try:
        return timezone(timedelta(minutes=offset))
    except (ValueError, OverflowError):
        return timezone(timedelta(minutes=int(math.copysign(1439, offset))))


def _atoi(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII):
        raise EvaluationError(f"strconv.Atoi: parsing {quote(text)}: invalid syntax")
    if len(text) > 19:
        raise EvaluationError(f"strconv.Atoi: parsing {quote(text)}: value out of range")
    return int(text)
