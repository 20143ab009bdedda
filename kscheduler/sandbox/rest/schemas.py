"""Schemas of the served kinds, read off the official Python client's models.

The models know every field, its JSON name, type and description; the merge rules come from
`patching.shapes`. Importing them takes half a second, so that happens when the first client asks
for a schema or for strict field validation, in a thread of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from kscheduler.rest.openapi import REF
from kscheduler.rest.resources import ServedResource
from kscheduler.sandbox.kinds.merging import Field
from kscheduler.sandbox.kinds.resource import Resource
from kscheduler.sandbox.patching.shapes import SHAPES

Json = dict[str, Any]

_PRIMITIVES: dict[str, Json] = {
    "str": {"type": "string"},
    "int": {"type": "integer", "format": "int64"},
    "float": {"type": "number", "format": "double"},
    "bool": {"type": "boolean"},
    "datetime": {"type": "string", "format": "date-time"},
    "bytes": {"type": "string", "format": "byte"},
    "object": {},
}
_LIST = re.compile(r"List\[(.+)\]")
_MAP = re.compile(r"Dict\[str, (.+)\]")
_MODEL = re.compile(r"(?P<version>[A-Za-z]*?V\d+((alpha|beta)\d+)?)(?P<kind>.+)")


def model_name(resource: ServedResource) -> str:
    """The name of the kind's schema: `v1.Pod`, `corev1.Event`."""
    name = f"{resource.version}.{resource.kind}"
    prefix = resource.group.split(".")[0] or "core"
    return name if name in _models() else prefix + name


def model_exists(api_version: str, kind: str) -> bool:
    """Whether Kubernetes has this kind, be it served here or not."""
    group, _, version = api_version.rpartition("/")
    prefix = group.split(".")[0] or "core"
    name = f"{version}.{kind}"
    return name in _models() or prefix + name in _models()


@lru_cache(maxsize=2048)
def definition(name: str) -> Json:
    """The schema of one model, with references to others by `REF`."""
    model = _models().get(name)
    if model is None:  # a kind of a server that the client has no models of: metrics
        return {"type": "object"}
    shape = SHAPES.get(name.rpartition(".")[2], {})
    fields = {one.serialization_alias or name: one for name, one in model.model_fields.items()}
    properties = {}
    required = []
    for attribute, type_name in model.openapi_types.items():
        json_name = model.attribute_map[attribute]
        field = fields[json_name]
        properties[json_name] = {
            **({"description": field.description} if field.description else {}),
            **_type(type_name),
            **_extensions(shape.get(json_name)),
        }
        if field.is_required():
            required.append(json_name)
    schema: Json = {
        "type": "object",
        "description": (model.__doc__ or "").split("Attributes:")[0].strip(),
        "properties": properties,
    }
    if required:
        schema["required"] = required
    return schema


def closure(names: Iterator[str] | list[str]) -> dict[str, Json]:
    """The named schemas and everything they refer to."""
    found: dict[str, Json] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = definition(name)
            waiting += [ref.removeprefix(REF) for ref in _references(found[name])]
    return found


def unknown_fields(resource: Resource, item: Json) -> list[str]:
    """Paths in `item` that its kind does not have."""
    return list(_unknown(item, {"$ref": REF + model_name(resource)}, ""))


def _unknown(value: Any, schema: Json, path: str) -> Iterator[str]:
    if "$ref" in schema:
        schema = definition(schema["$ref"].removeprefix(REF))
    if isinstance(value, dict) and "properties" in schema:
        for name, inner in value.items():
            where = f"{path}.{name}" if path else name
            if name not in schema["properties"]:
                yield where
            else:
                yield from _unknown(inner, schema["properties"][name], where)
    elif isinstance(value, dict) and "additionalProperties" in schema:
        for name, inner in value.items():
            yield from _unknown(inner, schema["additionalProperties"], f"{path}.{name}")
    elif isinstance(value, list) and "items" in schema:
        for position, inner in enumerate(value):
            yield from _unknown(inner, schema["items"], f"{path}[{position}]")


def _type(name: str) -> Json:
    if match := _LIST.fullmatch(name):
        return {"type": "array", "items": _type(match[1])}
    if match := _MAP.fullmatch(name):
        return {"type": "object", "additionalProperties": _type(match[1])}
    if name in _PRIMITIVES:
        return dict(_PRIMITIVES[name])
    return {"$ref": REF + _schema_name(name)}


def _extensions(field: Field | None) -> Json:
    """Merge rules as kubectl looks for them."""
    if field is None:
        return {}
    found: Json = {}
    merges = bool(field.merge_key or field.is_set)
    strategy = ["merge"] * merges + ["retainKeys"] * field.retains_keys
    if strategy:
        found["x-kubernetes-patch-strategy"] = ",".join(strategy)
    if field.merge_key:
        found["x-kubernetes-patch-merge-key"] = field.merge_key
    if field.map_keys:
        found["x-kubernetes-list-type"] = "map"
        found["x-kubernetes-list-map-keys"] = list(field.map_keys)
    elif field.is_set:
        found["x-kubernetes-list-type"] = "set"
    return found


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"]
        for inner in schema.values():
            yield from _references(inner)


def _schema_name(model: str) -> str:
    """`v1.PodSpec` for the client's `V1PodSpec`: kubectl shows what is behind the dot."""
    match = _MODEL.fullmatch(model)
    return f"{match['version'].lower()}.{match['kind']}" if match else model


@lru_cache(maxsize=1)
def _models() -> dict[str, Any]:
    """The client's models by the names of their schemas."""
    import kubernetes.client.models as models

    return {_schema_name(name): getattr(models, name) for name in dir(models) if _MODEL.match(name)}
