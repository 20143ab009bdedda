"""Strategic merge patch: a merge patch that knows which lists have keys.

Directives are understood as kubectl and client-go send them: `$patch: replace|delete|merge`,
`$retainKeys`, `$setElementOrder/<list>` and `$deleteFromPrimitiveList/<list>`.
"""

from __future__ import annotations

from typing import Any

from kscheduler.rest.status import unprocessable
from kscheduler.sandbox.kinds.merging import LEAF, Field, Shape
from kscheduler.sandbox.patching.shapes import shape_of

Json = Any
_ORDER = "$setElementOrder/"
_DROP = "$deleteFromPrimitiveList/"
_PATCH = "$patch"
_RETAIN = "$retainKeys"


def strategic_merge(document: dict[str, Json], patch: dict[str, Json], shape: Shape) -> Json:
    """A new object; `document` stays as it is."""
    directive = patch.get(_PATCH)
    if directive == "replace":
        return _plain({name: value for name, value in patch.items() if name != _PATCH})
    if directive == "delete":
        return {}
    retained = patch.get(_RETAIN)
    merged = {k: v for k, v in document.items() if retained is None or k in retained}
    for name, value in patch.items():
        if name.startswith(_DROP):
            listed = name.removeprefix(_DROP)
            if listed in merged:
                merged[listed] = [one for one in merged[listed] if one not in value]
    for name, value in patch.items():
        if not name.startswith("$"):
            order = patch.get(_ORDER + name)
            _merge_field(merged, name, value, shape.get(name, LEAF), order)
    for name, order in patch.items():
        listed = name.removeprefix(_ORDER)
        if name.startswith(_ORDER) and listed not in patch and listed in merged:
            key = shape.get(listed, LEAF).merge_key
            merged[listed] = _ordered(merged[listed], merged[listed], order, key)
    return merged


def _merge_field(
    merged: dict[str, Json], name: str, value: Json, field: Field, order: list[Json] | None
) -> None:
    current = merged.get(name)
    if value is None:
        merged.pop(name, None)
    elif isinstance(value, dict):
        inside = current if isinstance(current, dict) else {}
        merged[name] = strategic_merge(inside, value, shape_of(field))
    elif isinstance(value, list) and field.merge_key:
        merged[name] = _merge_keyed(current or [], value, field, order)
    elif isinstance(value, list) and field.is_set:
        union = list(dict.fromkeys([*(current or []), *value]))
        merged[name] = _ordered(union, current or [], order or value, "")
    else:
        merged[name] = _plain(value)


def _merge_keyed(
    current: list[Json], patch: list[Json], field: Field, order: list[Json] | None
) -> list[Json]:
    key = field.merge_key
    if any(item.get(_PATCH) == "replace" for item in patch):
        return [_plain(item) for item in patch if _PATCH not in item]
    merged = list(current)
    for item in patch:
        if key not in item:
            raise unprocessable(f"map: {item} does not contain declared merge key: {key}")
        matches = (i for i, one in enumerate(merged) if one.get(key) == item[key])
        position = next(matches, None)
        if item.get(_PATCH) == "delete":
            if position is not None:
                del merged[position]
        elif position is None:
            merged.append(strategic_merge({}, item, shape_of(field)))
        else:
            merged[position] = strategic_merge(merged[position], item, shape_of(field))
    wanted = order or [item for item in patch if item.get(_PATCH) != "delete"]
    return _ordered(merged, current, wanted, key)


def _ordered(items: list[Json], server: list[Json], wanted: list[Json], key: str) -> list[Json]:
    """The patch's elements in its order; the server's own keep their place among them."""

    def identity(item: Json) -> Json:
        return item[key] if key else item

    rank = {identity(item): position for position, item in enumerate(wanted)}
    was = {identity(item): position for position, item in enumerate(server)}
    ours = [item for item in items if identity(item) not in rank]
    theirs = [item for item in items if identity(item) in rank]
    theirs.sort(key=lambda item: rank[identity(item)])
    merged = []
    while ours and theirs:
        known = identity(theirs[0]) in was
        first = known and was[identity(ours[0])] < was[identity(theirs[0])]
        merged.append(ours.pop(0) if first else theirs.pop(0))
    return merged + ours + theirs


def _plain(value: Json) -> Json:
    """A new value without the nulls and directives that only mean something to a merge."""
    if isinstance(value, dict):
        return {
            name: _plain(inner)
            for name, inner in value.items()
            if inner is not None and not name.startswith("$")
        }
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value
