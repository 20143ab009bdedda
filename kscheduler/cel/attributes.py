"""Attributes: a variable or value followed by field selections and indices.

A qualifier that is optional, or follows one, makes the whole attribute optional: what is missing
ends it with optional.none(), what is there is wrapped once at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kscheduler.cel.costs import Frame
from kscheduler.cel.errors import EvaluationError
from kscheduler.cel.values import NONE, Optional, Value, display, find, go_name, type_name

Run = Callable[[Frame], Value]
MISSING: Any = object()
KEY_TYPES = frozenset(("string", "int", "uint", "bool", "double"))


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
    """A bound variable not read yet; its first reading computes it, errors included."""

    __slots__ = ("error", "init")

    def __init__(self, init: Run) -> None:
        self.init = init
        self.error: EvaluationError | None = None

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
    if all(q.compute is None and not q.optional for q in qualifiers):
        keys = tuple(q.key for q in qualifiers)
        if all(type(k) is str for k in keys):
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
            key = qualifier.key if compute is None else checked_key(compute(f))
            if not optional:
                f.cost += 1
                value = qualify(value, key)
                continue
            value = qualify_if_present(value, key)
            if value is MISSING:
                return NONE
            f.cost += 1
        return Optional(value) if optional else value

    return resolve


def _by_names(root: Run, names: tuple[str, ...], base: int) -> Run:
    cost = base + len(names)

    def resolve(f: Frame) -> Value:
        f.cost += cost
        value = root(f)
        if type(value) is Optional:
            return _through_optional(value, names)
        for name in names:
            if type(value) is dict:
                try:
                    value = value[name]
                except KeyError:
                    raise EvaluationError(f"no such key: {name}") from None
            else:
                value = qualify(value, name)
        return value

    return resolve


def _through_optional(value: Optional, names: tuple[str, ...]) -> Optional:
    if not value.present:
        return value
    inner = value.value
    for name in names:
        inner = qualify_if_present(inner, name)
        if inner is MISSING:
            return NONE
    return Optional(inner)


def presence(root: Run, qualifiers: list[Qualifier], name: str, *, branch: bool = False) -> Run:
    """`has(attribute.name)`: whether the attribute has the field; it must itself be there.

    As a branch of `?:` cel-go resolves the attribute without the test around it, so what is inside
    of an optional comes out as an optional, not as a bool.
    """
    operand = attribute(root, qualifiers) if qualifiers else root
    extra = 0 if qualifiers else 1

    def test(f: Frame) -> Value:
        f.cost += extra
        value = operand(f)
        if type(value) is Optional:
            if branch:
                return _through_optional(value, (name,))
            if not value.present:
                return False
            value = value.value
        return qualify_if_present(value, name) is not MISSING

    return test
