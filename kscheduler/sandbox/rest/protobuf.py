"""Protobuf request bodies, for the kinds that clients like to send that way.

kubectl's `create` subcommands and client-go's typed clients write protobuf when they can; answers
may be JSON, which they all accept. The messages that are read are listed in `protobuf_messages`. A
kind or a field that is not listed is refused, never dropped.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import msgspec

from kscheduler.api.timestamps import format_micro_time_ns, format_time_ns
from kscheduler.sandbox.rest.protobuf_messages import KINDS, MESSAGES, Field

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\0"
_NANO = 10**9
_TWO_64 = 2**64


class ProtobufError(ValueError):
    """The body is damaged, or speaks of something that is not listed."""


def decode(body: bytes) -> dict[str, Any]:
    """The object in an envelope, as its JSON form."""
    if not body.startswith(_MAGIC):
        raise ProtobufError("provided data does not appear to be a protobuf message")
    envelope = dict(_fields(body[len(_MAGIC) :]))
    about = {number: _text(value) for number, value in _fields(_bytes(envelope.get(1, b"")))}
    version, kind = about.get(1, ""), about.get(2, "")
    # Options come under the version of whatever they are about.
    message = kind if kind == "DeleteOptions" else KINDS.get((version, kind))
    if message is None:
        raise ProtobufError(f"{kind} in version {version} is not read in protobuf")
    return {"apiVersion": version, "kind": kind, **_message(_bytes(envelope.get(2, b"")), message)}


def _message(body: bytes, name: str) -> dict[str, Any]:
    """Go writes fields that are not set as zero; those are left out unless they can be null."""
    known, item = MESSAGES[name], dict[str, Any]()
    for number, raw in _fields(body):
        field = known.get(number)
        if field is None:
            raise ProtobufError(f"field {number} of {name} is not read in protobuf")
        if field.is_list:
            item.setdefault(field.name, []).append(_value(raw, field.type))
        elif field.is_map:
            key, value = _entry(_bytes(raw), field)
            item.setdefault(field.name, {})[key] = value
        else:
            value = _value(raw, field.type)
            if value or field.is_pointer:
                item[field.name] = value
    return item


def _entry(body: bytes, field: Field) -> tuple[str, Any]:
    parts = dict(_fields(body))
    return _text(parts.get(1, b"")), _value(parts.get(2, b""), field.type)


def _value(raw: bytes | int, kind: str) -> Any:
    match kind:
        case "string":
            return _text(raw)
        case "int":
            return _signed(raw)
        case "bool":
            return bool(raw)
        case "bytes":
            return base64.b64encode(_bytes(raw)).decode()
        case "time" | "microtime":
            return _time(_bytes(raw), micro=kind == "microtime")
        case "quantity":
            return _text(dict(_fields(_bytes(raw))).get(1, b""))
        case "json":
            return msgspec.json.decode(_bytes(dict(_fields(_bytes(raw))).get(1, b"")) or b"{}")
        case "int-or-string":
            return _int_or_string(_bytes(raw))
    return _message(_bytes(raw), kind)


def _time(body: bytes, *, micro: bool) -> str | None:
    parts = dict(_fields(body))
    if not parts:
        return None
    nanoseconds = _signed(parts.get(1, 0)) * _NANO + _signed(parts.get(2, 0))
    return format_micro_time_ns(nanoseconds) if micro else format_time_ns(nanoseconds)


def _int_or_string(body: bytes) -> int | str:
    parts = dict(_fields(body))
    return _text(parts.get(3, b"")) if parts.get(1) else _signed(parts.get(2, 0))


def _fields(body: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Number and raw value of each field; only varints and length-delimited values occur."""
    position = 0
    while position < len(body):
        tag, position = _varint(body, position)
        match tag & 7:
            case 0:
                value, position = _varint(body, position)
                yield tag >> 3, value
            case 2:
                length, position = _varint(body, position)
                if position + length > len(body):
                    raise ProtobufError("unexpected end of protobuf message")
                yield tag >> 3, body[position : position + length]
                position += length
            case wire_type:
                raise ProtobufError(f"wire type {wire_type} does not occur in API objects")


def _varint(body: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(body):
            break
        byte = body[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ProtobufError("damaged number in protobuf message")


def _bytes(raw: bytes | int) -> bytes:
    if isinstance(raw, int):
        raise ProtobufError("a number where a text or message was expected")
    return raw


def _text(raw: bytes | int) -> str:
    try:
        return _bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise ProtobufError(f"a text that is not UTF-8: {error}") from error


def _signed(raw: bytes | int) -> int:
    if isinstance(raw, bytes):
        raise ProtobufError("a text or message where a number was expected")
    return raw - _TWO_64 if raw >= _TWO_64 // 2 else raw
