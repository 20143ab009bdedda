"""Calls of sort, sortBy, distinct and flatten, whose failures cel-go shows in its own ways.

Where the overload is known, cel-go's cost tracker takes for granted that a list arrives: an error
or another value stops the evaluation with an internal error, which nothing absorbs.
"""

from __future__ import annotations

from kscheduler.cel import costs, operators
from kscheduler.cel.attributes import Run
from kscheduler.cel.calls import evaluated, price
from kscheduler.cel.errors import AbortedError, EvaluationError
from kscheduler.cel.frame import Frame
from kscheduler.cel.list_functions import distinct, flatten, sort_by
from kscheduler.cel.values import Value, go_name, type_name

_LISTER = "traits.Lister: missing method"
_ADDABLE = frozenset(
    (
        *("int", "uint", "double", "string", "bytes"),
        *("google.protobuf.Duration", "google.protobuf.Timestamp"),
    )
)


def list_call(function: str, operands: list[Run], overloads: tuple[str, ...]) -> Run:
    """The closure of one of these calls."""
    if function == "flatten":
        return _flattening(operands)
    cost = costs.cost_of(function, overloads)
    tracked = len(overloads) == 1

    def run(f: Frame) -> Value:
        if tracked:
            try:
                values = [operand(f) for operand in operands]
            except EvaluationError:
                raise _conversion_panic("*types.Err", f"{_LISTER} Add") from None
        else:
            values = evaluated(f, operands, 1)
        # sortBy is measured by its keys, which come last; the others have one operand.
        keys = values[-1]
        if tracked:
            if type(keys) is not list:
                method = "Contains" if type_name(keys) in _ADDABLE else "Add"
                raise _conversion_panic(go_name(keys), f"{_LISTER} {method}")
            for value in values:
                f.touch_value(value)
            f.spend(price(cost, *values))
        if function == "distinct":
            return distinct(f, keys)
        for value in values:
            if type(value) is not list:
                raise operators.unsupported(function, value)
        return sort_by(f, values[0], keys)

    return run


def _conversion_panic(found: str, wanted: str) -> AbortedError:
    return AbortedError(f"internal error: interface conversion: {found} is not {wanted}")


def _flattening(operands: list[Run]) -> Run:
    def run(f: Frame) -> Value:
        values = evaluated(f, operands, costs.flattening)
        elements = values[0]
        if type(elements) is not list:
            name = type_name(elements)
            shown = {"map": "map(dyn, dyn)", "optional_type": "optional_type(dyn)"}.get(name, name)
            raise EvaluationError(f"no such overload: {shown}.flatten()")
        depth = values[1] if len(values) == 2 else 1
        if type(depth) is not int:
            text = f"interface conversion: ref.Val is {go_name(depth)}, not types.Int"
            raise AbortedError(f"internal error: {text}")
        return flatten(f, elements, depth)

    return run
