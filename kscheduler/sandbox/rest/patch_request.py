"""PATCH: from a content type and a body to a function that edits an object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kscheduler.sandbox import fields, status
from kscheduler.sandbox.metadata import now
from kscheduler.sandbox.patching.apply import apply_configuration
from kscheduler.sandbox.patching.json_patch import json_patch, merge_patch
from kscheduler.sandbox.patching.shapes import shape_of_kind
from kscheduler.sandbox.patching.strategic import strategic_merge
from kscheduler.sandbox.rest import negotiation
from kscheduler.sandbox.store import Object

Edit = Callable[[Object], Object]


def edit_for(
    content_type: str, body: bytes, kind: str, query: Mapping[str, str], subresource: str = ""
) -> tuple[Edit, bool]:
    """How to change an object of `kind`, and whether the patch may also create it."""
    media, patch = negotiation.decode_patch(content_type, body)
    match media:
        case negotiation.JSON_PATCH:
            return lambda item: _an_object(json_patch(item, patch)), False
        case negotiation.MERGE_PATCH:
            return lambda item: merge_patch(item, patch), False
        case negotiation.APPLY_PATCH:
            return _apply(patch, kind, query, subresource), True
    return lambda item: strategic_merge(item, patch, shape_of_kind(kind)), False


def _apply(wanted: Any, kind: str, query: Mapping[str, str], subresource: str) -> Edit:
    manager = query.get("fieldManager", "")
    if not manager:
        error = fields.required("fieldManager", "is required for apply patch")
        raise status.invalid("PatchOptions", "", [error], group="meta.k8s.io")
    if (wanted.get("metadata") or {}).get("managedFields"):
        raise status.bad_request("metadata.managedFields must be nil")
    if not wanted.get("apiVersion") or not wanted.get("kind"):
        raise status.bad_request("error decoding YAML: Object 'Kind' is missing")
    force = query.get("force", "false").lower() not in ("false", "0")

    def edit(item: Object) -> Object:
        return apply_configuration(
            item or {"metadata": {}},
            wanted,
            shape_of_kind(kind),
            manager=manager,
            now=now(),
            subresource=subresource,
            force=force,
        )

    return edit


def _an_object(patched: Any) -> Object:
    if not isinstance(patched, dict):
        raise status.bad_request("error decoding patch: the result is not an object")
    return patched
