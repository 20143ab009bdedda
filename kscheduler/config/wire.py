"""Wire form of configuration models, read off their annotations.

A model is declared once, in Python. Decoding, dumping and error texts also need the JSON name of
a field, the Go type that kube-scheduler would name in an error, and whether an empty value is
left out; these are derived here, from the annotation and a few markers.

Two spellings exist: the v1 one of files (`leaderElection`), and the one of upstream's internal
types (`LeaderElection`), which shows in some error messages and can even be read from a file.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from kscheduler.gotext.duration import Duration, parse_duration
from kscheduler.gotext.json_text import Node
from kscheduler.gotext.unmarshal import (
    BOOL,
    INT64,
    STRING,
    Bytes,
    GoType,
    Interface,
    ListOf,
    MapOf,
    Pointer,
    Raw,
    Scalar,
    Struct,
    StructField,
    Text,
    unmarshal,
)

M = TypeVar("M", bound="Model")

GROUP = "kubescheduler.config.k8s.io"
V1 = f"{GROUP}/v1"

SIMPLE: Mapping[type, GoType] = {
    str: STRING,
    bool: BOOL,
    bytes: Bytes(),
    Duration: Text(parse_duration, Duration(0)),
}
INITIALISMS = {"url": "URL", "tls": "TLS", "http": "HTTP", "ca": "CA", "qps": "QPS"}


class Model(BaseModel):
    """A frozen piece of configuration, camelCase in files and snake_case in Python.

    Made from Python it trusts its values, and what files say is checked by `unmarshal`, in Go's
    words. So pydantic's own checks are built only for who asks for them by `model_validate`: they
    would take a tenth of every start.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        defer_build=True,
    )

    def __init__(self, /, **values: Any) -> None:
        made = self.model_construct(**values)
        for slot in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__"):
            object.__setattr__(self, slot, getattr(made, slot))

    # Or else pydantic would call it with what it has not checked yet.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    # The Go package of the versioned type, and whether the internal type is spelled like it.
    go_package: ClassVar[str] = "v1"
    core_type: ClassVar[bool] = False
    # A top-level object: it may say which kind and version it is.
    has_type_meta: ClassVar[bool] = False


class Embedded(msgspec.Struct, frozen=True):
    """The field lives in an embedded Go struct of this name, which type errors mention."""

    struct: str


class Marker(msgspec.Struct, frozen=True):
    meaning: str


OMIT_EMPTY = Marker("left out of dumps when empty")
NOT_WIRED = Marker("no field of the file")

Int32 = Annotated[int, Scalar("int32", "int32"), Field(ge=-(1 << 31), lt=1 << 31)]
Int64 = Annotated[int, INT64, Field(ge=-(1 << 63), lt=1 << 63)]
Float32 = Annotated[float, Scalar("float32", "float32")]


class WireField(msgspec.Struct, frozen=True):
    """`attr` is empty for kind and apiVersion, which the reader of a document has already seen."""

    attr: str
    json: str
    internal: str
    type: GoType
    internal_type: GoType
    embedded: str = ""
    omit_empty: bool = False


TYPE_META = tuple(
    WireField("", name, name, STRING, STRING, embedded="TypeMeta", omit_empty=True)
    for name in ("kind", "apiVersion")
)


@cache
def wire_fields(model: type[Model]) -> tuple[WireField, ...]:
    """The fields of a model, in the order Go declares (and therefore dumps) them."""
    hints = get_type_hints(model, include_extras=True)
    fields = list(TYPE_META) if model.has_type_meta else []
    for attr, info in model.model_fields.items():
        hint, json = hints[attr], info.alias or attr
        markers = _markers(hint)
        if NOT_WIRED in markers:
            continue
        fields.append(
            WireField(
                attr,
                json,
                json if model.core_type else _go_name(json),
                _go_type(hint, internal=False),
                _go_type(hint, internal=True),
                next((m.struct for m in markers if isinstance(m, Embedded)), ""),
                OMIT_EMPTY in markers,
            )
        )
    return tuple(fields)


def _markers(hint: Any) -> tuple[Any, ...]:
    return get_args(hint)[1:] if get_origin(hint) is Annotated else ()


def _go_type(hint: Any, *, internal: bool) -> GoType:
    if get_origin(hint) is Annotated:
        for marker in _markers(hint):
            if isinstance(marker, Scalar):
                named = marker.internal or marker.name if internal else marker.name
                return Scalar(marker.kind, named)
            if isinstance(marker, Raw):
                return Interface("runtime.Object") if internal else marker
        hint = get_args(hint)[0]
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (inner,) = (a for a in args if a is not type(None))
        return Pointer(_go_type(inner, internal=internal))
    if origin is tuple:
        return ListOf(_go_type(args[0], internal=internal))
    if origin is Mapping:
        return MapOf(_go_type(args[1], internal=internal))
    return SIMPLE.get(hint) or go_struct(hint, internal=internal)


@cache
def go_struct(model: type[Model], *, internal: bool) -> Struct:
    """The Go struct that a model stands for: the v1 one, or the one of the internal package."""
    fields = tuple(
        StructField(one.internal, one.internal_type, one.attr, one.embedded)
        if internal
        else StructField(one.json, one.type, one.attr, one.embedded)
        for one in wire_fields(model)
    )
    package = "config" if internal and not model.core_type else model.go_package
    return Struct(f"{package}.{model.__name__}", fields)


def _go_name(json: str) -> str:
    first = re.match("[a-z]+", json)
    word = first.group() if first else ""
    return INITIALISMS.get(word, word.capitalize()) + json[len(word) :]


def decode(node: Node, model: type[M], *, internal: bool = False) -> tuple[M, list[str]]:
    """The model a JSON object describes, and the complaints about unknown or repeated fields.

    `internal` reads upstream's internal spelling, in which absent fields are zero.
    """
    kind = go_struct(model, internal=internal)
    tree, complaints = unmarshal(node, kind, zeroes=internal)
    return built(model, tree or {}), complaints


def built(model: type[M], tree: Mapping[str, Any]) -> M:
    """A model from what `unmarshal` has read for its Go struct."""
    makers = _makers(model)
    return model(**{attr: makers[attr](value) for attr, value in tree.items()})


@cache
def _makers(model: type[Model]) -> Mapping[str, Callable[[Any], Any]]:
    hints = get_type_hints(model)
    return {attr: _maker(hints[attr]) for attr in model.model_fields}


def _maker(hint: Any) -> Callable[[Any], Any]:
    """Makes what a field of this type holds of what was read for it: models of dicts."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        # Only of a value that is given, so None is not one of the types.
        return _maker(next(one for one in args if one is not type(None)))
    if origin is tuple:
        item = _maker(args[0])
        return lambda values: tuple(map(item, values))
    if isinstance(hint, type) and issubclass(hint, Model):
        # What is no dict was kept raw: arguments of a plugin.
        return lambda value: built(hint, value) if isinstance(value, dict) else value
    return lambda value: value
