"""Counts by row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kscheduler.state.columns import read_only

Counts = NDArray[np.int32]  # [rows]
Sums = NDArray[np.int64]  # [rows]
BYTES_OF_COUNT = 4


class RowCounts:
    """One number per row, written through `cells`, read through `view`.

    Unlike a `Column` it has room for rows to come, so that a new row costs nothing until someone
    looks.
    """

    __slots__ = ("_array", "_view", "cells")

    _view: Counts
    cells: memoryview

    def __init__(self, capacity: int) -> None:
        self._use(np.zeros(capacity, np.int32))

    @classmethod
    def from_rows(cls, rows: dict[int, int], capacity: int) -> RowCounts:
        counts = cls(capacity)
        counts.add_rows(rows)
        return counts

    def add_rows(self, rows: dict[int, int]) -> None:
        """Adds to several rows at once."""
        where = np.fromiter(rows, np.intp, len(rows))
        self._array[where] += np.fromiter(rows.values(), np.int32, len(rows))

    def add_up(self, rows: NDArray[np.intp], amounts: NDArray[np.int32]) -> None:
        """One amount for each of the rows, which may come more than once."""
        added = np.bincount(rows, amounts, len(self._array))
        self._array += added.astype(np.int32)

    def grow(self, capacity: int) -> None:
        grown = np.zeros(capacity, np.int32)
        grown[: len(self._array)] = self._array
        self._use(grown)

    def view(self, length: int) -> Counts:
        if len(self._view) != length:
            self._view = read_only(self._array[:length])
        return self._view

    def drop(self) -> None:
        """Gives the memory back, whoever still holds on to this."""
        self._use(np.zeros(0, np.int32))

    def _use(self, array: Counts) -> None:
        self._array = array
        self._view = read_only(array[:0])
        self.cells = memoryview(array)  # type: ignore[arg-type]
