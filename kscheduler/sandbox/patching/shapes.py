"""Merge rules of all kinds by type name, collected from the declarations in `kinds`."""

from __future__ import annotations

from kscheduler.sandbox.kinds.merging import SET, Field, Shape, Shapes, keyed
from kscheduler.sandbox.resources import RESOURCES

SHAPES: Shapes = {"ObjectMeta": {"finalizers": SET, "ownerReferences": keyed("uid")}}
for _row in RESOURCES:
    SHAPES |= _row.merge

_NOTHING: Shape = {}


def shape_of_kind(kind: str) -> Shape:
    """Merge rules of a whole object: its metadata, its <Kind>Spec and its <Kind>Status."""
    parts = {"metadata": "ObjectMeta", "spec": f"{kind}Spec", "status": f"{kind}Status"}
    return {name: Field(type_name) for name, type_name in parts.items()} | SHAPES.get(kind, {})


def shape_of(field: Field) -> Shape:
    return SHAPES.get(field.type, _NOTHING)
