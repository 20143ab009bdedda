"""API timestamps: RFC 3339 with whole seconds (Time) or six decimals (MicroTime), in UTC."""

import re
import time
from calendar import timegm
from datetime import UTC, datetime
from functools import lru_cache

from kscheduler.errors import KschedulerError

_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)
_NANO = 10**9
_STARTED = time.time() - time.monotonic()


class TimestampError(KschedulerError, ValueError):
    """Raised for a text that is no RFC 3339 time."""


def steady_time() -> float:
    """Seconds since the epoch, counted monotonically from the wall clock at the process's start.

    For waiting times, which must not change when the clock is set.
    """
    return _STARTED + time.monotonic()


def parse_time_ns(text: str) -> int:
    """Nanoseconds since the epoch."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise TimestampError(f'cannot parse "{text}" as an RFC 3339 time')
    *fields, fraction, sign, hours, minutes = match.groups()
    year, month, day, hour, minute, second = map(int, fields)
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError as error:
        raise TimestampError(f'cannot parse "{text}" as an RFC 3339 time: {error}') from error
    seconds = timegm(moment.utctimetuple())
    if sign:
        offset = int(hours) * 3600 + int(minutes) * 60
        seconds += -offset if sign == "+" else offset
    return seconds * _NANO + int((fraction or "0")[:9].ljust(9, "0"))


def parse_time(text: str) -> float:
    """Seconds since the epoch."""
    return parse_time_ns(text) / _NANO


def format_time(seconds: float) -> str:
    """`2024-05-06T07:08:09Z`; a fraction is cut off, as metav1.Time does."""
    return format_time_ns(int(seconds // 1) * _NANO)


def format_micro_time(seconds: float) -> str:
    """`2024-05-06T07:08:09.123456Z`, as metav1.MicroTime."""
    return format_micro_time_ns(round(seconds * 1_000_000) * 1000)


def format_time_ns(nanoseconds: int) -> str:
    return f"{_to_the_second(nanoseconds // _NANO)}Z"


def format_micro_time_ns(nanoseconds: int) -> str:
    return f"{_to_the_second(nanoseconds // _NANO)}.{nanoseconds % _NANO // 1000:06d}Z"


# Most times that are written are of the last second or two.
@lru_cache(maxsize=16)
def _to_the_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
