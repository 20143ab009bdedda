"""Costs of calls in cel-go's units, by which an evaluation's budget is counted.

A cost is a number or a function of the arguments; `join` alone depends on the result.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from kscheduler.cel.formats import Format
from kscheduler.cel.frame import COST_LIMIT
from kscheduler.cel.values import Opaque, Value, key_value, size_of

LIST_COST, MAP_COST, MESSAGE_COST = 10, 30, 40
Cost = int | Callable[..., int]


def tenth(size: int) -> int:
    """A tenth, rounded up in doubles as upstream does."""
    return ceil(size * 0.1)


def scan(text: Value, *_: Value) -> int:
    """Cost of reading the first argument."""
    return tenth(size_of(text))


def scan_twice(text: Value, *_: Value) -> int:
    """Cost of reading the first argument and writing as much."""
    return ceil(size_of(text) * 2 * 0.1)


def scan_second(_text: Value, other: Value) -> int:
    """Cost of reading the second argument."""
    return tenth(size_of(other))


def comparison(left: Value, right: Value) -> int:
    """Cost of comparing up to the end of the shorter operand."""
    return tenth(min(size_of(left), size_of(right)))


def equality(left: Value, right: Value) -> int:
    """Cost of `==`, which is 1 for Kubernetes' types."""
    return 1 if isinstance(left, Opaque) else comparison(left, right)


def concatenation(left: Value, right: Value) -> int:
    """Cost of a new text from two."""
    return tenth(size_of(left) + size_of(right))


def of_searched(text: Value) -> int:
    """Cost of a text that is searched, for each part of the pattern."""
    return ceil((1.0 + size_of(text)) * 0.1)


def of_pattern(pattern: Value) -> int:
    """Parts of a pattern: one in four characters is taken to be an expression."""
    return ceil(size_of(pattern) * 0.25)


def regex(text: Value, pattern: Value, *_: Value) -> int:
    """Cost of a regular expression on a text."""
    return of_searched(text) * of_pattern(pattern)


def traversal(value: Value, *_: Value) -> int:
    """Cost of visiting all of a value."""
    if isinstance(value, str):
        return int(len(value.encode("utf-8", "replace")) * 0.1)
    if isinstance(value, bytes):
        return int(len(value) * 0.1)
    if isinstance(value, list):
        return sum(map(traversal, value))
    if isinstance(value, dict):
        return sum(traversal(key_value(k)) + traversal(v) for k, v in value.items())
    return 1


def self_comparison(elements: Value, *_: Value) -> int:
    """Cost of comparing each element with each other."""
    size = size_of(elements)
    factor = 2.1 if size and isinstance(elements[0], str | bytes) else 2.0
    return int(size * size * factor) + 1 + LIST_COST


def _validation(named: Value, text: Value) -> int:
    pattern = named.cost if isinstance(named, Format) else 1
    return of_searched(text) * ceil(pattern * 0.25)


def _sets(factor: int) -> Cost:
    return lambda left, right: 1 + size_of(left) * size_of(right) * factor


def _contains_ip(overload: str) -> Cost:
    parsed = overload == "cidr_contains_ip_string"
    return lambda block, other: tenth(2 * size_of(block)) + (tenth(size_of(other)) if parsed else 0)


def _contains_cidr(overload: str) -> Cost:
    parsed = overload == "cidr_contains_cidr_string"
    return lambda block, other: (
        tenth(2 * size_of(block))
        + tenth(size_of(block))
        + 1
        + (tenth(size_of(other)) if parsed else 0)
    )


def flattening(elements: Value, depth: Value = 1) -> int:
    """Cost of flattening so many levels."""
    return int(size_of(elements) * (1.0 if depth < 0 else depth)) + 1 + LIST_COST


def _slicing(elements: Value, start: Value, end: Value) -> int:
    """Cost by the length of the result; an error has the length 1."""
    valid = 0 <= start <= end <= size_of(elements)
    return (end - start if valid else 1) + 1 + LIST_COST


_BY_OVERLOAD: dict[str, Cost] = {
    "starts_with_string": scan_second,
    "ends_with_string": scan_second,
    "string_to_bytes": scan,
    "bytes_to_string": scan,
    "strings_quote": scan,
    "string_format": scan,
    "in_list": lambda _element, container: size_of(container),
    "add_string": concatenation,
    "add_bytes": concatenation,
    "matches": regex,
    "matches_string": regex,
    "contains_string": lambda text, wanted: tenth(size_of(text)) * tenth(size_of(wanted)),
    "list_slice": _slicing,
    "lists_range": lambda size: (size if 0 <= size <= COST_LIMIT else 1) + 1 + LIST_COST,
    "list_reverse": lambda elements: size_of(elements) + 1 + LIST_COST,
    "list_distinct": self_comparison,
    "list_sets_contains_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
    "list_sets_intersects_list": _sets(1),
    "cidr_ip": 1,
}
for _operator in ("less", "less_equals", "greater", "greater_equals"):
    for _kind in ("string", "bytes"):
        _BY_OVERLOAD[f"{_operator}_{_kind}"] = comparison

# Functions that visit all of their first argument, and cost accordingly.
TRAVERSING = frozenset(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"))
_BY_FUNCTION: dict[str, Cost] = {
    **dict.fromkeys(TRAVERSING, traversal),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), scan),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), scan_twice),
    **dict.fromkeys(("find", "findAll"), regex),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "ip"), scan),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), scan),
    "validate": _validation,
    "_==_": equality,
    "_!=_": comparison,
}


def cost_of(function: str, overloads: tuple[str, ...]) -> Cost:
    """The cost of a call; one whose overload is open until runtime costs 1 like most."""
    only = overloads[0] if len(overloads) == 1 else ""
    if function == "containsIP":
        return _contains_ip(only)
    if function == "containsCIDR":
        return _contains_cidr(only)
    if only in ("cidr_ip", "list_distinct") or only.startswith("list_sets"):
        return _BY_OVERLOAD[only]
    if only.endswith("_sort"):
        return self_comparison
    if only.endswith("_sortByAssociatedKeys"):
        return lambda _elements, keys: self_comparison(keys)
    found = _BY_FUNCTION.get(function)
    if found is not None:
        return found
    return _BY_OVERLOAD.get(only, 1)
