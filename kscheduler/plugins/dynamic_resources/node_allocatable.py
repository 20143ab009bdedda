"""Devices that stand for cpu, memory and the like, or cost some (DRANodeAllocatableResources).

    mapping     the device is so much of the node's resource: a fixed amount, or the capacity that
                the claim consumes times a multiplier; such a claim is for one pod only
    overhead    using the device takes so much more: once for the pod, and for each container that
                uses the claim

Both are added to the pod's requests, through its status; NodeResourcesFit does not know of them
when it looks at nodes, so the plugin looks again. Nodes are looked at one by one, and only those
that can reach a pool with such devices.

Mirrors nodeallocatabledynamicresources.go. Differs: of slices of several generations that hold the
same device the latest counts, where upstream takes any; products are rounded up to nano-units.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from kscheduler import logs
from kscheduler.api.core import (
    Node,
    NodeAllocatableMappedResources,
    NodeAllocatableOverheadResources,
    NodeAllocatableResourceClaimStatus,
    Pod,
)
from kscheduler.api.meta import Quantity
from kscheduler.api.quantity import NANO, Amount, nano_value, parse
from kscheduler.api.requests import Counting, in_units, pod_requests
from kscheduler.api.resource import (
    AllocationResult,
    Device,
    DeviceRequestAllocationResult,
    NodeAllocatableMapping,
    ResourceClaim,
    ResourceSlice,
)
from kscheduler.api.resource_names import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    is_hugepages,
)
from kscheduler.dra.allocated import PoolId
from kscheduler.dra.device_manager import DeviceManager
from kscheduler.dra.errors import AllocationError
from kscheduler.errors import KschedulerError
from kscheduler.framework.added_by_devices import AddedByDevices, ClaimStatuses
from kscheduler.framework.handle import ApiCalls, Handle
from kscheduler.framework.listers import Listers
from kscheduler.framework.status import Code, Mask, Rejection
from kscheduler.plugins.dynamic_resources.claims import claim_name, is_reserved_for
from kscheduler.plugins.dynamic_resources.pod_level_budget import beyond_pod_level
from kscheduler.plugins.dynamic_resources.state import PodClaims, Variant
from kscheduler.state.nodes_view import Nodes

if TYPE_CHECKING:
    # Imported with the allocator, when a pod first asks for devices.
    from kscheduler.dra.slices import NodeChoice, TrackedPool, TrackedSlice

log = logs.logger(__name__)

# Among what is worked out from the slices of a pool.
HOLDERS = "holders"


class NodeAllocatable:
    """The part of the plugin that the gate DRANodeAllocatableResources switches on."""

    def __init__(self, handle: Handle, devices: DeviceManager, *, accept_group: bool) -> None:
        self._devices = devices
        self._accept_group = accept_group
        self._pools = handle.shared(PoolsThatAdd, lambda: PoolsThatAdd(handle.listers))
        self._counting = Counting(pod_level=handle.gates.enabled("PodLevelResources"), claims=True)

    @property
    def is_needed(self) -> bool:
        """Whether any device adds anything."""
        return bool(self._pools.slices)

    def shared_claims(self, claims: Sequence[ResourceClaim], pod: Pod) -> Iterator[tuple[int, str]]:
        """Positions of claims that another pod has for itself, and the words for that."""
        for index, claim in enumerate(claims):
            allocation = claim.status.allocation
            if (
                allocation is not None
                and claim.status.reserved_for
                and not is_reserved_for(pod, claim, accept_group=self._accept_group)
                and any(map(self._is_mapped, allocation.devices.results))
            ):
                yield (
                    index,
                    f"node allocatable resource claim {claim.name} has a mapped device "
                    "and cannot be shared across pods",
                )

    def rejections(
        self,
        added: AddedByDevices,
        state: PodClaims,
        variant: Variant | None,
        pod: Pod,
        nodes: Nodes,
        within: Mask,
    ) -> list[Rejection]:
        """The nodes without room for what devices would add there; `added` gets the others."""
        masks: dict[tuple[Code, str], Mask] = {}
        slices, adding = self._devices.allocator.slices, self._pools.slices.keys()
        everywhere = not adding.isdisjoint(slices.shared_pools)
        for position in np.flatnonzero(within).tolist():
            node = nodes.node(position)
            if not everywhere and adding.isdisjoint(slices.pools_of_node.get(node.name, ())):
                continue
            allocations = self._allocations(state, variant, node)
            try:
                statuses = self._statuses(pod, allocations, node)
                if statuses is None:
                    continue
                code, reasons = self._shortages(pod, statuses, nodes, position)
            except KschedulerError as error:
                code, reasons = Code.ERROR, [str(error)]
            else:
                if not reasons:
                    added.by_node[node.name] = statuses
            for reason in reasons:
                mask = masks.setdefault((code, reason), np.zeros(len(nodes), np.bool_))
                mask[position] = True
        return [Rejection(mask, code, reason) for (code, reason), mask in masks.items()]

    def _allocations(
        self, state: PodClaims, variant: Variant | None, node: Node
    ) -> list[tuple[ResourceClaim, AllocationResult]]:
        """All claims of the pod with the devices they have, or would get on the node."""
        found = [
            (claim, claim.status.allocation)
            for claim in state.claims
            if claim.status.allocation is not None
        ]
        if variant is not None:
            results = self._devices.allocator.allocate(variant.shape, variant.claims, node)
            found += zip(variant.claims, results, strict=True)
        return found

    def _statuses(
        self,
        pod: Pod,
        allocations: Sequence[tuple[ResourceClaim, AllocationResult]],
        node: Node,
    ) -> ClaimStatuses | None:
        """Amounts that claims add on the node, by name; None if no device of theirs adds any."""
        adding = [
            (claim, allocation)
            for claim, allocation in allocations
            if any(self._adds(result, node) for result in allocation.devices.results)
        ]
        if not adding:
            return None
        uses = _uses(pod)
        found = []
        for claim, allocation in adding:
            totals = _Totals(claim)
            for result in allocation.devices.results:
                try:
                    device = self._device(result, node)
                except AllocationError as error:
                    where = f"claim {claim.key}, device {result.device}, driver {result.driver}"
                    raise AllocationError(f"{where}: {error}") from None
                totals.add(device, result)
            if totals:
                found.append(totals.status(uses.get(claim.name, ())))
        return tuple(sorted(found, key=lambda status: status.resource_claim_name))

    def _shortages(
        self, pod: Pod, statuses: ClaimStatuses, nodes: Nodes, position: int
    ) -> tuple[Code, list[str]]:
        """Why the pod does not fit with what is added; no reasons if it does."""
        pod = with_statuses(pod, statuses)
        if self._counting.pod_level and (reason := beyond_pod_level(pod)):
            return Code.UNSCHEDULABLE_AND_UNRESOLVABLE, [reason]
        demand = in_units(pod_requests(pod, self._counting))
        code, reasons = Code.UNSCHEDULABLE, []
        for name in (CPU, MEMORY, EPHEMERAL_STORAGE, *filter(is_hugepages, demand)):
            if not demand.get(name) and not is_hugepages(name):
                continue
            column = nodes.resources.get(name)
            capacity = free = 0
            if column is not None:
                capacity = int(nodes.allocatable[position, column])
                free = capacity - int(nodes.requested[position, column])
            if demand[name] > free:
                reasons.append(f"Insufficient {name}")
            if demand[name] > free and demand[name] > capacity:
                code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        return code, reasons

    def _is_mapped(self, result: DeviceRequestAllocationResult) -> bool:
        try:
            device = self._device(result, None)
        except AllocationError:
            return False
        return any(one.mapping is not None for one in device.node_allocatable_resources.values())

    def _adds(self, result: DeviceRequestAllocationResult, node: Node) -> bool:
        if (result.driver, result.pool) not in self._pools.slices:
            return False
        try:
            return bool(self._device(result, node).node_allocatable_resources)
        except AllocationError:
            return False

    def _device(self, result: DeviceRequestAllocationResult, node: Node | None) -> Device:
        """The device as the node can reach it; whatever node it is for, if that is None."""
        pool = self._devices.allocator.slices.pools.get((result.driver, result.pool))
        for tracked, position in () if pool is None else _holders(pool).get(result.device, ()):
            device = tracked.original.spec.devices[position]
            if node is None:
                return device
            if tracked.nodes.given and not _is_for(tracked.nodes, node):
                continue
            if tracked.device_nodes and not _is_for(tracked.device_nodes[position], node):
                raise AllocationError(f"device {result.device} does not match node")
            return device
        raise AllocationError(
            f"device {result.device} not found in pool {result.pool} for driver {result.driver}"
        )


class PoolsThatAdd:
    """Pools with devices that add something, by the names of the slices that hold those."""

    def __init__(self, listers: Listers) -> None:
        self.slices: dict[PoolId, set[str]] = {}
        listers.lister(ResourceSlice).add_handler(self)

    def on_add(self, item: ResourceSlice, *, is_initial: bool) -> None:
        if any(device.node_allocatable_resources for device in item.spec.devices):
            self.slices.setdefault(_pool_of(item), set()).add(item.metadata.name)

    def on_update(self, old: ResourceSlice, new: ResourceSlice) -> None:
        self.on_delete(old, final_state_unknown=False)
        self.on_add(new, is_initial=False)

    def on_delete(self, item: ResourceSlice, *, final_state_unknown: bool) -> None:
        names = self.slices.get(_pool_of(item), set())
        names.discard(item.metadata.name)
        if not names:
            self.slices.pop(_pool_of(item), None)


class _Totals:
    """Amounts that the devices of one claim add, by resource."""

    def __init__(self, claim: ResourceClaim) -> None:
        self._claim = claim
        self._mapped: dict[str, Amount] = {}
        # For the pod, and for each of its containers.
        self._overhead: dict[str, tuple[Amount | None, Amount | None]] = {}

    def __bool__(self) -> bool:
        return bool(self._mapped or self._overhead)

    def add(self, device: Device, result: DeviceRequestAllocationResult) -> None:
        for name, one in device.node_allocatable_resources.items():
            if one.mapping is not None:
                amount = self._mapped_amount(name, one.mapping, result)
                if amount is not None:
                    self._mapped[name] = self._mapped.get(name, Amount(0)) + amount
            more = one.overhead
            if more is not None and (more.per_pod is not None or more.per_container is not None):
                per_pod, per_container = self._overhead.get(name, (None, None))
                self._overhead[name] = (
                    _plus(per_pod, more.per_pod),
                    _plus(per_container, more.per_container),
                )

    def _mapped_amount(
        self, name: str, mapping: NodeAllocatableMapping, result: DeviceRequestAllocationResult
    ) -> Amount | None:
        """None if the mapping has nothing to say about this allocation."""
        if not mapping.capacity_key:
            return None if mapping.device_multiplier is None else parse(mapping.device_multiplier)
        if not result.consumed_capacity:
            raise AllocationError(
                f"claim {self._claim.key}, device {result.device}: ConsumedCapacity is nil, but "
                f"Capacity key '{mapping.capacity_key}' is set in NodeAllocatableResources "
                f"for resource {name}"
            )
        consumed = result.consumed_capacity.get(mapping.capacity_key)
        if consumed is None:
            return None
        amount = parse(consumed)
        if mapping.capacity_multiplier is None:
            return amount
        product = amount.nanos * nano_value(mapping.capacity_multiplier)
        return Amount(-(-product // NANO), amount.format)

    def status(self, containers: tuple[str, ...]) -> NodeAllocatableResourceClaimStatus:
        return NodeAllocatableResourceClaimStatus(
            resource_claim_name=self._claim.name,
            containers=containers,
            mapping=tuple(
                NodeAllocatableMappedResources(name=name, quantity=str(amount))
                for name, amount in sorted(self._mapped.items())
            ),
            overhead=tuple(
                NodeAllocatableOverheadResources(
                    name=name,
                    per_pod=None if per_pod is None else str(per_pod),
                    per_container=None if per_container is None else str(per_container),
                )
                for name, (per_pod, per_container) in sorted(self._overhead.items())
            ),
        )


def with_statuses(pod: Pod, statuses: ClaimStatuses) -> Pod:
    status = replace(pod.status, node_allocatable_resource_claim_statuses=statuses)
    return replace(pod, status=status)


async def write_statuses(client: ApiCalls, pod: Pod, statuses: ClaimStatuses) -> None:
    """PreBind: tell the API server what the pod was assumed with."""
    if pod.status.node_allocatable_resource_claim_statuses != statuses:
        raise KschedulerError("assumed pod status does not match calculated status to be patched")
    try:
        await client.patch_pod_status(with_statuses(pod, ()), pod.status)
    except KschedulerError as error:
        what = f"updating pod {pod.key} NodeAllocatableResourceClaimStatuses"
        raise KschedulerError(f"{what}: {error}") from error


async def clear_statuses(client: ApiCalls, pod: Pod) -> None:
    """Unreserve: the pod goes elsewhere; a failure is only logged."""
    try:
        await client.clear_node_allocatable_claims(pod)
    except KschedulerError as error:
        what = "Failed to clear NodeAllocatableResourceClaimStatuses on Unreserve"
        log.error(error, what, pod=logs.ref(pod))


def _uses(pod: Pod) -> Mapping[str, tuple[str, ...]]:
    """Containers by the claim they use, once for each time they name it."""
    claims = {entry.name: claim_name(pod, entry) for entry in pod.spec.resource_claims}
    found: dict[str, tuple[str, ...]] = {}
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        for use in container.resources.claims:
            claim = claims.get(use.name)
            if claim is not None:
                found[claim] = (*found.get(claim, ()), container.name)
    return found


def _holders(pool: TrackedPool) -> Mapping[str, Sequence[tuple[TrackedSlice, int]]]:
    """By device name, the slices with such a device and its position; the latest first."""
    known: dict[str, list[tuple[TrackedSlice, int]]] | None = pool.derived.get(HOLDERS)
    if known is None:
        known = pool.derived[HOLDERS] = {}
        for tracked in sorted(pool.slices.values(), key=lambda one: (-one.generation, one.name)):
            for position, device in enumerate(tracked.original.spec.devices):
                known.setdefault(device.name, []).append((tracked, position))
    return known


def _is_for(choice: NodeChoice, node: Node) -> bool:
    """A selector that cannot be parsed selects nothing."""
    try:
        return choice.matches(node)
    except AllocationError:
        return False


def _plus(total: Amount | None, more: Quantity | None) -> Amount | None:
    if more is None:
        return total
    return parse(more) if total is None else total + parse(more)


def _pool_of(slice_: ResourceSlice) -> PoolId:
    return slice_.spec.driver, slice_.spec.pool.name
