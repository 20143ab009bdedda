"""Dispatch: from argument values to the overload that accepts them."""

from __future__ import annotations

from collections.abc import Callable

from kscheduler.cel.declarations import Overload
from kscheduler.cel.errors import EvaluationError
from kscheduler.cel.functions import BINDINGS, METERED, Binding
from kscheduler.cel.types import Kind, Type
from kscheduler.cel.values import Value, classes_of, key_value, type_name

Check = Callable[[Value], bool]
Candidates = list[tuple[tuple[Check, ...], Binding]]


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


def check_of(wanted: Type) -> Check:
    """Whether a value fits a parameter, as a function; for most types its class decides."""
    if wanted.kind in (Kind.DYN, Kind.ANY, Kind.TYPE_PARAM):
        return lambda _value: True
    if wanted.parameters and wanted.kind in (Kind.LIST, Kind.MAP):
        return lambda value: accepts(wanted, value)
    classes = classes_of(wanted.name)
    if len(classes) != 1:
        return lambda value: type(value) in classes
    (only,) = classes
    return lambda value: type(value) is only


def no_overload(function: str, values: tuple[Value, ...]) -> EvaluationError:
    """The error for arguments that no overload accepts."""
    signature = ", ".join(type_name(value) for value in values)
    return EvaluationError(f"no such overload: {function}({signature})")


def dispatcher(
    function: str, fitting: tuple[str, ...], overloads: tuple[Overload, ...]
) -> tuple[Binding, bool]:
    """The function that checks its arguments and calls the right binding; whether it is metered.

    One overload that fits statically is the only one tried; otherwise all are, in order. A metered
    function takes the frame before its arguments.
    """
    if len(fitting) == 1:
        overloads = tuple(o for o in overloads if o.id == fitting[0])
    metered = any(o.id in METERED for o in overloads)
    candidates: Candidates = []
    for overload in overloads:
        checks = tuple(map(check_of, overload.parameters))
        if overload.id in METERED:
            candidates.append((checks, METERED[overload.id]))
        elif overload.id in BINDINGS:
            plain = BINDINGS[overload.id]
            candidates.append((checks, _ignoring_frame(plain) if metered else plain))
    if metered:
        return lambda f, *values: _chosen(function, candidates, values)(f, *values), True
    if len(candidates) == 1 and len(candidates[0][0]) == 1:
        ((check,), binding) = candidates[0]

        def call_one(value: Value) -> Value:
            if not check(value):
                raise no_overload(function, (value,))
            return binding(value)

        return call_one, False
    return lambda *values: _chosen(function, candidates, values)(*values), False


def _ignoring_frame(binding: Binding) -> Binding:
    return lambda _frame, *values: binding(*values)


def _chosen(function: str, candidates: Candidates, values: tuple[Value, ...]) -> Binding:
    """The binding of the first overload that accepts the values."""
    for checks, binding in candidates:
        if len(checks) == len(values):
            for check, value in zip(checks, values, strict=True):
                if not check(value):
                    break
            else:
                return binding
    raise no_overload(function, values)
