"""Calls: one closure from the closures of a call's operands.

The cost of a call is spent, and with it the budget checked, when its operands have values or errors
and before its function runs. `&&`, `||`, `?:`, `or` and `orValue` decide themselves what to
evaluate and cost nothing; every other call evaluates its operands first.
"""

from __future__ import annotations

from collections.abc import Callable

from kscheduler.cel import costs, operators, types
from kscheduler.cel.attributes import Constant, Run
from kscheduler.cel.costs import Cost
from kscheduler.cel.errors import EvaluationError, no_such_overload
from kscheduler.cel.frame import Frame
from kscheduler.cel.regexes import Pattern, PatternError, compile_pattern
from kscheduler.cel.values import Optional, Uint, Value, compare, equal, key_of, tree_size

# What an operand that is an error counts as: a value of size 1.
_FAILED = object()


def unary(
    function: Callable[[Value], Value], operand: Run, cost: Cost, *, traversing: bool = False
) -> Run:
    """A call of one operand; a `traversing` one visits all of it to measure its cost."""

    def run(f: Frame) -> Value:
        try:
            value = operand(f)
        except EvaluationError:
            f.spend(price(cost, _FAILED))
            raise
        if traversing:
            f.touch(tree_size(value))
        else:
            f.touch_value(value)
        f.spend(cost if isinstance(cost, int) else price(cost, value))
        return function(value)

    return run


def binary(function: Callable[[Value, Value], Value], left: Run, right: Run, cost: Cost) -> Run:
    """A call of two operands."""

    def run(f: Frame) -> Value:
        try:
            first = left(f)
        except EvaluationError:
            # The second operand's value does not count any more, but its cost does.
            f.spend(price(cost, _FAILED, _attempt(right, f)))
            raise
        try:
            second = right(f)
        except EvaluationError:
            f.spend(price(cost, first, _FAILED))
            raise
        f.touch_value(first)
        f.touch_value(second)
        f.spend(cost if isinstance(cost, int) else price(cost, first, second))
        return function(first, second)

    return run


def variadic(function: Callable[..., Value], operands: list[Run], cost: Cost) -> Run:
    """A call of any number of operands."""
    return lambda f: function(*evaluated(f, operands, cost))


def metered(
    function: Callable[..., Value], operands: list[Run], cost: Cost, *, traversing: bool = False
) -> Run:
    """A call of a function that counts its work in the frame, which it takes first.

    A `traversing` one visits all of its first operand to measure its cost.
    """
    return lambda f: function(f, *evaluated(f, operands, cost, traversing=traversing))


def evaluated(
    f: Frame, operands: list[Run], cost: Cost, *, traversing: bool = False
) -> list[Value]:
    """The values of a call's operands, after the cost of the call is spent.

    The first error is raised. Mirrors cel-go: of up to two operands all are evaluated, of more only
    those up to an error; and a call costs nothing if one of its operands was not evaluated.
    """
    values = []
    error: EvaluationError | None = None
    for operand in operands:
        try:
            values.append(operand(f))
        except EvaluationError as raised:
            error = error or raised
            values.append(_FAILED)
            if len(operands) > 2:
                break
    for value in values:
        f.touch_value(value)
    if traversing:
        f.touch(tree_size(values[0]))
    if len(values) == len(operands):
        f.spend(price(cost, *values))
    if error is not None:
        raise error
    return values


def _attempt(run: Run, f: Frame) -> Value:
    """The value of an operand, errors included."""
    try:
        return run(f)
    except EvaluationError:
        return _FAILED


def price(cost: Cost, *values: Value) -> int:
    """The cost of a call with these operands."""
    if isinstance(cost, int):
        return cost
    try:
        return cost(*values)
    # Operands of other types, or that are no numbers: the call itself will refuse them.
    except (TypeError, AttributeError, ValueError, OverflowError):
        return 1


def costing_its_result(run: Run) -> Run:
    """A call that costs what it takes to write its result."""

    def written(f: Frame) -> Value:
        try:
            value = run(f)
        except EvaluationError:
            f.spend(costs.scan_twice(_FAILED))
            raise
        f.spend(costs.scan_twice(value))
        return value

    return written


def logic(terms: list[Run], *, decided_by: bool) -> Run:
    """`&&` or `||`: the deciding value absorbs errors on either side, else the first error wins."""

    def run(f: Frame) -> bool:
        error: EvaluationError | None = None
        for term in terms:
            try:
                value = term(f)
            except EvaluationError as raised:
                if error is None:
                    error = raised
                continue
            if value is decided_by:
                return decided_by
            if value is not True and value is not False and error is None:
                error = no_such_overload()
        if error is not None:
            raise error
        return not decided_by

    return run


def conditional(condition: Run, truthy: Run, falsy: Run) -> Run:
    """`condition ? truthy : falsy`."""

    def run(f: Frame) -> Value:
        chosen = condition(f)
        if chosen is True:
            return truthy(f)
        if chosen is False:
            return falsy(f)
        raise no_such_overload()

    return run


def optional_or(left: Run, right: Run, *, unwrap: bool) -> Run:
    """`left.or(right)`, or with `unwrap` `left.orValue(right)`."""

    def run(f: Frame) -> Value:
        value = left(f)
        if type(value) is not Optional:
            raise no_such_overload()
        if not value.present:
            return right(f)
        return value.value if unwrap else value

    return run


_COMPARED_DIRECTLY = frozenset((bool, int, float, str))


def equality(left: Run, right: Run) -> Run:
    """`left == right`; a constant on the right, the usual case, is compared without a detour."""
    if not isinstance(right, Constant) or type(right.value) not in _COMPARED_DIRECTLY:
        return metered(equal, [left, right], costs.equality)
    constant = right.value
    kind = type(constant)
    cost_of_failure = costs.equality(_FAILED, constant)

    def run(f: Frame) -> bool:
        try:
            value = left(f)
        except EvaluationError:
            f.cost += cost_of_failure
            raise
        if type(value) is kind:
            f.cost += costs.tenth(min(len(value), len(constant))) if kind is str else 1
            return bool(value == constant)
        f.cost += costs.equality(value, constant)
        return equal(f, value, constant)

    return run


def inequality(left: Run, right: Run) -> Run:
    """`left != right`, where what cannot be compared differs."""

    def differ(f: Frame, first: Value, second: Value) -> bool:
        try:
            return not equal(f, first, second)
        except EvaluationError:
            return True

    return metered(differ, [left, right], costs.comparison)


def membership(element: Run, container: Run, elements: list[Value]) -> Run:
    """`in` with a constant list: a set of scalars, in which numbers meet across their types."""
    if not elements:
        return Constant(value=False)
    allowed = set()
    for value in elements:
        if type(value) not in (bool, int, Uint, float, str):
            cost = lambda _element, items: len(items)  # noqa: E731
            return metered(operators.is_in, [element, container], cost)
        allowed.add(key_of(value))
        if type(value) not in (int, Uint, float):
            continue
        for convert, name in (
            (operators.to_int, "int"),
            (operators.to_uint, "uint"),
            (operators.to_double, "double"),
        ):
            try:
                other = convert(value)
            except EvaluationError:
                continue
            # A double stands for an integer only if it is whole.
            if type(value) is not float or compare(other, value) == 0:
                allowed.add((name, other))

    def run(f: Frame) -> bool:
        value = element(f)
        return (value if type(value) is str else key_of(value)) in allowed

    return run


_TEXT_TESTS: dict[str, Callable[[str, str], bool]] = {
    "contains": str.__contains__,
    "startsWith": str.startswith,
    "endsWith": str.endswith,
}


def text_test(function: str, left: Run, right: Run, cost: Cost) -> Run:
    """`contains`, `startsWith` or `endsWith`."""
    test = _TEXT_TESTS[function]
    if isinstance(right, Constant) and type(right.value) is str and function != "contains":
        constant = right.value
        known_cost = costs.tenth(len(constant))

        def run(f: Frame) -> bool:
            f.cost += known_cost
            text = left(f)
            if type(text) is not str:
                raise no_such_overload()
            return test(text, constant)

        return run

    def apply(text: Value, wanted: Value) -> bool:
        if type(text) is not str or type(wanted) is not str:
            raise no_such_overload()
        return test(text, wanted)

    return binary(apply, left, right, cost)


def matches(f: Frame, text: Value, pattern: Value) -> bool:
    """`text.matches(pattern)` with a pattern that is computed."""
    if type(text) is not str:
        raise operators.unsupported("matches", text)
    if type(pattern) is not str:
        raise no_such_overload()
    try:
        return compile_pattern(f, pattern).search(f, text)
    except PatternError as error:
        raise EvaluationError(str(error)) from None


def constant_pattern(function: str, pattern: Pattern, operands: list[Run]) -> Run:
    """`matches`, `find` or `findAll` with a constant pattern; findAll may take a limit as well."""
    search: Callable[..., Value]
    search = {"matches": pattern.search, "find": pattern.find, "findAll": pattern.find_all}[
        function
    ]
    operand, *limits = operands
    pattern_cost = costs.of_pattern(pattern.text)

    def run(f: Frame) -> Value:
        text = operand(f)
        limit = [limit(f) for limit in limits]
        f.spend(costs.of_searched(text) * pattern_cost)
        if type(text) is not str:
            # cel-go asks for the value of its operand: a type's is its name.
            while type(text) is Optional and text.present:
                text = text.value
            if type(text) is types.Type:
                text = text.name
            if type(text) is not str:
                raise no_such_overload()
        if limit and type(limit[0]) is not int:
            raise no_such_overload()
        return search(f, text, *limit)

    return run
