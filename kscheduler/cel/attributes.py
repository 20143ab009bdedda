"""Attributes: a variable or value followed by field selections and indices.

A qualifier that is optional, or follows one, makes the whole attribute optional: what is missing
ends it with optional.none(), what is there is wrapped once at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kscheduler.cel.display import display
from kscheduler.cel.errors import EvaluationError
from kscheduler.cel.frame import Frame
from kscheduler.cel.syntax import Variable
from kscheduler.cel.values import NONE, Optional, Value, find, go_name, type_name

Run = Callable[[Frame], Value]
MISSING: Any = object()
KEY_TYPES = frozenset(("string", "int", "uint", "bool", "double"))


class Constant:
    """A value known before evaluation; calling it gives the value."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    def __call__(self, _frame: Frame) -> Value:
        return self.value


def list_index(index: Value) -> int:
    """The index of a list as an int; a double or uint may stand for one."""
    kind = type_name(index)
    if kind == "int":
        return int(index)
    if kind == "uint" and index < 2**63:
        return int(index)
    if kind == "double" and index == index and abs(index) < 2**63 and index == int(index):
        return int(index)
    if kind in ("uint", "double"):
        raise EvaluationError(f"unsupported index value {display(index)} in list")
    raise EvaluationError(f"unsupported index type '{kind}' in list")


def qualify(value: Value, key: Value) -> Value:
    """The field or element of a value; raises if it is not there."""
    found = qualify_if_present(value, key)
    if found is not MISSING:
        return found
    if type(value) is list:
        raise EvaluationError(f"index out of bounds: {display(key)}")
    raise EvaluationError(f"no such key: {display(key)}")


def qualify_if_present(value: Value, key: Value) -> Value:
    """The field or element of a value, or MISSING; scalars have no fields."""
    if isinstance(value, dict):
        found, present = find(value, key)
        return found if present else MISSING
    if type(value) is list:
        index = list_index(key)
        return value[index] if 0 <= index < len(value) else MISSING
    return MISSING


def checked_key(key: Value) -> Value:
    """The key, if its type can qualify anything."""
    if type_name(key) not in KEY_TYPES:
        raise EvaluationError(f"invalid qualifier type: {go_name(key)}")
    return key


class Pending:
    """A variable not read yet, or one that is an error: reading it computes it once, or raises."""

    __slots__ = ("error", "init")

    def __init__(self, init: Run, error: EvaluationError | None = None) -> None:
        self.init = init
        self.error = error

    def resolve(self, f: Frame, slot: int) -> Value:
        if self.error is not None:
            raise self.error
        try:
            value = self.init(f)
        except EvaluationError as error:
            self.error = error
            raise
        f.slots[slot] = value
        return value


def variable(local: Variable | None) -> Run:
    """The value of a local variable, or of the device, without the cost of an attribute."""
    if local is None:
        return lambda f: f.device
    slot = local.slot
    if not local.lazy:
        return lambda f: f.slots[slot]

    def resolve(f: Frame) -> Value:
        value = f.slots[slot]
        if type(value) is Pending:
            value = value.resolve(f, slot)
        return value

    return resolve


class Qualifier:
    """One step of an attribute: a constant key, or one computed in each evaluation."""

    __slots__ = ("compute", "key", "optional")

    def __init__(self, key: Value, compute: Run | None, *, optional: bool) -> None:
        self.key = key
        self.compute = compute
        self.optional = optional


def attribute(root: Run, qualifiers: list[Qualifier], base: int = 1) -> Run:
    """Resolves the attribute; it costs `base`, and 1 for each qualifier tried.

    The base is 0 for an index and for a branch of `?:`, which cel-go resolves unobserved.
    """
    if not qualifiers:
        return _costing(root, base) if base else root
    keys = tuple(q.key for q in qualifiers if q.compute is None and not q.optional)
    if len(keys) == len(qualifiers) and all(type(key) is str for key in keys):
        return _by_names(root, keys, base)

    def resolve(f: Frame) -> Value:
        f.cost += base
        value = root(f)
        optional = type(value) is Optional
        if optional:
            if not value.present:
                return value
            value = value.value
        for qualifier in qualifiers:
            optional = optional or qualifier.optional
            compute = qualifier.compute
            if not optional:
                f.cost += 1
                key = qualifier.key if compute is None else checked_key(compute(f))
                value = qualify(value, key)
                continue
            key = qualifier.key if compute is None else checked_key(compute(f))
            value = qualify_if_present(value, key)
            if value is MISSING:
                return NONE
            f.cost += 1
        return Optional(value) if optional else value

    return resolve


def _costing(root: Run, base: int) -> Run:
    def resolve(f: Frame) -> Value:
        f.cost += base
        return root(f)

    return resolve


def _by_names(root: Run, names: tuple[str, ...], base: int) -> Run:
    """An attribute whose qualifiers are all names that must be there, the usual case."""

    def resolve(f: Frame) -> Value:
        f.cost += base
        value = root(f)
        if type(value) is Optional:
            return _through_optional(f, value, names)
        for name in names:
            f.cost += 1
            if type(value) is dict:
                try:
                    value = value[name]
                except KeyError:
                    raise EvaluationError(f"no such key: {name}") from None
            else:
                value = qualify(value, name)
        return value

    return resolve


def _through_optional(f: Frame, value: Optional, names: tuple[str, ...]) -> Optional:
    """The field inside of an optional, or none; only what is there costs."""
    if not value.present:
        return NONE
    inner = value.value
    for name in names:
        inner = qualify_if_present(inner, name)
        if inner is MISSING:
            return NONE
        f.cost += 1
    return Optional(inner)


def presence(root: Run, qualifiers: list[Qualifier], name: str, *, branch: bool = False) -> Run:
    """`has(attribute.name)`: whether the attribute has the field; it must itself be there.

    As a branch of `?:` cel-go resolves the attribute without the test around it, so what is inside
    of an optional comes out as an optional, not as a bool.
    """
    operand = attribute(root, qualifiers, base=0)

    def test(f: Frame) -> Value:
        value = operand(f)
        if type(value) is Optional:
            found = _through_optional(f, value, (name,))
            return found if branch else found.present
        f.cost += 1
        return qualify_if_present(value, name) is not MISSING

    return test
