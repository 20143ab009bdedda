"""Values that expressions compute with, and what holds of all of them: type, equality, order.

bool, int, float, str, bytes and None stand for themselves, `Uint` for uint. Lists are Python
lists. Maps are dicts whose keys are `key_of` the CEL key, because Python takes 1, 1.0 and True for
one key and CEL does not. Types are `types.Type`. The rest are classes here and in `quantities`,
`versions` and `network`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, TypeAlias

from kscheduler.cel import types
from kscheduler.cel.errors import (
    COST_LIMIT_EXCEEDED,
    AbortedError,
    EvaluationError,
    no_such_overload,
)
from kscheduler.cel.frame import ELEMENT_LIMIT, Frame

Value: TypeAlias = Any
Key: TypeAlias = "str | tuple[str, Any]"
INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1


class Uint(int):
    """An unsigned integer."""

    __slots__ = ()


class Opaque(ABC):
    """A value of a Kubernetes type: a class that CEL sees through its functions only.

    `celtype` is its type, `go_name` the name in internal errors, `size` what the cost model sees.
    Subclasses are made known by `register`.
    """

    __slots__ = ()
    celtype: types.Type
    go_name: str
    size: int = 1

    @abstractmethod
    def equals(self, other: Value) -> bool:
        """Whether the other value equals this one, the left operand.

        Raises EvaluationError for one of another type, where values of CEL's own just differ.
        """


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


def equal(f: Frame, left: Value, right: Value) -> bool:
    """Whether two values are equal; different types just differ, but see `Opaque`.

    Elements and long texts are counted in the frame as they are compared, because values that share
    their parts can be exponentially larger than the memory they take.
    """
    kind = type(left)
    if kind is str or kind is bytes:
        if type(right) is not kind or len(left) != len(right):
            return False
        f.touch_text(len(left))
        return bool(left == right)
    if kind is bool or left is None or right is None:
        return left is right
    if kind in NUMBERS:
        return type(right) in NUMBERS and _compare_numbers(left, right) == 0
    if kind is list:
        if type(right) is not list or len(left) != len(right):
            return False
        f.touch(2 * len(left))
        return all(_not_unequal(f, *pair) for pair in zip(left, right, strict=True))
    if kind is dict or kind is DefaultMap:
        if not isinstance(right, dict) or len(left) != len(right):
            return False
        f.touch(3 * len(left))
        for key, value in left.items():
            other, found = find(right, key_value(key))
            if not found or not _not_unequal(f, value, other):
                return False
        return True
    if isinstance(left, Opaque):
        return left.equals(right)
    if kind is Optional:
        if type(right) is not Optional or left.present is not right.present:
            return False
        return not left.present or equal(f, left.value, right.value)
    if kind is types.Type:
        return type(right) is types.Type and left.name == right.name
    if kind is Timestamp:
        return type(right) is Timestamp and left.nanos == right.nanos
    return bool(left == right)


def surely_equal(f: Frame, left: Value, right: Value) -> bool:
    """Whether two values are equal, where an error counts as not equal."""
    try:
        return equal(f, left, right)
    except EvaluationError:
        return False


def _not_unequal(f: Frame, left: Value, right: Value) -> bool:
    """Whether two elements pass as equal: cel-go looks only for a clear "false"."""
    try:
        return equal(f, left, right)
    except EvaluationError:
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


def contains(f: Frame, elements: list[Value], wanted: Value) -> bool:
    """Whether the list has an element equal to the wanted one; errors count as different."""
    f.touch(len(elements))
    return any(surely_equal(f, wanted, element) for element in elements)


def tree_size(value: Value, limit: int = ELEMENT_LIMIT) -> int:
    """How many values a value is made of, those in lists and maps included; texts count by length.

    Raises AbortedError for one beyond the limit, by default what an evaluation may touch.
    """
    total, pending = 0, [value]
    while pending:
        item = pending.pop()
        kind = type(item)
        total += 1
        if kind is str or kind is bytes:
            total += len(item) >> 3
        elif kind is list:
            total += len(item)
            pending += item
        elif kind is dict or kind is DefaultMap:
            total += 2 * len(item)
            pending += item
            pending += item.values()
        elif kind is Optional and item.present:
            pending.append(item.value)
        if total > limit:
            raise AbortedError(COST_LIMIT_EXCEEDED)
    return total


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
