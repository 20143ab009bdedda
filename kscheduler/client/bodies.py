"""Bodies of the scheduler's writes: patches of a pod's status, volumes and claims written back,
claims for devices as well.

Structs hold only a part of an object. A write must not lose the rest, so it is either a patch of
what changed, or the JSON that the object came as (kept with it, see `informers.decoding`) with a
few members replaced.

`pod_status_patch` mirrors the two-way merge of apimachinery's strategicpatch for the fields that
the scheduler writes. Keys come out sorted, as Go writes its maps.
"""

from typing import Any

import msgspec

from kscheduler.api.core import (
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodCondition,
    PodStatus,
)
from kscheduler.api.resource import AllocationResult, ResourceClaim
from kscheduler.api.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    RESOURCE_CLAIMS,
    Resource,
)

_Json = dict[str, Any]

_Members = dict[str, msgspec.Raw]
_members = msgspec.json.Decoder(_Members).decode
_encode = msgspec.json.Encoder().encode


def pod_status_patch(old: PodStatus, new: PodStatus) -> bytes | None:
    """The patch that turns `old` into `new`; None when nothing would change."""
    changes: _Json = _condition_changes(old.conditions, new.conditions)
    known, claim = old.extended_resource_claim_status, new.extended_resource_claim_status
    if claim is not None:
        before = {} if known is None else msgspec.to_builtins(known)
        if change := _changed(before, msgspec.to_builtins(claim)):
            changes["extendedResourceClaimStatus"] = change
    elif known is not None:
        changes["extendedResourceClaimStatus"] = None  # a null removes the field
    added = new.node_allocatable_resource_claim_statuses
    if added and not old.node_allocatable_resource_claim_statuses:
        changes["nodeAllocatableResourceClaimStatuses"] = msgspec.to_builtins(added)
    if old.nominated_node_name != new.nominated_node_name:
        changes["nominatedNodeName"] = new.nominated_node_name or None
    if not changes:
        return None
    return msgspec.json.encode({"status": changes}, order="sorted")


def clear_claims_patch(pod: Pod) -> bytes:
    """The merge patch after which devices add nothing to the pod's requests.

    The list is there, and empty, because of clients that leave out what they do not know.
    """
    nothing: _Json = {"nodeAllocatableResourceClaimStatuses": []}
    return _encode({"metadata": {"uid": pod.uid}, "status": nothing})


def _condition_changes(old: tuple[PodCondition, ...], new: tuple[PodCondition, ...]) -> _Json:
    """Lists of conditions merge by type; the order is in the patch whenever they differ."""
    if old == new:
        return {}
    if not old:
        return {"conditions": [_written(condition) for condition in new]}
    before = {condition.type: _written(condition) for condition in old}
    changed = []
    for condition in new:
        change = _changed(before.get(condition.type, {}), _written(condition))
        if change:
            changed.append({**change, "type": condition.type})
    kept = {condition.type for condition in new}
    changed += [{"$patch": "delete", "type": kind} for kind in before if kind not in kept]
    order = [{"type": condition.type} for condition in new]
    changes: _Json = {"$setElementOrder/conditions": order}
    return {**changes, "conditions": changed} if changed else changes


def _written(condition: PodCondition) -> _Json:
    """A condition as Go writes it: times are there even when they are not set."""
    times = {
        "lastProbeTime": condition.last_probe_time,
        "lastTransitionTime": condition.last_transition_time,
    }
    return {**msgspec.to_builtins(condition), **times}


def _changed(old: _Json, new: _Json) -> _Json:
    gone = {key: None for key in old if key not in new}
    missing = object()
    return {key: value for key, value in new.items() if old.get(key, missing) != value} | gone


def volume_body(volume: PersistentVolume) -> bytes:
    """A volume's own JSON, with its annotations and claimRef replaced."""
    members = _with_annotations(PERSISTENT_VOLUMES, volume)
    if volume.spec.claim_ref is not None:
        spec = _members(members["spec"])
        spec["claimRef"] = _raw(volume.spec.claim_ref)
        members["spec"] = _raw(spec)
    return _encode(members)


def claim_body(claim: PersistentVolumeClaim) -> bytes:
    """A claim's own JSON, with its annotations replaced."""
    return _encode(_with_annotations(PERSISTENT_VOLUME_CLAIMS, claim))


def new_resource_claim_body(claim: ResourceClaim) -> bytes:
    """A claim that is to be created, with the empty status that Go writes."""
    return RESOURCE_CLAIMS.encode(claim)[:-1] + b',"status":{}}'


def resource_claim_body(claim: ResourceClaim) -> bytes:
    """A claim's own JSON, with its finalizers replaced."""
    members = _own_json(RESOURCE_CLAIMS, claim)
    metadata = _members(members["metadata"])
    metadata.pop("finalizers", None)
    if claim.metadata.finalizers:
        metadata["finalizers"] = _raw(claim.metadata.finalizers)
    members["metadata"] = _raw(metadata)
    members.setdefault("status", _raw({}))
    return _encode(members)


def resource_claim_status_body(claim: ResourceClaim) -> bytes:
    """A claim's own JSON with its allocation and reservations replaced.

    The parts of the status that the claim has had before are written as they came, but for the
    time of the allocation; a list of devices is written as it came or, if the claim has none, not
    at all.
    """
    members = _own_json(RESOURCE_CLAIMS, claim)
    known = _members(members.get("status", b"{}"))
    allocation, reservations = claim.status.allocation, claim.status.reserved_for
    status: _Members = {}
    if allocation is not None:
        status["allocation"] = _allocation(allocation, known.get("allocation"))
    if reservations:
        status["reservedFor"] = _raw(reservations)
    if claim.status.devices:
        status["devices"] = known["devices"]
    members["status"] = _raw(status)
    return _encode(members)


def _allocation(allocation: AllocationResult, known: msgspec.Raw | None) -> msgspec.Raw:
    members = _members(known if known is not None else _encode(allocation))
    members.setdefault("devices", _raw({}))
    if allocation.allocation_timestamp is not None:
        members["allocationTimestamp"] = _raw(allocation.allocation_timestamp)
    return _raw(members)


def unreserve_patch(claim: ResourceClaim, pod_uid: str) -> bytes:
    """The patch that takes one pod off a claim's reservations, whatever else has changed."""
    reservation = {"$patch": "delete", "uid": pod_uid}
    return _encode({"metadata": {"uid": claim.uid}, "status": {"reservedFor": [reservation]}})


def _with_annotations(
    resource: Resource, item: PersistentVolume | PersistentVolumeClaim
) -> _Members:
    members = _own_json(resource, item)
    metadata = _members(members["metadata"])
    if item.metadata.annotations:
        metadata["annotations"] = _raw(dict(item.metadata.annotations))
    members["metadata"] = _raw(metadata)
    return members


def _own_json(
    resource: Resource, item: PersistentVolume | PersistentVolumeClaim | ResourceClaim
) -> _Members:
    assert item.whole, f"{resource.kind} {item.key} was decoded without its JSON"
    kind = {"kind": _raw(resource.kind), "apiVersion": _raw(resource.api_version)}
    return kind | _members(item.whole)


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(_encode(value))
