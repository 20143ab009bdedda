"""The OpenAPI v2 document in protobuf, the only form that kubectl before 1.27 reads.

A message is a run of fields, each a tag and a value; everything here is a string, a flag or another
message. Field numbers are those of the public gnostic schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

Json = dict[str, Any]


def encode_document(document: Json) -> bytes:
    return b"".join(
        (
            _text(1, document["swagger"]),
            _message(2, _text(1, document["info"]["title"]), _text(2, document["info"]["version"])),
            _message(8, *_named(2, document["paths"], _path_item)),
            _message(9, *_named(1, document["definitions"], _schema)),
        )
    )


def _path_item(item: Json) -> bytes:
    return _message(8, _operation(item["patch"]))


def _operation(operation: Json) -> bytes:
    parameters = [_query_parameter(one) for one in operation["parameters"]]
    return b"".join(
        (
            *(_text(7, kind) for kind in operation["consumes"]),
            *(_message(8, parameter) for parameter in parameters),
            _vendor_extensions(13, operation),
        )
    )


def _query_parameter(parameter: Json) -> bytes:
    """ParametersItem > Parameter > NonBodyParameter > QueryParameterSubSchema."""
    schema = _text(2, "query") + _text(4, parameter["name"]) + _text(6, parameter["type"])
    return _message(1, _message(2, _message(3, schema)))


def _schema(schema: Json) -> bytes:
    parts = [
        _text(1, schema.get("$ref", "")),
        _text(2, schema.get("format", "")),
        _text(4, schema.get("description", "")),
        *(_text(19, name) for name in schema.get("required", ())),
    ]
    if "additionalProperties" in schema:
        parts.append(_message(21, _message(1, _schema(schema["additionalProperties"]))))
    if "type" in schema:
        parts.append(_message(22, _text(1, schema["type"])))
    if "items" in schema:
        parts.append(_message(23, _message(1, _schema(schema["items"]))))
    if "properties" in schema:
        parts.append(_message(25, *_named(1, schema["properties"], _schema)))
    parts.append(_vendor_extensions(31, schema))
    return b"".join(parts)


def _vendor_extensions(number: int, holder: Json) -> bytes:
    """Their values travel as YAML text; JSON is YAML."""
    return b"".join(
        _message(number, _text(1, name), _message(2, _text(2, json.dumps(value))))
        for name, value in holder.items()
        if name.startswith("x-")
    )


def _named(number: int, items: dict[str, Json], encode: Callable[[Json], bytes]) -> Iterable[bytes]:
    for name, item in items.items():
        yield _message(number, _text(1, name), _message(2, encode(item)))


def _text(number: int, text: str) -> bytes:
    return _message(number, text.encode()) if text else b""


def _message(number: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return _varint(number << 3 | 2) + _varint(len(body)) + body


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
