"""RowPools: the pools of all nodes by row of the node table, and which of them have changed."""

from __future__ import annotations

from collections.abc import Iterable

from kscheduler.api.core import Node
from kscheduler.dra.allocated import AllocatedDevices, PoolId
from kscheduler.dra.errors import AllocationError
from kscheduler.dra.features import AllocatorFeatures
from kscheduler.dra.pools import NodePools, Pool
from kscheduler.dra.slices import SliceTracker
from kscheduler.state.change_log import ChangeLog
from kscheduler.state.nodes_view import Nodes

OPTIONAL_NODE_OPERATIONS = "DRAOptionalNodeOperations"
# Beyond, rows are not named one by one when they change.
MANY_ROWS = 1024


def can_skip_operations(node: Node) -> bool:
    """Whether the node can do without some operations of a driver."""
    return OPTIONAL_NODE_OPERATIONS in node.status.declared_features


class RowPools:
    """The pools of all nodes by row, brought up to date by `refresh`.

    Rows whose pools have changed, or devices in them, are told in `changes`. Use of a pool that any
    node may reach is told in `shared_changes` instead: it concerns all rows, but changes none.
    """

    def __init__(
        self, tracker: SliceTracker, allocated: AllocatedDevices, features: AllocatorFeatures
    ) -> None:
        self._tracker = tracker
        self._allocated = allocated
        self._pools = NodePools(tracker, features)
        self._whole: Nodes | None = None
        # By row: the version of the node that was looked at last, and its pools or what failed.
        self._seen: list[Node | None] = []
        self.by_row: list[tuple[Pool, ...] | AllocationError] = []
        self._rows_of: dict[PoolId, set[int]] = {}
        self.changes: ChangeLog[int] = ChangeLog()
        self.shared_changes: ChangeLog[PoolId] = ChangeLog()
        # How far changes were read.
        self._node_generation = -1
        self._rows_read = self._slices_read = self._allocated_read = -1

    def of_node(self, node: Node) -> tuple[Pool, ...]:
        """Raises AllocationError if a node selector of a slice is broken."""
        row = self._whole.row_of(node.name) if self._whole is not None else None
        current = self._slices_read == self._tracker.changes.now
        if current and row is not None and row < len(self._seen) and self._seen[row] is node:
            pools = self.by_row[row]
            if not isinstance(pools, AllocationError):
                return pools
        return self._pools.of(node)

    def refresh(self, nodes: Nodes) -> None:
        whole = nodes.whole
        self._whole = whole
        gather: set[int] = set()
        if self._node_generation != whole.node_generation:
            gather = self._changed_nodes(whole)
        pools = self._tracker.changes.since(self._slices_read)
        self._slices_read = self._tracker.changes.now
        if pools is None:
            gather = set(range(len(self._seen)))
        for pool in pools or ():
            gather |= self._rows_that_see(pool, whole)
        for row in gather:
            self._gather(row)
        used = self._allocated.changes.since(self._allocated_read)
        self._allocated_read = self._allocated.changes.now
        if used is None:
            self.shared_changes.add_all()
            self.changes.add_all()
        for pool in used or ():
            if self.is_shared(pool):
                self.shared_changes.add(pool)
            else:
                self._tell(self._rows_of.get(pool, ()))
        self._tell(gather)

    def is_shared(self, pool: PoolId) -> bool:
        """Whether any node may reach the pool."""
        return pool in self._tracker.shared_pools

    def _changed_nodes(self, whole: Nodes) -> set[int]:
        """Rows with another node, or with other labels or features than before."""
        log, size = whole.changed_rows, len(whole)
        rows = None if log is None else log.since(self._rows_read)
        if log is not None:
            self._rows_read = log.now
        self._node_generation = whole.node_generation
        if size != len(self._seen):
            for row in range(size, len(self._seen)):
                self._forget(row)
            kept = min(size, len(self._seen))
            self._seen = self._seen[:kept] + [None] * (size - kept)
            self.by_row = self.by_row[:kept] + [()] * (size - kept)
            self.changes.add_all()
        changed = set()
        for row in range(size) if rows is None else sorted(rows):
            if row >= size:
                continue
            node, seen = whole.node(row), self._seen[row]
            if node is seen:
                continue
            self._seen[row] = node
            if (
                seen is None
                or seen.name != node.name
                or seen.metadata.labels != node.metadata.labels
                or can_skip_operations(seen) != can_skip_operations(node)
            ):
                changed.add(row)
        return changed

    def _rows_that_see(self, pool: PoolId, whole: Nodes) -> set[int]:
        if self.is_shared(pool):
            return set(range(len(self._seen)))
        tracked = self._tracker.pools.get(pool)
        named = [whole.row_of(name) for name in tracked.by_node] if tracked else []
        rows = {row for row in named if row is not None and row < len(self._seen)}
        return rows | self._rows_of.get(pool, set())

    def _gather(self, row: int) -> None:
        self._forget(row)
        node = self._seen[row]
        # A free row has a node without a name.
        if node is None or not node.name:
            self.by_row[row] = ()
            return
        try:
            pools = self._pools.of(node)
        except AllocationError as error:
            self.by_row[row] = error
            return
        self.by_row[row] = pools
        for pool in pools:
            self._rows_of.setdefault(pool.id, set()).add(row)

    def _forget(self, row: int) -> None:
        pools = self.by_row[row]
        for pool in () if isinstance(pools, AllocationError) else pools:
            rows = self._rows_of[pool.id]
            rows.discard(row)
            if not rows:
                del self._rows_of[pool.id]

    def _tell(self, rows: Iterable[int]) -> None:
        rows = list(rows)
        if len(rows) > MANY_ROWS:
            self.changes.add_all()
            return
        for row in rows:
            self.changes.add(row)
