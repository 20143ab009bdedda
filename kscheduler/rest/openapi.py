"""OpenAPI documents, as small as kubectl lets them be.

Version 3 per group version, for `kubectl explain`, for merge rules of `kubectl apply`, and to say
that field validation happens on the server. Version 2 in one document, for aggregators and for
clients before 1.27, which want it in protobuf.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from kscheduler.rest.resources import ServedResource

Json = dict[str, Any]

REF = "#/components/schemas/"
PROTOBUF_V2 = "application/com.github.proto-openapi.spec.v2"
PROTOBUF_V2_CONTENT_TYPE = f"{PROTOBUF_V2}.v1.0+protobuf"
# Documents of version 3 carry their hash in the URL.
CACHED = "public, max-age=31536000"

_GVK = "x-kubernetes-group-version-kind"
_WRITE_OPTIONS = ("dryRun", "fieldManager", "fieldValidation", "force")
_PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)


class OpenApi:
    """The documents of a server, each made when it is first asked for.

    `schemas` makes the schemas of some resources and all that they refer to (by `REF`), by name;
    `name_of` says which of them is a resource's own.
    """

    def __init__(
        self,
        rows: Sequence[ServedResource],
        schemas: Callable[[Sequence[ServedResource]], dict[str, Json]],
        name_of: Callable[[ServedResource], str],
        *,
        title: str,
        version: str,
    ) -> None:
        self._rows = rows
        self._schemas_of = schemas
        self._name_of = name_of
        self._info = {"title": title, "version": version}
        self.v3_document = lru_cache(maxsize=64)(self._v3_document)
        self.v2_document = lru_cache(maxsize=2)(self._v2_document)
        self.v2_protobuf = lru_cache(maxsize=2)(self._v2_protobuf)

    def v3_index(self) -> Json:
        """The URLs of the documents; their hash lets clients keep what they have."""
        paths = {}
        for root in self._group_versions():
            known = f"{self._info['version']}/{root}".encode()
            digest = hashlib.sha256(known).hexdigest()[:32].upper()
            paths[root] = {"serverRelativeURL": f"/openapi/v3/{root}?hash={digest}"}
        return {"paths": paths}

    def _v3_document(self, root: str) -> bytes | None:
        """The document of `api/v1` or `apis/<group>/<version>`; None when there is none."""
        rows = self._group_versions().get(root)
        if rows is None:
            return None
        document = {
            "openapi": "3.0.0",
            "info": self._info,
            "paths": {path: item for row in rows for path, item in self._v3_paths(row).items()},
            "components": {"schemas": self._schemas(rows)},
        }
        return msgspec.json.encode(document)

    def _v2_document(self, *others: bytes) -> bytes:
        """The whole API in JSON, with the documents of other servers merged in."""
        return msgspec.json.encode(_merged_v2(self._v2(), others))

    def _v2_protobuf(self, *others: bytes) -> bytes:
        """The whole API in gnostic's protobuf."""
        document = _merged_v2(self._v2(), others)
        # Paths without a patch say nothing that clients look for.
        paths = {path: item for path, item in document["paths"].items() if "patch" in item}
        info = _text(1, document["info"]["title"]) + _text(2, document["info"]["version"])
        return b"".join(
            (
                _text(1, document["swagger"]),
                _message(2, info),
                _message(8, *_named(2, paths, _path_item)),
                _message(9, *_named(1, document["definitions"], _schema)),
            )
        )

    def _group_versions(self) -> dict[str, list[ServedResource]]:
        found: dict[str, list[ServedResource]] = {}
        for row in self._rows:
            root = f"apis/{row.group}/{row.version}" if row.group else f"api/{row.version}"
            found.setdefault(root, []).append(row)
        return found

    def _schemas(self, rows: Sequence[ServedResource]) -> dict[str, Json]:
        found = dict(self._schemas_of(rows))
        for row in rows:
            name = self._name_of(row)
            found[name] = {**found[name], _GVK: [_gvk(row)]}
        return found

    def _v3_paths(self, row: ServedResource) -> dict[str, Json]:
        collection = row.path("{namespace}" if row.namespaced else "")
        one = f"{collection}/{{name}}"
        reference = {"$ref": REF + self._name_of(row)}
        paths: dict[str, Json] = {}
        if "create" in row.verbs:
            paths.setdefault(collection, {})["post"] = _operation(row, "post", reference)
        if "list" in row.verbs:
            paths.setdefault(collection, {})["get"] = _operation(row, "list")
            paths[one] = {"get": _operation(row, "get")}
        if "patch" in row.verbs or "create" in row.verbs:
            # kubectl looks here, and only here, for whether fields are validated by the server.
            paths.setdefault(one, {})["patch"] = {
                **_operation(row, "patch"),
                "requestBody": {"content": {kind: {} for kind in _PATCH_TYPES}},
            }
        return paths

    def _v2(self) -> Json:
        return {
            "swagger": "2.0",
            "info": self._info,
            "paths": {
                f"{row.path('{namespace}' if row.namespaced else '')}/{{name}}": {
                    "patch": {
                        "consumes": list(_PATCH_TYPES),
                        "parameters": [
                            {"name": name, "in": "query", "type": "string"}
                            for name in _WRITE_OPTIONS
                        ],
                        "responses": {"200": {"description": "OK"}},
                        _GVK: _gvk(row),
                    }
                }
                for row in self._rows
                if "patch" in row.verbs
            },
            "definitions": _v2_references(self._schemas(list(self._rows))),
        }


def _operation(row: ServedResource, action: str, body: Json | None = None) -> Json:
    operation: Json = {
        "operationId": f"{action}{row.version.capitalize()}{row.kind}",
        "parameters": [
            {"name": name, "in": "query", "schema": {"type": "string"}} for name in _WRITE_OPTIONS
        ],
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": action,
        _GVK: _gvk(row),
    }
    if body is not None:
        operation["requestBody"] = {"content": {"application/json": {"schema": body}}}
    return operation


def _gvk(row: ServedResource) -> Json:
    return {"group": row.group, "version": row.version, "kind": row.kind}


def _merged_v2(document: Json, others: Iterable[bytes]) -> Json:
    """The document with paths and definitions of others; what both have, as metadata, is its own.

    One that cannot be read is left out.
    """
    for encoded in others:
        try:
            other = msgspec.json.decode(encoded, type=dict[str, Any])
        except msgspec.DecodeError:
            continue
        for part in ("paths", "definitions"):
            document[part] = (other.get(part) or {}) | document[part]
    return document


def _v2_references(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {
            name: inner.replace(REF, "#/definitions/")
            if name == "$ref" and isinstance(inner, str)
            else _v2_references(inner)
            for name, inner in schema.items()
        }
    return [_v2_references(inner) for inner in schema] if isinstance(schema, list) else schema


# The v2 document in protobuf, the only form that kubectl before 1.27 reads. A message is a run of
# fields, each a tag and a value; everything here is a string, a flag or another message. Field
# numbers are those of the public gnostic schema.


def _path_item(item: Json) -> bytes:
    operation = item["patch"]
    parts = [_text(7, kind) for kind in operation.get("consumes", ())]
    for parameter in operation.get("parameters", ()):
        if parameter.get("in") != "query":
            continue
        # ParametersItem > Parameter > NonBodyParameter > QueryParameterSubSchema
        schema = _text(2, "query") + _text(4, parameter["name"]) + _text(6, parameter["type"])
        parts.append(_message(8, _message(1, _message(2, _message(3, schema)))))
    return _message(8, *parts, _vendor_extensions(13, operation))


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
    """Fields named x-…; their values travel as YAML text, and JSON is YAML."""
    return b"".join(
        _message(number, _text(1, name), _message(2, _text(2, json.dumps(value))))
        for name, value in holder.items()
        if name.startswith("x-")
    )


def _named(number: int, items: dict[str, Json], encode: Callable[[Json], bytes]) -> Iterable[bytes]:
    """Entries of a map: messages of a name and a value."""
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
