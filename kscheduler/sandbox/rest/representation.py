"""Representations: the bytes a stored object is served as.

The store keeps an object's JSON without kind and apiVersion. A list shows it just so; a single
object and a watch event put the two in front. Nothing is encoded again unless the client asks for
another form: another API version, metadata only, or the rows of a table (as kubectl does).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import msgspec

from kscheduler.rest.tables import META_VERSION, Column, metadata_of, row, table
from kscheduler.sandbox.kinds.events import to_events_group
from kscheduler.sandbox.kinds.resource import Resource
from kscheduler.sandbox.store import Object, Stored

encode = msgspec.json.Encoder().encode
Transform = Callable[[Object], Object]


@dataclass(frozen=True)
class Representation:
    """Objects of one resource, under one kind, changed by `transform` unless that is None."""

    kind: str
    api_version: str
    list_kind: str
    transform: Transform | None = None

    @cached_property
    def head(self) -> bytes:
        """The opening of an object, to be followed by its body without the first brace."""
        return encode({"kind": self.kind, "apiVersion": self.api_version})[:-1] + b","

    def body(self, stored: Stored) -> bytes:
        """JSON without kind and apiVersion."""
        if self.transform is None:
            return stored.body
        shown = self.transform(stored.decode())
        return encode({k: v for k, v in shown.items() if k not in ("kind", "apiVersion")})

    def one(self, stored: Stored) -> bytes:
        return self.head + self.body(stored)[1:]

    def many(self, items: Iterable[Stored], metadata: dict[str, Any]) -> bytes:
        """A list; for a plain representation this is one join over bytes that exist already."""
        head = encode(
            {"kind": self.list_kind, "apiVersion": self.api_version, "metadata": metadata}
        )
        return b"".join((head[:-1], b',"items":[', b",".join(map(self.body, items)), b"]}"))


@lru_cache(maxsize=256)
def plain(resource: Resource) -> Representation:
    """Objects as they are, in the version of the resource."""
    transform = to_events_group if resource.shows else None
    return Representation(resource.kind, resource.group_version, f"{resource.kind}List", transform)


def metadata_only() -> Representation:
    """PartialObjectMetadata: for clients that only need names, labels and owners."""
    return Representation(
        "PartialObjectMetadata",
        META_VERSION,
        "PartialObjectMetadataList",
        lambda item: {"metadata": item["metadata"]},
    )


@dataclass(frozen=True)
class TableRepresentation(Representation):
    """Objects as tables of one row, and a list as one table."""

    columns: tuple[Column, ...] = ()
    include: str = "Metadata"
    original: Representation | None = None

    def body(self, stored: Stored) -> bytes:
        item = stored.decode()
        version = {"resourceVersion": item["metadata"]["resourceVersion"]}
        return encode(self._table(version, [item]))

    def many(self, items: Iterable[Stored], metadata: dict[str, Any]) -> bytes:
        table = self._table(metadata, [stored.decode() for stored in items])
        return encode({"kind": "Table", "apiVersion": META_VERSION, **table})

    def _table(self, metadata: Object, items: list[Object]) -> Object:
        return table(self.columns, metadata, map(self._row, items))

    def _row(self, item: Object) -> Object:
        match self.include:
            case "Metadata":
                return row(self.columns, item, metadata_of(item["metadata"]))
            case "Object":
                assert self.original is not None
                shown = self.original.transform(item) if self.original.transform else item
                whole = {
                    "kind": self.original.kind,
                    "apiVersion": self.original.api_version,
                    **{k: v for k, v in shown.items() if k not in ("kind", "apiVersion")},
                }
                return row(self.columns, item, whole)
        return row(self.columns, item, None)


def as_table(resource: Resource, include: str) -> TableRepresentation:
    """The resource's columns; `include` is the query's includeObject: None, Metadata or Object."""
    return TableRepresentation(
        "Table",
        META_VERSION,
        "Table",
        columns=resource.columns,
        include=include,
        original=plain(resource),
    )
