"""SliceTracker: ResourceSlices with the taints of DeviceTaintRules, by pool and node.

Mirrors k8s.io/dynamic-resource-allocation/resourceslice/tracker. Differs: taints of several rules
on one device are in the order of the rules' names; upstream has them in any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from msgspec.structs import replace

from kscheduler.api.core import Node
from kscheduler.api.node_selector import NodeSelectorMatcher, compile_node_selector
from kscheduler.api.resource import Device, DeviceTaint, DeviceTaintRule, ResourceSlice
from kscheduler.dra.allocated import PoolId
from kscheduler.dra.devices import DeviceTypes, SliceDevice
from kscheduler.dra.errors import AllocationError
from kscheduler.dra.features import AllocatorFeatures, Implementation
from kscheduler.framework.listers import Listers
from kscheduler.state.change_log import ChangeLog


class NodeChoice:
    """The nodes that a slice or device says it can be reached from."""

    __slots__ = ("_all", "_matcher", "name")

    def __init__(self, chosen: Device | ResourceSlice) -> None:
        where = chosen.spec if isinstance(chosen, ResourceSlice) else chosen
        self.name = where.node_name or ""
        self._all = bool(where.all_nodes)
        self._matcher: NodeSelectorMatcher | None = None
        if not (self.name or self._all) and where.node_selector is not None:
            self._matcher = compile_node_selector(where.node_selector)

    @property
    def given(self) -> bool:
        return bool(self.name or self._all or self._matcher is not None)

    def matches(self, node: Node) -> bool:
        """Raises AllocationError for a selector that cannot be parsed."""
        if self.name:
            return node.name == self.name
        if self._all or self._matcher is None:
            return self._all
        if error := self._matcher.error:
            raise AllocationError(f"failed to parse node selector: {error}")
        return self._matcher.matches(node.metadata.labels, node.name)


class TrackedSlice:
    """A slice with the taints of rules, and what is worked out from it when it is first needed.

    A rule that changes replaces the TrackedSlices it selects, so thousands of changes cost no more
    than the last, unless somebody looks in between.
    """

    def __init__(self, original: ResourceSlice, rules: TaintRules, types: DeviceTypes) -> None:
        """`original`: without the taints of rules."""
        self.original = original
        self._rules = rules
        self._types = types
        spec = original.spec
        self.pool_id: PoolId = (spec.driver, spec.pool.name)
        self.generation = spec.pool.generation
        self.node_name = spec.node_name or ""
        self.has_counters = bool(spec.shared_counters)

    @property
    def name(self) -> str:
        return self.original.metadata.name

    @cached_property
    def slice(self) -> ResourceSlice:
        return self._rules.applied_to(self.original)

    @cached_property
    def device_names(self) -> frozenset[str]:
        return frozenset([device.name for device in self.original.spec.devices])

    @cached_property
    def devices(self) -> tuple[SliceDevice, ...]:
        spec, types = self.slice.spec, self._types
        return tuple([SliceDevice(one, self, types.of(spec, one)) for one in spec.devices])

    @cached_property
    def nodes(self) -> NodeChoice:
        return NodeChoice(self.original)

    @cached_property
    def device_nodes(self) -> tuple[NodeChoice, ...] | None:
        """By device; None if the slice speaks for all of its devices."""
        if not self.slice.spec.per_device_node_selection:
            return None
        return tuple([NodeChoice(device) for device in self.slice.spec.devices])

    @cached_property
    def _named_by_devices(self) -> frozenset[str]:
        """Nodes that devices name: a device of thousands is found without asking all of them."""
        return frozenset(choice.name for choice in self.device_nodes or () if choice.name)

    @cached_property
    def _choices_of_devices(self) -> list[tuple[NodeChoice, Device]]:
        """Devices that do not name a node."""
        both = zip(self.device_nodes or (), self.slice.spec.devices, strict=False)
        return [(choice, device) for choice, device in both if not choice.name]

    @cached_property
    def has_compatibility_groups(self) -> bool:
        return any(
            consumption.compatibility_groups
            for device in self.slice.spec.devices
            for consumption in device.consumes_counters
        )

    def is_for(self, node: Node) -> bool:
        """Whether the node can reach a device of the slice; raises AllocationError."""
        try:
            if self.nodes.given:
                return self.nodes.matches(node)
        except AllocationError as error:
            raise AllocationError(
                f"failed to perform node selection for slice {self.name}: {error}"
            ) from None
        if node.name in self._named_by_devices:
            return True
        for choice, device in self._choices_of_devices:
            try:
                if choice.matches(node):
                    return True
            except AllocationError as error:
                where = f"device {device.name} in slice {self.name}"
                raise AllocationError(
                    f"failed to perform node selection for {where}: {error}"
                ) from None
        return False


class TrackedPool:
    """All slices of a pool, of whatever generation."""

    def __init__(self, pool_id: PoolId) -> None:
        self.id = pool_id
        # What is worked out from the slices, by whoever does that; dropped when a slice changes.
        self.derived: dict[object, Any] = {}
        self.slices: dict[str, TrackedSlice] = {}
        # By the node that they name; and those that other nodes may reach, too.
        self.by_node: dict[str, dict[str, TrackedSlice]] = {}
        self.shared: dict[str, TrackedSlice] = {}

    def add(self, tracked: TrackedSlice, *, shared: bool) -> None:
        self.derived.clear()
        self.slices[tracked.name] = tracked
        if shared:
            self.shared[tracked.name] = tracked
        elif tracked.node_name:
            self.by_node.setdefault(tracked.node_name, {})[tracked.name] = tracked

    def remove(self, tracked: TrackedSlice) -> None:
        self.derived.clear()
        del self.slices[tracked.name]
        self.shared.pop(tracked.name, None)
        on_node = self.by_node.get(tracked.node_name)
        if on_node is not None and tracked.name in on_node:
            del on_node[tracked.name]
        if on_node is not None and not on_node:
            del self.by_node[tracked.node_name]


class TaintRules:
    """DeviceTaintRules, found by the driver and pool that they select."""

    def __init__(self) -> None:
        self._rules: dict[tuple[str | None, str | None], dict[str, DeviceTaintRule]] = {}

    def add(self, rule: DeviceTaintRule) -> None:
        selected = rule.spec.device_selector
        if selected is not None:
            self._rules.setdefault((selected.driver, selected.pool), {})[rule.name] = rule

    def remove(self, rule: DeviceTaintRule) -> None:
        selected = rule.spec.device_selector
        if selected is not None:
            rules = self._rules.get((selected.driver, selected.pool), {})
            rules.pop(rule.name, None)
            if not rules:
                self._rules.pop((selected.driver, selected.pool), None)

    def applied_to(self, slice_: ResourceSlice) -> ResourceSlice:
        """The slice with the taints of all rules that select one of its devices."""
        driver, pool = slice_.spec.driver, slice_.spec.pool.name
        keys = ((driver, pool), (driver, None), (None, pool), (None, None))
        rules = sorted(
            [rule for key in keys for rule in self._rules.get(key, {}).values()],
            key=lambda rule: rule.name,
        )
        if not rules:
            return slice_
        for_all: list[tuple[int, DeviceTaint]] = []
        by_device: dict[str, list[tuple[int, DeviceTaint]]] = {}
        for position, rule in enumerate(rules):
            assert rule.spec.device_selector is not None
            name = rule.spec.device_selector.device
            into = for_all if name is None else by_device.setdefault(name, [])
            into.append((position, rule.spec.taint))
        devices = []
        for device in slice_.spec.devices:
            own = by_device.get(device.name, [])
            taints = sorted(for_all + own, key=lambda one: one[0]) if own else for_all
            if taints:
                added = tuple([taint for _, taint in taints])
                device = replace(device, taints=device.taints + added)
            devices.append(device)
        return replace(slice_, spec=replace(slice_.spec, devices=tuple(devices)))


class SliceTracker:
    """Slices as the allocator needs them; pools that change are told in `changes`.

    A change of a slice costs what its size is; one of a rule, as much as it selects slices.
    """

    def __init__(self, listers: Listers, features: AllocatorFeatures) -> None:
        self.types = DeviceTypes(features)
        self.pools: dict[PoolId, TrackedPool] = {}
        # Pools with slices that name the node; pools that any node may reach.
        self.pools_of_node: dict[str, dict[PoolId, TrackedPool]] = {}
        self.shared_pools: dict[PoolId, TrackedPool] = {}
        self.changes: ChangeLog[PoolId] = ChangeLog()
        self._rules = TaintRules()
        # The stable allocator takes slices with counters into every node's pools.
        self._shares_counters = features.implementation is Implementation.STABLE
        if features.device_taint_rules:
            listers.lister(DeviceTaintRule).add_handler(_RuleEvents(self, self._rules))
        listers.lister(ResourceSlice).add_handler(self)

    def on_add(self, item: ResourceSlice, *, is_initial: bool) -> None:
        tracked = TrackedSlice(item, self._rules, self.types)
        pool = self.pools.get(tracked.pool_id)
        if pool is None:
            pool = self.pools[tracked.pool_id] = TrackedPool(tracked.pool_id)
        shared = not tracked.node_name or (self._shares_counters and tracked.has_counters)
        pool.add(tracked, shared=shared)
        if shared:
            self.shared_pools[pool.id] = pool
        else:
            self.pools_of_node.setdefault(tracked.node_name, {})[pool.id] = pool
        self.changes.add(pool.id)

    def on_update(self, old: ResourceSlice, new: ResourceSlice) -> None:
        if old.spec != new.spec:
            self.on_delete(old, final_state_unknown=False)
            self.on_add(new, is_initial=False)

    def on_delete(self, item: ResourceSlice, *, final_state_unknown: bool) -> None:
        pool = self.pools.get((item.spec.driver, item.spec.pool.name))
        tracked = pool and pool.slices.get(item.metadata.name)
        if not pool or not tracked:
            return
        pool.remove(tracked)
        node = tracked.node_name
        if node not in pool.by_node and pool.id in (of_node := self.pools_of_node.get(node, {})):
            del of_node[pool.id]
            if not of_node:
                del self.pools_of_node[node]
        if not pool.shared:
            self.shared_pools.pop(pool.id, None)
        if not pool.slices:
            del self.pools[pool.id]
        self.changes.add(pool.id)

    def apply_rules(self, changed: DeviceTaintRule) -> None:
        """Gives the slices that a changed rule selects their taints anew."""
        selected = changed.spec.device_selector
        if selected is None:
            return
        for tracked in list(self._slices_of(selected.driver, selected.pool)):
            if selected.device is None or selected.device in tracked.device_names:
                self.on_delete(tracked.original, final_state_unknown=False)
                self.on_add(tracked.original, is_initial=False)

    def _slices_of(self, driver: str | None, name: str | None) -> Iterator[TrackedSlice]:
        for pool in self.pools.values():
            if driver in (None, pool.id[0]) and name in (None, pool.id[1]):
                yield from pool.slices.values()


class _RuleEvents:
    """Handler of DeviceTaintRules."""

    def __init__(self, tracker: SliceTracker, rules: TaintRules) -> None:
        self._tracker = tracker
        self._rules = rules

    def on_add(self, item: DeviceTaintRule, *, is_initial: bool) -> None:
        self._rules.add(item)
        self._tracker.apply_rules(item)

    def on_update(self, old: DeviceTaintRule, new: DeviceTaintRule) -> None:
        if old.spec != new.spec:
            self._rules.remove(old)
            self._rules.add(new)
            self._tracker.apply_rules(old)
            self._tracker.apply_rules(new)

    def on_delete(self, item: DeviceTaintRule, *, final_state_unknown: bool) -> None:
        self._rules.remove(item)
        self._tracker.apply_rules(item)
