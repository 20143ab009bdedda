"""JSON read into models as strictly, and with the same complaints, as kube-scheduler does it.

Three kinds of complaint, in falling order of precedence: a duration (or another self-decoding
type) that cannot be read ends decoding at once; of all values of a wrong type the first is
reported; unknown and repeated fields are collected, and do not stop anything by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from kscheduler.config.duration import Duration, parse_duration
from kscheduler.config.plugin_args import RawArgs
from kscheduler.config.wire import (
    ListOf,
    MapOf,
    Marker,
    Model,
    Optional,
    Scalar,
    Struct,
    WireField,
    WireType,
    go_type,
    wire_fields,
)
from kscheduler.gotext.base64_text import decode_base64
from kscheduler.gotext.json_text import Node
from kscheduler.gotext.values import float32
from kscheduler.logs import quote

M = TypeVar("M", bound=Model)

MAX_STRICT_ERRORS = 100
INTEGER_BITS = {"int32": 32, "int64": 64, "uint8": 8}
ZEROES = {"string": "", "bool": False, "int32": 0, "int64": 0, "uint8": 0, "float32": 0.0}
BYTE = Scalar("uint8", "uint8")


class DecodeError(ValueError):
    """A value has the wrong type or cannot be read."""


def decode(node: Node, model: type[M], *, internal: bool = False) -> tuple[M, list[str]]:
    """The model a JSON object describes, and the complaints about unknown or repeated fields.

    `internal` reads upstream's internal spelling, in which absent fields are zero.
    """
    decoder = _Decoder(internal=internal)
    tree = decoder.value(node, Struct(model))
    if decoder.first_mismatch is not None:
        raise DecodeError(decoder.first_mismatch)
    return model.model_validate(tree or decoder.zero(Struct(model))), decoder.complaints


class _Decoder:
    def __init__(self, *, internal: bool) -> None:
        self.internal = internal
        self.first_mismatch: str | None = None
        self.complaints: list[str] = []
        self._struct = ""  # the Go struct that holds the field being read
        self._fields: list[str] = []  # the names that lead to it, without indexes
        self._path = ""  # the same with indexes, for the strict complaints

    def value(self, node: Node, wire: WireType) -> Any:
        """The value in Python, or None where null leaves things as they are."""
        match wire:
            case Optional(inner=inner):
                return None if node.kind == "null" else self.value(node, inner)
            case _ if wire is Duration:
                return self._duration(node)
            case _ if node.kind == "null":
                return None
            case Marker():
                return self._raw(node, wire)
            case Struct(model=model):
                return self._object(node, model)
            case ListOf(item=item):
                return self._list(node, wire, item)
            case MapOf(value=item):
                return self._map(node, wire, item)
            case Scalar():
                return self._scalar(node, wire)
            case _:
                return self._bytes(node)

    def zero(self, wire: WireType) -> Any:
        match wire:
            case Scalar(kind=kind):
                return ZEROES[kind]
            case Struct(model=model):
                return self._with_zeroes({}, model)
            case ListOf():
                return ()
            case MapOf():
                return {}
            case Optional() | Marker():
                return None
            case _:
                return Duration(0) if wire is Duration else b""

    def _with_zeroes(self, given: dict[str, Any], model: type[Model]) -> dict[str, Any]:
        if not self.internal:
            return given
        fields = [f for f in wire_fields(model) if f.attr]
        return {f.attr: self.zero(f.type) for f in fields} | given

    def _object(self, node: Node, model: type[Model]) -> dict[str, Any]:
        if node.kind != "object":
            self._mismatch(node.kind, Struct(model))
            return {}
        fields = {f.name(internal=self.internal): f for f in wire_fields(model)}
        given: dict[str, Any] = {}
        seen: set[str] = set()
        for key, child in node.members:
            field = fields.get(key)
            if field is None:
                self._complain("unknown field", key)
                continue
            if key in seen:
                self._complain("duplicate field", key)
            seen.add(key)
            with self._inside(model, field):
                value = self.value(child, field.type)
            if value is not None and field.attr:
                given[field.attr] = value
        return self._with_zeroes(given, model)

    @contextmanager
    def _inside(self, model: type[Model], field: WireField) -> Iterator[None]:
        outer = self._struct, self._fields, self._path
        name = field.name(internal=self.internal)
        self._struct = model.__name__
        self._fields = [*self._fields, *filter(None, (field.embedded, name))]
        self._path = f"{self._path}.{name}" if self._path else name
        yield
        self._struct, self._fields, self._path = outer

    @contextmanager
    def _at(self, subscript: str) -> Iterator[None]:
        outer, self._path = self._path, self._path + subscript
        yield
        self._path = outer

    def _list(self, node: Node, wire: WireType, item: WireType) -> tuple[Any, ...]:
        if node.kind != "array":
            self._mismatch(node.kind, wire)
            return ()
        values = []
        for i, child in enumerate(node.items):
            with self._at(f"[{i}]"):
                value = self.value(child, item)
            values.append(self.zero(item) if value is None else value)
        return tuple(values)

    def _map(self, node: Node, wire: WireType, item: WireType) -> dict[str, Any]:
        if node.kind != "object":
            self._mismatch(node.kind, wire)
            return {}
        values: dict[str, Any] = {}
        for key, child in node.members:
            if key in values:
                self._complain("duplicate field", key)
            with self._at(f".{key}"):
                value = self.value(child, item)
            values[key] = self.zero(item) if value is None else value
        return values

    def _scalar(self, node: Node, wire: Scalar) -> Any:
        match wire.kind, node.kind:
            case "string", "string":
                return node.text
            case "bool", "bool":
                return node.raw == "true"
            case "float32", "number":
                return self._float(node, wire)
            case (("int32" | "int64" | "uint8"), "number"):
                return self._integer(node, wire)
            case _:
                self._mismatch(node.kind, wire)
                return None

    def _integer(self, node: Node, wire: Scalar) -> int | None:
        bits = INTEGER_BITS[wire.kind]
        least, limit = (0, 1 << bits) if wire is BYTE else (-(1 << bits - 1), 1 << bits - 1)
        digits = node.raw.removeprefix("-")
        if digits.isdigit() and len(digits) < 20 and least <= int(node.raw) < limit:
            return int(node.raw)
        self._mismatch(f"number {node.raw}", wire)
        return None

    def _float(self, node: Node, wire: Scalar) -> float:
        value = float32(float(node.raw))
        if math.isinf(value):
            self._mismatch(f"number {node.raw}", wire)
        return value

    def _duration(self, node: Node) -> Duration:
        if node.kind not in ("string", "null"):
            raise DecodeError(self._cannot(node.kind, "string"))
        try:
            return parse_duration(node.text)
        except ValueError as error:
            raise DecodeError(str(error)) from error

    def _raw(self, node: Node, wire: WireType) -> RawArgs | None:
        if self.internal:
            self._mismatch(node.kind, wire)
            return None
        return RawArgs(text=node.raw)

    def _bytes(self, node: Node) -> bytes | None:
        if node.kind == "array":
            return bytes(v or 0 for v in self._list(node, bytes, BYTE))
        if node.kind != "string":
            self._mismatch(node.kind, bytes)
            return None
        try:
            return decode_base64(node.text.encode())
        except ValueError as error:
            self.first_mismatch = self.first_mismatch or str(error)
            return None

    def _mismatch(self, found: str, wire: WireType) -> None:
        if self.first_mismatch is None:
            self.first_mismatch = self._cannot(found, go_type(wire, internal=self.internal))

    def _cannot(self, found: str, wanted: str) -> str:
        place = "value"
        if self._fields:
            place = f"struct field {self._struct}.{'.'.join(self._fields)}"
        return f"json: cannot unmarshal {found} into Go {place} of type {wanted}"

    def _complain(self, problem: str, field: str) -> None:
        text = f"{problem} {quote(f'{self._path}.{field}' if self._path else field)}"
        if text not in self.complaints and len(self.complaints) < MAX_STRICT_ERRORS:
            self.complaints.append(text)
