"""Dispatch: from argument values to the overload that accepts them."""

from __future__ import annotations

from collections.abc import Callable

from kscheduler.cel.declarations import Overload
from kscheduler.cel.errors import EvaluationError
from kscheduler.cel.functions import BINDINGS
from kscheduler.cel.types import Kind, Type
from kscheduler.cel.values import Value, classes_of, key_value, type_name


def accepts(wanted: Type, value: Value) -> bool:
    """Whether a value fits a parameter; of lists and maps the first element decides."""
    if wanted.kind in (Kind.DYN, Kind.ANY, Kind.TYPE_PARAM):
        return True
    if type_name(value) != wanted.name:
        return False
    if wanted.kind is Kind.LIST:
        return not value or accepts(wanted.parameters[0], value[0])
    if wanted.kind is Kind.MAP and value:
        key = next(iter(value))
        return accepts(wanted.parameters[0], key_value(key)) and accepts(
            wanted.parameters[1], value[key]
        )
    return True


def _accepted_by(wanted: Type) -> Callable[[Value], bool]:
    """The check of one parameter; for most types it is the class of the value."""
    if wanted.kind in (Kind.DYN, Kind.ANY, Kind.TYPE_PARAM):
        return _anything
    name = wanted.name
    if wanted.parameters and wanted.kind in (Kind.LIST, Kind.MAP):
        return lambda value: accepts(wanted, value)
    classes = classes_of(name)
    if len(classes) != 1:
        return lambda value: type(value) in classes
    (only,) = classes
    return lambda value: type(value) is only


def _anything(_value: Value) -> bool:
    return True


def no_overload(function: str, values: tuple[Value, ...]) -> EvaluationError:
    """The error for arguments that no overload accepts."""
    signature = ", ".join(type_name(value) for value in values)
    return EvaluationError(f"no such overload: {function}({signature})")


def dispatcher(
    function: str, fitting: tuple[str, ...], overloads: tuple[Overload, ...]
) -> Callable[..., Value]:
    """The function that checks its arguments and calls the right binding.

    One overload that fits statically is the only one tried; otherwise all are, in order.
    """
    if len(fitting) == 1:
        overloads = tuple(o for o in overloads if o.id == fitting[0])
    candidates = [
        (tuple(_accepted_by(p) for p in o.parameters), BINDINGS[o.id])
        for o in overloads
        if o.id in BINDINGS
    ]
    if len(candidates) == 1:
        return _single(function, *candidates[0])

    def call(*values: Value) -> Value:
        for checks, binding in candidates:
            if len(checks) == len(values):
                for check, value in zip(checks, values, strict=True):
                    if not check(value):
                        break
                else:
                    return binding(*values)
        raise no_overload(function, values)

    return call


def _single(
    function: str, checks: tuple[Callable[[Value], bool], ...], binding: Callable[..., Value]
) -> Callable[..., Value]:
    if len(checks) == 1:
        check_one = checks[0]

        def call_one(value: Value) -> Value:
            if not check_one(value):
                raise no_overload(function, (value,))
            return binding(value)

        return call_one

    def call(*values: Value) -> Value:
        for check, value in zip(checks, values, strict=True):
            if not check(value):
                raise no_overload(function, values)
        return binding(*values)

    return call
