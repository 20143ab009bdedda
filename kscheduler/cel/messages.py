"""Messages: well-known protobuf messages that an expression can build, as the values they hold."""

from __future__ import annotations

from typing import Any

from kscheduler.cel import times, types
from kscheduler.cel.attributes import Run
from kscheduler.cel.costs import MESSAGE_COST
from kscheduler.cel.display import display
from kscheduler.cel.errors import EvaluationError
from kscheduler.cel.frame import Frame
from kscheduler.cel.values import Opaque, Optional, Uint, Value, register
from kscheduler.gotext.strconv import float32

_ZEROS: dict[str, Any] = {
    "BoolValue": False,
    "BytesValue": b"",
    "DoubleValue": 0.0,
    "FloatValue": 0.0,
    "Int32Value": 0,
    "Int64Value": 0,
    "StringValue": "",
    "UInt32Value": Uint(0),
    "UInt64Value": Uint(0),
}


_BOUNDS = {
    "Int32Value": (-(2**31), 2**31 - 1, "integer overflow"),
    "UInt32Value": (0, 2**32 - 1, "unsigned integer overflow"),
}


@register
class Empty(Opaque):
    """The message without fields."""

    __slots__ = ()
    celtype = types.Type(types.Kind.STRUCT, "google.protobuf.Empty")
    go_name = "*types.protoObj"

    def equals(self, other: Value) -> bool:
        return isinstance(other, Empty)


def build_message(type_name: str, fields: list[tuple[str, Run, bool]]) -> Run:
    """The closure that builds the message."""

    def run(f: Frame) -> Value:
        f.cost += MESSAGE_COST
        values: dict[str, Value] = {}
        for name, compute, optional in fields:
            value = compute(f)
            if optional:
                if type(value) is not Optional:
                    reason = f"cannot initialize optional entry '{name}' from non-optional value"
                    raise EvaluationError(f"{reason} {display(value)}")
                if not value.present:
                    values.pop(name, None)
                    continue
                value = value.value
            values[name] = value
        return _value(type_name.removeprefix("google.protobuf."), values)

    return run


def _value(name: str, fields: dict[str, Value]) -> Value:
    if name in _ZEROS:
        value = fields.get("value", _ZEROS[name])
        bounds = _BOUNDS.get(name)
        if bounds is not None and not bounds[0] <= value <= bounds[1]:
            where = f"field type conversion error for google.protobuf.{name}.value value type"
            raise EvaluationError(f"{where}: {bounds[2]}")
        return float32(value) if name == "FloatValue" else value
    match name:
        case "Duration":
            seconds, nanos = fields.get("seconds", 0), fields.get("nanos", 0)
            return times.duration(seconds * times.SECOND + nanos)
        case "Timestamp":
            seconds, nanos = fields.get("seconds", 0), fields.get("nanos", 0)
            return times.timestamp(seconds * times.SECOND + nanos)
        case "Struct":
            return dict(fields.get("fields", {}))
        case "ListValue":
            return list(fields.get("values", []))
        case "Value":
            value = next(iter(fields.values()), None)
            return None if "null_value" in fields else value
        case "Empty":
            return Empty()
    raise EvaluationError("unsupported conversion to ref.Val: (*dynamicpb.Message)")
