"""Texts of values: as error messages show them, and as an expression would write them.

Values that share their parts can be exponentially larger than the memory they take, so a text that
would be too long for a message aborts the evaluation.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

from kscheduler.cel import types
from kscheduler.cel.values import Duration, Optional, Timestamp, Uint, Value, key_value, tree_size
from kscheduler.gotext import strconv
from kscheduler.gotext.duration import format_duration

# Values, texts by eighths of their length, that an error message may show.
_LONGEST_SHOWN = 100_000


def display(value: Value) -> str:
    """The text of a value inside an error message (Go's `%v`)."""
    tree_size(value, _LONGEST_SHOWN)
    return _display(value)


def _display(value: Value) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case float():
            return strconv.format_float(value)
        case int():
            return str(int(value))
        case None:
            return "0"  # cel-go prints the number behind its null
        case bytes():
            return f"[{' '.join(str(b) for b in value)}]"
        case types.Type():
            return value.name
        case list():
            return f"[{', '.join(map(_display, value))}]"
        case dict():
            entries = (f"{_display(key_value(k))}: {_display(v)}" for k, v in value.items())
            return f"{{{', '.join(entries)}}}"
        case Duration():
            return format_duration(value.nanos)
        case Timestamp():
            return _go_time(value)
    return _notation(value)


def _go_time(value: Timestamp) -> str:
    """Go's text of a time, like `1969-12-31 23:59:58.5 +0000 UTC`."""
    seconds, rest = divmod(value.nanos, 10**9)
    shown = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    if timedelta(hours=-24) < timedelta(seconds=value.offset) < timedelta(hours=24):
        with suppress(OverflowError):
            shown = shown.astimezone(timezone(timedelta(seconds=value.offset)))
    fraction = f".{rest:09d}".rstrip("0").rstrip(".")
    zone = shown.strftime("%z")[:5]
    day = f"{shown.year:04d}-{shown.month:02d}-{shown.day:02d}"
    return f"{day} {shown:%H:%M:%S}{fraction} {zone} {zone if value.offset else 'UTC'}"


def notation(value: Value) -> str:
    """The text of a value as an expression would write it."""
    tree_size(value, _LONGEST_SHOWN)
    return _notation(value)


def _notation(value: Value) -> str:
    match value:
        case str():
            return strconv.quote(value)
        case bool():
            return "true" if value else "false"
        case Uint():
            return f"{int(value)}u"
        case int():
            return str(value)
        case float():
            return strconv.format_float(value)
        case None:
            return "null"
        case bytes():
            return f'b"{value.decode("utf-8", "replace")}"'
        case list():
            return f"[{', '.join(map(_notation, value))}]"
        case dict():
            entries = (f"{_notation(key_value(k))}: {_notation(v)}" for k, v in value.items())
            return f"{{{', '.join(entries)}}}"
        case Optional():
            return f"optional({_notation(value.value)})" if value.present else "optional.none()"
    return str(value)
