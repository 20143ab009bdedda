"""Functions on strings: offsets, replacement, splitting, and `format`.

Mirrors cel-go's strings extension, version 2. Offsets count code points.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from kscheduler.cel.display import display
from kscheduler.cel.errors import EvaluationError
from kscheduler.cel.frame import Frame
from kscheduler.cel.operators import format_double, to_string
from kscheduler.cel.types import Kind
from kscheduler.cel.values import Uint, Value, key_value, runtime_type, tree_size
from kscheduler.gotext.strconv import quote as go_quote

_LOWER = {c: c + 32 for c in range(ord("A"), ord("Z") + 1)}
_UPPER = {c: c - 32 for c in range(ord("a"), ord("z") + 1)}
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008"
_SPACE += "\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
_QUOTED = {
    **{"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"},
    **{"\v": "\\v", "\\": "\\\\", '"': '\\"'},
}


def _out_of_range(index: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {index}")


def char_at(text: str, index: int) -> str:
    """The character at an index; empty right after the last."""
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def index_of(text: str, wanted: str, start: int = 0) -> int:
    """Where the wanted text begins, at `start` or after; -1 if nowhere."""
    if start < 0:
        raise _out_of_range(start)
    if not wanted:
        return min(start, len(text))
    return text.find(wanted, start) if start < len(text) else -1


def last_index_of(f: Frame, text: str, wanted: str, start: int | None = None) -> int:
    """Where the wanted text begins last, at `start` or before; -1 if nowhere."""
    # Python searches backwards without preparation: time may grow with the product.
    f.touch(len(text) * len(wanted) >> 10)
    if start is None:
        return text.rfind(wanted)
    if start < 0:
        raise _out_of_range(start)
    if not wanted:
        return min(start, len(text))
    if start >= len(text):
        return -1
    return text.rfind(wanted, 0, start + len(wanted))


def lower_ascii(text: str) -> str:
    """The text with A to Z in lower case."""
    return text.translate(_LOWER)


def upper_ascii(text: str) -> str:
    """The text with a to z in upper case."""
    return text.translate(_UPPER)


def replace(f: Frame, text: str, old: str, new: str, count: int = -1) -> str:
    """The text with occurrences of `old` replaced, all of them for a negative count."""
    found = text.count(old) if count < 0 else min(count, text.count(old))
    f.touch_text(len(text) + found * len(new))
    return text.replace(old, new, count if count >= 0 else -1)


def split(text: str, separator: str, count: int = -1) -> list[str]:
    """The parts between separators; at most `count` of them if that is not negative."""
    if count == 0:
        return []
    if not separator:
        if count < 0 or count > len(text):
            return list(text)
        return [*text[: count - 1], text[count - 1 :]] if text else []
    return text.split(separator, count - 1 if count > 0 else -1)


def substring(text: str, start: int, end: int | None = None) -> str:
    """The part of the text from `start` up to `end`."""
    if end is None:
        if not 0 <= start <= len(text):
            raise _out_of_range(start)
        return text[start:]
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise _out_of_range(index)
    return text[start:end]


def trim(text: str) -> str:
    """The text without white space at its ends."""
    return text.strip(_SPACE)


def quote(text: str) -> str:
    """The text in quotes, with escapes for what cannot stand in a literal."""
    return f'"{"".join(_QUOTED.get(c, c) for c in text)}"'


def join(f: Frame, parts: list[Value], separator: str = "") -> str:
    """The strings with the separator between them."""
    total = 0
    for part in parts:
        if type(part) is not str:
            raise EvaluationError(f"join: invalid input: {display(part)}")
        total += len(part) + len(separator)
    f.touch_text(total)
    return separator.join(parts)


class FormatError(Exception):
    """Raised for a clause that does not fit its argument; `place` tells the checker which."""

    def __init__(self, message: str, place: object = None) -> None:
        super().__init__(message)
        self.place = place


def render(template: str, size: int, clause: Callable[[str, int | None, int], str]) -> str:
    """The template with its clauses filled in by `clause(verb, precision, argument index)`."""
    parts = []
    position, argument = 0, 0
    while position < len(template):
        percent = template.find("%", position)
        if percent < 0:
            percent = len(template)
        parts.append(template[position:percent])
        if percent == len(template):
            break
        position = percent + 1
        if template[position : position + 1] == "%":
            parts.append("%")
            position += 1
            continue
        if position >= len(template):
            raise FormatError("unexpected end of string")
        if argument >= size:
            raise FormatError(f"index {argument} out of range")
        precision, position = _precision(template, position)
        verb = template[position]
        position += 1
        if verb not in "sdfebxXo":
            raise FormatError(
                f'could not parse formatting clause: unrecognized formatting clause "{verb}"'
            )
        parts.append(clause(verb, precision, argument))
        argument += 1
    return "".join(parts)


def _precision(template: str, position: int) -> tuple[int | None, int]:
    if template[position] != ".":
        return None, position
    start = position + 1
    end = start
    while end < len(template) and template[end] in "0123456789":
        end += 1
    prefix = "could not parse formatting clause: error while parsing precision"
    if end >= len(template):
        raise FormatError(f"{prefix}: could not find end of precision specifier")
    digits = template[start:end]
    if not digits:
        reason = 'strconv.Atoi: parsing "": invalid syntax'
        raise FormatError(f"{prefix}: error while converting precision to integer: {reason}")
    if len(digits) > 18:
        reason = f"strconv.Atoi: parsing {go_quote(digits)}: value out of range"
        raise FormatError(f"{prefix}: error while converting precision to integer: {reason}")
    return int(digits), end


WRONG_CLAUSE = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, "
    "types, durations, and timestamps, was given {}",
    "d": "decimal clause can only be used on integers, was given {}",
    "f": "fixed-point clause can only be used on doubles, was given {}",
    "e": "scientific clause can only be used on doubles, was given {}",
    "b": "only integers and bools can be formatted as binary, was given {}",
    "x": "only integers, byte buffers, and strings can be formatted as hex, was given {}",
    "o": "octal clause can only be used on integers, was given {}",
}


def wrong_clause(verb: str, found: str, place: object = None) -> FormatError:
    """The error for an argument of a type that the clause does not take."""
    message = WRONG_CLAUSE["x" if verb == "X" else verb].format(found)
    return FormatError(f"error during formatting: {message}", place)


def format_text(f: Frame, template: str, arguments: list[Value]) -> str:
    """`template.format(arguments)`."""

    def clause(verb: str, precision: int | None, index: int) -> str:
        f.touch(tree_size(arguments[index]))
        f.touch_text(precision or 0)
        return _clause(verb, precision, arguments[index])

    try:
        return render(template, len(arguments), clause)
    except FormatError as error:
        raise EvaluationError(str(error)) from None


def _clause(verb: str, precision: int | None, value: Value) -> str:
    kind = type(value)
    match verb:
        case "s":
            return _text(value, top=True)
        case "d" if kind is int or kind is Uint:
            return str(int(value))
        case "b" if kind is int or kind is Uint or kind is bool:
            return f"{int(value):b}"
        case "o" if kind is int or kind is Uint:
            return f"{int(value):o}"
        case "x" | "X" if kind in (int, Uint, str, bytes):
            return _hex(verb, value)
        case "f" | "e" if kind is float or value in ("NaN", "Infinity", "-Infinity"):
            number = float(value)
            if verb == "f":
                return _fixed(number, precision)
            # cel-go hands the precision to Go as a width.
            return _scientific(number).rjust(6 if precision is None else precision)
    raise wrong_clause(verb, runtime_type(value).name)


def _hex(verb: str, value: Value) -> str:
    if isinstance(value, int):
        return f"{value:{verb}}"
    raw = value.encode("utf-8", "replace") if isinstance(value, str) else value
    return raw.hex().upper() if verb == "X" else raw.hex()


def _fixed(number: float, precision: int | None) -> str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "∞" if number > 0 else "-∞"
    digits = 6 if precision is None else precision
    # CPython's formatting takes no more; doubles have no more than 1,074 decimals.
    shown = f"{number:,.{min(digits, 1100)}f}"
    return shown + "0" * (digits - min(digits, 1100))


_SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def _scientific(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "∞" if number > 0 else "-∞"
    mantissa, _, exponent = f"{number:.6e}".partition("e")
    sign = "-" if exponent[0] == "-" else ""
    return f"{mantissa}\N{MULTIPLICATION SIGN}10{(sign + exponent[1:]).translate(_SUPERSCRIPT)}"


_CONVERTIBLE = frozenset(
    (
        *(Kind.BOOL, Kind.INT, Kind.UINT, Kind.STRING, Kind.BYTES),
        *(Kind.DURATION, Kind.TIMESTAMP),
    )
)


def _text(value: Value, *, top: bool) -> str:
    """The text of a `%s` clause; inside of lists and maps values are written as literals."""
    kind = runtime_type(value).kind
    if kind is Kind.LIST:
        return f"[{', '.join(_element(e) for e in value)}]"
    if kind is Kind.MAP:
        return _map_text(value)
    if value is None:
        return "null"
    if kind in (Kind.DURATION, Kind.TIMESTAMP) and not top:
        name = "duration" if kind is Kind.DURATION else "timestamp"
        return f"{name}({go_quote(to_string(value))})"
    if kind is Kind.TYPE:
        return str(value.name)
    if kind is Kind.DOUBLE:
        return format_double(value) if top else _plain_double(value)
    if kind in (
        Kind.BOOL,
        Kind.INT,
        Kind.UINT,
        Kind.STRING,
        Kind.BYTES,
        Kind.DURATION,
        Kind.TIMESTAMP,
    ):
        try:
            return to_string(value)
        except EvaluationError as error:
            shown = go_quote(str(error))
            reason = f"could not convert argument {shown} to string"
            raise FormatError(f"error during formatting: {reason}") from None
    if not top:
        raise FormatError(
            f"error during formatting: no formatting function for {runtime_type(value).name}"
        )
    raise wrong_clause("s", runtime_type(value).name)


def _plain_double(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return f"{value:.6f}"


def _element(value: Value) -> str:
    text = _text(value, top=False)
    if isinstance(value, str):
        return go_quote(text)
    if isinstance(value, bytes):
        return f"b{go_quote(text)}"
    if isinstance(value, float) and not math.isfinite(value):
        return go_quote(text)
    return text


def _map_text(value: dict[object, Value]) -> str:
    pairs = []
    for key, element in value.items():
        shown = key_value(key)  # type: ignore[arg-type]
        if not isinstance(shown, str | bool | int):
            name = runtime_type(shown).name
            raise FormatError(
                f"error during formatting: no formatting function for map key of type {name}"
            )
        pairs.append((_element(shown), _element(element)))
    return f"{{{', '.join(f'{k}:{v}' for k, v in sorted(pairs, key=lambda p: p[0]))}}}"
