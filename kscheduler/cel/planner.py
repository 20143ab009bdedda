"""Planner: a checked syntax tree to nested closures, built once and run for every device.

Mirrors cel-go's planner with constant folding (`OptOptimize`): literals of lists and maps,
conversions of constants, `in` with a constant list, and constant regular expressions are worked
out here, and what fails here refuses the expression.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import ge, gt, le, lt
from typing import Any

from kscheduler.cel import costs, operators, regexes, types
from kscheduler.cel.attributes import (
    KEY_TYPES,
    Pending,
    Qualifier,
    Run,
    attribute,
    presence,
)
from kscheduler.cel.costs import Frame
from kscheduler.cel.declarations import FUNCTIONS
from kscheduler.cel.dispatch import dispatcher
from kscheduler.cel.errors import (
    AbortedError,
    CompileError,
    EvaluationError,
    no_such_overload,
)
from kscheduler.cel.folds import fold
from kscheduler.cel.functions import distinct, flatten, sort_by
from kscheduler.cel.messages import build_message
from kscheduler.cel.syntax import (
    Call,
    Comprehension,
    Expr,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Message,
    Select,
)
from kscheduler.cel.values import (
    Optional,
    Uint,
    Value,
    charge,
    compare,
    display,
    equal,
    go_name,
    key_of,
    notation,
    type_name,
)

CONVERSIONS = frozenset(
    ("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint")
)
_UNARY: dict[str, Callable[[Value], Value]] = {
    "!_": operators.logical_not,
    "-_": operators.negate,
    "size": operators.size,
}
_BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "_+_": operators.add,
    "_-_": operators.subtract,
    "_*_": operators.multiply,
    "_/_": operators.divide,
    "_%_": operators.modulo,
    "_<_": operators.relation("_<_", lt),
    "_<=_": operators.relation("_<=_", le),
    "_>_": operators.relation("_>_", gt),
    "_>=_": operators.relation("_>=_", ge),
    "@in": operators.is_in,
}


class Constant:
    """A value known before evaluation; calling it gives the value."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    def __call__(self, _frame: Frame) -> Value:
        return self.value


def instantiation_error(text: object) -> CompileError:
    """The error for an expression that fails while it is planned."""
    return CompileError(f"program instantiation failed: {text}")


def plan(node: Expr) -> Run:
    """The closure that evaluates the node; constants are `Constant`."""
    match node:
        case Literal():
            return Constant(node.value)
        case Ident() if node.constant is not None:
            return Constant(node.constant)
        case Select() if node.constant is not None:
            return Constant(node.constant)
        case Select() if isinstance(node.type, types.Type) and _is_null_enum(node):
            return Constant(0)
        case Ident() | Select():
            return _attribute(node)
        case Call():
            return _call(node)
        case ListLiteral():
            return _list(node)
        case MapLiteral():
            return _map(node)
        case Message():
            return build_message(node.type_name, _message_fields(node))
        case Comprehension():
            return fold(node, plan)


def _is_null_enum(node: Select) -> bool:
    return node.name == "NULL_VALUE" and node.type == types.INT and not node.test_only


def _message_fields(node: Message) -> list[tuple[str, Run, bool]]:
    return [(entry.key, plan(entry.value), entry.optional) for entry in node.fields]


def _root(node: Expr) -> Run:
    """The value an attribute starts from: a variable without the attribute's own cost."""
    if isinstance(node, Ident):
        if node.variable is None:
            return _device
        slot = node.variable.slot
        return lambda f: f.slots[slot]
    return plan(node)


def _device(f: Frame) -> Value:
    return f.device.fields


def _is_attribute(node: Expr) -> bool:
    if isinstance(node, Call):
        return node.function in ("_[_]", "_[?_]", "_?._")
    if isinstance(node, Select) and _is_null_enum(node):
        return False
    return isinstance(node, Ident | Select) and node.constant is None


def _attribute(node: Expr, *, branch: bool = False) -> Run:
    """The closure of a variable with its selections and indices."""
    qualifiers: list[Qualifier] = []
    tested: str | None = None
    if isinstance(node, Select) and node.test_only:
        tested = node.name
        node = node.operand
    while True:
        if isinstance(node, Select) and not node.test_only and node.constant is None:
            qualifiers.append(Qualifier(node.name, None, optional=False))
            node = node.operand
        elif isinstance(node, Call) and node.function in ("_[_]", "_[?_]", "_?._"):
            qualifiers.append(_index(node))
            node = node.args[0]
        else:
            break
    qualifiers.reverse()
    root = _lazy_root(node) if isinstance(node, Ident) else _root(node)
    if tested is not None:
        return presence(root, qualifiers, tested, branch=branch)
    if branch:
        return attribute(root, qualifiers, base=0)
    if not qualifiers and isinstance(node, Ident) and node.variable and not node.variable.bound:
        return _variable(node.variable.slot)
    return attribute(root, qualifiers)


def _variable(slot: int) -> Run:
    def read(f: Frame) -> Value:
        f.cost += 1
        return f.slots[slot]

    return read


def _lazy_root(node: Ident) -> Run:
    root = _root(node)
    if node.variable is None or not node.variable.bound:
        return root
    slot = node.variable.slot

    def resolve(f: Frame) -> Value:
        value = f.slots[slot]
        if type(value) is Pending:
            value = value.resolve(f, slot)
        return value

    return resolve


def _index(node: Call) -> Qualifier:
    index = _branch(node.args[1]) if not _is_test(node.args[1]) else plan(node.args[1])
    optional = node.function != "_[_]"
    if not isinstance(index, Constant):
        return Qualifier(None, index, optional=optional)
    if type_name(index.value) not in KEY_TYPES:
        raise instantiation_error(f"invalid qualifier type: {go_name(index.value)}")
    return Qualifier(index.value, None, optional=optional)


def _call(node: Call) -> Run:
    function = node.function
    if function in ("_[_]", "_[?_]", "_?._"):
        return _attribute(node)
    operands = node.args if node.target is None else [node.target, *node.args]
    if function == "_?_:_":
        return _conditional(plan(operands[0]), _branch(operands[1]), _branch(operands[2]))
    runs = [plan(operand) for operand in operands]
    match function:
        case "_&&_":
            return _logic(runs, decided_by=False)
        case "_||_":
            return _logic(runs, decided_by=True)
        case "_==_":
            return _equality(runs[0], runs[1])
        case "_!=_":
            return _inequality(runs[0], runs[1])
        case "or" | "orValue":
            return _optional_or(runs[0], runs[1], unwrap=function == "orValue")
        case "@in" if node.overloads == ("in_list",) and isinstance(runs[1], Constant):
            return _membership(runs[0], runs[1].value, runs[1])
        case "contains" | "startsWith" | "endsWith":
            return _text_test(function, runs[0], runs[1], node)
        case "matches" | "find" | "findAll" if isinstance(runs[1], Constant):
            return _constant_regex(node, runs, runs[1].value)
        case "sort" | "@sortByAssociatedKeys" | "distinct" | "flatten":
            return _list_function(node, runs)
    if function == "join":
        return _by_result(_strict_call(function, node, runs, 0))
    cost = costs.cost_of(function, node.overloads)
    run = _strict_call(function, node, runs, cost)
    if len(runs) == 1 and isinstance(runs[0], Constant):
        if function in CONVERSIONS:
            return _folded(run)
        if function in ("quantity", "semver", "ip", "cidr", "url"):
            return _parsed_once(run)
    return run


def _by_result(run: Run) -> Run:
    """A call that costs what it takes to write its result."""

    def written(f: Frame) -> Value:
        value = run(f)
        f.spend(costs.scan_twice(value))
        return value

    return written


def _parsed_once(run: Run) -> Run:
    """A constant's value, kept if it can be read; an error stays one of the evaluation."""
    frame = Frame(None, 0)
    try:
        value = run(frame)
    except EvaluationError:
        return run
    cost = frame.cost

    def spend(f: Frame) -> Value:
        f.cost += cost
        return value

    return spend


def _is_test(node: Expr) -> bool:
    return isinstance(node, Select) and node.test_only


def _branch(node: Expr) -> Run:
    return _attribute(node, branch=True) if _is_attribute(node) else plan(node)


def _folded(run: Run) -> Run:
    try:
        return Constant(run(Frame(None, 0)))
    except (EvaluationError, AbortedError) as error:
        raise instantiation_error(error) from None


def _strict_call(function: str, node: Call, runs: list[Run], cost: costs.Cost) -> Run:
    """A call whose arguments are all evaluated first."""
    if function in _UNARY:
        return _unary(_UNARY[function], runs[0], cost)
    if function in _BINARY:
        return _binary(_BINARY[function], runs[0], runs[1], cost)
    if function == "matches":
        return _binary(_matches, runs[0], runs[1], cost)
    implementation = dispatcher(function, node.overloads, FUNCTIONS[function])
    match len(runs):
        case 1:
            return _unary(implementation, runs[0], cost)
        case 2:
            return _binary(implementation, runs[0], runs[1], cost)
    return _variadic(implementation, runs, cost)


def _unary(function: Callable[[Value], Value], operand: Run, cost: costs.Cost) -> Run:
    if isinstance(cost, int):

        def run(f: Frame) -> Value:
            f.cost += cost
            value = operand(f)
            charge(value)
            return function(value)

        return run
    measure = cost

    def run_measured(f: Frame) -> Value:
        value = operand(f)
        f.spend(_measured(measure, value))
        return function(value)

    return run_measured


def _binary(
    function: Callable[[Value, Value], Value], left: Run, right: Run, cost: costs.Cost
) -> Run:
    if isinstance(cost, int):

        def run(f: Frame) -> Value:
            f.cost += cost
            try:
                first = left(f)
            except EvaluationError:
                _for_its_cost(right, f)
                raise
            second = right(f)
            charge(first)
            charge(second)
            return function(first, second)

        return run
    measure = cost

    def run_measured(f: Frame) -> Value:
        try:
            first = left(f)
        except EvaluationError:
            _for_its_cost(right, f)
            raise
        second = right(f)
        charge(first)
        charge(second)
        f.spend(_measured(measure, first, second))
        return function(first, second)

    return run_measured


def _for_its_cost(run: Run, f: Frame) -> None:
    """Evaluates an operand whose value no longer counts; its cost does, and what it aborts for."""
    try:
        run(f)
    except EvaluationError:
        return


def _variadic(function: Callable[..., Value], runs: list[Run], cost: costs.Cost) -> Run:
    def run(f: Frame) -> Value:
        values = [operand(f) for operand in runs]
        f.spend(cost if isinstance(cost, int) else _measured(cost, *values))
        for value in values:
            charge(value)
        return function(*values)

    return run


def _measured(measure: Callable[..., int], *values: Value) -> int:
    try:
        return measure(*values)
    except (TypeError, AttributeError):  # arguments of other types: the call itself will refuse
        return 1


def _matches(text: Value, pattern: Value) -> bool:
    if type(text) is not str:
        raise operators.unsupported("matches", text)
    if type(pattern) is not str:
        raise no_such_overload()
    try:
        return regexes.search(regexes.compile_pattern(pattern), text)
    except regexes.PatternError as error:
        raise EvaluationError(str(error)) from None


def _constant_regex(node: Call, runs: list[Run], pattern: Value) -> Run:
    """A search for a constant pattern, which is compiled here."""
    function = node.function
    cost = costs.cost_of(function, node.overloads)
    if type(pattern) is not str:
        return _strict_call(function, node, runs, cost)
    try:
        compiled = regexes.compile_pattern(pattern)
    except regexes.PatternError as error:
        raise instantiation_error(error) from None
    search: Callable[[Any, str], Any] = {
        "matches": regexes.search,
        "find": regexes.find,
        "findAll": lambda regex, text: regexes.find_all(regex, text, -1),
    }[function]
    operand = runs[0]
    limit = runs[2] if len(runs) == 3 else None

    def run(f: Frame) -> Value:
        text = operand(f)
        count = limit(f) if limit is not None else -1
        f.spend(costs.regex(text, pattern))
        # cel-go asks for the value of its operand: a type's is its name.
        while type(text) is Optional and text.present:
            text = text.value
        if type(text) is types.Type:
            text = text.name
        if type(text) is not str:
            raise no_such_overload()
        if limit is None:
            return search(compiled, text)
        if type(count) is not int:
            raise no_such_overload()
        return regexes.find_all(compiled, text, count)

    return run


def _text_test(function: str, left: Run, right: Run, node: Call) -> Run:
    test: Callable[[str, str], bool] = {
        "contains": str.__contains__,
        "startsWith": str.startswith,
        "endsWith": str.endswith,
    }[function]

    if isinstance(right, Constant) and type(right.value) is str and function != "contains":
        constant = right.value
        cost = costs.tenth(len(constant))

        def run(f: Frame) -> bool:
            f.cost += cost
            text = left(f)
            if type(text) is not str:
                raise no_such_overload()
            return test(text, constant)

        return run

    def apply(text: Value, wanted: Value) -> bool:
        if type(text) is not str or type(wanted) is not str:
            raise no_such_overload()
        return test(text, wanted)

    return _binary(apply, left, right, costs.cost_of(function, node.overloads))


def _logic(terms: list[Run], *, decided_by: bool) -> Run:
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


def _conditional(condition: Run, truthy: Run, falsy: Run) -> Run:
    def run(f: Frame) -> Value:
        chosen = condition(f)
        if chosen is True:
            return truthy(f)
        if chosen is False:
            return falsy(f)
        raise no_such_overload()

    return run


def _equality(left: Run, right: Run) -> Run:
    def run(f: Frame) -> bool:
        try:
            first = left(f)
        except EvaluationError:
            _for_its_cost(right, f)
            raise
        second = right(f)
        if type(first) is str and type(second) is str:
            f.cost += (min(len(first), len(second)) + 9) // 10
            return first == second
        f.cost += costs.equality(first, second)
        return equal(first, second)

    return run


def _inequality(left: Run, right: Run) -> Run:
    def run(f: Frame) -> bool:
        try:
            first = left(f)
        except EvaluationError:
            _for_its_cost(right, f)
            raise
        second = right(f)
        f.cost += costs.comparison(first, second)
        try:
            return not equal(first, second)
        except EvaluationError:
            return True

    return run


def _optional_or(left: Run, right: Run, *, unwrap: bool) -> Run:
    def run(f: Frame) -> Value:
        value = left(f)
        if type(value) is not Optional:
            raise no_such_overload()
        if not value.present:
            return right(f)
        return value.value if unwrap else value

    return run


def _membership(element: Run, wanted: list[Value], container: Run) -> Run:
    """`in` with a constant list: a set of scalars, in which numbers meet across their types."""
    if not wanted:
        return Constant(value=False)
    allowed = set()
    for value in wanted:
        if type(value) not in (bool, int, Uint, float, str):
            return _binary(operators.is_in, element, container, lambda _element, items: len(items))
        allowed.add(key_of(value))
        if type(value) in (int, Uint, float):
            allowed |= _other_numbers(value)

    def run(f: Frame) -> bool:
        value = element(f)
        return (value if type(value) is str else key_of(value)) in allowed

    return run


def _other_numbers(value: Value) -> set[Any]:
    """The keys of the same number in the other types; a double only if it is whole."""
    found: set[Any] = set()
    for convert, name in (
        (operators.to_int, "int"),
        (operators.to_uint, "uint"),
        (operators.to_double, "double"),
    ):
        try:
            other = convert(value)
        except EvaluationError:
            continue
        if type(value) is float and compare(other, value) != 0:
            continue
        found.add((name, other))
    return found


_LISTER = "traits.Lister: missing method"
_ADDABLE = frozenset(
    (
        *("int", "uint", "double", "string", "bytes"),
        *("google.protobuf.Duration", "google.protobuf.Timestamp"),
    )
)


def _not_a_list(value: Value) -> AbortedError:
    name = type_name(value)
    method = "Contains" if name in _ADDABLE else "Add"
    text = f"interface conversion: {go_name(value)} is not {_LISTER} {method}"
    return AbortedError(f"internal error: {text}")


def _list_function(node: Call, runs: list[Run]) -> Run:
    """sort, sortBy, distinct and flatten.

    Where the overload is known, cel-go's cost tracker takes for granted that a list arrives; an
    error or another value stops the evaluation with an internal error.
    """
    function, known = node.function, len(node.overloads) == 1
    cost = costs.cost_of(function, node.overloads)
    tracked = known and function != "flatten"
    counted = runs[-1] if function == "@sortByAssociatedKeys" else runs[0]

    def run(f: Frame) -> Value:
        try:
            values = [operand(f) for operand in runs]
        except EvaluationError:
            if not tracked:
                raise
            text = f"interface conversion: *types.Err is not {_LISTER} Add"
            raise AbortedError(f"internal error: {text}") from None
        first = values[0]
        measured = values[-1] if counted is runs[-1] else first
        if tracked and type(measured) is not list:
            raise _not_a_list(measured)
        if function == "flatten":
            return _flatten(f, values)
        f.spend(1 if isinstance(cost, int) else _measured(cost, *values))
        for value in values:
            charge(value)
        if function == "distinct":
            return distinct(first)
        for value in values:
            if type(value) is not list:
                raise operators.unsupported(function, value)
        return sort_by(first, values[-1])

    return run


def _flatten(f: Frame, values: list[Value]) -> Value:
    if type(values[0]) is not list:
        f.cost += 1
        name = type_name(values[0])
        shown = {"map": "map(dyn, dyn)", "optional_type": "optional_type(dyn)"}.get(name, name)
        raise EvaluationError(f"no such overload: {shown}.flatten()")
    if len(values) == 2 and type(values[1]) is not int:
        text = f"interface conversion: ref.Val is {go_name(values[1])}, not types.Int"
        raise AbortedError(f"internal error: {text}")
    depth = values[1] if len(values) == 2 else 1
    f.spend(int(len(values[0]) * float(max(depth, 0) if depth >= 0 else 1)) + 11)
    return flatten(*values)


def _list(node: ListLiteral) -> Run:
    runs = [plan(element) for element in node.elements]
    optional = node.optional

    def run(f: Frame) -> list[Value]:
        f.cost += costs.LIST_COST
        if not optional:
            return [element(f) for element in runs]
        values = []
        for index, element in enumerate(runs):
            value = element(f)
            if index in optional:
                if type(value) is not Optional:
                    reason = "cannot initialize optional list element from non-optional value"
                    raise EvaluationError(f"{reason} {display(value)}")
                if not value.present:
                    continue
                value = value.value
            values.append(value)
        return values

    if all(isinstance(element, Constant) for element in runs):
        return _folded(run)
    return run


def _map(node: MapLiteral) -> Run:
    entries = [(plan(e.key), plan(e.value), e.optional) for e in node.entries]

    def run(f: Frame) -> dict[Any, Value]:
        f.cost += costs.MAP_COST
        result: dict[Any, Value] = {}
        for key_run, value_run, optional in entries:
            key = key_run(f)
            value = value_run(f)
            if optional:
                if type(value) is not Optional:
                    reason = f"cannot initialize optional entry '{display(key)}' from"
                    raise EvaluationError(f"{reason} non-optional value {notation(value)}")
                if not value.present:
                    result.pop(key_of(key), None)
                    continue
                value = value.value
            result[key_of(key)] = value
        return result

    if all(isinstance(k, Constant) and isinstance(v, Constant) for k, v, _ in entries):
        return _folded(run)
    return run
