"""Server-side apply: what a manager states it keeps, what it no longer states goes away.

Simplified in one respect: only managers that apply own fields. Ordinary updates and patches leave
no `managedFields` entry, so a conflict arises between two appliers, never between an applier and
`kubectl edit`. Ownership is kept in the usual FieldsV1 form.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from kscheduler.rest.status import StatusError
from kscheduler.sandbox.kinds.merging import LEAF, Field, Shape
from kscheduler.sandbox.patching.shapes import shape_of

Json = Any
Fields = dict[str, Any]  # FieldsV1: nested, leaves are empty objects
Path = tuple[str, ...]
_NOT_OWNED = frozenset({"name", "namespace", "uid", "resourceVersion", "creationTimestamp"})


def apply_configuration(
    live: dict[str, Json],
    wanted: dict[str, Json],
    shape: Shape,
    *,
    manager: str,
    now: str,
    subresource: str = "",
    force: bool = False,
) -> dict[str, Json]:
    """`live` as `manager` wants it. Raises 409 when others own a field with another value."""
    stated = owned_fields(wanted, shape)
    entries = live.get("metadata", {}).get("managedFields", [])
    mine = [entry for entry in entries if _is_by(entry, manager, subresource)]
    others = [entry for entry in entries if not _is_by(entry, manager, subresource)]
    if not force:
        _refuse_conflicts(live, wanted, stated, others)
    merged = _merged(live, wanted, shape)
    kept = set(_leaves(stated)).union(*(_leaves(entry["fieldsV1"]) for entry in others))
    for path in [path for entry in mine for path in _leaves(entry["fieldsV1"])]:
        if path not in kept:
            _discard(merged, path)
    if force:  # what this manager took is no longer theirs; an entry without fields goes
        reduced = [entry | {"fieldsV1": _minus(entry["fieldsV1"], stated)} for entry in others]
        others = [entry for entry in reduced if entry["fieldsV1"]]
    entry = {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": wanted["apiVersion"],
        "time": now,
        "fieldsType": "FieldsV1",
        "fieldsV1": stated,
    }
    if subresource:
        entry["subresource"] = subresource
    merged.setdefault("metadata", {})["managedFields"] = [*others, entry]
    return merged


def owned_fields(item: dict[str, Json], shape: Shape) -> Fields:
    """Every field the applied object states, except those that merely identify it."""
    stated = {name: value for name, value in item.items() if name not in ("apiVersion", "kind")}
    metadata = stated.get("metadata") or {}
    stated["metadata"] = {k: v for k, v in metadata.items() if k not in _NOT_OWNED}
    if not stated["metadata"]:
        del stated["metadata"]
    return _fields(stated, shape)


def _fields(item: dict[str, Json], shape: Shape) -> Fields:
    """FieldsV1 of a value: `f:` a field, `k:` an element by its keys, `v:` a member of a set."""
    found: Fields = {}
    for name, value in item.items():
        field, inner = shape.get(name, LEAF), Fields()
        if isinstance(value, dict) and not field.is_atomic:
            inner = _fields(value, shape_of(field))
        elif isinstance(value, list) and field.map_keys and not field.is_atomic:
            for one in value:
                inner[_element(one, field)] = {".": {}, **_fields(one, shape_of(field))}
        elif isinstance(value, list) and field.is_set and not field.is_atomic:
            inner = {f"v:{json.dumps(one)}": {} for one in value}
        found[f"f:{name}"] = inner
    return found


def _element(item: dict[str, Json], field: Field) -> str:
    key = {k: item.get(k, field.key_defaults.get(k)) for k in sorted(field.map_keys)}
    present = {name: value for name, value in key.items() if value is not None}
    return "k:" + json.dumps(present, separators=(",", ":"))


def _leaves(fields: Fields, above: Path = ()) -> Iterator[Path]:
    for name, inner in fields.items():
        if inner:
            yield from _leaves(inner, (*above, name))
        else:
            yield (*above, name)


def _merged(live: Json, wanted: Json, shape: Shape) -> dict[str, Json]:
    merged = copy.deepcopy(live)
    for name, value in wanted.items():
        field = shape.get(name, LEAF)
        current = merged.get(name)
        if isinstance(value, dict) and isinstance(current, dict) and not field.is_atomic:
            merged[name] = _merged(current, value, shape_of(field))
        elif isinstance(value, list) and current and field.map_keys:
            elements = {_element(one, field): one for one in current}
            for one in value:
                element = _element(one, field)
                elements[element] = _merged(elements.get(element, {}), one, shape_of(field))
            merged[name] = list(elements.values())
        elif isinstance(value, list) and current and field.is_set:
            merged[name] = list(dict.fromkeys([*current, *value]))
        else:
            merged[name] = copy.deepcopy(value)
    return merged


def _discard(item: Json, path: Path) -> None:
    """Take the field at `path` out; a keyed element goes when its own mark (`.`) goes."""
    holders: list[tuple[Json, str]] = []
    for step in path:
        if step == ".":
            break
        holders.append((item, step))
        item = _inside(item, step)
        if item is None:
            return
    holder, step = holders[-1]
    if isinstance(holder, dict):
        holder.pop(step.removeprefix("f:"), None)
    elif item in holder:
        holder.remove(item)


def _inside(item: Json, step: str) -> Json:
    prefix, rest = step[:2], step[2:]
    if prefix == "f:":
        return item.get(rest) if isinstance(item, dict) else None
    if not isinstance(item, list):
        return None
    if prefix == "v:":
        value = json.loads(rest)
        return value if value in item else None
    key = json.loads(rest).items()
    return next((one for one in item if all(one.get(k, v) == v for k, v in key)), None)


def _value_at(item: Json, path: Path) -> Json:
    for step in path:
        if step == "." or item is None:
            return None
        item = _inside(item, step)
    return item


def _refuse_conflicts(live: Json, wanted: Json, stated: Fields, others: list[Json]) -> None:
    causes = []
    changed = {p for p in _leaves(stated) if _value_at(live, p) != _value_at(wanted, p)}
    for entry in others:
        causes += [
            {
                "reason": "FieldManagerConflict",
                "message": f'conflict with "{entry["manager"]}"',
                "field": _dotted(path),
            }
            for path in _leaves(entry["fieldsV1"])
            if path in changed
        ]
    if causes:
        listed = "\n".join(f"- {cause['field']}" for cause in causes)
        number = "1 conflict" if len(causes) == 1 else f"{len(causes)} conflicts"
        message = f"Apply failed with {number}: {causes[0]['message']}"
        text = f"{message}: {causes[0]['field']}" if len(causes) == 1 else f"{message}:\n{listed}"
        raise StatusError(409, "Conflict", text, {"causes": causes})


def _dotted(path: Path) -> str:
    text = ""
    for step in path:
        if step.startswith("f:"):
            text += f".{step[2:]}"
        elif step.startswith("k:"):
            pairs = ",".join(f"{k}={json.dumps(v)}" for k, v in json.loads(step[2:]).items())
            text += f"[{pairs}]"
        elif step.startswith("v:"):
            text += f"[={step[2:]}]"
    return text


def _is_by(entry: dict[str, Json], manager: str, subresource: str) -> bool:
    return entry["manager"] == manager and entry.get("subresource", "") == subresource


def _minus(fields: Fields, taken: Fields) -> Fields:
    left = {}
    for name, inner in fields.items():
        if name not in taken:
            left[name] = inner
        elif inner and (rest := _minus(inner, taken[name])):
            left[name] = rest
    return left
