"""Schemas of the explanation API, read off its structs: docstrings and comments are descriptions.

The text has one home, the source of `kscheduler.api.explanation`: a struct's docstring describes
it, and the comment above a field describes the field. The source is read when the first client asks
for a schema; without it (a build that ships bytecode only) schemas have no descriptions of fields.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import ModuleType, UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

from kscheduler.api import explanation, meta
from kscheduler.api.meta import ApiStruct
from kscheduler.rest.openapi import REF, OpenApi
from kscheduler.rest.resources import ServedResource
from kscheduler.serving.explanation.resources import BY_PLURAL, RESOURCES
from kscheduler.version import __version__

Json = dict[str, Any]

_PREFIX = "dev.kscheduler.v1alpha1."
_META_PREFIX = "io.k8s.apimachinery.pkg.apis.meta.v1."
_META_TEXT = (
    "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/"
    "sig-architecture/api-conventions.md#metadata"
)
_PRIMITIVES: dict[Any, Json] = {
    str: {"type": "string"},
    int: {"type": "integer", "format": "int64"},
    float: {"type": "number", "format": "double"},
    bool: {"type": "boolean"},
    msgspec.Raw: {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
_KIND_FIELDS: dict[str, Json] = {
    "apiVersion": {"type": "string", "description": "The version of the schema of this object."},
    "kind": {"type": "string", "description": "The kind of this object."},
}


@lru_cache(maxsize=1)
def openapi() -> OpenApi:
    return OpenApi(RESOURCES, _schemas, _name_of, title="kscheduler", version=__version__)


def _name_of(row: ServedResource) -> str:
    return _PREFIX + row.kind


def _schemas(rows: Sequence[ServedResource]) -> dict[str, Json]:
    """The schemas of these resources and of all that they are made of."""
    found: dict[str, Json] = {}
    waiting: list[type[ApiStruct]] = [BY_PLURAL[row.plural].resource.struct for row in rows]
    tops = set(waiting)
    while waiting:
        struct = waiting.pop()
        if _schema_name(struct) in found:
            continue
        properties = dict(_KIND_FIELDS) if struct in tops else {}
        for field in msgspec.structs.fields(struct):
            schema, parts = _type(field.type)
            waiting += parts
            said = _comments(explanation).get((struct.__name__, field.name), "")
            if struct in tops and field.name == "metadata":
                said = _META_TEXT
            properties[field.encode_name] = ({"description": said} if said else {}) | schema
        found[_schema_name(struct)] = {
            "type": "object",
            "description": inspect.cleandoc(struct.__doc__ or "").replace("\n", " "),
            "properties": properties,
        }
    return found


def _schema_name(struct: type) -> str:
    prefix = _META_PREFIX if struct.__module__ == meta.__name__ else _PREFIX
    return prefix + struct.__name__


def _type(kind: Any) -> tuple[Json, list[type[ApiStruct]]]:
    """The schema of a field's type, and the structs that it refers to."""
    if kind in _PRIMITIVES:
        return dict(_PRIMITIVES[kind]), []
    if get_origin(kind) in (Union, UnionType):
        (inner,) = (one for one in get_args(kind) if one is not type(None))
        return _type(inner)
    if get_origin(kind) is tuple:
        schema, parts = _type(get_args(kind)[0])
        return {"type": "array", "items": schema}, parts
    if get_origin(kind) is Mapping:
        schema, parts = _type(get_args(kind)[1])
        return {"type": "object", "additionalProperties": schema}, parts
    # By way of allOf, as a reference has no description of its own in OpenAPI 3.0.
    return {"allOf": [{"$ref": REF + _schema_name(kind)}]}, [kind]


@lru_cache(maxsize=1)
def _comments(module: ModuleType) -> Mapping[tuple[str, str], str]:
    """Comments above fields, by class and field."""
    try:
        source = inspect.getsource(module)
    except OSError:
        return {}
    lines, found = source.splitlines(), {}
    structs = (one for one in ast.parse(source).body if isinstance(one, ast.ClassDef))
    for struct in structs:
        for field in struct.body:
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                first = last = field.lineno - 1
                while lines[first - 1].lstrip().startswith("#"):
                    first -= 1
                said = (line.strip().removeprefix("#").strip() for line in lines[first:last])
                found[struct.name, field.target.id] = " ".join(said)
    return found
