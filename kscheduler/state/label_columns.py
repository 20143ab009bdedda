"""Labels as columns: per key one small integer per row, so that arrays can be compared.

A column is made when its key is first asked for and kept up to date from then on. The same
structure serves the labels of nodes and the label sets of pods.

Selectors may name any number of keys that no row has. Such a key has no column: all of them share
one that is empty, so that asking for them costs a look-up and no memory.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.labels import parse_int
from kscheduler.api.meta import EMPTY
from kscheduler.state.columns import Column, read_only

ABSENT = -1
# All columns together: 4 bytes for each row and some 150 for each distinct value, that is 20 kB for
# zones of 5,000 nodes and 770 kB for their names. The column not asked for longest makes room; if
# it is needed again that costs a pass over the rows that have its key.
MAX_COLUMN_BYTES = 8 << 20
BYTES_OF_ROW = 4
BYTES_OF_VALUE = 150

Codes = NDArray[np.int32]  # [rows]
Mask = NDArray[np.bool_]  # [rows]
Numbers = NDArray[np.int64]  # [rows]


class LabelColumn:
    """The values of one key: a code per row, -1 where it is absent. Codes are reused."""

    __slots__ = ("_column", "_free", "_names", "_numbers", "_users", "used_at", "values")

    def __init__(self, values: Sequence[str | None] = ()) -> None:
        distinct = [value for value in dict.fromkeys(values) if value is not None]
        self.values = {value: code for code, value in enumerate(distinct)}
        code_of: dict[str | None, int] = {None: ABSENT}
        code_of.update(self.values.items())
        codes = [code_of[value] for value in values]
        self._column = Column(np.int32, fill=ABSENT, values=codes)
        self._names = list(self.values)
        self._users = np.bincount(self.codes[self.codes != ABSENT]).tolist()
        self._free: list[int] = []
        self._numbers: tuple[Numbers, Mask] | None = None
        self.used_at = 0

    @property
    def codes(self) -> Codes:
        return self._column.view

    @property
    def width(self) -> int:
        """Codes are below this. A table by code has one entry more: -1 picks that, the last."""
        return len(self._names)

    @property
    def nbytes(self) -> int:
        return BYTES_OF_ROW * len(self.codes) + BYTES_OF_VALUE * len(self._names)

    def resize(self, length: int) -> None:
        self._column.resize(length)
        self._numbers = None

    def put(self, row: int, value: str | None) -> None:
        cells = self._column.cells
        before = cells[row]
        code = ABSENT if value is None else self._code_of(value)
        if code == before:
            return
        cells[row] = code
        self._numbers = None
        if code != ABSENT:
            self._users[code] += 1
        if before != ABSENT:
            # A code that no row has any more is free for another value.
            self._users[before] -= 1
            if not self._users[before]:
                del self.values[self._names[before]]
                self._free.append(before)

    def one_of(self, values: Collection[str]) -> Mask | None:
        """The rows that have one of these values; None if there is no such row."""
        known = self.values
        if len(values) <= len(known):
            codes = [known[value] for value in values if value in known]
        else:
            codes = [code for value, code in known.items() if value in values]
        if not codes:
            return None
        if len(codes) == 1:
            return self.codes == codes[0]
        wanted = np.zeros(self.width + 1, np.bool_)
        wanted[codes] = True
        return wanted[self.codes]

    def numbers(self) -> tuple[Numbers, Mask]:
        """The values as 64-bit integers, and where they are such."""
        if self._numbers is None:
            integers = np.zeros(self.width + 1, np.int64)
            parsed = np.zeros(self.width + 1, np.bool_)
            for value, code in self.values.items():
                number = parse_int(value)
                if number is not None:
                    integers[code], parsed[code] = number, True
            self._numbers = read_only(integers[self.codes]), read_only(parsed[self.codes])
        return self._numbers

    def _code_of(self, value: str) -> int:
        code = self.values.get(value)
        if code is None:
            if self._free:
                code = self._free.pop()
                self._names[code] = value
            else:
                code = len(self._names)
                self._names.append(value)
                self._users.append(0)
            self.values[value] = code
        return code


class LabelColumns:
    """The labels of all rows, and a cache of columns: one for each key that was asked for."""

    def __init__(self, name: str = "node_label_columns") -> None:
        """`name`: that of the cache."""
        self.name = name
        self.evictions = 0
        self._labels: list[Mapping[str, str]] = []
        # By key, the rows that have it. Some 40 bytes for each label of each row.
        self._rows_of: dict[str, set[int]] = {}
        # The keys that some row has.
        self.keys = self._rows_of.keys()
        # In the order of their last use.
        self._columns: dict[str, LabelColumn] = {}
        # What they weighed when they were made or resized, and its sum.
        self._weights: dict[str, int] = {}
        self.bytes = 0
        # How often columns were aged.
        self._age = 0
        self._absent = LabelColumn()

    def __len__(self) -> int:
        return len(self._labels)

    @property
    def max_bytes(self) -> int:
        return MAX_COLUMN_BYTES

    @property
    def entries(self) -> int:
        return len(self._columns)

    def age(self) -> None:
        """Drops the columns that were not asked for since the last time."""
        for key in [key for key, column in self._columns.items() if column.used_at < self._age]:
            self._drop(key)
        self._age += 1

    def resize(self, length: int) -> None:
        """Rows that go away have no labels any more; rows that come have none yet."""
        for row in range(length, len(self._labels)):
            if self._labels[row]:
                self.put(row, EMPTY)
        del self._labels[length:]
        self._labels.extend([EMPTY] * (length - len(self._labels)))
        for key, column in self._columns.items():
            column.resize(length)
            self._weights[key] = column.nbytes
        self.bytes = sum(self._weights.values())
        self._absent.resize(length)

    def put(self, row: int, labels: Mapping[str, str]) -> None:
        columns, rows_of, before = self._columns, self._rows_of, self._labels[row]
        for key in before:
            if key not in labels:
                rows = rows_of[key]
                rows.remove(row)
                if not rows:
                    del rows_of[key]
                if key in columns:
                    columns[key].put(row, None)
                    # The column of a key goes with the last row that has the key.
                    if not rows:
                        self._drop(key)
        for key, value in labels.items():
            if key not in before:
                known = rows_of.get(key)
                if known is None:
                    rows_of[key] = {row}
                else:
                    known.add(row)
            if key in columns:
                columns[key].put(row, value)
        self._labels[row] = labels

    def column(self, key: str) -> LabelColumn:
        """For a key that no row has, a column without values that is shared by all such keys."""
        column = self._columns.pop(key, None)
        if column is None:
            rows = self._rows_of.get(key)
            if rows is None:
                return self._absent
            column = LabelColumn(self._values(key, rows))
            self._weights[key] = column.nbytes
            self.bytes += column.nbytes
            while self._columns and self.bytes > self.max_bytes:
                self._drop(next(iter(self._columns)))
                self.evictions += 1
        column.used_at = self._age
        self._columns[key] = column
        return column

    def _values(self, key: str, rows: Collection[int]) -> list[str | None]:
        labels = self._labels
        if 2 * len(rows) > len(labels):
            return [each.get(key) for each in labels]
        values: list[str | None] = [None] * len(labels)
        for row in rows:
            values[row] = labels[row][key]
        return values

    def _drop(self, key: str) -> None:
        del self._columns[key]
        self.bytes -= self._weights.pop(key)
