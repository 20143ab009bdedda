"""Tables: objects as rows, for clients that print them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kscheduler.sandbox.catalog.columns import Column, columns_of
from kscheduler.sandbox.representation import Representation, encode, plain
from kscheduler.sandbox.resources import Resource
from kscheduler.sandbox.store import Object, Stored

_VERSION = "meta.k8s.io/v1"


@dataclass(frozen=True)
class TableRepresentation(Representation):
    """A Representation whose objects are tables of one row, and whose list is one table."""

    columns: tuple[Column, ...] = ()
    include: str = "Metadata"
    original: Representation | None = None

    @cached_property
    def _definitions(self) -> list[Object]:
        return [column.definition for column in self.columns]

    def body(self, stored: Stored) -> bytes:
        item = stored.decode()
        version = {"resourceVersion": item["metadata"]["resourceVersion"]}
        return encode(self._table(version, [self._row(item)]))

    def many(self, items: Iterable[Stored], metadata: dict[str, Any]) -> bytes:
        rows = [self._row(stored.decode()) for stored in items]
        return encode({"kind": "Table", "apiVersion": _VERSION, **self._table(metadata, rows)})

    def _table(self, metadata: Object, rows: list[Object]) -> Object:
        return {"metadata": metadata, "columnDefinitions": self._definitions, "rows": rows}

    def _row(self, item: Object) -> Object:
        row: Object = {"cells": [column.cell(item) for column in self.columns]}
        match self.include:
            case "Metadata":
                row["object"] = {
                    "kind": "PartialObjectMetadata",
                    "apiVersion": _VERSION,
                    "metadata": item["metadata"],
                }
            case "Object":
                assert self.original is not None
                shown = self.original.transform(item) if self.original.transform else item
                row["object"] = {
                    "kind": self.original.kind,
                    "apiVersion": self.original.api_version,
                    **{k: v for k, v in shown.items() if k not in ("kind", "apiVersion")},
                }
        return row


def as_table(resource: Resource, include: str) -> TableRepresentation:
    """`include` is the query's includeObject: None, Metadata or Object."""
    return TableRepresentation(
        "Table",
        _VERSION,
        "Table",
        columns=columns_of(resource.stored_as),
        include=include,
        original=plain(resource),
    )
