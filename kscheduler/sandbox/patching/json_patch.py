"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386)."""

from __future__ import annotations

import copy
from typing import Any

from kscheduler.rest.status import bad_request, unprocessable

Json = Any
_REFUSED = "the server rejected our request due to an error in our request"
_APPEND = "-"
MAX_OPERATIONS = 10_000


def json_patch(document: Json, operations: Json) -> Json:
    """`document` after all operations; none of them takes effect if one fails."""
    if not isinstance(operations, list) or not all(isinstance(one, dict) for one in operations):
        raise bad_request("error decoding patch: a JSON patch is a list of operations")
    if len(operations) > MAX_OPERATIONS:
        raise bad_request(
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, "
            f"got {len(operations)}"
        )
    patched = copy.deepcopy(document)
    for operation in operations:
        try:
            patched = _apply(patched, operation)
        except (KeyError, IndexError, ValueError, TypeError) as why:
            raise unprocessable(_REFUSED) from why
    return patched


def merge_patch(document: Json, patch: Json) -> Json:
    """`document` with the patch laid over it; null removes, lists replace."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def _apply(document: Json, operation: dict[str, Json]) -> Json:
    path = _pointer(operation["path"])
    match operation["op"]:
        case "add":
            return _add(document, path, operation["value"])
        case "remove":
            return _remove(document, path)
        case "replace":
            _get(document, path)
            return _add(_remove(document, path), path, operation["value"])
        case "move":
            source = _pointer(operation["from"])
            value = _get(document, source)
            return _add(_remove(document, source), path, value)
        case "copy":
            value = copy.deepcopy(_get(document, _pointer(operation["from"])))
            return _add(document, path, value)
        case "test":
            if _get(document, path) != operation.get("value"):
                raise ValueError(f"test failed at {operation['path']}")
            return document
        case unknown:
            raise ValueError(f"unexpected operation {unknown}")


def _pointer(text: str) -> list[str]:
    if text == "":
        return []
    if not text.startswith("/"):
        raise ValueError(f"not a JSON pointer: {text}")
    return [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]


def _get(document: Json, path: list[str]) -> Json:
    for step in path:
        document = document[_index(document, step)]
    return document


def _add(document: Json, path: list[str], value: Json) -> Json:
    if not path:
        return value
    parent = _get(document, path[:-1])
    if isinstance(parent, list):
        position = len(parent) if path[-1] == _APPEND else _index(parent, path[-1], slack=1)
        parent.insert(position, value)
    else:
        parent[path[-1]] = value
    return document


def _remove(document: Json, path: list[str]) -> Json:
    parent = _get(document, path[:-1])
    del parent[_index(parent, path[-1])]
    return document


def _index(parent: Json, step: str, slack: int = 0) -> Any:
    if not isinstance(parent, list):
        return step
    position = int(step)
    if not 0 <= position < len(parent) + slack:
        raise IndexError(step)
    return position
