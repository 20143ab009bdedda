"""Values that expressions compute with, and what holds of all of them: type, equality, order.

bool, int, float, str, bytes and None stand for themselves, `Uint` for uint. Lists are Python
lists. Maps are dicts whose keys are `key_of` the CEL key, because Python takes 1, 1.0 and True for
one key and CEL does not. Types are `types.Type`. The rest are classes here and in `quantities`,
`versions` and `network`.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, TypeAlias

from kscheduler.cel import types
from kscheduler.cel.errors import (
    COST_LIMIT_EXCEEDED,
    AbortedError,
    EvaluationError,
    no_such_overload,
)
from kscheduler.gotext import strconv
from kscheduler.gotext.duration import format_duration

Value: TypeAlias = Any
Key: TypeAlias = "str | tuple[str, Any]"
INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1


class Work:
    """Elements that one evaluation may still touch.

    cel-go's cost of a call does not always grow with its arguments (`in` on a dyn list costs 1), so
    the time of an evaluation is bounded by this as well. One evaluation runs at a time.
    """

    __slots__ = ("left",)
    LIMIT = 4_000_000

    def __init__(self) -> None:
        self.left = self.LIMIT

    def spend(self, amount: int) -> None:
        self.left -= amount
        if self.left < 0:
            raise AbortedError(COST_LIMIT_EXCEEDED)


WORK = Work()
_LONG = 1000


def charge(value: Value) -> None:
    """Counts an argument that is long enough to take time."""
    kind = type(value)
    if kind is str or kind is bytes:
        if len(value) > _LONG:
            WORK.spend(len(value) >> 4)
    elif (kind is list or kind is dict) and len(value) > _LONG:
        WORK.spend(len(value))


class Uint(int):
    """An unsigned integer."""

    __slots__ = ()


class Opaque:
    """A value of a Kubernetes type; equality with anything else is an error when it is on the left.

    `go_name` is the name in internal errors, `size` what the cost model sees.
    """

    __slots__ = ()
    celtype: types.Type
    go_name: str
    size: int = 1

    def equals(self, other: Value) -> bool:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Duration:
    """A span of time in nanoseconds, within int64."""

    nanos: int


@dataclass(frozen=True, slots=True)
class Timestamp:
    """An instant in nanoseconds since 1970, with the offset it was written in (seconds)."""

    nanos: int
    offset: int = 0


class Optional:
    """A value that may be absent."""

    __slots__ = ("present", "value")

    def __init__(self, value: Value = None, *, present: bool = True) -> None:
        self.value = value
        self.present = present


NONE = Optional(present=False)


class DefaultMap(dict[str, Any]):
    """A map in which every domain is found: an unknown one is an empty map."""

    __slots__ = ()


EMPTY_MAP: dict[Key, Value] = {}

_TYPES: dict[type, types.Type] = {
    bool: types.BOOL,
    int: types.INT,
    Uint: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    type(None): types.NULL,
    list: types.Type(types.Kind.LIST, "list"),
    dict: types.Type(types.Kind.MAP, "map"),
    DefaultMap: types.Type(types.Kind.MAP, "map"),
    Duration: types.DURATION,
    Timestamp: types.TIMESTAMP,
    Optional: types.Type(types.Kind.OPAQUE, "optional_type"),
    types.Type: types.TYPE,
}
NUMBERS = frozenset((int, Uint, float))


def register(cls: type[Opaque]) -> type[Opaque]:
    """Makes the class known as the values of its type."""
    _TYPES[cls] = cls.celtype
    return cls


def runtime_type(value: Value) -> types.Type:
    """The type of a value, without parameters."""
    return _TYPES[type(value)]


def classes_of(name: str) -> frozenset[type]:
    """The Python classes of the values of a type."""
    return frozenset(cls for cls, found in _TYPES.items() if found.name == name)


def type_name(value: Value) -> str:
    """The name of a value's type."""
    return _TYPES[type(value)].name


_GO_NAMES = {
    bool: "types.Bool",
    int: "types.Int",
    Uint: "types.Uint",
    float: "types.Double",
    str: "types.String",
    bytes: "types.Bytes",
    type(None): "types.Null",
    list: "*types.baseList",
    dict: "*types.baseMap",
    DefaultMap: "cel.mapper",
    Duration: "types.Duration",
    Timestamp: "types.Timestamp",
    Optional: "*types.Optional",
    types.Type: "*types.Type",
}


def go_name(value: Value) -> str:
    """The name of the class that holds such a value in cel-go, seen in internal errors."""
    if isinstance(value, Opaque):
        # A computed quantity is a pointer.
        return f"*{value.go_name}" if getattr(value, "computed", False) else value.go_name
    return _GO_NAMES[type(value)]


def key_of(value: Value) -> Key:
    """The key under which a map keeps the value's entry."""
    kind = type(value)
    if kind is str:
        return value
    if kind is bytes or (
        isinstance(value, Opaque) and value.go_name in ("cel.Semver", "cel.Format")
    ):
        reason = f"runtime error: hash of unhashable type {go_name(value)}"
        raise AbortedError(f"internal error: {reason}")
    if kind in _BY_VALUE:
        return _TYPES[kind].name, value
    return "@", _Identity(value)  # lists, maps and pointers are keys by identity


_BY_VALUE = frozenset((bool, int, Uint, float, type(None), Duration, Timestamp, types.Type))


@dataclass(frozen=True, slots=True, eq=False)
class _Identity:
    value: Value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def key_value(key: Key) -> Value:
    """The CEL key that `key_of` made the key from."""
    if type(key) is str:
        return key
    value = key[1]
    return value.value if type(value) is _Identity else value


_MISSING = object()


def find(entries: dict[Key, Value], key: Value) -> tuple[Value, bool]:
    """The entry of a key and whether there is one; numbers are found across their types."""
    if type(key) is str:
        value = entries.get(key, _MISSING)
        if value is not _MISSING:
            return value, True
        return (EMPTY_MAP, True) if type(entries) is DefaultMap else (None, False)
    if type(entries) is DefaultMap:
        return EMPTY_MAP, True
    if not entries:
        return None, False
    value = entries.get(key_of(key), _MISSING)
    if value is _MISSING and type(key) in NUMBERS and (type(key) is not float or _is_whole(key)):
        for name in ("int", "uint"):
            if name != type_name(key):
                value = entries.get((name, int(key)), _MISSING)
                if value is not _MISSING:
                    break
    return (None, False) if value is _MISSING else (value, True)


def _is_whole(number: float) -> bool:
    return math.isfinite(number) and number == int(number)


def equal(left: Value, right: Value) -> bool:
    """Whether two values are equal; different types just differ, but see `Opaque`."""
    kind = type(left)
    if kind is str or kind is bool or kind is bytes:
        return type(right) is kind and bool(left == right)
    if left is None or right is None:
        return left is right
    if kind in NUMBERS:
        return type(right) in NUMBERS and _compare_numbers(left, right) == 0
    if kind is list:
        return type(right) is list and len(left) == len(right) and _all_equal(left, right)
    if kind is dict or kind is DefaultMap:
        return _maps_equal(left, right)
    if isinstance(left, Opaque):
        return left.equals(right)
    if kind is Optional:
        if type(right) is not Optional or left.present is not right.present:
            return False
        return not left.present or equal(left.value, right.value)
    if kind is types.Type:
        return type(right) is types.Type and left.name == right.name
    if kind is Timestamp:
        return type(right) is Timestamp and left.nanos == right.nanos
    return bool(left == right)


def surely_equal(left: Value, right: Value) -> bool:
    """Whether two values are equal, where an error counts as not equal."""
    try:
        return equal(left, right)
    except EvaluationError:
        return False


def _all_equal(left: list[Value], right: list[Value]) -> bool:
    # cel-go looks only for a clear "false": a comparison that is an error passes as equal.
    WORK.spend(len(left))
    return all(map(_not_unequal, left, right))


def _not_unequal(left: Value, right: Value) -> bool:
    try:
        return equal(left, right)
    except EvaluationError:
        return True


def _maps_equal(left: dict[Key, Value], right: Value) -> bool:
    if not isinstance(right, dict) or len(left) != len(right):
        return False
    WORK.spend(len(left))
    for key, value in left.items():
        other, found = find(right, key_value(key))
        if not found or not _not_unequal(value, other):
            return False
    return True


def _compare_numbers(left: Any, right: Any) -> int | None:
    """-1, 0 or 1; None if one is not a number. Integers meet doubles as doubles."""
    if type(left) is float or type(right) is float:
        left, right = float(left), float(right)
        if left != left or right != right:
            return None
    return -1 if left < right else int(left > right)


def compare(left: Value, right: Value) -> int:
    """-1, 0 or 1; raises where the types have no order, or not this one."""
    kind = type(left)
    if kind in NUMBERS:
        if type(right) not in NUMBERS:
            raise no_such_overload()
        order = _compare_numbers(left, right)
        if order is None:
            raise EvaluationError("NaN values cannot be ordered")
        return order
    if type(right) is not kind:
        raise no_such_overload()
    if kind is str:
        # Go orders strings by their bytes, which for UTF-8 is the order of code points.
        return -1 if left < right else int(left > right)
    if kind is Duration or kind is Timestamp:
        left, right = left.nanos, right.nanos
    return -1 if left < right else int(left > right)


COMPARABLE = frozenset((bool, int, Uint, float, str, bytes, Duration, Timestamp))


def contains(elements: list[Value], wanted: Value) -> bool:
    """Whether the list has an element equal to the wanted one; errors count as different."""
    kind = type(wanted)
    WORK.spend(len(elements))
    if kind is str:
        return any(type(e) is str and e == wanted for e in elements)
    return any(surely_equal(wanted, e) for e in elements)


def size_of(value: Value) -> int:
    """The size the cost model gives a value: length, or 1 for what has none."""
    kind = type(value)
    if kind is str or kind is list or kind is bytes or kind is dict or kind is DefaultMap:
        return len(value)
    if isinstance(value, Opaque):
        return value.size
    if kind is Optional and value.present:
        return size_of(value.value)
    return 1


def display(value: Value) -> str:
    """The text of a value inside an error message (Go's `%v`)."""
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
            return f"[{', '.join(map(display, value))}]"
        case dict():
            entries = (f"{display(key_value(k))}: {display(v)}" for k, v in value.items())
            return f"{{{', '.join(entries)}}}"
        case Duration():
            return format_duration(value.nanos)
        case Timestamp():
            return _go_time(value)
    return notation(value)


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
            return f"[{', '.join(map(notation, value))}]"
        case dict():
            entries = (f"{notation(key_value(k))}: {notation(v)}" for k, v in value.items())
            return f"{{{', '.join(entries)}}}"
        case Optional():
            return f"optional({notation(value.value)})" if value.present else "optional.none()"
    return str(value)
