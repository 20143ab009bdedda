"""Numbers and booleans in the forms Go accepts, refused in Go's words (the strconv package)."""

import math
import re
import struct
from decimal import Decimal

from kscheduler.errors import ConfigError
from kscheduler.logs import quote

_BOOLS = dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "false", "FALSE", "False"), False
)
_DIGITS = {2: "[01]", 8: "[0-7]", 10: "[0-9]", 16: "[0-9a-fA-F]"}
_PREFIXES = {"0x": 16, "0o": 8, "0b": 2}
_D, _H = r"[0-9](_?[0-9])*", r"[0-9a-f](_?[0-9a-f])*"
_HEX_FLOAT = re.compile(rf"[+-]?0x(_?{_H}(\.({_H})?)?|\.{_H})p[+-]?{_D}", re.IGNORECASE)
_FLOAT = re.compile(
    rf"[+-]?(({_D}(\.({_D})?)?|\.{_D})(e[+-]?{_D})?|inf|infinity)|nan", re.IGNORECASE
)


def parse_bool(text: str) -> bool:
    if text not in _BOOLS:
        raise _syntax("ParseBool", text)
    return _BOOLS[text]


def parse_int(text: str, *, base: int = 0, bits: int = 64) -> int:
    """A signed integer; base 0 reads 0x, 0o, 0b and a leading 0, and underscores between digits."""
    negative = text.startswith("-")
    magnitude = _magnitude(text[1:] if text[:1] in ("+", "-") else text, base)
    if magnitude is None:
        raise _syntax("ParseInt", text)
    if magnitude > 2 ** (bits - 1) - (not negative):
        raise _range("ParseInt", text)
    return -magnitude if negative else magnitude


def parse_uint(text: str, *, base: int = 0, bits: int = 64) -> int:
    magnitude = _magnitude(text, base)
    if magnitude is None:
        raise _syntax("ParseUint", text)
    if magnitude >= 2**bits:
        raise _range("ParseUint", text)
    return magnitude


def parse_float32(text: str) -> float:
    """A float32, carried as the shortest float that prints the same."""
    in_hex = _HEX_FLOAT.fullmatch(text)
    if not in_hex and not _FLOAT.fullmatch(text):
        raise _syntax("ParseFloat", text)
    read = float.fromhex if in_hex else float
    try:
        value: float = struct.unpack("f", struct.pack("f", read(text.replace("_", ""))))[0]
    except OverflowError:
        raise _range("ParseFloat", text) from None
    if math.isinf(value) and "inf" not in text.lower():
        raise _range("ParseFloat", text)
    return _shortest(value)


def _shortest(value: float) -> float:
    if not math.isfinite(value):
        return value
    candidates = (float(f"{value:.{digits}g}") for digits in range(1, 10))
    return next(short for short in candidates if struct.pack("f", short) == struct.pack("f", value))


def format_float(value: float) -> str:
    """Go's shortest 'g' form: 50, 11.5, 1e+06."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{value:+}".title()
    shortest = Decimal(repr(value)).normalize()
    if -4 <= shortest.adjusted() < 6 or not value:
        return f"{shortest:f}"
    mantissa, _, exponent = f"{shortest:e}".partition("e")
    return f"{mantissa}e{int(exponent):+03d}"


def _magnitude(digits: str, base: int) -> int | None:
    underscores = base == 0
    if base == 0:
        prefix = _PREFIXES.get(digits[:2].lower()) if len(digits) > 2 else None
        if prefix:
            base, digits = prefix, digits[2:].removeprefix("_")
        elif digits.startswith("0") and len(digits) > 1:
            base, digits = 8, digits[1:].removeprefix("_")
        else:
            base = 10
    digit = _DIGITS[base]
    pattern = f"{digit}+(_{digit}+)*" if underscores else f"{digit}+"
    return int(digits.replace("_", ""), base) if re.fullmatch(pattern, digits) else None


def _syntax(function: str, text: str) -> ConfigError:
    return ConfigError(f"strconv.{function}: parsing {quote(text)}: invalid syntax")


def _range(function: str, text: str) -> ConfigError:
    return ConfigError(f"strconv.{function}: parsing {quote(text)}: value out of range")
