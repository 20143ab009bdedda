"""Representations: the bytes a stored object is served as.

The store keeps an object's JSON without kind and apiVersion. A list shows it just so; a single
object and a watch event put the two in front. Nothing is encoded again unless the client asks for
another form: another API version, or metadata only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import msgspec

from kscheduler.sandbox.kinds.events import to_events_group
from kscheduler.sandbox.resources import Resource
from kscheduler.sandbox.store import Object, Stored

encode = msgspec.json.Encoder().encode
Transform = Callable[[Object], Object]

_METADATA_VERSION = "meta.k8s.io/v1"


@dataclass(frozen=True)
class Representation:
    """How objects of one resource are shown: under which kind, and changed by which function."""

    kind: str
    api_version: str
    list_kind: str
    transform: Transform | None = None

    @cached_property
    def head(self) -> bytes:
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
    """PartialObjectMetadata: for clients that only follow names, labels and owners."""
    return Representation(
        "PartialObjectMetadata",
        _METADATA_VERSION,
        "PartialObjectMetadataList",
        lambda item: {"metadata": item["metadata"]},
    )
