"""Folds: comprehensions over lists and maps, and bound variables.

Each kind of macro has a loop of its own instead of cel-go's general one, with the same costs. An
error in a step becomes the value of the accumulator and the loop goes on, so that `all` and
`exists` can still be decided by a later element, and so that the cost is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kscheduler.cel.attributes import Constant, Pending, Run
from kscheduler.cel.costs import LIST_COST
from kscheduler.cel.errors import EvaluationError, no_such_overload
from kscheduler.cel.frame import Frame
from kscheduler.cel.syntax import Call, Comprehension, Expr, ListLiteral
from kscheduler.cel.values import Value, go_name, key_value

Elements = Callable[[Frame], Iterable[Any]]
Setter = Callable[[list[Any], Any], None]


def fold(node: Comprehension, plan: Callable[[Expr], Run]) -> Run:
    """The closure of a comprehension."""
    if node.kind == "bind":
        return _bind(node.variables[2].slot, plan(node.init), plan(node.result))
    elements = _elements(node, plan(node.range))
    assign = _setter(node)
    step = node.step
    assert isinstance(step, Call)
    match node.kind:
        case "all":
            return _quantifier(plan(step.args[1]), assign, elements, decided_by=False)
        case "exists":
            return _quantifier(plan(step.args[1]), assign, elements, decided_by=True)
        case "exists_one":
            return _exists_one(plan(step.args[0]), assign, elements)
    condition: Run | None = None
    if step.function == "_?_:_":
        condition = plan(step.args[0])
        step = step.args[1]
        assert isinstance(step, Call)
    if step.function != "_+_":
        return _collected_map(plan(step), condition, node.variables[2].slot, assign, elements)
    appended = step.args[1]
    assert isinstance(appended, ListLiteral)
    return _collected_list(plan(appended.elements[0]), condition, assign, elements)


def _elements(node: Comprehension, source: Run) -> Elements:
    """The elements of the range: one value each, or a pair for two variables."""

    def single(f: Frame) -> Iterable[Any]:
        value = source(f)
        if type(value) is list:
            return value
        if isinstance(value, dict):
            return map(key_value, list(value))
        raise EvaluationError(f"got '{go_name(value)}', expected iterable type")

    def pairs(f: Frame) -> Iterable[Any]:
        value = source(f)
        if type(value) is list:
            return enumerate(value)
        if isinstance(value, dict):
            return ((key_value(key), element) for key, element in list(value.items()))
        raise EvaluationError(f"unsupported comprehension range type: {go_name(value)}")

    return single if node.iter_var2 is None else pairs


def _setter(node: Comprehension) -> Setter:
    """The function that gives the iteration variables their values."""
    first, second = node.variables[0].slot, node.variables[1].slot
    if node.iter_var2 is None:

        def one(slots: list[Any], element: Any) -> None:
            slots[first] = element

        return one

    def two(slots: list[Any], element: Any) -> None:
        slots[first], slots[second] = element

    return two


def _quantifier(predicate: Run, assign: Setter, elements: Elements, *, decided_by: bool) -> Run:
    """`all`, decided by false, or `exists`, decided by true."""
    # Before each element the loop's condition reads the accumulator, by one call or two, and so
    # does the step; one decided before the last element has its condition read once more.
    condition_cost = 3 if decided_by else 2

    def run(f: Frame) -> bool:
        error: EvaluationError | None = None
        decided = False
        slots = f.slots
        for element in elements(f):
            f.spend(condition_cost)
            if decided:
                break
            assign(slots, element)
            f.cost += 1
            try:
                value = predicate(f)
            except EvaluationError as raised:
                if error is None:
                    error = raised
                continue
            if value is decided_by:
                decided = True
            elif value is not (not decided_by) and error is None:
                error = no_such_overload()
        f.spend(1)
        if decided:
            return decided_by
        if error is not None:
            raise error
        return not decided_by

    return run


def _exists_one(predicate: Run, assign: Setter, elements: Elements) -> Run:
    def run(f: Frame) -> bool:
        count = 0
        error: EvaluationError | None = None
        slots = f.slots
        for element in elements(f):
            assign(slots, element)
            f.touch(1)
            try:
                value = predicate(f)
            except EvaluationError as raised:
                value = error = raised
            if value is True:
                count += 1
                f.spend(2)
            elif value is not False and value is not error:
                error = no_such_overload()
        f.spend(2)
        if error is not None:
            raise error
        return count == 1

    return run


def _holds(condition: Run | None, f: Frame) -> bool:
    value = condition is None or condition(f)
    if value is True or value is False:
        return value
    raise no_such_overload()


def _collected_list(
    transform: Run, condition: Run | None, assign: Setter, elements: Elements
) -> Run:
    """map, filter and transformList."""
    # Reading the accumulator, the addition, and a list of one element unless that is constant.
    cost = 2 if isinstance(transform, Constant) else 2 + LIST_COST

    def run(f: Frame) -> list[Value]:
        slots = f.slots
        result: list[Value] = []
        error: EvaluationError | None = None
        for element in elements(f):
            assign(slots, element)
            f.touch(1)
            try:
                if not _holds(condition, f):
                    continue
            except EvaluationError as raised:
                error = raised  # instead of an earlier one, which is not looked at
                continue
            try:
                result.append(transform(f))
            except EvaluationError as raised:
                error = error or raised
            f.spend(cost)
        f.spend(1)
        if error is not None:
            raise error
        return result

    return run


def _collected_map(
    insert: Run, condition: Run | None, accumulator: int, assign: Setter, elements: Elements
) -> Run:
    """transformMap and transformMapEntry: `insert` adds to the map in the accumulator's slot."""

    def run(f: Frame) -> Value:
        slots = f.slots
        result: dict[Any, Any] = {}
        error: EvaluationError | None = None
        for element in elements(f):
            assign(slots, element)
            f.touch(1)
            try:
                if _holds(condition, f):
                    slots[accumulator] = result if error is None else Pending(insert, error)
                    insert(f)
            except EvaluationError as raised:
                error = raised
        f.spend(1)
        if error is not None:
            raise error
        return result

    return run


def _bind(slot: int, init: Run, result: Run) -> Run:
    """A variable that is computed when the result first reads it, if it ever does."""

    def run(f: Frame) -> Value:
        f.slots[slot] = Pending(init)
        return result(f)

    return run
