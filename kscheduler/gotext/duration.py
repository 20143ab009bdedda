"""Go's time.Duration: whole nanoseconds, with the text that configuration files and flags have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kscheduler.errors import KschedulerError

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

NANOSECOND = 1
MICROSECOND = 1000 * NANOSECOND
MILLISECOND = 1000 * MICROSECOND
SECOND = 1000 * MILLISECOND
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE

_UNITS = {
    "ns": NANOSECOND,
    "us": MICROSECOND,
    "\u00b5s": MICROSECOND,  # micro sign
    "\u03bcs": MICROSECOND,  # Greek letter mu
    "ms": MILLISECOND,
    "s": SECOND,
    "m": MINUTE,
    "h": HOUR,
}
_DIGITS = "0123456789"
_LIMIT = 1 << 63


class DurationError(KschedulerError, ValueError):
    """Raised for a text that is no duration; the wording is Go's."""


class Duration(int):
    """A span of time in whole nanoseconds, which prints as Go prints it."""

    __slots__ = ()

    @classmethod
    def of(cls, seconds: float) -> Duration:
        return cls(round(seconds * SECOND))

    @property
    def seconds(self) -> float:
        return int(self) / SECOND

    def __str__(self) -> str:
        return format_duration(int(self))

    def __repr__(self) -> str:
        return f"Duration({str(self)!r})"

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Validation in models of configuration: a Duration, or its text."""
        # Imported with the first model of configuration; the client has none.
        from pydantic_core import core_schema

        def validated(value: object) -> Duration:
            if isinstance(value, Duration):
                return value
            if isinstance(value, str):
                return parse_duration(value)
            raise ValueError(f"not a duration: {value!r}")

        return core_schema.no_info_plain_validator_function(
            validated, serialization=core_schema.to_string_ser_schema()
        )


def parse_duration(text: str) -> Duration:
    """`1h2m3.5s`; raises DurationError."""
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return Duration(0)
    if not rest:
        raise _invalid(text)
    total = 0
    while rest:
        part, rest = _leading_part(rest, text)
        total += part
        if total > _LIMIT:
            raise _invalid(text)
    if text[0] == "-":
        return Duration(-total)
    if total == _LIMIT:
        raise _invalid(text)
    return Duration(total)


def format_duration(nanoseconds: int) -> str:
    """Go's text of a duration: `15m0s`, `1.5s`, `100ms`, `0s`."""
    sign = "-" if nanoseconds < 0 else ""
    size = abs(nanoseconds)
    if size == 0:
        return "0s"
    if size < SECOND:
        if size < MICROSECOND:
            return f"{sign}{size}ns"
        if size < MILLISECOND:
            return f"{sign}{_decimal(size, MICROSECOND)}\u00b5s"
        return f"{sign}{_decimal(size, MILLISECOND)}ms"
    minutes, rest = divmod(size, MINUTE)
    text = _decimal(rest, SECOND) + "s"
    if minutes:
        hours, minutes = divmod(minutes, 60)
        text = f"{minutes}m{text}"
        if hours:
            text = f"{hours}h{text}"
    return sign + text


def _leading_part(rest: str, text: str) -> tuple[int, str]:
    """The first number and unit in nanoseconds, and what follows them."""
    after = rest.lstrip(_DIGITS)
    integer = rest[: len(rest) - len(after)]
    count = int(integer.lstrip("0")[:20] or "0")
    if count > _LIMIT:
        raise _invalid(text)
    fraction = ""
    if after.startswith("."):
        tail = after[1:].lstrip(_DIGITS)
        fraction = after[1 : len(after) - len(tail)]
        after = tail
    if not integer and not fraction:
        raise _invalid(text)
    # The unit reaches up to the next number.
    length = next((i for i, c in enumerate(after) if c == "." or c in _DIGITS), len(after))
    if length == 0:
        raise DurationError(f"time: missing unit in duration {_quoted(text)}")
    name = after[:length]
    if name not in _UNITS:
        raise DurationError(f"time: unknown unit {_quoted(name)} in duration {_quoted(text)}")
    unit = _UNITS[name]
    if count * unit > _LIMIT:
        raise _invalid(text)
    return count * unit + _fraction(fraction, unit), after[length:]


def _fraction(digits: str, unit: int) -> int:
    """Go computes this part in float64 and drops digits that no longer fit 63 bits."""
    number, scale = 0, 1.0
    for digit in digits:
        grown = number * 10 + int(digit)
        if number > (_LIMIT - 1) // 10 or grown > _LIMIT:
            break
        number, scale = grown, scale * 10
    return int(number * (unit / scale))


def _decimal(size: int, unit: int) -> str:
    whole, rest = divmod(size, unit)
    if not rest:
        return str(whole)
    width = len(str(unit)) - 1
    return f"{whole}.{rest:0{width}d}".rstrip("0")


def _invalid(text: str) -> DurationError:
    return DurationError(f"time: invalid duration {_quoted(text)}")


def _quoted(text: str) -> str:
    """Go's time package quotes byte by byte."""
    shown = "".join(
        chr(byte) if 0x20 <= byte < 0x80 else f"\\x{byte:02x}"
        for byte in text.replace("\\", "\\\\").replace('"', '\\"').encode()
    )
    return f'"{shown}"'
