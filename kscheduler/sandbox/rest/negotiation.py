"""Content negotiation: what a client sends and what it would like to get."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

from kscheduler.rest import status
from kscheduler.rest.status import StatusError
from kscheduler.sandbox.kinds.resource import Resource
from kscheduler.sandbox.rest import protobuf
from kscheduler.sandbox.rest.representation import Representation, as_table, metadata_only, plain

SERVED = ("application/json", "application/yaml")
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
_READABLE = frozenset({"", "*/*", *SERVED, protobuf.MEDIA_TYPE})
_ANY = frozenset({"application/json", "application/*", "*/*"})


def representation(accept: str, resource: Resource, include: str) -> Representation:
    """The representation an Accept header asks for; 406 when there is none."""
    for media, parameters in _choices(accept):
        if media not in _ANY:
            continue
        match parameters.get("as"):
            case None:
                return plain(resource)
            case "Table":
                return as_table(resource, include or "Metadata")
            case "PartialObjectMetadata" | "PartialObjectMetadataList":
                return metadata_only()
    raise status.not_acceptable(SERVED)


def aggregated_discovery_version(accept: str) -> str | None:
    """The version of aggregated discovery a client prefers; None for the older documents."""
    for media, parameters in _choices(accept):
        if media in _ANY:
            wanted = parameters.get("as") == "APIGroupDiscoveryList"
            if not wanted:
                return None
            if parameters.get("v") in ("v2", "v2beta1"):
                return parameters["v"]
    return None


def _choices(accept: str) -> Iterator[tuple[str, dict[str, str]]]:
    for choice in (accept or "*/*").split(","):
        media, *rest = choice.split(";")
        pairs = (part.partition("=") for part in rest)
        yield media.strip().lower(), {key.strip(): value.strip() for key, _, value in pairs}


def decode_body(content_type: str, body: bytes) -> Any:
    """A body in JSON, YAML or protobuf; an empty one is an empty object."""
    media = _media(content_type)
    if media not in _READABLE:
        raise status.unsupported_media_type(SERVED)
    if not body:
        return {}
    match media:
        case "application/yaml":
            return _decode_yaml(body)
        case protobuf.MEDIA_TYPE:
            try:
                return protobuf.decode(body)
            except (protobuf.ProtobufError, msgspec.DecodeError) as error:
                refusal = status.unsupported_media_type(SERVED)
                raise StatusError(refusal.code, refusal.reason, f"{refusal}: {error}") from error
    return _decode_json(body)


def decode_object(content_type: str, body: bytes, resource: Resource) -> dict[str, Any]:
    """An object of the resource's kind, or what a client wrongly sent instead as an error."""
    item = decode_body(content_type, body)
    if not isinstance(item, dict):
        raise status.bad_request(
            "couldn't get version/kind; json parse error: json: cannot unmarshal "
            "into Go value of type struct"
        )
    version, kind = item.get("apiVersion"), item.get("kind")
    if version and version != resource.group_version:
        raise status.bad_request(
            f"the API version in the data ({version}) does not match "
            f"the expected API version ({resource.group_version})"
        )
    if kind and kind != resource.kind:
        raise status.bad_request(
            f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            f"converting ({kind}) to ({resource.kind}): unknown conversion"
        )
    return {**item, "kind": resource.kind, "apiVersion": resource.group_version}


def decode_patch(content_type: str, body: bytes) -> tuple[str, Any]:
    """The kind of patch and its content; 415 for kinds the server does not know."""
    media = _media(content_type)
    if media not in PATCH_TYPES:
        raise status.unsupported_media_type(PATCH_TYPES)
    patch = _decode_yaml(body) if media == APPLY_PATCH else _decode_json(body)
    if media != JSON_PATCH and not isinstance(patch, dict):
        raise status.bad_request("error decoding patch: a patch of this type is an object")
    return media, patch


def _media(content_type: str) -> str:
    return content_type.split(";")[0].strip().lower()


def _decode_json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise status.bad_request(f"couldn't get version/kind; json parse error: {error}") from error


def _decode_yaml(body: bytes) -> Any:
    try:
        return yaml.safe_load(body) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise status.bad_request(f"error converting YAML to JSON: {error}") from error
