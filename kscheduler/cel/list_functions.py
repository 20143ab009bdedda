"""Functions on lists: search, order, sets, and parts.

Mirrors cel-go's lists and sets extensions and Kubernetes' list library. Functions whose time does
not follow from the length of their arguments take the frame of the evaluation first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key

from kscheduler.cel import operators
from kscheduler.cel.errors import EvaluationError, no_such_overload
from kscheduler.cel.frame import Frame
from kscheduler.cel.values import (
    COMPARABLE,
    Duration,
    Timestamp,
    Uint,
    Value,
    compare,
    contains,
    surely_equal,
    tree_size,
)


def extreme_of(name: str, replaced_by: int) -> Callable[[list[Value]], Value]:
    """min or max: the first element unless a later one is beyond it; errors keep the first."""

    def extreme(elements: list[Value]) -> Value:
        if not elements:
            raise EvaluationError(f"{name} called on empty list")
        result = elements[0]
        _comparable(result)
        for element in elements[1:]:
            _comparable(element)
            try:
                if compare(result, element) == replaced_by:
                    result = element
            except EvaluationError:
                continue
        return result

    return extreme


def _comparable(value: Value) -> None:
    if type(value) not in COMPARABLE:
        raise no_such_overload()


def is_sorted(elements: list[Value]) -> bool:
    """Whether no element is beyond the next; errors of comparison are ignored."""
    for index, element in enumerate(elements):
        _comparable(element)
        if index == 0:
            continue
        try:
            if compare(elements[index - 1], element) == 1:
                return False
        except EvaluationError:
            continue
    return True


def sum_from(zero: Value) -> Callable[[list[Value]], Value]:
    """The sum of a list, from the zero of its type."""

    def total(elements: list[Value]) -> Value:
        result = zero
        for element in elements:
            if type(element) not in (int, Uint, float, str, bytes, list, Duration, Timestamp):
                raise no_such_overload()
            result = operators.add(result, element)
        return result

    return total


def index_of(f: Frame, elements: list[Value], wanted: Value) -> int:
    """Where the first element is that equals the wanted one; -1 if nowhere."""
    f.touch(len(elements))
    return next((i for i, e in enumerate(elements) if surely_equal(f, e, wanted)), -1)


def last_index_of(f: Frame, elements: list[Value], wanted: Value) -> int:
    """Where the last element is that equals the wanted one; -1 if nowhere."""
    f.touch(len(elements))
    last = range(len(elements) - 1, -1, -1)
    return next((i for i in last if surely_equal(f, elements[i], wanted)), -1)


def includes(f: Frame, target: Value, wanted: Value) -> bool:
    """Whether a list has the wanted element; any other value is a list of itself."""
    elements = target if type(target) is list else [target]
    return index_of(f, elements, wanted) >= 0


def numbers_up_to(size: int) -> list[int]:
    """`lists.range(size)`."""
    if size < 0:
        raise EvaluationError(f"lists.range: size must be non-negative, got {size}")
    if size > 1_000_000:
        limit = "exceeds maximum allowed (1000000)"
        raise EvaluationError(f"lists.range: size {size} {limit}")
    return list(range(size))


def slice_of(elements: list[Value], start: int, end: int) -> list[Value]:
    """`elements.slice(start, end)`."""
    call = f"cannot slice({start}, {end})"
    if start < 0 or end < 0:
        raise EvaluationError(f"{call}, negative indexes not supported")
    if start > end:
        raise EvaluationError(f"{call}, start index must be less than or equal to end index")
    if len(elements) < end:
        raise EvaluationError(f"{call}, list is length {len(elements)}")
    return elements[start:end]


def flatten(f: Frame, elements: list[Value], depth: int = 1) -> list[Value]:
    """The elements with those of inner lists in their place, so many levels deep."""
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    f.touch(len(elements))
    result: list[Value] = []
    for element in elements:
        if type(element) is list and depth > 0:
            inner = flatten(f, element, depth - 1)
            f.touch(len(inner))
            result += inner
        else:
            result.append(element)
    return result


def distinct(f: Frame, elements: list[Value]) -> list[Value]:
    """The elements without those equal to an earlier one."""
    result: list[Value] = []
    for element in elements:
        f.touch(len(result))
        if not any(surely_equal(f, element, other) for other in result):
            result.append(element)
    return result


def sort_by(f: Frame, elements: list[Value], keys: list[Value]) -> list[Value]:
    """The elements in the order of their keys, which all have one type."""
    if not keys:
        return elements
    kind = type(keys[0])
    if kind not in COMPARABLE:
        raise EvaluationError("list elements must be comparable")
    if len(keys) > 1 and any(type(key) is not kind for key in keys):
        raise EvaluationError("list elements must have the same type")
    f.touch(tree_size(keys) * len(keys).bit_length())
    by_key = cmp_to_key(_order)
    order = sorted(range(len(keys)), key=lambda index: by_key(keys[index]))
    return [elements[index] for index in order]


def _order(left: Value, right: Value) -> int:
    try:
        return compare(left, right)
    except EvaluationError:  # NaN precedes nothing
        return 0


def contains_all(f: Frame, elements: list[Value], wanted: list[Value]) -> bool:
    """`sets.contains(elements, wanted)`."""
    return all(contains(f, elements, element) for element in wanted)


def are_equivalent(f: Frame, left: list[Value], right: list[Value]) -> bool:
    """`sets.equivalent(left, right)`."""
    return contains_all(f, left, right) and contains_all(f, right, left)


def intersects(f: Frame, left: list[Value], right: list[Value]) -> bool:
    """`sets.intersects(left, right)`."""
    return any(contains(f, right, element) for element in left)
