"""Nodes as a decision sees them: read-only columns, position by position.

The view over all rows costs nothing to make: its arrays are the live ones. It shows the cluster as
it is, not as it was, and is good for one decision, during which nothing changes. `take` narrows a
view; columns are gathered when asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kscheduler.api.core import Node, Taint
from kscheduler.api.labels import Operator, Selector
from kscheduler.api.node_selector import PreferredTerms
from kscheduler.state.change_log import ChangeLog
from kscheduler.state.columns import mask_of_bits, read_only
from kscheduler.state.disks import DiskUse
from kscheduler.state.host_ports import ANY_IP, TCP, HostPort
from kscheduler.state.images import ImageOnNodes
from kscheduler.state.label_columns import Codes, Mask, Numbers
from kscheduler.state.nodes import NodeTable
from kscheduler.state.occupancy import Occupancy
from kscheduler.state.pod_index import PodIndex
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.selector_masks import NodeQuery, Weights, weights_of_terms

Amounts = NDArray[np.int64]  # [nodes, resources], each resource contiguous


class Nodes:
    """Columns of some nodes; position i is the table's row `rows[i]`.

    `valid` tells which rows hold a node. The others are free: they look like empty nodes without
    labels, and no selector selects them.
    """

    __slots__ = (
        "_table",
        "allocatable",
        "declared_features",
        "max_pods",
        "nonzero_requested",
        "occupancy",
        "pod_count",
        "requested",
        "rows",
        "taint_set",
        "unschedulable",
        "valid",
    )

    rows: NDArray[np.intp]
    valid: Mask
    unschedulable: Mask
    allocatable: Amounts
    requested: Amounts
    # Columns: cpu and memory, with something assumed for containers that ask for nothing.
    nonzero_requested: Amounts
    pod_count: NDArray[np.int64]
    max_pods: NDArray[np.int64]
    # Numbers into `taint_sets`.
    taint_set: NDArray[np.int32]
    # Bits by position in KNOWN_FEATURES.
    declared_features: NDArray[np.uint64]
    occupancy: Occupancy

    def __init__(self, table: NodeTable, occupancy: Occupancy) -> None:
        self._table = table
        self.occupancy = occupancy

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Called for a column that was not asked for yet."""
            column_of = _COLUMNS.get(name)
            if column_of is None:
                raise AttributeError(name)
            column = self._gather(column_of(self._table, self.occupancy))
            setattr(self, name, column)
            return column

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def total(self) -> int:
        """The number of nodes in the cluster."""
        return self._table.total

    @property
    def order(self) -> NDArray[np.intp]:
        """The rows of all nodes in the order they are tried."""
        return self._table.order

    @property
    def index(self) -> PodIndex:
        return self.occupancy.index

    @property
    def resources(self) -> Mapping[str, int]:
        """Columns of `allocatable` and `requested`; no node has anything of other names."""
        return self._table.resources.columns

    @property
    def taint_sets(self) -> Sequence[tuple[Taint, ...]]:
        """Distinct lists of taints by number.

        Lists are added at the end; should numbers ever change, this is another object.
        """
        return self._table.taints.lists

    @property
    def generation(self) -> int:
        """Another number after any change, and in any fork."""
        return max(self._table.generation, self.occupancy.generation)

    @property
    def node_generation(self) -> int:
        """Another number after any change of a Node."""
        return self._table.generation

    @property
    def label_generation(self) -> int:
        """Another number when a node comes or goes, or changes its labels."""
        return self._table.label_generation

    @property
    def taint_generation(self) -> int:
        """Another number when the taints of a node, or the numbers of `taint_sets`, change."""
        return self._table.taint_generation

    @property
    def changed_rows(self) -> ChangeLog[int] | None:
        """Rows that changed lately; None in a what-if, which has no past."""
        return self.occupancy.changed_rows

    def row_of(self, name: str) -> int | None:
        return self._table.row_of(name)

    def pvc_in_use(self, claim: str) -> bool:
        """Whether a pod on some node uses the claim `namespace/name`."""
        return self.occupancy.claim_users(claim) > 0

    def take(self, rows_or_mask: ArrayLike) -> Nodes:
        """Fewer nodes: a mask over these positions, or table rows in the order wanted."""
        chosen = np.asarray(rows_or_mask)
        if chosen.dtype.kind == "b":
            return _SomeNodes(self.whole, self.rows[chosen])
        return _SomeNodes(self.whole, chosen.astype(np.intp))

    @property
    def whole(self) -> Nodes:
        """All rows of the table that these nodes are in."""
        return self

    def occupied_by(self, occupancy: Occupancy) -> Nodes:
        """These nodes with other pods on them."""
        return Nodes(self._table, occupancy)

    def name_of(self, position: int) -> str:
        return self._table.names[self.rows[position]]

    @property
    def names(self) -> Sequence[str]:
        """By position; a free row has no name."""
        return self._table.names

    def node(self, position: int) -> Node:
        return self._table.nodes[self.rows[position]]

    def pods(self, position: int) -> Sequence[PodInfo]:
        return self.occupancy.pods(int(self.rows[position]))

    @property
    def label_keys(self) -> Set[str]:
        """The label keys that some node has."""
        return self._table.labels.keys

    def label(self, key: str) -> Codes:
        """The label's value as a small number, -1 where it is absent."""
        return self._gather(self._table.labels.column(key).codes)

    def label_values(self, key: str) -> Mapping[str, int]:
        """The values that nodes have, with their numbers."""
        return self._table.labels.column(key).values

    def label_count(self, key: str) -> int:
        """All numbers of this label are below; not each of them need be in use."""
        return self._table.labels.column(key).width

    def label_numbers(self, key: str) -> tuple[Numbers, Mask]:
        """The label's value as an integer, and where it is one."""
        numbers, valid = self._table.labels.column(key).numbers()
        return self._gather(numbers), self._gather(valid)

    def selector_mask(self, required: NodeQuery) -> Mask:
        """The nodes that a compiled selector, term or required node affinity selects."""
        return self._gather(self._table.mask(required))

    def preference(self, preferred: PreferredTerms) -> Weights:
        """The weights of the terms that match each node, added up. Not remembered."""
        return self._gather(weights_of_terms(self._table, preferred))

    def port_in_use(self, ip: str, protocol: str, port: int) -> Mask:
        """Nodes on which this host port is in use."""
        return self.ports_in_use([HostPort(ip or ANY_IP, protocol or TCP, port)])

    def ports_in_use(self, wanted: Iterable[HostPort]) -> Mask:
        """Nodes on which any of these host ports is in use."""
        rows = 0
        for conflicting in map(self.occupancy.ports.conflicting, wanted):
            rows |= conflicting
        return self._gather(mask_of_bits(rows, len(self._table)))

    def disk_in_use(self, wanted: DiskUse) -> Mask:
        """Nodes on which this disk is used in a way that conflicts."""
        mask = np.zeros(len(self._table), np.bool_)
        mask[self.occupancy.disks.conflicting(wanted)] = True
        return self._gather(mask)

    def image(self, name: str) -> ImageOnNodes | None:
        """Size, number of nodes and whereabouts of an image; None if no node has it."""
        return self._table.images.find(name, len(self._table))

    def _gather(self, column: NDArray[Any]) -> NDArray[Any]:
        return column


class _SomeNodes(Nodes):
    """Some rows, in an order of their own."""

    __slots__ = ("_whole",)

    def __init__(self, whole: Nodes, rows: NDArray[np.intp]) -> None:
        super().__init__(whole._table, whole.occupancy)
        self._whole = whole
        self.rows = read_only(rows)

    @property
    def whole(self) -> Nodes:
        return self._whole

    def occupied_by(self, occupancy: Occupancy) -> Nodes:
        return _SomeNodes(self._whole.occupied_by(occupancy), self.rows)

    @property
    def names(self) -> Sequence[str]:
        names = self._table.names
        return [names[row] for row in self.rows]

    def image(self, name: str) -> ImageOnNodes | None:
        found = super().image(name)
        return found and found._replace(mask=self._gather(found.mask))

    def _gather(self, column: NDArray[Any]) -> NDArray[Any]:
        # Along the last axis of the transposed array, so that each resource stays contiguous.
        if column.ndim == 1:
            return read_only(column.take(self.rows))
        return read_only(column.T.take(self.rows, 1).T)


_COLUMNS: dict[str, Callable[[NodeTable, Occupancy], NDArray[Any]]] = {
    "rows": lambda table, _: table.all_rows,
    "valid": lambda table, _: table.valid.view,
    "unschedulable": lambda table, _: table.unschedulable.view,
    "allocatable": lambda table, _: table.resources.allocatable.view,
    "requested": lambda _, occupancy: occupancy.requested.view,
    "nonzero_requested": lambda _, occupancy: occupancy.nonzero_requested.view,
    "pod_count": lambda _, occupancy: occupancy.pod_count.view,
    "max_pods": lambda table, _: table.max_pods.view,
    "taint_set": lambda table, _: table.taint_set.view,
    "declared_features": lambda table, _: table.declared_features.view,
}


class SelectedRows:
    """Rows that selectors select, for thousands of selectors that select a node or a few each.

    Local volumes and the storage of single nodes are selected that way: each by a label that
    hardly any other node has. A mask per selector would cost a look at every node; here the rows
    of a label are sorted by value once, and then every such selector is a look-up. Made for one
    pass over selectors; good as long as no label changes.
    """

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes.whole
        self._by_value: dict[str, dict[str, list[int]]] = {}

    def of(self, selector: Selector) -> Sequence[int]:
        if len(selector.requirements) == 1:
            (requirement,) = selector.requirements
            if requirement.operator is Operator.IN:
                by_value = self._rows_by_value(requirement.key)
                found = [by_value.get(value, []) for value in requirement.values]
                return found[0] if len(found) == 1 else [row for some in found for row in some]
        selected: list[int] = np.flatnonzero(self._nodes.selector_mask(selector)).tolist()
        return selected

    def _rows_by_value(self, key: str) -> dict[str, list[int]]:
        known = self._by_value.get(key)
        if known is None:
            rows: list[list[int]] = [[] for _ in range(self._nodes.label_count(key) + 1)]
            for row, code in enumerate(self._nodes.label(key).tolist()):
                rows[code].append(row)
            values = self._nodes.label_values(key)
            known = self._by_value[key] = {value: rows[code] for value, code in values.items()}
        return known
