"""Bodies of volumes and claims that are written back: their own JSON, with a few things changed.

Structs hold a part of an object only. What they do not know must not be lost, so the JSON the
object came as is kept with it (see `whole_objects`), and only what the scheduler may change in it
is replaced.
"""

from typing import Any

import msgspec

from kscheduler.api.core import PersistentVolume, PersistentVolumeClaim
from kscheduler.api.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, Resource

_Members = dict[str, msgspec.Raw]
_members = msgspec.json.Decoder(_Members).decode
_encode = msgspec.json.Encoder().encode


def volume_body(volume: PersistentVolume) -> bytes:
    """With its annotations and its claimRef."""
    members = _with_annotations(PERSISTENT_VOLUMES, volume)
    if volume.spec.claim_ref is not None:
        spec = _members(members["spec"])
        spec["claimRef"] = _raw(volume.spec.claim_ref)
        members["spec"] = _raw(spec)
    return _encode(members)


def claim_body(claim: PersistentVolumeClaim) -> bytes:
    """With its annotations."""
    return _encode(_with_annotations(PERSISTENT_VOLUME_CLAIMS, claim))


def _with_annotations(
    resource: Resource, item: PersistentVolume | PersistentVolumeClaim
) -> _Members:
    assert item.whole, f"{resource.kind} {item.key} was followed without its JSON"
    members = _members(item.whole)
    metadata = _members(members["metadata"])
    if item.metadata.annotations:
        metadata["annotations"] = _raw(dict(item.metadata.annotations))
    members["metadata"] = _raw(metadata)
    kind = {"kind": _raw(resource.kind), "apiVersion": _raw(resource.api_version)}
    return kind | members


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(_encode(value))
