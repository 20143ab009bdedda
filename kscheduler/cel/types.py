"""Static types of CEL expressions, and how one type is assigned to another.

A `Type` is a kind, a name and parameters. The checker infers one for every expression; the
interpreter asks a parameter's type whether it accepts a value (`runtime.accepts`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from kscheduler.cel.errors import CompileError


class Kind(Enum):
    """Kind of a type: what decides whether it unifies with another."""

    BOOL = auto()
    INT = auto()
    UINT = auto()
    DOUBLE = auto()
    STRING = auto()
    BYTES = auto()
    NULL = auto()
    DURATION = auto()
    TIMESTAMP = auto()
    LIST = auto()
    MAP = auto()
    TYPE = auto()
    STRUCT = auto()
    OPAQUE = auto()
    TYPE_PARAM = auto()
    DYN = auto()
    ANY = auto()
    ERROR = auto()


# Names in error messages where they are not the name of the type at runtime.
DISPLAY_NAMES = {
    Kind.DURATION: "duration",
    Kind.TIMESTAMP: "timestamp",
    Kind.NULL: "null",
    Kind.ERROR: "!error!",
    Kind.ANY: "any",
}
PRIMITIVE_KINDS = frozenset(
    (Kind.BOOL, Kind.INT, Kind.UINT, Kind.DOUBLE, Kind.STRING, Kind.BYTES, Kind.DURATION)
) | {Kind.TIMESTAMP, Kind.STRUCT}
NULLABLE_KINDS = frozenset((Kind.OPAQUE, Kind.STRUCT, Kind.ANY, Kind.DURATION, Kind.TIMESTAMP))


# A map from itself to itself is twice as large, and variables can do that again and again.
MAX_TEXT = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """A static type; equal when kind, name, parameters and nullability are, which `text` tells.

    `text` is the spelling in error messages and the key of a type parameter's substitution.
    """

    kind: Kind
    name: str
    parameters: tuple[Type, ...] = ()
    wrapper: bool = False  # a google.protobuf wrapper: the primitive type or null
    text: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        text = DISPLAY_NAMES.get(self.kind, self.name)
        if self.wrapper:
            text = f"wrapper({text})"
        if self.parameters:
            text = f"{text}({', '.join(p.text for p in self.parameters)})"
            if len(text) > MAX_TEXT:
                raise CompileError("compilation failed: type of an expression is too large")
        object.__setattr__(self, "text", text)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Type)
            and self.text == other.text
            and self.kind is other.kind
            and self.name == other.name
        )

    def __hash__(self) -> int:
        return hash(self.text)

    @property
    def output_text(self) -> str:
        """Spelling in the message about an expression's result, with runtime names."""
        if self.wrapper:
            return f"wrapper({self.name})"
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(p.output_text for p in self.parameters)})"


BOOL = Type(Kind.BOOL, "bool")
INT = Type(Kind.INT, "int")
UINT = Type(Kind.UINT, "uint")
DOUBLE = Type(Kind.DOUBLE, "double")
STRING = Type(Kind.STRING, "string")
BYTES = Type(Kind.BYTES, "bytes")
NULL = Type(Kind.NULL, "null_type")
DURATION = Type(Kind.DURATION, "google.protobuf.Duration")
TIMESTAMP = Type(Kind.TIMESTAMP, "google.protobuf.Timestamp")
DYN = Type(Kind.DYN, "dyn")
ANY = Type(Kind.ANY, "google.protobuf.Any")
ERROR = Type(Kind.ERROR, "!error!")
TYPE = Type(Kind.TYPE, "type")
QUANTITY = Type(Kind.STRUCT, "kubernetes.Quantity")
SEMVER = Type(Kind.STRUCT, "kubernetes.Semver")
URL = Type(Kind.STRUCT, "kubernetes.URL")
DEVICE = Type(Kind.STRUCT, "kubernetes.DRADevice")
FORMAT = Type(Kind.STRUCT, "kubernetes.NamedFormat")
IP = Type(Kind.OPAQUE, "net.IP")
CIDR = Type(Kind.OPAQUE, "net.CIDR")


def list_of(element: Type) -> Type:
    """Type of lists of `element`."""
    return Type(Kind.LIST, "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """Type of maps from `key` to `value`."""
    return Type(Kind.MAP, "map", (key, value))


def optional_of(value: Type) -> Type:
    """Type of optional values of `value`."""
    return Type(Kind.OPAQUE, "optional_type", (value,))


def type_of(instance: Type) -> Type:
    """Type of the type value that stands for `instance`."""
    return Type(Kind.TYPE, "type", (instance,))


def param(name: str) -> Type:
    """Type parameter of an overload, or a variable made fresh for one call."""
    return Type(Kind.TYPE_PARAM, name)


def wrapper_of(primitive: Type) -> Type:
    """Type that takes the primitive's values and null."""
    return Type(primitive.kind, primitive.name, (), wrapper=True)


def is_dyn(t: Type) -> bool:
    """Whether anything may be assigned to and from the type."""
    return t.kind is Kind.DYN or t.kind is Kind.ANY


def is_optional(t: Type) -> bool:
    """Whether the type is optional_type."""
    return t.kind is Kind.OPAQUE and t.name == "optional_type"


class Substitutions:
    """Types found for type parameters so far, by the parameter's text."""

    __slots__ = ("_undo", "bound")

    def __init__(self, bound: dict[str, Type] | None = None) -> None:
        self.bound: dict[str, Type] = {} if bound is None else bound
        # What the assignment under way has bound, each with what was there before.
        self._undo: list[tuple[str, Type | None]] = []

    def assign(self, pairs: list[tuple[Type, Type]]) -> bool:
        """Whether each first type is assignable to its second; only then bindings are kept."""
        self._undo.clear()
        if all(self._assignable(given, wanted) for given, wanted in pairs):
            return True
        for name, bound in reversed(self._undo):
            if bound is None:
                del self.bound[name]
            else:
                self.bound[name] = bound
        return False

    def substitute(self, t: Type, *, free_to_dyn: bool = False) -> Type:
        """The type with bound parameters replaced, and free ones by dyn if so asked."""
        found = self.bound.get(t.text)
        if found is not None:
            return self.substitute(found, free_to_dyn=free_to_dyn)
        if t.kind is Kind.TYPE_PARAM:
            return DYN if free_to_dyn else t
        if not t.parameters:
            return t
        replaced = tuple(self.substitute(p, free_to_dyn=free_to_dyn) for p in t.parameters)
        same = all(new is old for new, old in zip(replaced, t.parameters, strict=True))
        return t if same else Type(t.kind, t.name, replaced)

    def _assignable(self, given: Type, wanted: Type) -> bool:
        if wanted.kind is Kind.TYPE_PARAM:
            valid, bound = self._bind(given, wanted)
            if valid:
                return True
            if bound:
                return False
        if given.kind is Kind.TYPE_PARAM:
            return self._bind(wanted, given)[0]
        kinds = (given.kind, wanted.kind)
        if Kind.DYN in kinds or Kind.ANY in kinds or Kind.ERROR in kinds:
            return True
        if given.kind is Kind.NULL or wanted.kind is Kind.NULL:
            other = wanted if given.kind is Kind.NULL else given
            return other.kind in NULLABLE_KINDS or other.kind is Kind.NULL or other.wrapper
        if given.kind in PRIMITIVE_KINDS:
            return given.kind is wanted.kind and given.name == wanted.name
        if given.kind is Kind.TYPE:
            return wanted.kind is Kind.TYPE
        return (
            given.kind is wanted.kind
            and given.name == wanted.name
            and len(given.parameters) == len(wanted.parameters)
            and all(map(self._assignable, given.parameters, wanted.parameters))
        )

    def _bind(self, t: Type, parameter: Type) -> tuple[bool, bool]:
        """Whether the parameter may stand for the type, and whether it was bound already."""
        if t == parameter:
            return True, True
        bound = self.bound.get(parameter.text)
        if bound is not None:
            if t == bound:
                return True, True
            if self._assignable(t, bound):
                general = most_general(t, bound)
                if self._absent(parameter, general):
                    self._undo.append((parameter.text, self.bound[parameter.text]))
                    self.bound[parameter.text] = general
                return True, True
            return False, True
        if self._absent(parameter, t):
            self._undo.append((parameter.text, None))
            self.bound[parameter.text] = t
            return True, False
        return False, False

    def _absent(self, parameter: Type, within: Type) -> bool:
        """Whether the parameter does not occur within the type (else it would be infinite)."""
        if parameter == within:
            return False
        if within.kind is Kind.TYPE_PARAM:
            found = self.bound.get(within.text)
            return found is None or self._absent(parameter, found)
        if within.kind in (Kind.OPAQUE, Kind.LIST, Kind.MAP, Kind.TYPE):
            return all(self._absent(parameter, p) for p in within.parameters)
        return True


def most_general(first: Type, second: Type) -> Type:
    """The more general of two types that unify."""
    return first if _no_more_specific(first, second) else second


def _no_more_specific(first: Type, second: Type) -> bool:
    if is_dyn(first) or first.kind is Kind.TYPE_PARAM:
        return True
    if is_dyn(second) or second.kind is Kind.TYPE_PARAM or first.kind is not second.kind:
        return False
    if first.kind is Kind.TYPE:
        return True
    if first.kind in (Kind.OPAQUE, Kind.LIST, Kind.MAP):
        return (
            first.name == second.name
            and len(first.parameters) == len(second.parameters)
            and all(map(_no_more_specific, first.parameters, second.parameters))
        )
    return first == second
