"""Folds: comprehensions over lists and maps, and bound variables.

The accumulator starts when it is first read; an error in a step becomes its value, so that `all`
and `exists` can still be decided by a later element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kscheduler.cel.attributes import Pending, Run
from kscheduler.cel.costs import LIMIT, Frame
from kscheduler.cel.errors import (
    COST_LIMIT_EXCEEDED,
    AbortedError,
    EvaluationError,
    no_such_overload,
)
from kscheduler.cel.syntax import Call, Comprehension, Expr, ListLiteral
from kscheduler.cel.values import Value, go_name, key_value


def fold(node: Comprehension, plan: Callable[[Expr], Run]) -> Run:
    """The closure of a comprehension, with a loop of its own for each kind of macro."""
    if node.kind == "bind":
        return _bind(node, plan)
    elements = _range(node, plan(node.range))
    if node.kind == "collect":
        return _collect(node, plan, elements)
    return _quantifier(node, plan, elements)


def _range(node: Comprehension, source: Run) -> Callable[[Frame], Iterable[Any]]:
    """The elements of the range: one value each, or a pair for two variables."""

    def single(f: Frame) -> Iterable[Any]:
        value = source(f)
        if type(value) is list:
            return value
        if isinstance(value, dict):
            return list(value) if _named(value) else map(key_value, list(value))
        raise EvaluationError(f"got '{go_name(value)}', expected iterable type")

    def pairs(f: Frame) -> Iterable[Any]:
        value = source(f)
        if type(value) is list:
            return enumerate(value)
        if isinstance(value, dict):
            return ((key_value(key), element) for key, element in list(value.items()))
        raise EvaluationError(f"unsupported comprehension range type: {go_name(value)}")

    return single if node.iter_var2 is None else pairs


def _named(entries: dict[Any, Any]) -> bool:
    """Whether all keys are strings, which are their own keys."""
    return all(type(key) is str for key in entries)


def _setter(node: Comprehension) -> Callable[[list[Any], Any], None]:
    first, second = node.variables[0].slot, node.variables[1].slot
    if node.iter_var2 is None:

        def one(slots: list[Any], element: Any) -> None:
            slots[first] = element

        return one

    def two(slots: list[Any], element: Any) -> None:
        slots[first], slots[second] = element

    return two


def _spent(f: Frame, cost: int) -> None:
    f.cost += cost
    if f.cost > LIMIT:
        raise AbortedError(COST_LIMIT_EXCEEDED)


def _quantifier(
    node: Comprehension,
    plan: Callable[[Expr], Run],
    elements: Callable[[Frame], Iterable[Any]],
) -> Run:
    assert isinstance(node.step, Call)
    assign = _setter(node)
    if node.kind == "exists_one":
        return _exists_one(plan(node.step.args[0]), assign, elements)
    predicate = plan(node.step.args[1])
    # Per element: the condition reads the accumulator in one call or two, the step reads it too.
    decided_by, cost = (False, 3) if node.kind == "all" else (True, 4)
    slot = node.variables[0].slot if node.iter_var2 is None else -1

    def run(f: Frame) -> bool:
        error: EvaluationError | None = None
        slots = f.slots
        for element in elements(f):
            if slot >= 0:
                slots[slot] = element
            else:
                assign(slots, element)
            f.cost += cost
            if f.cost > LIMIT:
                raise AbortedError(COST_LIMIT_EXCEEDED)
            try:
                value = predicate(f)
            except EvaluationError as raised:
                if error is None:
                    error = raised
                continue
            if value is decided_by:
                f.cost += 1
                return decided_by
            if value is not True and value is not False and error is None:
                error = no_such_overload()
        _spent(f, 1)
        if error is not None:
            raise error
        return not decided_by

    return run


def _exists_one(
    predicate: Run,
    assign: Callable[[list[Any], Any], None],
    elements: Callable[[Frame], Iterable[Any]],
) -> Run:
    def run(f: Frame) -> bool:
        count = 0
        slots = f.slots
        for element in elements(f):
            assign(slots, element)
            value = predicate(f)
            if value is True:
                count += 1
                _spent(f, 2)
            elif value is False:
                _spent(f, 0)
            else:
                raise no_such_overload()
        _spent(f, 2)
        return count == 1

    return run


def _collect(
    node: Comprehension,
    plan: Callable[[Expr], Run],
    elements: Callable[[Frame], Iterable[Any]],
) -> Run:
    """map, filter and the transform macros: a list or map built element by element."""
    step = node.step
    assert isinstance(step, Call)
    condition: Run | None = None
    if step.function == "_?_:_":
        condition = plan(step.args[0])
        step = step.args[1]
        assert isinstance(step, Call)
    assign = _setter(node)
    if step.function == "_+_":
        appended = step.args[1]
        assert isinstance(appended, ListLiteral)
        return _collect_list(plan(appended.elements[0]), condition, assign, elements)
    accumulator = node.variables[2].slot
    insert = plan(step)

    def run(f: Frame) -> Value:
        slots = f.slots
        result: dict[Any, Any] = {}
        for element in elements(f):
            assign(slots, element)
            if condition is None or _holds(condition, f):
                slots[accumulator] = result
                insert(f)
            _spent(f, 0)
        f.cost += 1
        return result

    return run


def _holds(condition: Run, f: Frame) -> bool:
    value = condition(f)
    if value is True:
        return True
    if value is False:
        return False
    raise no_such_overload()


def _collect_list(
    transform: Run,
    condition: Run | None,
    assign: Callable[[list[Any], Any], None],
    elements: Callable[[Frame], Iterable[Any]],
) -> Run:
    def run(f: Frame) -> list[Value]:
        slots = f.slots
        result: list[Value] = []
        for element in elements(f):
            assign(slots, element)
            if condition is not None and not _holds(condition, f):
                _spent(f, 0)
                continue
            result.append(transform(f))
            # Reading the accumulator, a list of one element, and the addition.
            _spent(f, 12)
        _spent(f, 1)
        return result

    return run


def _bind(node: Comprehension, plan: Callable[[Expr], Run]) -> Run:
    slot = node.variables[2].slot
    init = plan(node.init)
    result = plan(node.result)

    def run(f: Frame) -> Value:
        f.slots[slot] = Pending(init)
        return result(f)

    return run
