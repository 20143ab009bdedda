"""Device totals: how many devices of a class each node has, and how many of them are in use.

Scoring asks for this where an extended resource is served by devices. Totals of a class are kept by
row and change with the pools that change: with a slice, or with an allocation.

Mirrors calculateDRAResourceTotals of pkg/scheduler/framework/plugins/noderesources: slices count
whatever their generation, and a node with a device that the class's selectors fail on has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kscheduler import logs
from kscheduler.api.node_selector import compile_node_selector
from kscheduler.api.resource import Device, DeviceClass, ResourceSliceSpec
from kscheduler.dra.allocated import AllocatedDevices, PoolId
from kscheduler.dra.selectors import Expressions, Failed
from kscheduler.dra.slices import SliceTracker, TrackedSlice
from kscheduler.framework.listers import FollowedLister
from kscheduler.state.nodes_view import Nodes

log = logs.logger(__name__)

Counts = NDArray[np.int64]  # [nodes]
# A row, or a mask of rows.
Where = int | NDArray[np.bool_]

# Rows of a class's table.
_CAPACITY, _ALLOCATED, _FAILED = range(3)


class Totals(NamedTuple):
    """By position in the view: devices of the class, and those of them that are in use."""

    capacity: Counts
    allocated: Counts


class DeviceTotals:
    """Totals of the classes that were asked about, as long as they exist."""

    def __init__(
        self,
        classes: FollowedLister[DeviceClass],
        slices: SliceTracker,
        allocated: AllocatedDevices,
        expressions: Expressions,
    ) -> None:
        self._slices = slices
        self._allocated = allocated
        self._expressions = expressions
        self._by_class: dict[str, _ClassTotals] = {}
        classes.add_handler(self)

    def on_add(self, item: DeviceClass, *, is_initial: bool) -> None:
        pass

    def on_update(self, old: DeviceClass, new: DeviceClass) -> None:
        pass

    def on_delete(self, item: DeviceClass, *, final_state_unknown: bool) -> None:
        self._by_class.pop(item.name, None)

    def of(self, device_class: DeviceClass, nodes: Nodes) -> Totals:
        known = self._by_class.get(device_class.name)
        if known is None or known.device_class.spec != device_class.spec:
            known = _ClassTotals(device_class, self._slices, self._allocated, self._expressions)
            self._by_class[device_class.name] = known
        table = known.table(nodes.whole).take(nodes.rows, axis=1)
        table[:, table[_FAILED] > 0] = 0
        return Totals(table[_CAPACITY], table[_ALLOCATED])


class _ClassTotals:
    def __init__(
        self,
        device_class: DeviceClass,
        slices: SliceTracker,
        allocated: AllocatedDevices,
        expressions: Expressions,
    ) -> None:
        self.device_class = device_class
        self._slices = slices
        self._allocated = allocated
        self._expressions = expressions
        self._table = np.zeros((3, 0), np.int64)
        self._parts: dict[PoolId, list[tuple[Where, tuple[int, int, int]]]] = {}
        # Readings of the logs and the nodes' generation that the table goes back to.
        self._as_of = (-1, -1)
        self._nodes_as_of = -1

    def table(self, nodes: Nodes) -> NDArray[np.int64]:
        """[3, rows]: devices, devices in use, devices that could not be judged."""
        slices, allocated = self._slices.changes, self._allocated.changes
        now = slices.now, allocated.now
        is_same_size = self._table.shape[1] == len(nodes)
        if not is_same_size or self._nodes_as_of != nodes.label_generation:
            self._rebuild(nodes)
        elif self._as_of != now:
            of_slices, of_claims = slices.since(self._as_of[0]), allocated.since(self._as_of[1])
            if of_slices is None or of_claims is None:
                self._rebuild(nodes)
            else:
                self._renew(of_slices | (of_claims & self._parts.keys()), nodes)
        self._as_of, self._nodes_as_of = now, nodes.label_generation
        return self._table

    def _rebuild(self, nodes: Nodes) -> None:
        self._table = np.zeros((3, len(nodes)), np.int64)
        self._parts = {}
        self._renew(self._slices.pools, nodes)

    def _renew(self, pools: Iterable[PoolId], nodes: Nodes) -> None:
        for pool in pools:
            for where, counts in self._parts.pop(pool, ()):
                self._add(where, counts, -1)
            parts = list(self._parts_of(pool, nodes))
            for where, counts in parts:
                self._add(where, counts, 1)
            if parts:
                self._parts[pool] = parts

    def _add(self, where: Where, counts: tuple[int, int, int], sign: int) -> None:
        self._table[:, where] += sign * np.array(counts).reshape(
            (3,) if isinstance(where, int) else (3, 1)
        )

    def _parts_of(self, pool: PoolId, nodes: Nodes) -> Iterator[tuple[Where, tuple[int, int, int]]]:
        tracked = self._slices.pools.get(pool)
        uses = self._allocated.uses(pool)
        for one in () if tracked is None else tracked.slices.values():
            judged = list(self._judged(one))
            if one.slice.spec.per_device_node_selection:
                for device, failed in judged:
                    where = _where(device, nodes)
                    if where is not None:
                        yield where, (1, device.name in uses, failed)
                continue
            where = _where(one.slice.spec, nodes)
            if where is not None and judged:
                in_use = sum(device.name in uses for device, _ in judged)
                yield where, (len(judged), in_use, sum(failed for _, failed in judged))

    def _judged(self, tracked: TrackedSlice) -> Iterator[tuple[Device, bool]]:
        """Devices that the class selects, and those on which a selector failed (True)."""
        for device in tracked.devices:
            for selector in self.device_class.spec.selectors:
                if selector.cel is None:
                    continue
                answer = self._expressions.matches(selector.cel.expression, device.type)
                if isinstance(answer, Failed):
                    what = "Failed to calculate DRA resource capacity and allocated"
                    log.error(str(answer), what, deviceClass=self.device_class.name)
                    yield device.device, True
                    break
                if not answer:
                    break
            else:
                yield device.device, False


def _where(chosen: Device | ResourceSliceSpec, nodes: Nodes) -> Where | None:
    """The rows of the nodes that a slice or device is for; None if there are none."""
    if chosen.node_name:
        return nodes.row_of(chosen.node_name)
    if chosen.all_nodes:
        return nodes.valid.copy()
    if chosen.node_selector is None:
        return None
    return nodes.selector_mask(compile_node_selector(chosen.node_selector)) & nodes.valid
