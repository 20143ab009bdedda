"""What a configuration model looks like on the wire, read off its annotations.

A model is declared once, in Python. Decoding, dumping and error texts also need the JSON name of
a field, the Go type that kube-scheduler would name in an error, and whether an empty value is
left out; these are derived here, from the annotation and a few markers.

Two spellings exist: the v1 one of files (`leaderElection`), and the one of upstream's internal
types (`LeaderElection`), which shows in some error messages and can even be read from a file.
"""

from __future__ import annotations

import re
import types
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from kscheduler.config.duration import Duration

GROUP = "kubescheduler.config.k8s.io"
V1 = f"{GROUP}/v1"

INITIALISMS = {"url": "URL", "tls": "TLS", "http": "HTTP", "ca": "CA", "qps": "QPS"}


class Model(BaseModel):
    """A frozen piece of configuration, spelled camelCase outside and snake_case inside."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )

    # The Go package of the versioned type, and whether the internal type is spelled like it.
    go_package: ClassVar[str] = "v1"
    core_type: ClassVar[bool] = False
    # A top-level object: it may say which kind and version it is.
    has_type_meta: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Scalar:
    """A string, number or bool; `name` is its Go type, which may be a named string.

    `internal` is the name of the type in upstream's internal package, where that differs.
    """

    kind: str
    name: str
    internal: str = ""


@dataclass(frozen=True, slots=True)
class Embedded:
    """The field lives in an embedded Go struct of this name, which type errors mention."""

    struct: str


@dataclass(frozen=True, slots=True)
class Marker:
    meaning: str


OMIT_EMPTY = Marker("left out of dumps when empty")
NOT_WIRED = Marker("no field of the file")
RAW = Marker("any JSON, kept as it is")

Int32 = Annotated[int, Scalar("int32", "int32"), Field(ge=-(1 << 31), lt=1 << 31)]
Int64 = Annotated[int, Scalar("int64", "int64"), Field(ge=-(1 << 63), lt=1 << 63)]
Float32 = Annotated[float, Scalar("float32", "float32")]


@dataclass(frozen=True, slots=True)
class ListOf:
    item: WireType


@dataclass(frozen=True, slots=True)
class MapOf:
    value: WireType


@dataclass(frozen=True, slots=True)
class Struct:
    model: type[Model]


@dataclass(frozen=True, slots=True)
class Optional:
    """A Go pointer: null and absent are the same, and told apart from empty."""

    inner: WireType


WireType = Scalar | ListOf | MapOf | Struct | Optional | Marker | type[Duration] | type[bytes]


@dataclass(frozen=True, slots=True)
class WireField:
    """`attr` is empty for kind and apiVersion, which the reader of a document has already seen."""

    attr: str
    json: str
    internal: str
    type: WireType
    embedded: str = ""
    omit_empty: bool = False

    def name(self, *, internal: bool) -> str:
        return self.internal if internal else self.json


STRING = Scalar("string", "string")
TYPE_META = tuple(
    WireField("", name, name, STRING, embedded="TypeMeta", omit_empty=True)
    for name in ("kind", "apiVersion")
)


@cache
def wire_fields(model: type[Model]) -> tuple[WireField, ...]:
    """The fields of a model, in the order Go declares (and therefore dumps) them."""
    hints = get_type_hints(model, include_extras=True)
    fields = [
        _wire_field(model, attr, info.alias or attr, hints[attr])
        for attr, info in model.model_fields.items()
        if NOT_WIRED not in _markers(hints[attr])
    ]
    return (*(TYPE_META if model.has_type_meta else ()), *fields)


def _wire_field(model: type[Model], attr: str, json: str, hint: Any) -> WireField:
    markers = _markers(hint)
    return WireField(
        attr,
        json,
        json if model.core_type else _go_name(json),
        _wire_type(hint),
        next((m.struct for m in markers if isinstance(m, Embedded)), ""),
        OMIT_EMPTY in markers,
    )


def _markers(hint: Any) -> tuple[Any, ...]:
    return get_args(hint)[1:] if get_origin(hint) is Annotated else ()


def _wire_type(hint: Any) -> WireType:
    if get_origin(hint) is Annotated:
        markers = _markers(hint)
        named = next((m for m in markers if isinstance(m, Scalar) or m is RAW), None)
        return named or _wire_type(get_args(hint)[0])
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (inner,) = (a for a in args if a is not type(None))
        return Optional(_wire_type(inner))
    if origin is tuple:
        return ListOf(_wire_type(args[0]))
    if origin is Mapping:
        return MapOf(_wire_type(args[1]))
    if hint in (Duration, bytes):
        return hint
    if hint in (str, bool):
        return STRING if hint is str else Scalar("bool", "bool")
    assert issubclass(hint, Model), hint
    return Struct(hint)


def _go_name(json: str) -> str:
    first = re.match("[a-z]+", json)
    word = first.group() if first else ""
    return INITIALISMS.get(word, word.capitalize()) + json[len(word) :]


def go_type(wire: WireType, *, internal: bool) -> str:
    """The type as Go's reflection prints it; pointers never show."""
    match wire:
        case Scalar():
            return wire.internal or wire.name if internal else wire.name
        case ListOf(item=item):
            return f"[]{go_type(item, internal=internal)}"
        case MapOf(value=value):
            return f"map[string]{go_type(value, internal=internal)}"
        case Optional(inner=inner):
            return go_type(inner, internal=internal)
        case Struct(model=model):
            package = "config" if internal and not model.core_type else model.go_package
            return f"{package}.{model.__name__}"
        case Marker():
            return "runtime.Object"
        case _:
            return "[]uint8" if wire is bytes else "string"
