"""Planner: a checked syntax tree to nested closures, built once and run for every device.

Mirrors cel-go's planner with constant folding (`OptOptimize`): literals of lists and maps,
conversions of constants, `in` with a constant list, and constant regular expressions are worked
out here, and what fails here refuses the expression.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import ge, gt, le, lt
from typing import Any

from kscheduler.cel import calls, costs, operators
from kscheduler.cel.attributes import (
    KEY_TYPES,
    Constant,
    Qualifier,
    Run,
    attribute,
    presence,
    variable,
)
from kscheduler.cel.declarations import FUNCTIONS
from kscheduler.cel.dispatch import dispatcher
from kscheduler.cel.display import display, notation
from kscheduler.cel.errors import AbortedError, CompileError, EvaluationError
from kscheduler.cel.folds import fold
from kscheduler.cel.frame import Frame, no_device
from kscheduler.cel.list_calls import list_call
from kscheduler.cel.messages import build_message
from kscheduler.cel.regexes import Pattern, PatternError, compile_pattern
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
from kscheduler.cel.values import Optional, Value, go_name, key_of, type_name

INDICES = frozenset(("_[_]", "_[?_]", "_?._"))
CONVERSIONS = frozenset(
    ("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint")
)
# Functions that read a text; a constant's value is kept, but only evaluation reports an error.
READERS = frozenset(("quantity", "semver", "ip", "cidr", "url"))
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
}
_METERED: dict[str, Callable[[Frame, Value, Value], Value]] = {
    "@in": operators.is_in,
    "matches": calls.matches,
}


def _instantiation_error(text: object) -> CompileError:
    """The error for an expression that fails while it is planned."""
    return CompileError(f"program instantiation failed: {text}")


class Planner:
    """One planning of one expression.

    `frame` bounds what all of its constants may cost together; `patterns` are those that the
    closures hold, `height` is how deep the closures are nested.
    """

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.patterns: list[Pattern] = []
        self.height = 0
        self._depth = 0
        # By the identity of nodes that are in two places of the tree.
        self._shared: dict[int, Run] = {}

    def plan(self, node: Expr) -> Run:
        """The closure that evaluates the node; constants are `Constant`."""
        run = self._shared.get(id(node))
        if run is None:
            self._depth += 1
            self.height = max(self.height, self._depth)
            run = self._plan(node)
            self._depth -= 1
            if node.shared:
                self._shared[id(node)] = run
        return run

    def _plan(self, node: Expr) -> Run:
        match node:
            case Literal():
                return Constant(node.value)
            case Ident() | Select() if node.constant is not None:
                return Constant(node.constant)
            case Ident() | Select():
                return self._attribute(node)
            case Call():
                return self._call(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case Message():
                fields = [(e.key, self.plan(e.value), e.optional) for e in node.fields]
                return build_message(node.type_name, fields)
            case Comprehension():
                return fold(node, self.plan)

    def _attribute(self, node: Expr, *, branch: bool = False) -> Run:
        """The closure of a variable or value with its selections and indices."""
        qualifiers: list[Qualifier] = []
        tested: str | None = None
        if isinstance(node, Select) and node.test_only:
            tested = node.name
            node = node.operand
        while True:
            if isinstance(node, Select) and not node.test_only and node.constant is None:
                qualifiers.append(Qualifier(node.name, None, optional=False))
                node = node.operand
            elif isinstance(node, Call) and node.function in INDICES:
                qualifiers.append(self._index(node))
                node = node.args[0]
            else:
                break
        qualifiers.reverse()
        root = variable(node.variable) if isinstance(node, Ident) else self.plan(node)
        if tested is not None:
            return presence(root, qualifiers, tested, branch=branch)
        return attribute(root, qualifiers, base=0 if branch else 1)

    def _index(self, node: Call) -> Qualifier:
        index = node.args[1]
        is_test = isinstance(index, Select) and index.test_only
        run = self.plan(index) if is_test else self._branch(index)
        optional = node.function != "_[_]"
        if not isinstance(run, Constant):
            return Qualifier(None, run, optional=optional)
        if type_name(run.value) not in KEY_TYPES:
            raise _instantiation_error(f"invalid qualifier type: {go_name(run.value)}")
        return Qualifier(run.value, None, optional=optional)

    def _branch(self, node: Expr) -> Run:
        """A branch of `?:`, or an index, which cel-go resolves without counting its variable."""
        match node:
            case Call():
                is_attribute = node.function in INDICES
            case Ident() | Select():
                is_attribute = node.constant is None
            case _:
                is_attribute = False
        return self._attribute(node, branch=True) if is_attribute else self.plan(node)

    def _call(self, node: Call) -> Run:
        function = node.function
        if function in INDICES:
            return self._attribute(node)
        operands = node.args if node.target is None else [node.target, *node.args]
        if function == "_?_:_":
            condition, truthy, falsy = operands
            return calls.conditional(
                self.plan(condition), self._branch(truthy), self._branch(falsy)
            )
        runs = [self.plan(operand) for operand in operands]
        cost = costs.cost_of(function, node.overloads)
        match function:
            case "_&&_":
                return calls.logic(runs, decided_by=False)
            case "_||_":
                return calls.logic(runs, decided_by=True)
            case "_==_":
                return calls.equality(*runs)
            case "_!=_":
                return calls.inequality(*runs)
            case "or" | "orValue":
                return calls.optional_or(*runs, unwrap=function == "orValue")
            case "@in" if node.overloads == ("in_list",) and isinstance(runs[1], Constant):
                return calls.membership(runs[0], runs[1], runs[1].value)
            case "contains" | "startsWith" | "endsWith":
                return calls.text_test(function, runs[0], runs[1], cost)
            case "matches" | "find" | "findAll" if isinstance(runs[1], Constant):
                return self._constant_pattern(node, runs, runs[1].value)
            case "sort" | "@sortByAssociatedKeys" | "distinct" | "flatten":
                return list_call(function, runs, node.overloads)
            case "join":
                return calls.costing_its_result(_strict_call(node, runs, 0))
        run = _strict_call(node, runs, cost)
        if len(runs) == 1 and isinstance(runs[0], Constant):
            if function in CONVERSIONS:
                return self._folded(run)
            if function in READERS:
                return _read_once(run)
        return run

    def _constant_pattern(self, node: Call, runs: list[Run], text: Value) -> Run:
        """A search for a constant pattern, which is compiled here."""
        if type(text) is not str:
            return _strict_call(node, runs, costs.cost_of(node.function, node.overloads))
        try:
            pattern = compile_pattern(self.frame, text)
        except PatternError as error:
            raise _instantiation_error(error) from None
        self.patterns.append(pattern)
        return calls.constant_pattern(node.function, pattern, [runs[0], *runs[2:]])

    def _folded(self, run: Run) -> Constant:
        """The value of a closure that depends on nothing."""
        try:
            return Constant(run(self.frame))
        except (EvaluationError, AbortedError) as error:
            raise _instantiation_error(error) from None

    def _list(self, node: ListLiteral) -> Run:
        runs = [self.plan(element) for element in node.elements]
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

        return self._folded(run) if all(isinstance(r, Constant) for r in runs) else run

    def _map(self, node: MapLiteral) -> Run:
        entries = [(self.plan(e.key), self.plan(e.value), e.optional) for e in node.entries]

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

        constant = all(isinstance(k, Constant) and isinstance(v, Constant) for k, v, _ in entries)
        return self._folded(run) if constant else run


def _strict_call(node: Call, runs: list[Run], cost: costs.Cost) -> Run:
    """A call whose operands are all evaluated first."""
    function = node.function
    if function in _UNARY:
        return calls.unary(_UNARY[function], runs[0], cost)
    if function in _BINARY:
        return calls.binary(_BINARY[function], runs[0], runs[1], cost)
    if function in _METERED:
        return calls.metered(_METERED[function], runs, cost)
    implementation, is_metered = dispatcher(function, node.overloads, FUNCTIONS[function])
    traversing = function in costs.TRAVERSING
    if is_metered:
        return calls.metered(implementation, runs, cost, traversing=traversing)
    match len(runs):
        case 1:
            return calls.unary(implementation, runs[0], cost, traversing=traversing)
        case 2:
            return calls.binary(implementation, runs[0], runs[1], cost)
    return calls.variadic(implementation, runs, cost)


def _read_once(run: Run) -> Run:
    """A constant that was read, if it can be; an error stays one of the evaluation."""
    frame = no_device()
    try:
        value = run(frame)
    except EvaluationError:
        return run
    cost = frame.cost

    def spend(f: Frame) -> Value:
        f.cost += cost
        return value

    return spend
