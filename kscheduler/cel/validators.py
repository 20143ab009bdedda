"""Validators: what a well-typed expression is still refused for.

Literal durations, timestamps and patterns that cannot be read, lists and maps of mixed types, and
constant format strings that do not fit their arguments.
"""

from __future__ import annotations

from collections.abc import Iterator

from kscheduler.cel import operators, regexes
from kscheduler.cel.checker import Checker
from kscheduler.cel.errors import CompileError, EvaluationError, Issue
from kscheduler.cel.frame import Frame
from kscheduler.cel.syntax import (
    VISITED_AS_COPIES,
    Call,
    Expr,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    children,
)
from kscheduler.cel.text_functions import FormatError, render, wrong_clause
from kscheduler.cel.types import Kind, Type


def descendants(root: Expr, *, below: str = "") -> Iterator[Expr]:
    """All nodes from the root down, without what is below calls of one function."""
    pending = [root]
    shared = set()
    visited = 0
    while pending:
        node = pending.pop()
        visited += 1
        if node.shared:
            if id(node) in shared and visited > VISITED_AS_COPIES:
                continue
            shared.add(id(node))
        yield node
        if not (below and isinstance(node, Call) and node.function == below):
            pending.extend(reversed(children(node)))


def validate(root: Expr, checker: Checker, frame: Frame) -> list[Issue]:
    """The issues of a checked expression; `frame` counts the work on its patterns."""
    issues: list[Issue] = []
    for node in descendants(root):
        if isinstance(node, Call):
            _literal_argument(node, frame, issues)
            if node.function == "format":
                _format_call(node, checker, issues)
    for node in descendants(root, below="format"):
        if isinstance(node, ListLiteral):
            _homogeneous_list(node, checker, issues)
        elif isinstance(node, MapLiteral):
            _homogeneous_map(node, checker, issues)
    return issues


def _literal_argument(node: Call, frame: Frame, issues: list[Issue]) -> None:
    if node.function not in ("duration", "timestamp", "matches"):
        return
    if not node.args or not isinstance(node.args[0], Literal):
        return
    argument = node.args[0]
    value = argument.value
    try:
        if node.function == "duration":
            operators.to_duration(value)
        elif node.function == "timestamp" and isinstance(value, str | int):
            operators.to_timestamp(value)
        elif node.function == "matches" and isinstance(value, str):
            regexes.compile_pattern(frame, value)
    except (EvaluationError, regexes.PatternError):
        issues.append(Issue(argument.offset, f"invalid {node.function} argument"))


def _equivalent(first: Type, second: Type) -> bool:
    return (
        first.kind is second.kind
        and len(first.parameters) == len(second.parameters)
        and (first.kind is Kind.TYPE_PARAM or first.name == second.name)
        and all(map(_equivalent, first.parameters, second.parameters))
    )


def _held_type(node: Expr, checker: Checker, *, optional: bool) -> Type:
    found = checker.final_type(node)
    if optional and not found.parameters:
        # cel-go takes an optional element's type for granted and panics on dyn.
        raise CompileError("runtime error: index out of range [0] with length 0")
    return found.parameters[0] if optional else found


def _mismatch(node: Expr, expected: Type, found: Type) -> Issue:
    return Issue(node.offset, f"expected type '{expected.text}' but found '{found.text}'")


def _homogeneous_list(node: ListLiteral, checker: Checker, issues: list[Issue]) -> None:
    first: Type | None = None
    for index, element in enumerate(node.elements):
        found = _held_type(element, checker, optional=index in node.optional)
        if first is None:
            first = found
        elif not _equivalent(first, found):
            issues.append(_mismatch(element, first, found))
            break


def _homogeneous_map(node: MapLiteral, checker: Checker, issues: list[Issue]) -> None:
    if not node.entries:
        return
    first = node.entries[0]
    key_type = checker.final_type(first.key)
    value_type = _held_type(first.value, checker, optional=first.optional)
    for entry in node.entries[1:]:
        key = checker.final_type(entry.key)
        value = _held_type(entry.value, checker, optional=entry.optional)
        if not _equivalent(key_type, key):
            issues.append(_mismatch(entry.key, key_type, key))
        if not _equivalent(value_type, value):
            issues.append(_mismatch(entry.value, value_type, value))


_CLAUSE_KINDS = {
    "s": frozenset(
        (
            *(Kind.LIST, Kind.MAP, Kind.INT, Kind.UINT, Kind.DOUBLE, Kind.BOOL, Kind.STRING),
            *(Kind.TIMESTAMP, Kind.BYTES, Kind.DURATION, Kind.TYPE, Kind.NULL),
        )
    ),
    "d": frozenset((Kind.INT, Kind.UINT)),
    "f": frozenset((Kind.DOUBLE, Kind.STRING)),
    "e": frozenset((Kind.DOUBLE, Kind.STRING)),
    "b": frozenset((Kind.INT, Kind.UINT, Kind.BOOL)),
    "x": frozenset((Kind.INT, Kind.UINT, Kind.STRING, Kind.BYTES)),
    "X": frozenset((Kind.INT, Kind.UINT, Kind.STRING, Kind.BYTES)),
    "o": frozenset((Kind.INT, Kind.UINT)),
}


def _format_call(node: Call, checker: Checker, issues: list[Issue]) -> None:
    """A constant template with a list literal: each clause must fit its element."""
    template, arguments = node.target, node.args[0] if node.args else None
    if not isinstance(template, Literal) or not isinstance(arguments, ListLiteral):
        return
    if not isinstance(template.value, str):
        return
    elements = arguments.elements
    used = 0

    def clause(verb: str, _precision: int | None, index: int) -> str:
        nonlocal used
        used = index + 1
        bad = _unfit(verb, elements[index], checker)
        if bad is not None:
            raise wrong_clause(verb, checker.final_type(bad).name, bad)
        return ""

    try:
        render(template.value, len(elements), clause)
    except FormatError as error:
        place = error.place if isinstance(error.place, Literal | Call | Select) else None
        offset = getattr(error.place, "offset", node.offset) if place is None else place.offset
        issues.append(Issue(offset, str(error)))
        return
    if len(elements) > used:
        counts = f"(expected {used}, got {len(elements)})"
        message = f"too many arguments supplied to string.format {counts}"
        issues.append(Issue(node.offset, message))


def _unfit(verb: str, node: Expr, checker: Checker) -> Expr | None:
    """The node that the clause cannot show: the argument or something inside of its literal."""
    found = checker.final_type(node)
    if found.kind is not Kind.DYN and found.kind not in _CLAUSE_KINDS[verb]:
        return node
    if verb == "s" and isinstance(node, ListLiteral | MapLiteral):
        for inner in children(node):
            bad = _unfit(verb, inner, checker)
            if bad is not None:
                return bad
    return None
