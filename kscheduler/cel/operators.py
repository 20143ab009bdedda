"""Operators on values: arithmetic, order, size and conversion between types.

An operand of a type without the operator is `no such overload: <operator>`; a right operand that
does not fit is a bare `no such overload`. Strings, durations and timestamps always give the bare
form, as cel-go lets them try the operator as a method first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from kscheduler.cel import times, types
from kscheduler.cel.errors import EvaluationError, no_such_overload
from kscheduler.cel.frame import Frame
from kscheduler.cel.values import (
    COMPARABLE,
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    DefaultMap,
    Duration,
    Timestamp,
    Uint,
    Value,
    compare,
    contains,
    find,
    runtime_type,
)
from kscheduler.gotext import strconv

_METHOD_TYPES = frozenset((str, Duration, Timestamp))


def unsupported(function: str, operand: Value) -> EvaluationError:
    """The error for an operand of a type that does not have the operator."""
    if type(operand) in _METHOD_TYPES:
        return no_such_overload()
    return EvaluationError(f"no such overload: {function}")


def as_int(number: int) -> int:
    """The number as an int."""
    if INT_MIN <= number <= INT_MAX:
        return number
    raise EvaluationError("integer overflow")


def as_uint(number: int) -> Uint:
    """The number as a uint."""
    if 0 <= number <= UINT_MAX:
        return Uint(number)
    raise EvaluationError("unsigned integer overflow")


def add(left: Value, right: Value) -> Value:
    """`left + right`."""
    kind = type(left)
    if kind is Timestamp and type(right) is Duration:
        return times.add(left, right)
    if kind is Duration and type(right) is Timestamp:
        return times.add(right, left)
    if kind not in _ADDABLE:
        raise unsupported("_+_", left)
    if type(right) is not kind or kind is Timestamp:
        raise no_such_overload()
    if kind is int:
        return as_int(left + right)
    if kind is float:
        return left + right
    if kind is Uint:
        return as_uint(int(left) + int(right))
    if kind is Duration:
        return times.duration(left.nanos + right.nanos)
    return left + right


_ADDABLE = frozenset((int, Uint, float, str, bytes, list, Duration, Timestamp))


def subtract(left: Value, right: Value) -> Value:
    """`left - right`."""
    kind = type(left)
    if kind is Timestamp:
        if type(right) is Duration:
            return times.add(left, right, -1)
        if type(right) is Timestamp:
            return times.duration(left.nanos - right.nanos)
        raise no_such_overload()
    if kind not in (int, Uint, float, Duration):
        raise unsupported("_-_", left)
    if type(right) is not kind:
        raise no_such_overload()
    if kind is int:
        return as_int(left - right)
    if kind is float:
        return left - right
    if kind is Uint:
        return as_uint(int(left) - int(right))
    return times.duration(left.nanos - right.nanos)


def _numbers(function: str, left: Value, right: Value) -> None:
    if type(left) not in (int, Uint, float):
        raise unsupported(function, left)
    if type(right) is not type(left):
        raise no_such_overload()


def multiply(left: Value, right: Value) -> Value:
    """`left * right`."""
    _numbers("_*_", left, right)
    if type(left) is float:
        return left * right
    product = int(left) * int(right)
    return as_int(product) if type(left) is int else as_uint(product)


def divide(left: Value, right: Value) -> Value:
    """`left / right`, integers towards zero."""
    _numbers("_/_", left, right)
    if type(left) is float:
        if right != 0:
            return left / right
        if left == 0 or left != left:
            return math.nan
        return math.copysign(math.inf, left) * math.copysign(1.0, right)
    if right == 0:
        raise EvaluationError("division by zero")
    quotient = abs(int(left)) // abs(int(right))
    if (left < 0) is not (right < 0):
        quotient = -quotient
    return as_int(quotient) if type(left) is int else as_uint(quotient)


def modulo(left: Value, right: Value) -> Value:
    """`left % right`, with the sign of the left operand."""
    if type(left) not in (int, Uint):
        raise unsupported("_%_", left)
    if type(right) is not type(left):
        raise no_such_overload()
    if right == 0:
        raise EvaluationError("modulus by zero")
    if left == INT_MIN and right == -1:
        raise EvaluationError("integer overflow")
    rest = abs(int(left)) % abs(int(right))
    return as_uint(rest) if type(left) is Uint else (-rest if left < 0 else rest)


def negate(operand: Value) -> Value:
    """`-operand`."""
    kind = type(operand)
    if kind is int:
        return as_int(-operand)
    if kind is float:
        return -operand
    if kind is Duration:
        return times.duration(-operand.nanos)
    if kind is bool:
        raise no_such_overload()
    raise unsupported("-_", operand)


def logical_not(operand: Value) -> bool:
    """`!operand`."""
    if operand is True:
        return False
    if operand is False:
        return True
    raise no_such_overload()


_DIRECT = frozenset((int, Uint, str, bytes, bool))


def relation(function: str, holds: Callable[[Any, Any], bool]) -> Callable[[Value, Value], bool]:
    """The order operator that holds for a comparison's outcome against zero."""

    def operator(left: Value, right: Value) -> bool:
        kind = type(left)
        if kind is type(right) and kind in _DIRECT:
            return holds(left, right)
        if kind not in COMPARABLE:
            raise unsupported(function, left)
        return holds(compare(left, right), 0)

    return operator


def is_in(f: Frame, element: Value, container: Value) -> bool:
    """`element in container`."""
    kind = type(container)
    if kind is list:
        return contains(f, container, element)
    if kind is dict:
        return find(container, element)[1]
    if kind is DefaultMap:
        return type(element) is str and element in container
    raise no_such_overload()


def size(value: Value) -> int:
    """`size(value)`."""
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    raise unsupported("size", value)


_DECIMAL_INT = re.compile(r"[+-]?[0-9]+", re.ASCII)
_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))


def conversion_error(value: Value, wanted: types.Type) -> EvaluationError:
    """The error for a value that has no counterpart in the wanted type."""
    found = runtime_type(value).name
    return EvaluationError(f"type conversion error from '{found}' to '{wanted.name}'")


def to_int(value: Value) -> int:
    """`int(value)`."""
    match value:
        case float():
            if not -(2.0**63) < value < 2.0**63:
                raise EvaluationError("integer overflow")
            return int(value)
        case Duration():
            return value.nanos
        case Timestamp():
            return value.nanos // times.SECOND
        case str():
            if _DECIMAL_INT.fullmatch(value) and len(value) <= 400:
                number = int(value)
                if INT_MIN <= number <= INT_MAX:
                    return number
            raise conversion_error(value, types.INT)
    return as_int(int(value))


def to_uint(value: Value) -> Uint:
    """`uint(value)`."""
    match value:
        case float():
            if not 0 <= value < 2.0**64:
                raise EvaluationError("unsigned integer overflow")
            return Uint(int(value))
        case str():
            if value.isascii() and value.isdigit() and len(value) <= 400:
                number = int(value)
                if number <= UINT_MAX:
                    return Uint(number)
            raise conversion_error(value, types.UINT)
    return as_uint(int(value))


_FLOAT = re.compile(
    r"[+-]?(?:inf|infinity|nan|0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+"
    r"|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)",
    re.IGNORECASE | re.ASCII,
)


def to_double(value: Value) -> float:
    """`double(value)`."""
    if not isinstance(value, str):
        return float(value)
    if not _FLOAT.fullmatch(value) or value.lower() in ("+nan", "-nan"):
        raise conversion_error(value, types.DOUBLE)
    lowered = value.lower()
    try:
        number = float.fromhex(value) if "0x" in lowered else float(value)
    except (ValueError, OverflowError):
        raise conversion_error(value, types.DOUBLE) from None
    if math.isinf(number) and "inf" not in lowered:
        raise conversion_error(value, types.DOUBLE)
    return number


def to_bool(value: Value) -> bool:
    """`bool(value)`."""
    if isinstance(value, bool):
        return value
    if value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise conversion_error(value, types.BOOL)


def to_bytes(value: Value) -> bytes:
    """`bytes(value)`."""
    return value.encode("utf-8", "replace") if isinstance(value, str) else bytes(value)


def to_string(value: Value) -> str:
    """`string(value)`."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case float():
            return format_double(value)
        case int():
            return str(int(value))
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                reason = "invalid UTF-8 in bytes, cannot convert to string"
                raise EvaluationError(reason) from None
        case Duration():
            return times.duration_text(value)
        case Timestamp():
            return times.timestamp_text(value)
    return str(value)


def format_double(value: float) -> str:
    """Go's `%g`: the shortest digits, with an exponent from 1e+21 down to 1e-05 left out."""
    return strconv.format_float(value)


def to_duration(value: Value) -> Duration:
    """`duration(value)`."""
    if isinstance(value, Duration):
        return value
    found = times.parse_duration(value)
    if found is None:
        raise conversion_error(value, types.DURATION)
    return found


def to_timestamp(value: Value) -> Timestamp:
    """`timestamp(value)`."""
    if isinstance(value, Timestamp):
        return value
    if isinstance(value, int):
        return times.timestamp(value * times.SECOND)
    found = times.parse_timestamp(value)
    if found is None:
        raise conversion_error(value, types.TIMESTAMP)
    return found
