"""The table of nodes, one row each: capacity, labels, taints, declared features, images, order.

Cells are written when a Node changes, never while a pod is decided. A row is reused, never shifted;
a row without a node looks like an empty node without labels, and `valid` tells it apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from kscheduler import logs
from kscheduler.api.core import Node, Taint
from kscheduler.api.quantity import QuantityError, milli_value, value
from kscheduler.api.resource_names import CPU, PODS, is_counted
from kscheduler.caches import BoundedCache, size_of
from kscheduler.state.change_log import ChangeLog, next_generation
from kscheduler.state.columns import Column, Rows, read_only
from kscheduler.state.images import Images
from kscheduler.state.label_columns import LabelColumns, Mask
from kscheduler.state.resources import Resources
from kscheduler.state.selector_masks import NodeQuery, mask_of_query

log = logs.logger(__name__)

NO_NODE = Node()
# At 5,000 nodes some 700 masks.
MAX_MASK_BYTES = 4 << 20
# Lists of taints that no node has are forgotten when there are this many more lists than rows.
SPARE_TAINT_LISTS = 1024


class NodeTable:
    def __init__(self, *, logged: bool = True) -> None:
        """`logged`: whether nodes that come and go are news."""
        self._logged = logged
        self._rows = Rows()
        self._row_by_name: dict[str, int] = {}
        self.nodes: list[Node] = []
        self.names: list[str] = []
        self._row_numbers: NDArray[np.intp] = read_only(np.empty(0, np.intp))
        self.all_rows = self._row_numbers
        # Rows whose node changed; whoever puts pods on rows adds to it as well.
        self.changed_rows: ChangeLog[int] = ChangeLog()

        self.resources = Resources()
        self.labels = LabelColumns()
        self.images = Images()
        self.taints = TaintSets()
        self.valid = Column(np.bool_)
        self.unschedulable = Column(np.bool_)
        self.max_pods = Column(np.int64)
        self.taint_set = Column(np.int32)
        self.declared_features = Column(np.uint64)
        self._columns = (
            self.valid,
            self.unschedulable,
            self.max_pods,
            self.taint_set,
            self.declared_features,
        )

        self._order = NodeOrder()
        self._ordered = self._order.rows()
        self._order_is_stale = False
        self._masks: BoundedCache[NodeQuery, Mask] = BoundedCache("node_masks", MAX_MASK_BYTES)
        self.caches = (self._masks, self.labels)
        self.generation = next_generation()
        self.label_generation = self.generation
        self.taint_generation = self.generation

    def __len__(self) -> int:
        return len(self.names)

    @property
    def total(self) -> int:
        """Nodes, as opposed to rows."""
        return len(self._row_by_name)

    @property
    def order(self) -> NDArray[np.intp]:
        """All rows with a node, as upstream's node list orders them."""
        self.settle_order()
        return self._ordered

    def settle_order(self) -> None:
        """Fixes the order for the decisions to come, if nodes came or went since the last time.

        Upstream does so when it takes a snapshot; a node that merely changes its zone stays in its
        place until then.
        """
        if self._order_is_stale:
            self._ordered = self._order.rows()
            self._order_is_stale = False

    @property
    def rows_by_zone(self) -> Iterator[int]:
        """All rows with a node; a table filled in this order has the same `order` of nodes."""
        return iter(self._order)

    def row_of(self, name: str) -> int | None:
        return self._row_by_name.get(name)

    def put(self, node: Node) -> int:
        """Adds the node or takes its new version; answers with its row."""
        row = self._row_by_name.get(node.name)
        zone = zone_key(node.metadata.labels)
        if row is None:
            row = self._row_by_name[node.name] = self._rows.take()
            # This forgets masks as well: selectors can tell nodes apart by name.
            self._resize()
            self.names[row] = node.name
            self.valid.cells[row] = True
            if self._logged:
                log.v(2).info("Added node to NodeTree", node=node.name, zone=zone)
        before, self.nodes[row] = self.nodes[row], node
        self._write(row, before, node)
        self._order.put(row, zone)
        return row

    def remove(self, name: str) -> int:
        """Empties the node's row and gives it up for reuse."""
        row = self._row_by_name.pop(name)
        before, self.nodes[row] = self.nodes[row], NO_NODE
        zone = zone_key(before.metadata.labels)
        if self._logged:
            log.v(2).info("Removed node from NodeTree", node=name, zone=zone)
        self._write(row, before, NO_NODE)
        self.names[row] = ""
        self.valid.cells[row] = False
        self._order.remove(row)
        self._rows.give_back(row)
        self._resize()
        return row

    def mask(self, query: NodeQuery) -> Mask:
        """The nodes a selector selects; remembered until a label changes or nodes come or go."""
        found = self._masks.get(query)
        if found is None:
            found = read_only(mask_of_query(self, query) & self.valid.view)
            cost = found.nbytes + size_of(query, self._masks.largest)
            self._masks.put(query, found, cost)
        return found

    def _resize(self) -> None:
        length = self._rows.length
        missing = length - len(self.names)
        self.names.extend([""] * missing)
        self.nodes.extend([NO_NODE] * missing)
        del self.names[length:], self.nodes[length:]
        for column in self._columns:
            column.resize(length)
        self.labels.resize(length)
        self.resources.resize(length)
        if length > len(self._row_numbers):
            # Twice what is needed: making it anew for each of 5,000 nodes would take 20 ms.
            self._row_numbers = read_only(np.arange(2 * length))
        self.all_rows = self._row_numbers[:length]
        self.changed_rows.add_all()
        self._order_is_stale = True
        self._forget_masks()

    def _write(self, row: int, before: Node, after: Node) -> None:
        self.generation = next_generation()
        self.changed_rows.add(row)
        if before.metadata.labels != after.metadata.labels:
            self.labels.put(row, after.metadata.labels)
            self._forget_masks()
        if before.status.allocatable != after.status.allocatable:
            old, new = _allocatable(before), _allocatable(after)
            old.pop(PODS, None)
            self.max_pods.cells[row] = new.pop(PODS, 0)
            if self.resources.put_allocatable(row, old, new):
                self.changed_rows.add_all()
        self.unschedulable.cells[row] = after.spec.unschedulable
        self._write_taints(row, after)
        self.declared_features.cells[row] = feature_bits(after.status.declared_features)
        # Not only when the lists differ: a node that alone has an image also decides its size.
        self.images.remove(row, before.status.images)
        self.images.add(row, after.status.images)

    def _write_taints(self, row: int, node: Node) -> None:
        number = self.taints.number_of(node.spec.taints)
        if number == self.taint_set.cells[row]:
            return
        self.taint_set.cells[row] = number
        self.taint_generation = self.generation
        if len(self.taints.lists) > len(self) + SPARE_TAINT_LISTS:
            self.taints = TaintSets()
            for at, known in enumerate(self.nodes):
                self.taint_set.cells[at] = self.taints.number_of(known.spec.taints)

    def _forget_masks(self) -> None:
        self.label_generation = next_generation()
        self._masks.clear()


def _allocatable(node: Node) -> dict[str, int]:
    amounts = {}
    for name, quantity in node.status.allocatable.items():
        if is_counted(name):
            try:
                amounts[name] = milli_value(quantity) if name == CPU else value(quantity)
            except QuantityError as error:
                log.error(error, "Ignoring a quantity of a node", node=node.name, resource=name)
    return amounts


_Key = tuple[tuple[str, str, str], ...]


class TaintSets:
    """Distinct lists of taints by number: thousands of nodes share a handful of them.

    Numbers keep their meaning; number 0 is no taint at all.
    """

    def __init__(self) -> None:
        self.lists: list[tuple[Taint, ...]] = [()]
        self._numbers: dict[_Key, int] = {(): 0}

    def number_of(self, taints: Iterable[Taint]) -> int:
        # When a taint was added would make every list a distinct one, and decides nothing.
        key = tuple((taint.key, taint.value, taint.effect) for taint in taints)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.lists)
            self.lists.append(tuple(Taint(*parts) for parts in key))
        return number


# Kubelet features that a node can declare (component-helpers/nodedeclaredfeatures). Sorted, as
# upstream's registry is; the position is the bit.
KNOWN_FEATURES = (
    "DRANodeAllocatableResources",
    "DRAOptionalNodeOperations",
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "InPlacePodVerticalScalingMemoryBackedVolumes",
    "RestartAllContainersOnContainerExits",
    "UserNamespacesHostNetworkSupport",
    "VolumeBindMountOptions",
)


def feature_bits(declared: Iterable[str]) -> int:
    """The known ones of a node's features, a sorted list; what breaks the order may be lost."""
    bits = 0
    position = 0
    for name in declared:
        while position < len(KNOWN_FEATURES) and KNOWN_FEATURES[position] < name:
            position += 1
        if position < len(KNOWN_FEATURES) and KNOWN_FEATURES[position] == name:
            bits |= 1 << position
            position += 1
    return bits


ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
OLD_REGION = "failure-domain.beta.kubernetes.io/region"


def zone_key(labels: Mapping[str, str]) -> str:
    """One name per failure zone, "" for none; a deprecated label wins over its successor."""
    zone = labels[OLD_ZONE] if OLD_ZONE in labels else labels.get(ZONE, "")
    region = labels[OLD_REGION] if OLD_REGION in labels else labels.get(REGION, "")
    return f"{region}:\x00:{zone}" if region or zone else ""


class NodeOrder:
    """The order in which nodes are tried: round robin over zones.

    Rows by zone: zones in the order first seen, rows in the order added. Mirrors
    pkg/scheduler/backend/cache/node_tree.go. Differs: a node is found by its row, so it cannot be
    listed twice.
    """

    def __init__(self) -> None:
        # Dicts are the ordered sets here.
        self._zones: dict[str, dict[int, None]] = {}
        self._zone_of: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._zone_of)

    def __iter__(self) -> Iterator[int]:
        """Zone by zone."""
        return chain.from_iterable(self._zones.values())

    def put(self, row: int, zone: str) -> None:
        """Adds the row, or moves it to the end of another zone; in its zone it stays in place."""
        if self._zone_of.get(row) == zone:
            return
        self.remove(row)
        self._zones.setdefault(zone, {})[row] = None
        self._zone_of[row] = zone

    def remove(self, row: int) -> None:
        zone = self._zone_of.pop(row, None)
        if zone is not None:
            del self._zones[zone][row]
            if not self._zones[zone]:
                del self._zones[zone]

    def rows(self) -> NDArray[np.intp]:
        """The first row of each zone, then the second of each, and so on."""
        if not self._zones:
            return read_only(np.empty(0, np.intp))
        zones = [np.fromiter(rows, np.intp, len(rows)) for rows in self._zones.values()]
        turns = np.concatenate([np.arange(len(rows)) for rows in zones])
        return read_only(np.concatenate(zones)[np.argsort(turns, kind="stable")])
