"""Objects that keep the JSON they came as, for whoever passes them on in full.

Structs hold what a scheduler reads; an extender may read anything. Keeping a node's JSON costs some
10 KB, so it is done only for kinds, and objects of them, that somebody asks for. Volumes and claims
are written back by the scheduler itself, so they always keep theirs.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import msgspec
from msgspec import structs

from kscheduler.api.core import Node, PersistentVolume, PersistentVolumeClaim, Pod
from kscheduler.api.decode import Json
from kscheduler.api.meta import ApiObject
from kscheduler.client.watch_lines import Shape

Wanted = Callable[[Any], bool]
Kept = Pod | Node | PersistentVolume | PersistentVolumeClaim

_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


def _always(_item: object) -> bool:
    return True


WRITTEN_BACK: Mapping[type[ApiObject], Wanted] = {
    PersistentVolume: _always,
    PersistentVolumeClaim: _always,
}


def keeping_whole(shape: Shape[Any], wanted: Wanted) -> Shape[Any]:
    """The same shape; objects that are `wanted` carry their JSON."""
    decode = shape.decode

    def decode_keeping(data: Json) -> Kept:
        item: Kept = decode(data)
        if not wanted(item):
            return item
        return structs.replace(item, whole=_passed_on(data, item))

    return replace(shape, decode=decode_keeping)


def _passed_on(data: Json, item: Kept) -> bytes:
    """Without kind and version, which upstream's objects do not know of themselves; and without the
    managedFields of pods, which it drops on arrival, unlike those of nodes.
    """
    members = _decode_members(data)
    members.pop("kind", None)
    members.pop("apiVersion", None)
    if isinstance(item, Pod):
        metadata = _decode_members(members["metadata"])
        metadata.pop("managedFields", None)
        members["metadata"] = msgspec.Raw(_encode(metadata))
    return _encode(members)
