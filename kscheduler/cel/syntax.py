"""Syntax tree of an expression, as the parser builds it and the checker reads it.

Every node carries the offset of its place in the expression: the operator, the dot, the opening
bracket or the first token. Macros are gone: the parser writes them out as comprehensions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kscheduler.cel.types import Type


@dataclass(slots=True, eq=False)
class Node:
    """An expression at its place.

    `height` counts nesting towards the parser's limit, `copied` how often macros copied a part.
    """

    offset: int
    height: int = field(default=0, init=False)
    copied: int = field(default=0, init=False)
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
    """A field of an operand, or with `test_only` whether the operand has it."""

    operand: Expr
    name: str
    test_only: bool = False
    constant: Type | None = field(default=None, init=False)  # a qualified name of a type


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
    bound: bool = False  # by cel.bind and its like: computed when first read


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
