"""What nodes have and what their pods ask for, one column per resource.

cpu, memory and ephemeral-storage always have a column; any other resource gets one with the first
node or pod that names it and loses it with the last.
"""

from __future__ import annotations

from collections.abc import Iterable

from kscheduler.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY
from kscheduler.state.columns import Matrix

PERMANENT = (CPU, MEMORY, EPHEMERAL_STORAGE)


class Resources:
    def __init__(self) -> None:
        self.columns: dict[str, int] = {name: column for column, name in enumerate(PERMANENT)}
        self.allocatable = Matrix(len(PERMANENT))
        self.requested = Matrix(len(PERMANENT))
        self._users = [0] * len(PERMANENT)
        self._free: list[int] = []
        self._length = 0
        # Counts how often the arrays that readers see were replaced.
        self.shape = 0

    def resize(self, length: int) -> None:
        self._length = length
        self._show()

    def use(self, name: str) -> int:
        """The column of a resource that one more node or pod names."""
        column = self.columns.get(name)
        if column is None:
            column = self._new_column(name)
        self._users[column] += 1
        return column

    def disuse(self, names: Iterable[str]) -> None:
        """One node or pod less names these; their cells are zero or about to be."""
        for name in names:
            column = self.columns[name]
            self._users[column] -= 1
            if not self._users[column] and column >= len(PERMANENT):
                del self.columns[name]
                self._free.append(column)

    def _new_column(self, name: str) -> int:
        if self._free:
            column = self._free.pop()
        else:
            column = len(self._users)
            self._users.append(0)
            self._show()
        self.columns[name] = column
        return column

    def _show(self) -> None:
        self.shape += 1
        self.allocatable.resize(self._length, len(self._users))
        self.requested.resize(self._length, len(self._users))
