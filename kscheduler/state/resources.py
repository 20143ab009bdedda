"""Allocatable and requested amounts of nodes, one column per resource.

cpu, memory and ephemeral-storage always have a column; any other resource gets one with the first
node that has some of it and loses it with the last. What pods ask of resources that no node has is
kept aside until a node has it: it decides nothing, and a pod may name thousands of them. So the
width of the columns is up to nodes alone, and a pod costs what it names.
"""

from __future__ import annotations

from collections.abc import Mapping

from kscheduler.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY
from kscheduler.state.columns import Matrix, wrap_int64

PERMANENT = (CPU, MEMORY, EPHEMERAL_STORAGE)
# Columns are moved together when more than half of them are free, unless there are few of them.
FEW_COLUMNS = 16


class Resources:
    def __init__(self) -> None:
        self.columns: dict[str, int] = {name: column for column, name in enumerate(PERMANENT)}
        self.allocatable = Matrix(len(PERMANENT))
        self.requested = Matrix(len(PERMANENT))
        # By column, the nodes that have some of it. Free columns are zero in both matrices.
        self._nodes = [0] * len(PERMANENT)
        self._free: list[int] = []
        # name → row → amount, never 0: of resources without a column.
        self._aside: dict[str, dict[int, int]] = {}
        self._length = 0
        # Counts how often the arrays that readers see were replaced.
        self.shape = 0

    def resize(self, length: int) -> None:
        self._length = length
        self._show()

    def put_allocatable(
        self, row: int, before: Mapping[str, int], after: Mapping[str, int]
    ) -> bool:
        """Replace what the node of this row had by what it has now; 0 of something is nothing.

        True if columns came or went that pods on other rows ask for: these rows, too, look
        different then.
        """
        others_changed = False
        gone = [name for name, amount in before.items() if amount]
        for name in gone:
            self.allocatable.cells[self.columns[name], row] = 0
        for name, amount in after.items():
            if amount:
                column = self.columns.get(name)
                if column is None:
                    others_changed |= name in self._aside
                    column = self._new_column(name)
                self._nodes[column] += 1
                self.allocatable.cells[column, row] = amount
        for name in gone:
            column = self.columns[name]
            self._nodes[column] -= 1
            if not self._nodes[column] and column >= len(PERMANENT):
                self._drop_column(name)
                others_changed |= name in self._aside
        if len(self._free) > max(FEW_COLUMNS, len(self._nodes) // 2):
            self._move_together()
        return others_changed

    def add_requests(self, requests: Mapping[str, int], row: int, by: int) -> None:
        """The requests of a pod that enters (`by` 1) or leaves (-1) the row."""
        columns, add = self.columns, self.requested.add
        for name, amount in requests.items():
            column = columns.get(name)
            if column is not None:
                add(column, row, by * amount)
            elif amount:
                rows = self._aside.setdefault(name, {})
                total = rows.pop(row, 0) + by * amount
                if total:
                    rows[row] = total
                elif not rows:
                    del self._aside[name]

    def _new_column(self, name: str) -> int:
        if self._free:
            column = self._free.pop()
        else:
            column = len(self._nodes)
            self._nodes.append(0)
            self._show()
        self.columns[name] = column
        for row, amount in self._aside.pop(name, {}).items():
            self.requested.cells[column, row] = wrap_int64(amount)
        return column

    def _drop_column(self, name: str) -> None:
        column = self.columns.pop(name)
        self._free.append(column)
        asked = self.requested.view[:, column]
        rows = asked.nonzero()[0].tolist()
        if rows:
            self._aside[name] = dict(zip(rows, asked[rows].tolist(), strict=True))
            for row in rows:
                self.requested.cells[column, row] = 0

    def _move_together(self) -> None:
        """Gives back the memory of free columns; linear in it, like giving it out was."""
        taken = sorted(self.columns.items(), key=lambda item: item[1])
        kept = [column for _, column in taken]
        self.columns = {name: number for number, (name, _) in enumerate(taken)}
        self._nodes = [self._nodes[column] for column in kept]
        self._free = []
        self.allocatable.keep_columns(kept)
        self.requested.keep_columns(kept)
        self._show()

    def _show(self) -> None:
        self.shape += 1
        self.allocatable.resize(self._length, len(self._nodes))
        self.requested.resize(self._length, len(self._nodes))
