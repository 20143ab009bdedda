"""Syntax tree of an expression, as the parser builds it and the checker reads it.

Every node carries the offset of its place in the expression: the operator, the dot, the opening
bracket or the first token. Macros are gone: the parser writes them out as comprehensions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kscheduler.cel.types import Type

# Nodes up to which shared ones are visited as often as upstream's copies, to report the same. A
# chain of macros doubles its nodes with each of them, so beyond that they are visited once.
VISITED_AS_COPIES = 10_000


@dataclass(slots=True, eq=False)
class Node:
    """An expression at its place.

    `height` counts nesting towards the parser's limit. A `shared` node is in two places of the tree
    because a macro evaluates it twice; upstream copies it, and reports what is wrong in both.
    """

    offset: int
    height: int = field(default=0, init=False)
    shared: bool = field(default=False, init=False)
    type: Type | None = field(default=None, init=False)  # set by the checker


@dataclass(slots=True, eq=False)
class Literal(Node):
    """A literal value: bool, int, Uint, float, str, bytes or None."""

    value: Any


@dataclass(slots=True, eq=False)
class Ident(Node):
    """A name: a variable, or after the checker's resolution the name of a type (`constant`)."""

    name: str
    constant: Type | None = field(default=None, init=False)
    variable: Variable | None = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class Select(Node):
    """A field of an operand, or with `test_only` whether the operand has it.

    `constant` is set by the checker for the qualified name of a type or of an enum's value.
    """

    operand: Expr
    name: str
    test_only: bool = False
    constant: Type | int | None = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class Call(Node):
    """A call of a function or operator; `overloads` are those the checker found to fit."""

    function: str
    target: Expr | None
    args: list[Expr]
    overloads: tuple[str, ...] = field(default=(), init=False)


@dataclass(slots=True, eq=False)
class ListLiteral(Node):
    """A list; `optional` holds the indices of `?` elements."""

    elements: list[Expr]
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class Entry:
    """A key or field name with its value in a map or message literal."""

    offset: int
    key: Any  # an expression in a map, the name of the field in a message
    value: Expr
    optional: bool


@dataclass(slots=True, eq=False)
class MapLiteral(Node):
    """A map."""

    entries: list[Entry]


@dataclass(slots=True, eq=False)
class Message(Node):
    """A message of a named type."""

    type_name: str
    fields: list[Entry]


@dataclass(slots=True, eq=False)
class Variable:
    """A local variable; each has a slot of its own in the frame of an evaluation."""

    name: str
    type: Type
    slot: int = -1
    lazy: bool = False  # its slot may hold what is computed, or raised, when it is read


@dataclass(slots=True, eq=False)
class Comprehension(Node):
    """A fold over a range; `kind` names the macro, so that common ones get their own loop."""

    kind: str
    range: Expr
    iter_var: str
    iter_var2: str | None
    accu_var: str
    init: Expr
    condition: Expr
    step: Expr
    result: Expr
    # Variables by role, set by the checker: iteration, second iteration, accumulator.
    variables: list[Variable] = field(default_factory=list, init=False)


Expr: TypeAlias = (
    Literal | Ident | Select | Call | ListLiteral | MapLiteral | Message | Comprehension
)


def children(node: Expr) -> list[Expr]:
    """The expressions directly below a node."""
    match node:
        case Select():
            return [node.operand] if node.constant is None else []
        case Call():
            return node.args if node.target is None else [node.target, *node.args]
        case ListLiteral():
            return node.elements
        case MapLiteral():
            return [part for entry in node.entries for part in (entry.key, entry.value)]
        case Message():
            return [entry.value for entry in node.fields]
        case Comprehension():
            return [node.range, node.init, node.condition, node.step, node.result]
    return []
