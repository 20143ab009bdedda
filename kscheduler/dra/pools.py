"""Pools of a node: the devices it can reach, in the order in which the search tries them.

Mirrors structured/internal/*/pools_*.go. Differs: slices of a pool that disagree about their number
are counted by the first in order of names; and the stable allocator sorts, too, where upstream has
the order of a Go map.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import NamedTuple

from kscheduler.api.core import Node
from kscheduler.api.quantity import nano_value
from kscheduler.dra.allocated import PoolId
from kscheduler.dra.devices import DeviceType, SliceDevice
from kscheduler.dra.errors import AllocationError
from kscheduler.dra.features import AllocatorFeatures, Implementation
from kscheduler.dra.slices import SliceTracker, TrackedPool, TrackedSlice

CounterSets = Mapping[str, Mapping[str, int]]  # set -> counter -> nano-units


class PoolState(Enum):
    READY = auto()
    # Slices are missing: nothing is allocated from it, and "all devices" cannot be told.
    INCOMPLETE = auto()
    # Slices contradict each other.
    INVALID = auto()


class PoolGeneration(NamedTuple):
    """All slices of one generation of a pool, whatever node they are for."""

    slices: int
    # Whether there are slices of a later one.
    outdated: bool
    counter_sets: CounterSets
    # Types of the devices that consume counters, by device name.
    consumers: Mapping[str, tuple[DeviceType, ...]]
    valid: bool


class Pool:
    """A pool as one node, or several alike, can reach it.

    `devices` are those of the slices for the node, in order. `unreachable` are positions among them
    that are for other nodes: None, or the text of the error that came of asking.
    """

    __slots__ = ("binds", "devices", "generation", "id", "state", "unreachable")

    def __init__(
        self,
        pool_id: PoolId,
        state: PoolState,
        generation: PoolGeneration,
        devices: tuple[SliceDevice, ...] = (),
        unreachable: Mapping[int, str | None] | None = None,
    ) -> None:
        self.id = pool_id
        self.state = state
        self.generation = generation
        self.devices = devices
        self.unreachable = unreachable or {}
        # Whether binding conditions of a device put the pool last.
        self.binds = any(one.device.binding_conditions for one in devices)


class NodePools:
    """Pools by node, worked out from slices."""

    def __init__(self, tracker: SliceTracker, features: AllocatorFeatures) -> None:
        self._tracker = tracker
        self._features = features
        self._stable = features.implementation is Implementation.STABLE

    def of(self, node: Node) -> tuple[Pool, ...]:
        """All pools of the node in order; raises AllocationError if a node selector is broken."""
        own = self._tracker.pools_of_node.get(node.name, {})
        shared = self._tracker.shared_pools
        found = [self.pool_of(pool, node) for pool in own.values()]
        found += [self.pool_of(pool, node) for key, pool in shared.items() if key not in own]
        return in_order([pool for pool in found if pool is not None])

    def pool_of(self, pool: TrackedPool, node: Node) -> Pool | None:
        """The pool as this node sees it; None if it has nothing for the node."""
        relevant = [
            tracked
            for tracked in (*pool.by_node.get(node.name, {}).values(), *pool.shared.values())
            if not self._ignored(tracked) and self._is_for(tracked, node)
        ]
        if not relevant:
            return None
        number = max(tracked.generation for tracked in relevant)
        relevant = [tracked for tracked in relevant if tracked.generation == number]
        relevant.sort(key=lambda tracked: tracked.name)
        wanted = relevant[0].slice.spec.pool.resource_slice_count
        generation = self._generation(pool, number)
        complete = len(relevant) == wanted
        if not complete and generation.outdated:
            # The driver is replacing this generation; the next has nothing for the node so far.
            return None
        if not complete and generation.slices != wanted:
            return Pool(pool.id, PoolState.INCOMPLETE, generation)
        if complete and generation.slices != wanted:
            # There are more slices than there should be; those of the node are enough.
            generation = self._summary(relevant, outdated=generation.outdated)
        unreachable = self._unreachable(relevant, node)
        key = (number, *[tracked.name for tracked in relevant], *unreachable.items())
        variant: Pool | None = pool.derived.get(key)
        if variant is None:
            variant = pool.derived[key] = self._build(pool, generation, relevant, unreachable)
        return variant

    def _ignored(self, tracked: TrackedSlice) -> bool:
        spec, features = tracked.slice.spec, self._features
        if not features.partitionable_devices and (
            spec.per_device_node_selection is not None or spec.shared_counters
        ):
            return True
        return not features.compatibility_groups and tracked.has_compatibility_groups

    def _is_for(self, tracked: TrackedSlice, node: Node) -> bool:
        if self._stable and tracked.has_counters:
            return True
        try:
            return tracked.is_for(node)
        except AllocationError as error:
            raise AllocationError(f"gather pool information: {error}") from None

    def _has_devices(self, tracked: TrackedSlice) -> bool:
        return not (self._features.partitionable_devices and tracked.has_counters)

    def _generation(self, pool: TrackedPool, number: int) -> PoolGeneration:
        known: PoolGeneration | None = pool.derived.get(number)
        if known is None:
            slices = [
                tracked
                for tracked in pool.slices.values()
                if tracked.generation == number
                and (self._features.compatibility_groups or not tracked.has_compatibility_groups)
            ]
            outdated = any(tracked.generation > number for tracked in pool.slices.values())
            known = pool.derived[number] = self._summary(slices, outdated=outdated)
        return known

    def _summary(self, slices: list[TrackedSlice], *, outdated: bool) -> PoolGeneration:
        counter_sets: dict[str, dict[str, int]] = {}
        consumers: dict[str, list[DeviceType]] = {}
        valid = True
        if self._features.partitionable_devices:
            for one in [one for tracked in slices for one in tracked.slice.spec.shared_counters]:
                valid = valid and one.name not in counter_sets
                counters = {name: nano_value(c.value) for name, c in one.counters.items()}
                counter_sets[one.name] = counters
            for device in [d for t in slices if self._has_devices(t) for d in t.devices]:
                for consumed in device.type.consumes:
                    known_counters = counter_sets.get(consumed.counter_set)
                    valid = valid and known_counters is not None
                    names = [name for name, _ in consumed.amounts]
                    valid = valid and not (set(names) - set(known_counters or ()))
                if device.type.consumes:
                    consumers.setdefault(device.device.name, []).append(device.type)
        by_name = {name: tuple(types) for name, types in consumers.items()}
        return PoolGeneration(len(slices), outdated, counter_sets, by_name, valid)

    def _unreachable(self, relevant: list[TrackedSlice], node: Node) -> dict[int, str | None]:
        found: dict[int, str | None] = {}
        position = 0
        for tracked in relevant:
            if not self._has_devices(tracked):
                continue
            for number, choice in enumerate(tracked.device_nodes or ()):
                try:
                    if not choice.matches(node):
                        found[position + number] = None
                except AllocationError as error:
                    found[position + number] = str(error)
            position += len(tracked.slice.spec.devices)
        return found

    def _build(
        self,
        pool: TrackedPool,
        generation: PoolGeneration,
        relevant: list[TrackedSlice],
        unreachable: dict[int, str | None],
    ) -> Pool:
        devices = [d for tracked in relevant if self._has_devices(tracked) for d in tracked.devices]
        names = {device.device.name for device in devices}
        if len(names) < len(devices) or not generation.valid:
            return Pool(pool.id, PoolState.INVALID, generation)
        return Pool(pool.id, PoolState.READY, generation, tuple(devices), unreachable)


def in_order(pools: list[Pool]) -> tuple[Pool, ...]:
    """By driver and name, those with binding conditions last."""
    return tuple(sorted(pools, key=lambda pool: (pool.binds, pool.id)))
