"""Go's strconv: booleans, numbers and quoted strings, read and written as Go does.

What cannot be read is refused in Go's words.
"""

import math
import re
import struct

from kscheduler.errors import ConfigError

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

_NO_ESCAPE = re.compile(r"[ !#-\[\]-~]*")
_ESCAPES = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f",
    "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
}  # fmt: skip


def quote(text: str) -> str:
    """A Go string literal, as strconv.Quote and `%q` write it."""
    return f'"{text}"' if _NO_ESCAPE.fullmatch(text) else f'"{"".join(map(_escape, text))}"'


def _escape(char: str) -> str:
    code = ord(char)
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8, as Python carries it
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# Of a number of 64 bits, in any base.
_MOST_DIGITS = 64


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
        value = float32(read(text.replace("_", "")))
    except OverflowError:
        raise _range("ParseFloat", text) from None
    if math.isinf(value) and "inf" not in text.lower():
        raise _range("ParseFloat", text)
    return float(shortest_float32(value)) if math.isfinite(value) else value


def format_float(value: float) -> str:
    """`FormatFloat(value, 'g', -1, 64)`: 50, 11.5, 1e+06; an exponent from a million on."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
    return layout_float(repr(value), smallest=-4, largest=5, padded=True)


def format_float32(value: float) -> str:
    """`FormatFloat(value, 'g', -1, 32)`, for finite values."""
    return layout_float(shortest_float32(value), smallest=-4, largest=5, padded=True)


def float32(value: float) -> float:
    """The nearest float32, which is infinite beyond its range."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def shortest_float32(value: float) -> str:
    """The fewest digits that still read back as the same float32."""
    nearest = float32(value)
    texts = (f"{nearest:.{digits}e}" for digits in range(9))
    return next((t for t in texts if float32(float(t)) == nearest), repr(nearest))


def layout_float(shortest: str, *, smallest: int, largest: int, padded: bool) -> str:
    """The digits of `shortest` in plain or exponent form, as the exponent's size demands."""
    mantissa, _, exponent_text = shortest.lower().partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    exponent = int(exponent_text or "0") + len(whole) - 1
    digits = whole + fraction
    leading = len(digits) - len(digits.lstrip("0"))
    digits, exponent = digits.strip("0"), exponent - leading
    if not digits:
        return sign + "0"
    if exponent < smallest or exponent > largest:
        point = f"{digits[0]}.{digits[1:]}" if len(digits) > 1 else digits
        return f"{sign}{point}e{exponent:+03d}" if padded else f"{sign}{point}e{exponent:+d}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    whole, fraction = digits[: exponent + 1].ljust(exponent + 1, "0"), digits[exponent + 1 :]
    return sign + whole + (f".{fraction}" if fraction else "")


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
    if not re.fullmatch(pattern, digits):
        return None
    digits = digits.replace("_", "").lstrip("0") or "0"
    # Longer than any 64 bits; int() would refuse some thousand digits.
    return int(digits, base) if len(digits) <= _MOST_DIGITS else 1 << _MOST_DIGITS


def _syntax(function: str, text: str) -> ConfigError:
    return ConfigError(f"strconv.{function}: parsing {quote(text)}: invalid syntax")


def _range(function: str, text: str) -> ConfigError:
    return ConfigError(f"strconv.{function}: parsing {quote(text)}: value out of range")
