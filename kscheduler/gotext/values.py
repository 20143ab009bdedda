"""How Go writes values down: JSON, floats and `%#v`.

These texts end up in error messages and dumps that people and tools compare with kube-scheduler's.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence

from kscheduler.logs import quote

JSON_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}


def json_string(text: str) -> str:
    out = (JSON_ESCAPES.get(c) or (f"\\u{ord(c):04x}" if c < " " else c) for c in text)
    return f'"{"".join(out)}"'


def json_text(value: object) -> str:
    """`json.Marshal`: compact, mappings in their own order.

    ValueError for what JSON cannot express: infinities and not-a-number.
    """
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return json_float(value)
        case str():
            return json_string(value)
        case Mapping():
            pairs = (f"{json_string(str(k))}:{json_text(v)}" for k, v in value.items())
            return f"{{{','.join(pairs)}}}"
        case Sequence():
            return f"[{','.join(json_text(v) for v in value)}]"
        case _:
            raise TypeError(f"no JSON for {type(value).__name__}")


def json_float(value: float) -> str:
    """A float64 as JSON: plain digits unless the exponent is below -6 or above 20."""
    _check_finite(value)
    return _layout(repr(value), smallest=-6, largest=20, padded=False)


def json_float32(value: float) -> str:
    _check_finite(value)
    return _layout(_shortest32(value), smallest=-6, largest=20, padded=False)


def _check_finite(value: float) -> None:
    if not math.isfinite(value):
        name = "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
        raise ValueError(f"json: unsupported value: {name}")


def general_float(value: float) -> str:
    """`FormatFloat(value, 'g', -1, 64)`: an exponent from a million on."""
    return _layout(repr(value), smallest=-4, largest=5, padded=True)


def general_float32(value: float) -> str:
    """The same with 32 bits, by which YAML's number keys become strings."""
    value = float32(value)
    if math.isnan(value) or math.isinf(value):
        return ".nan" if math.isnan(value) else (".inf" if value > 0 else "-.inf")
    return _layout(_shortest32(value), smallest=-4, largest=5, padded=True)


def float32(value: float) -> float:
    """The nearest float32, which is infinite beyond its range."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _shortest32(value: float) -> str:
    """The fewest digits that still read back as the same float32."""
    nearest = float32(value)
    texts = (f"{nearest:.{digits}e}" for digits in range(9))
    return next((t for t in texts if float32(float(t)) == nearest), repr(nearest))


def _layout(shortest: str, *, smallest: int, largest: int, padded: bool) -> str:
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


def go_syntax(value: object) -> str:
    """`%#v` of what a YAML document decodes to; keys of mappings are (kind, value) pairs."""
    match value:
        case None:
            return "interface {}(nil)"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value) if value < 1 << 63 else hex(value)
        case float():
            return general_float(value)
        case str():
            return quote(value)
        case Mapping():
            pairs = (f"{go_syntax(k[1])}:{go_syntax(v)}" for k, v in sorted(value.items()))
            return f"map[interface {{}}]interface {{}}{{{', '.join(pairs)}}}"
        case Sequence():
            return f"[]interface {{}}{{{', '.join(go_syntax(v) for v in value)}}}"
        case _:
            raise TypeError(f"no Go syntax for {type(value).__name__}")
