"""Claims of a pod: which they are, and for whom they are reserved.

Mirrors resourceclaim.go of k8s.io/dynamic-resource-allocation and claims.go of the plugin. Differs:
a claim that a pod has under two names is one claim, where upstream allocates it twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from kscheduler.api.core import Pod, PodResourceClaim
from kscheduler.api.meta import OwnerReference
from kscheduler.api.resource import (
    AllocatedDeviceStatus,
    AllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
)
from kscheduler.dra.claims import ClaimTracker
from kscheduler.errors import KschedulerError
from kscheduler.gotext.strconv import quote

if TYPE_CHECKING:
    from kscheduler.dra.verdicts import DeviceCounts
    from kscheduler.plugins.dynamic_resources.state import Variant

FINALIZER = "resource.kubernetes.io/delete-protection"
# Points of the first alternative of a request; each later one has one less.
FIRST_ALTERNATIVE = 8

SCHEDULING_GROUP = "scheduling.k8s.io"


class ClaimError(KschedulerError):
    """Raised when a claim of a pod is missing or cannot be used; the text is upstream's."""


def claim_name(pod: Pod, entry: PodResourceClaim) -> str | None:
    """The name of the claim behind an entry of the pod's spec; None if it needs no claim."""
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name
    if entry.resource_claim_template_name is None:
        raise ClaimError(
            f'pod "{pod.namespace}/{pod.name}", spec.resourceClaim {quote(entry.name)}: '
            "none of the supported fields are set"
        )
    for status in pod.status.resource_claim_statuses:
        if status.name == entry.name:
            return status.resource_claim_name
    raise ClaimError(f'pod "{pod.namespace}/{pod.name}": ResourceClaim not created yet')


def claim_keys(pod: Pod) -> Iterator[str]:
    """Keys of the pod's claims, as far as they have a name yet."""
    for entry in pod.spec.resource_claims:
        try:
            name = claim_name(pod, entry)
        except ClaimError:
            continue
        if name is not None:
            yield f"{pod.namespace}/{name}"


def claims_of(pod: Pod, tracker: ClaimTracker, *, accept_group: bool) -> list[ResourceClaim]:
    """The pod's claims, each once; raises KschedulerError if one is missing or unusable.

    `accept_group`: claims made for the pod's group are the pod's, too.
    """
    found: dict[str, ResourceClaim] = {}
    for entry in pod.spec.resource_claims:
        name = claim_name(pod, entry)
        if name is None:
            continue
        claim = tracker.require(pod.namespace, name)
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimError(f"resourceclaim {quote(claim.name)} is being deleted")
        if entry.resource_claim_name is None:
            _check_owner(pod, claim, accept_group=accept_group)
        found[claim.uid] = claim
    return list(found.values())


def _check_owner(pod: Pod, claim: ResourceClaim, *, accept_group: bool) -> None:
    """A claim that was made from a template must have been made for this pod."""
    owner = claim.metadata.controller
    if owner is not None and owner.uid == pod.uid:
        return
    text = f"ResourceClaim {claim.key} was not created for Pod {pod.namespace}/{pod.name}"
    group = group_of(pod) if accept_group else None
    if group is None:
        raise ClaimError(f"{text} (Pod is not owner)")
    if owner is None or not _is_group(owner, group):
        raise ClaimError(f"{text} (neither Pod nor PodGroup {group} is the owner)")


def _is_group(owner: OwnerReference, group: str) -> bool:
    return (
        owner.name == group
        and owner.kind == "PodGroup"
        and owner.api_version.startswith(f"{SCHEDULING_GROUP}/")
    )


def group_of(pod: Pod) -> str | None:
    """The name of the pod's PodGroup."""
    group = pod.spec.scheduling_group
    return None if group is None else group.pod_group_name


def is_reserved_for(pod: Pod, claim: ResourceClaim, *, accept_group: bool) -> bool:
    """Whether the claim is reserved for the pod, or for its group if that is accepted."""
    group = group_of(pod) if accept_group else None
    return any(
        one.uid == pod.uid
        or (
            group is not None
            and one.api_group == SCHEDULING_GROUP
            and one.resource == "podgroups"
            and one.name == group
        )
        for one in claim.status.reserved_for
    )


def reference_to(pod: Pod) -> ResourceClaimConsumerReference:
    return ResourceClaimConsumerReference(resource="pods", name=pod.name, uid=pod.uid)


def with_finalizer(claim: ResourceClaim) -> ResourceClaim:
    finalizers = (*claim.metadata.finalizers, FINALIZER)
    return replace(claim, metadata=replace(claim.metadata, finalizers=finalizers))


def without_finalizer(claim: ResourceClaim) -> ResourceClaim:
    finalizers = tuple([one for one in claim.metadata.finalizers if one != FINALIZER])
    return replace(claim, metadata=replace(claim.metadata, finalizers=finalizers))


def deallocated(claim: ResourceClaim) -> ResourceClaim:
    return replace(claim, status=ResourceClaimStatus())


def score_of(claim: ResourceClaim, allocation: AllocationResult) -> int:
    """Points for the alternatives that were allocated: the earlier in its list, the more."""
    chosen = {result.request for result in allocation.devices.results}
    return sum(
        FIRST_ALTERNATIVE - index
        for request in claim.spec.devices.requests
        if request.exactly is None
        for index, alternative in enumerate(request.first_available)
        if f"{request.name}/{alternative.name}" in chosen
    )


def lacking_devices(variant: Variant, devices: Sequence[DeviceCounts]) -> Iterator[str]:
    """Requests that a node has too few devices for, in words. `devices` are those of the node, by
    number of the alternative.
    """
    lacks = False
    for claim, shape in zip(variant.claims, variant.shape.claims, strict=True):
        of = "extended resources" if claim is variant.special else f"resource claim {claim.key}"
        for request in shape.requests:
            best = max(request.alternatives, key=lambda one: devices[one.number].free)
            matching, free = devices[best.number]
            wanted = max(1, best.request.count)
            if best.all_devices:
                enough, number = matching > 0 and free == matching, "all devices"
            else:
                enough, number = free >= wanted, str(wanted)
            if enough:
                continue
            lacks = True
            what = f"{number} of class {best.request.device_class_name}"
            if request.prioritized:
                what = f"the first available of {len(request.alternatives)}, such as {what}"
            there = f"{matching} match, {free} free" if matching else "none matches"
            yield f"{of}, request {request.name}: {what}; {there}"
    if not lacks:
        yield "devices for every request, but not for all of them together"


def skips_node_operations(allocation: AllocationResult) -> bool:
    """Whether the allocation needs nodes that can leave out operations of the driver."""
    return any(result.skip_node_operations for result in allocation.devices.results)


class DeviceConditions(msgspec.Struct):
    """Conditions of one allocated device that binding waits for."""

    result: DeviceRequestAllocationResult
    # Failure conditions that are True, and conditions that are not True yet.
    failed: list[str] = msgspec.field(default_factory=list)
    pending: list[str] = msgspec.field(default_factory=list)
    # Reason and message of the first failure.
    failure: tuple[str, str] = ("", "")

    def __str__(self) -> str:
        result = self.result
        text = f"<driver={result.driver}, pool={result.pool}> {result.device}"
        if self.failed:
            text += f" failed=[{','.join(self.failed)}]"
        if self.pending:
            text += f" pending=[{','.join(self.pending)}]"
        return text


def device_conditions(claim: ResourceClaim) -> Iterator[DeviceConditions]:
    """The devices of an allocated claim that have binding conditions."""
    allocation = claim.status.allocation
    for result in () if allocation is None else allocation.devices.results:
        if not result.binding_conditions:
            continue
        found = DeviceConditions(result)
        status = _status_of(claim, result)
        conditions = {} if status is None else {one.type: one for one in status.conditions or ()}
        for kind in () if status is None else result.binding_failure_conditions:
            condition = conditions.get(kind)
            if condition is not None and condition.status == "True":
                if not found.failed:
                    found.failure = condition.reason, condition.message
                found.failed.append(kind)
        found.pending = [
            kind
            for kind in result.binding_conditions
            if kind not in conditions or conditions[kind].status != "True"
        ]
        yield found


def _status_of(
    claim: ResourceClaim, result: DeviceRequestAllocationResult
) -> AllocatedDeviceStatus | None:
    for status in claim.status.devices:
        if (status.device, status.driver, status.pool) == (
            result.device,
            result.driver,
            result.pool,
        ):
            return status
    return None
