"""Storage capacity that drivers have left for new volumes, and from which nodes it can be used.

Drivers publish a CSIStorageCapacity per class and segment of the cluster, often one per node, and
correct it after every volume they provision. So the rows of all segments of a class are kept side
by side, and a correction only changes numbers in there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kscheduler import logs
from kscheduler.api import quantity
from kscheduler.api.labels import NOTHING, Selector, SelectorError, compile_selector
from kscheduler.api.meta import Quantity
from kscheduler.api.storage import CSIStorageCapacity
from kscheduler.framework.listers import FollowedLister
from kscheduler.framework.status import Mask, Rows
from kscheduler.state.nodes_view import Nodes, SelectedRows

log = logs.logger(__name__)

Bytes = NDArray[np.int64]

UNKNOWN = -1


class Room(NamedTuple):
    """By row of the whole table, whether there is enough, and how much the segment has in all
    (UNKNOWN where that is not published).
    """

    enough: Mask
    capacity: Bytes


class _Layout(NamedTuple):
    """Rows of one segment after the other, [pairs of segment and row], with the segment's numbers
    for each.
    """

    # A label generation.
    as_of: int
    rows: Rows
    # Largest volume that can be provisioned.
    limits: Bytes
    capacities: Bytes
    place_of: dict[str, slice]


class _Segments:
    """CSIStorageCapacities of one class."""

    def __init__(self) -> None:
        self._objects: dict[str, CSIStorageCapacity] = {}
        self._layout: _Layout | None = None

    def put(self, item: CSIStorageCapacity) -> None:
        known = self._objects.get(item.key)
        self._objects[item.key] = item
        layout = self._layout
        if known is None or layout is None or known.node_topology != item.node_topology:
            self._layout = None
            return
        place = layout.place_of[item.key]
        layout.limits[place] = _bytes(limit_of(item))
        layout.capacities[place] = _bytes(item.capacity)

    def remove(self, item: CSIStorageCapacity) -> None:
        self._objects.pop(item.key, None)
        self._layout = None

    def __len__(self) -> int:
        return len(self._objects)

    def room_for(self, size_bytes: int, nodes: Nodes) -> Room:
        whole = nodes.whole
        layout = self._layout_for(whole)
        fitting = layout.limits >= size_bytes
        rows = layout.rows[fitting]
        enough = np.zeros(len(whole), np.bool_)
        enough[rows] = True
        capacity = np.full(len(whole), UNKNOWN, np.int64)
        # Of several values for a row the last one stays, and the first segment shall count.
        capacity[rows[::-1]] = layout.capacities[fitting][::-1]
        return Room(enough, capacity)

    def _layout_for(self, nodes: Nodes) -> _Layout:
        """Worked out again when labels of nodes or topologies of segments have changed."""
        if self._layout is not None and self._layout.as_of == nodes.label_generation:
            return self._layout
        selected = SelectedRows(nodes)
        rows: list[Rows] = []
        place_of: dict[str, slice] = {}
        end = 0
        # In an order that does not depend on how they came; upstream's is chance.
        objects = [self._objects[key] for key in sorted(self._objects)]
        for item in objects:
            reached = np.array(selected.of(_topology(item)), np.intp)
            rows.append(reached)
            place_of[item.key] = slice(end, end + len(reached))
            end += len(reached)
        lengths = [len(some) for some in rows]
        limits = [_bytes(limit_of(item)) for item in objects]
        capacities = [_bytes(item.capacity) for item in objects]
        self._layout = _Layout(
            nodes.label_generation,
            np.concatenate(rows) if rows else np.empty(0, np.intp),
            np.repeat(np.array(limits, np.int64), lengths),
            np.repeat(np.array(capacities, np.int64), lengths),
            place_of,
        )
        return self._layout


class Capacities:
    def __init__(self, lister: FollowedLister[CSIStorageCapacity]) -> None:
        self._by_class: dict[str, _Segments] = {}
        lister.add_handler(self)

    def room_for(self, size_bytes: int, of_class: str, nodes: Nodes) -> Room:
        segments = self._by_class.get(of_class) or _Segments()
        return segments.room_for(size_bytes, nodes)

    def on_add(self, item: CSIStorageCapacity, *, is_initial: bool) -> None:
        self._by_class.setdefault(item.storage_class_name, _Segments()).put(item)

    def on_update(self, old: CSIStorageCapacity, new: CSIStorageCapacity) -> None:
        if old.storage_class_name != new.storage_class_name:
            self.on_delete(old, final_state_unknown=False)
        self.on_add(new, is_initial=False)

    def on_delete(self, item: CSIStorageCapacity, *, final_state_unknown: bool) -> None:
        segments = self._by_class.get(item.storage_class_name)
        if segments is not None:
            segments.remove(item)
            if not segments:
                del self._by_class[item.storage_class_name]


def limit_of(item: CSIStorageCapacity) -> Quantity | None:
    """The largest volume that can be provisioned; None if the segment says nothing."""
    return item.capacity if item.maximum_volume_size is None else item.maximum_volume_size


def _bytes(amount: Quantity | None) -> int:
    return UNKNOWN if amount is None else quantity.value(amount)


def _topology(item: CSIStorageCapacity) -> Selector:
    """Without a topology the segment can be used from nowhere."""
    try:
        return compile_selector(item.node_topology)
    except SelectorError as error:
        log.error(error, "Unexpected error converting to a label selector", capacity=item.key)
        return NOTHING
