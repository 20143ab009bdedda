"""Macros: calls that the parser writes out as comprehensions, conditions and presence tests.

Nodes of an expansion take the place of the call, as cel-go's do, so that the checker's messages
point at its opening bracket.
"""

from __future__ import annotations

from collections.abc import Callable

from kscheduler.cel.errors import Issue
from kscheduler.cel.syntax import (
    Call,
    Comprehension,
    Expr,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
)

ACCUMULATOR = "@result"
UNUSED = "#unused"
Expander = Callable[[int, Expr | None, list[Expr]], Expr | None]


class MacroError(Exception):
    """Raised for arguments that the macro does not take."""

    def __init__(self, place: Expr, message: str) -> None:
        super().__init__(message)
        self.issue = Issue(place.offset, message)


def find(function: str, arguments: int, *, receiver: bool) -> Expander | None:
    """The macro of this name and number of arguments, if there is one."""
    if receiver:
        return _RECEIVER_MACROS.get((function, arguments))
    return _has if function == "has" and arguments == 1 else None


def _has(offset: int, target: Expr | None, args: list[Expr]) -> Expr:
    selected = args[0]
    if not isinstance(selected, Select) or selected.test_only:
        raise MacroError(selected, "invalid argument to has() macro")
    return Select(offset, selected.operand, selected.name, test_only=True)


def _variable(argument: Expr, message: str) -> str:
    if not isinstance(argument, Ident):
        raise MacroError(argument, message)
    return argument.name


def _iteration_variable(argument: Expr, message: str = "argument must be a simple name") -> str:
    name = _variable(argument, message)
    if name in (ACCUMULATOR, "__result__"):
        raise MacroError(argument, "iteration variable overwrites accumulator variable")
    return name


def _two_variables(args: list[Expr]) -> tuple[str, str]:
    simple = "argument must be a simple name"
    first, second = _variable(args[0], simple), _variable(args[1], simple)
    if first == second:
        raise MacroError(args[1], f"duplicate variable name: {first}")
    return _iteration_variable(args[0]), _iteration_variable(args[1])


def _accumulator(offset: int) -> Ident:
    return Ident(offset, ACCUMULATOR)


def _call(offset: int, function: str, *args: Expr) -> Call:
    return Call(offset, function, None, list(args))


def _quantifier(
    kind: str, offset: int, target: Expr, names: tuple[str, str | None], predicate: Expr
) -> Comprehension:
    condition: Expr
    accu = _accumulator(offset)
    result: Expr = _accumulator(offset)
    if kind == "all":
        init = Literal(offset, value=True)
        condition = _call(offset, "@not_strictly_false", accu)
        step = _call(offset, "_&&_", _accumulator(offset), predicate)
    elif kind == "exists":
        init = Literal(offset, value=False)
        condition = _call(offset, "@not_strictly_false", _call(offset, "!_", accu))
        step = _call(offset, "_||_", _accumulator(offset), predicate)
    else:
        init = Literal(offset, 0)
        condition = Literal(offset, value=True)
        counted = _call(offset, "_+_", accu, Literal(offset, 1))
        step = _call(offset, "_?_:_", predicate, counted, _accumulator(offset))
        result = _call(offset, "_==_", result, Literal(offset, 1))
    return Comprehension(
        offset, kind, target, names[0], names[1], ACCUMULATOR, init, condition, step, result
    )


def _one_variable(kind: str) -> Expander:
    def expand(offset: int, target: Expr | None, args: list[Expr]) -> Expr:
        assert target is not None
        return _quantifier(kind, offset, target, (_iteration_variable(args[0]), None), args[1])

    return expand


def _two_variable(kind: str) -> Expander:
    def expand(offset: int, target: Expr | None, args: list[Expr]) -> Expr:
        assert target is not None
        return _quantifier(kind, offset, target, _two_variables(args), args[2])

    return expand


def _collect(
    offset: int,
    target: Expr,
    names: tuple[str, str | None],
    step: Expr,
    condition: Expr | None,
    init: Expr,
) -> Comprehension:
    """A comprehension whose step extends the accumulator, for elements that meet the condition."""
    if condition is not None:
        step = _call(offset, "_?_:_", condition, step, _accumulator(offset))
    return Comprehension(
        *(offset, "collect", target, names[0], names[1], ACCUMULATOR, init),
        *(Literal(offset, value=True), step, _accumulator(offset)),
    )


def expand_map(offset: int, target: Expr | None, args: list[Expr]) -> Expr:
    """The map macro: a list of the transformed elements."""
    assert target is not None
    name = _iteration_variable(args[0], "argument is not an identifier")
    appended = ListLiteral(offset, [args[-1]])
    step = _call(offset, "_+_", _accumulator(offset), appended)
    condition = args[1] if len(args) == 3 else None
    return _collect(offset, target, (name, None), step, condition, ListLiteral(offset, []))


def _filter(offset: int, target: Expr | None, args: list[Expr]) -> Expr:
    assert target is not None
    name = _iteration_variable(args[0], "argument is not an identifier")
    appended = ListLiteral(offset, [args[0]])
    step = _call(offset, "_+_", _accumulator(offset), appended)
    return _collect(offset, target, (name, None), step, args[1], ListLiteral(offset, []))


def _transform_list(offset: int, target: Expr | None, args: list[Expr]) -> Expr:
    assert target is not None
    names = _two_variables(args)
    appended = ListLiteral(offset, [args[-1]])
    step = _call(offset, "_+_", _accumulator(offset), appended)
    condition = args[2] if len(args) == 4 else None
    return _collect(offset, target, names, step, condition, ListLiteral(offset, []))


def _transform_map(offset: int, target: Expr | None, args: list[Expr]) -> Expr:
    assert target is not None
    names = _two_variables(args)
    key = Ident(offset, names[0])
    step = _call(offset, "cel.@mapInsert", _accumulator(offset), key, args[-1])
    condition = args[2] if len(args) == 4 else None
    return _collect(offset, target, names, step, condition, MapLiteral(offset, []))


def _transform_map_entry(offset: int, target: Expr | None, args: list[Expr]) -> Expr:
    assert target is not None
    names = _two_variables(args)
    step = _call(offset, "cel.@mapInsert", _accumulator(offset), args[-1])
    condition = args[2] if len(args) == 4 else None
    return _collect(offset, target, names, step, condition, MapLiteral(offset, []))


def _bound(offset: int, name: str, value: Expr, result: Expr) -> Comprehension:
    """A fold over nothing: its accumulator is a local variable for the result."""
    return Comprehension(
        *(offset, "bind", ListLiteral(offset, []), UNUSED, None, name, value),
        *(Literal(offset, value=False), Ident(offset, name), result),
    )


def _bind(offset: int, target: Expr | None, args: list[Expr]) -> Expr | None:
    if not isinstance(target, Ident) or target.name != "cel":
        return None
    name = _variable(args[0], "cel.bind() variable names must be simple identifiers")
    return _bound(offset, name, args[1], args[2])


def _optional_map(function: str) -> Expander:
    message = f"{function}() variable name must be a simple identifier"

    def expand(offset: int, target: Expr | None, args: list[Expr]) -> Expr:
        assert target is not None
        name = _variable(args[0], message)
        # Upstream copies the target, which a chain of these macros doubles again and again.
        target.shared = True
        value = Call(offset, "value", target, [])
        mapped: Expr = _bound(offset, name, value, args[1])
        if function == "optMap":
            mapped = _call(offset, "optional.of", mapped)
        present = Call(offset, "hasValue", target, [])
        return _call(offset, "_?_:_", present, mapped, _call(offset, "optional.none"))

    return expand


def _sort_by(offset: int, target: Expr | None, args: list[Expr]) -> Expr:
    assert target is not None
    if isinstance(target, Literal | MapLiteral):
        kinds = "a list, identifier, comprehension, call or select expression"
        raise MacroError(target, f"sortBy can only be applied to {kinds}")
    name = "@__sortBy_input__"
    keys = expand_map(offset, Ident(offset, name), args)
    result = Call(offset, "@sortByAssociatedKeys", Ident(offset, name), [keys])
    return _bound(offset, name, target, result)


_RECEIVER_MACROS: dict[tuple[str, int], Expander] = {
    ("all", 2): _one_variable("all"),
    ("exists", 2): _one_variable("exists"),
    ("exists_one", 2): _one_variable("exists_one"),
    ("all", 3): _two_variable("all"),
    ("exists", 3): _two_variable("exists"),
    ("exists_one", 3): _two_variable("exists_one"),
    ("existsOne", 3): _two_variable("exists_one"),
    ("map", 2): expand_map,
    ("map", 3): expand_map,
    ("filter", 2): _filter,
    ("transformList", 3): _transform_list,
    ("transformList", 4): _transform_list,
    ("transformMap", 3): _transform_map,
    ("transformMap", 4): _transform_map,
    ("transformMapEntry", 3): _transform_map_entry,
    ("transformMapEntry", 4): _transform_map_entry,
    ("bind", 3): _bind,
    ("optMap", 2): _optional_map("optMap"),
    ("optFlatMap", 2): _optional_map("optFlatMap"),
    ("sortBy", 2): _sort_by,
}
