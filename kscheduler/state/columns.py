"""Growable columns with one cell per row, and the allocation of rows.

A column has two faces: `cells` writes one cell at a time (a memoryview: three times cheaper than
numpy's scalars, and with Python's exact integers), `view` is the read-only array that readers get.
Growing replaces both, so nobody keeps them across a change of the number of rows. A view is made
when it is asked for: while 5,000 nodes are added one by one, nobody does.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

SMALLEST_CAPACITY = 16
_INT64_SPAN = 1 << 64
_INT64_HALF = 1 << 63


class Rows:
    """Allocation of rows: the lowest free one first. Free rows at the end are given up."""

    __slots__ = ("_free", "_lowest", "length")

    def __init__(self) -> None:
        self.length = 0
        self._free: set[int] = set()
        # May still name rows that were given up at the end; `_free` decides.
        self._lowest: list[int] = []

    def take(self) -> int:
        while self._lowest:
            row = heappop(self._lowest)
            if row in self._free:
                self._free.remove(row)
                return row
        self.length += 1
        return self.length - 1

    def give_back(self, row: int) -> None:
        self._free.add(row)
        if row < self.length - 1:
            heappush(self._lowest, row)
        while self.length and self.length - 1 in self._free:
            self.length -= 1
            self._free.remove(self.length)


def _capacity(needed: int, capacity: int) -> int:
    """Grows and shrinks by factors, so that a cell more or less costs as much as a cell."""
    if needed > capacity:
        return max(needed, 2 * capacity)
    if needed < capacity // 4:
        return max(2 * needed, SMALLEST_CAPACITY)
    return capacity


class Column:
    """One value per row; a row that is not in use holds `fill`."""

    __slots__ = ("_array", "_fill", "_length", "_view", "cells")

    _view: NDArray[Any] | None

    def __init__(self, dtype: DTypeLike, *, fill: int = 0, values: Sequence[int] = ()) -> None:
        self._fill = fill
        array = np.full(max(SMALLEST_CAPACITY, len(values)), fill, dtype)
        array[: len(values)] = values
        self._keep_in(array, len(values))

    @property
    def view(self) -> NDArray[Any]:
        view = self._view
        if view is None:
            view = self._view = read_only(self._array[: self._length])
        return view

    def resize(self, length: int) -> None:
        """Rows that are given up hold `fill` by now."""
        self._length = length
        self._view = None
        held = len(self._array)
        # Nearly always, and asked a dozen times for each of 5,000 nodes that are added.
        if held // 4 <= length <= held:
            return
        capacity = _capacity(length, held)
        if capacity != held:
            resized = np.full(capacity, self._fill, self._array.dtype)
            common = min(capacity, held)
            resized[:common] = self._array[:common]
            self._keep_in(resized, length)

    def copy(self) -> Column:
        twin = Column.__new__(Column)
        twin._fill = self._fill
        twin._keep_in(self.view.copy(), self._length)
        return twin

    def add_to_rows(self, rows: NDArray[np.intp], amounts: ArrayLike) -> None:
        """One amount per row; no row comes twice."""
        self._array[rows] += amounts

    def add_to_all(self, amounts: NDArray[Any]) -> None:
        """One amount per row, for every row."""
        self._array[: len(amounts)] += amounts

    def _keep_in(self, array: NDArray[Any], length: int) -> None:
        self._array = array
        self._length = length
        self._view = None
        self.cells = memoryview(array)  # type: ignore[arg-type]


class Matrix:
    """Several int64 columns side by side; `view` is [rows, columns], each column contiguous."""

    __slots__ = ("_array", "_length", "_view", "_width", "cells")

    _view: NDArray[np.int64] | None

    def __init__(self, width: int) -> None:
        self._keep_in(np.zeros((width, SMALLEST_CAPACITY), np.int64), 0, width)

    @property
    def view(self) -> NDArray[np.int64]:
        view = self._view
        if view is None:
            view = self._view = read_only(self._array[: self._width, : self._length].T)
        return view

    def resize(self, length: int, width: int) -> None:
        """Rows that are given up are zero by now; columns are given up by `keep_columns` alone."""
        self._length, self._width = length, width
        self._view = None
        wide, long = self._array.shape
        if width <= wide and long // 4 <= length <= long:
            return
        columns, rows = max(wide, _capacity(width, wide)), _capacity(length, long)
        if (columns, rows) != (wide, long):
            common = min(rows, long)
            resized = np.zeros((columns, rows), np.int64)
            resized[:wide, :common] = self._array[:, :common]
            self._keep_in(resized, length, width)

    def keep_columns(self, kept: Sequence[int]) -> None:
        """These and no others, in this order."""
        self._keep_in(self._array[kept], self._length, len(kept))

    def copy(self) -> Matrix:
        twin = Matrix.__new__(Matrix)
        own = self._array[: self._width, : self._length]
        twin._keep_in(own.copy(), self._length, self._width)
        return twin

    def add(self, column: int, row: int, amount: int) -> None:
        """Adds to one cell, wrapping around like the machine's own integers."""
        cells = self.cells
        total = cells[column, row] + amount
        try:
            cells[column, row] = total
        except ValueError:
            cells[column, row] = wrap_int64(total)

    def add_to_rows(self, rows: NDArray[np.intp], amounts: NDArray[np.int64]) -> None:
        """Amounts are [columns, rows], wrapping around like any other; no row comes twice."""
        self._array[: len(amounts), rows] += amounts

    def add_to_column(self, column: int, amounts: NDArray[np.int64]) -> None:
        """One amount per row, for every row, wrapping around like any other."""
        self._array[column, : len(amounts)] += amounts

    def _keep_in(self, array: NDArray[np.int64], length: int, width: int) -> None:
        self._array = array
        self._length, self._width = length, width
        self._view = None
        self.cells = memoryview(array)  # type: ignore[arg-type]


def wrap_int64(number: int) -> int:
    return (number + _INT64_HALF) % _INT64_SPAN - _INT64_HALF


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """The array itself, which nobody can write through any more; a slice protects only itself."""
    # Four times faster than through `flags`, and views are made in every decision.
    array.setflags(write=False)
    return array


def mask_of_bits(bits: int, length: int) -> NDArray[np.bool_]:
    """A set of rows kept as the bits of one integer, as a mask.

    Sets that are large in number and long-lived (images, ports) are kept this way: 625 bytes for
    5,000 rows, and immutable, so that a fork shares them for free.
    """
    if not bits:
        return read_only(np.zeros(length, np.bool_))
    packed = np.frombuffer(bits.to_bytes(-(-length // 8), "little"), np.uint8)
    mask: NDArray[np.bool_] = np.unpackbits(packed, count=length, bitorder="little").view(np.bool_)
    return read_only(mask)
