"""OpenAPI documents, as small as kubectl lets them be.

Version 3 per group version, for `kubectl explain`, for merge rules of `kubectl apply`, and to say
that field validation happens on the server. Version 2 in one document, for clients before 1.27,
which want it in protobuf.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import msgspec

from kscheduler.sandbox.catalog import schemas
from kscheduler.sandbox.catalog.openapi_proto import encode_document
from kscheduler.sandbox.resources import RESOURCES, Resource
from kscheduler.version import KUBERNETES_VERSION

Json = dict[str, Any]

_INFO = {"title": "Kubernetes", "version": KUBERNETES_VERSION}
_GVK = "x-kubernetes-group-version-kind"
_WRITE_OPTIONS = ("dryRun", "fieldManager", "fieldValidation", "force")
_PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)


def _group_versions() -> dict[str, list[Resource]]:
    found: dict[str, list[Resource]] = {}
    for row in RESOURCES:
        root = f"apis/{row.group}/{row.version}" if row.group else f"api/{row.version}"
        found.setdefault(root, []).append(row)
    return found


def v3_index() -> Json:
    """Where the documents are; the hash lets clients keep them."""
    paths = {
        root: {"serverRelativeURL": f"/openapi/v3/{root}?hash={_fingerprint(root)}"}
        for root in _group_versions()
    }
    return {"paths": paths}


@lru_cache(maxsize=64)
def v3_document(root: str) -> bytes | None:
    """The document of `api/v1` or `apis/<group>/<version>`; None when there is none."""
    rows = _group_versions().get(root)
    if rows is None:
        return None
    document = {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": {path: item for row in rows for path, item in _v3_paths(row).items()},
        "components": {"schemas": _schemas(rows)},
    }
    return msgspec.json.encode(document)


def _fingerprint(root: str) -> str:
    return hashlib.sha256(f"{KUBERNETES_VERSION}/{root}".encode()).hexdigest()[:32].upper()


def _schemas(rows: list[Resource]) -> dict[str, Json]:
    found = schemas.closure([schemas.model_name(row) for row in rows])
    for row in rows:
        name = schemas.model_name(row)
        found[name] = {**found[name], _GVK: [_gvk(row)]}
    return found


def _v3_paths(row: Resource) -> dict[str, Json]:
    collection = row.path("{namespace}" if row.namespaced else "")
    one = f"{collection}/{{name}}"
    reference = {"$ref": schemas.REF + schemas.model_name(row)}
    paths: dict[str, Json] = {}
    if "create" in row.verbs:
        paths.setdefault(collection, {})["post"] = _operation(row, "post", reference)
    if "list" in row.verbs:
        paths.setdefault(collection, {})["get"] = _operation(row, "list")
        paths[one] = {
            "get": _operation(row, "get"),
            "patch": {
                **_operation(row, "patch"),
                "requestBody": {"content": {kind: {} for kind in _PATCH_TYPES}},
            },
        }
    return paths


def _operation(row: Resource, action: str, body: Json | None = None) -> Json:
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


def _gvk(row: Resource) -> Json:
    return {"group": row.group, "version": row.version, "kind": row.kind}


@lru_cache(maxsize=1)
def v2_document() -> bytes:
    """The whole API in JSON."""
    return msgspec.json.encode(_v2())


@lru_cache(maxsize=1)
def v2_protobuf() -> bytes:
    return encode_document(_v2())


def _v2() -> Json:
    served = [row for row in RESOURCES if "list" in row.verbs]
    return {
        "swagger": "2.0",
        "info": _INFO,
        "paths": {
            f"{row.path('{namespace}' if row.namespaced else '')}/{{name}}": {
                "patch": {
                    "consumes": list(_PATCH_TYPES),
                    "parameters": [
                        {"name": name, "in": "query", "type": "string"} for name in _WRITE_OPTIONS
                    ],
                    "responses": {"200": {"description": "OK"}},
                    _GVK: _gvk(row),
                }
            }
            for row in served
        },
        "definitions": _v2_references(_schemas(list(RESOURCES))),
    }


def _v2_references(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {
            name: inner.replace(schemas.REF, "#/definitions/")
            if name == "$ref" and isinstance(inner, str)
            else _v2_references(inner)
            for name, inner in schema.items()
        }
    return [_v2_references(inner) for inner in schema] if isinstance(schema, list) else schema
