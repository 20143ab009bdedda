"""Merge rules: which parts of an object merge, and by which key.

The data behind strategic merge patch and server-side apply. Only what differs from the rule is
declared: objects merge field by field, lists are replaced as a whole. Type names are those of the
API, so that the OpenAPI documents can carry the same facts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Field:
    """The part one field takes in a merge; `type` leads to the rules of what is inside."""

    type: str = ""
    merge_key: str = ""  # strategic merge: list elements are matched by this field
    map_keys: tuple[str, ...] = ()  # apply: list elements are matched by these
    is_set: bool = False
    is_atomic: bool = False  # apply: owned and replaced as one value
    retains_keys: bool = False
    key_defaults: dict[str, Any] = field(default_factory=dict)


Shape = dict[str, Field]  # the fields of one type that do not follow the rule
Shapes = dict[str, Shape]  # by type name
LEAF = Field()


def keyed(*keys: str, type: str = "", retains_keys: bool = False, **defaults: Any) -> Field:
    """A list whose elements are matched by `keys`; strategic merge looks at the first one only."""
    return Field(
        type,
        merge_key=keys[0],
        map_keys=keys,
        retains_keys=retains_keys,
        key_defaults=defaults,
    )


def keyed_for_apply(*keys: str, type: str = "") -> Field:
    """A list that is keyed for apply only; strategic merge replaces it."""
    return Field(type, map_keys=keys)


SET = Field(is_set=True)
ATOMIC = Field(is_atomic=True)
CONDITIONS: Shape = {"conditions": keyed("type")}
TEMPLATED: Shape = {"template": Field("PodTemplateSpec"), "selector": ATOMIC}
