"""Labels as columns: per key one small integer per row, so that arrays can be compared.

A column is made when its key is first asked for and kept up to date from then on. The same
structure serves the labels of nodes and the label sets of pods.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.labels import parse_int
from kscheduler.api.meta import EMPTY
from kscheduler.state.columns import Column, read_only

ABSENT = -1
# More keys than any sane set of selectors asks for; the one not asked for longest makes room.
MAX_COLUMNS = 512

Codes = NDArray[np.int32]  # [rows]
Mask = NDArray[np.bool_]  # [rows]
Numbers = NDArray[np.int64]  # [rows]


class LabelColumn:
    """The values of one key: a code per row, -1 where it is absent. Codes are reused."""

    __slots__ = ("_column", "_free", "_names", "_numbers", "_users", "codes", "last_used", "values")

    def __init__(self, values: Sequence[str | None] = ()) -> None:
        self.values: dict[str, int] = {}
        codes = [self._first_code(value) for value in values]
        self._column = Column(np.int32, fill=ABSENT, values=codes)
        self.codes: Codes = self._column.view
        self._names = list(self.values)
        self._users = np.bincount(self.codes[self.codes != ABSENT]).tolist()
        self._free: list[int] = []
        self._numbers: tuple[Numbers, Mask] | None = None
        self.last_used = 0

    @property
    def width(self) -> int:
        """Codes are below this. A table by code has one entry more: -1 picks that, the last."""
        return len(self._names)

    def resize(self, length: int) -> None:
        self._column.resize(length)
        self.codes = self._column.view
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
            self._release(before)

    def one_of(self, values: Collection[str]) -> Mask:
        """The rows that have one of these values."""
        codes = [self.values[value] for value in values if value in self.values]
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

    def _first_code(self, value: str | None) -> int:
        return ABSENT if value is None else self.values.setdefault(value, len(self.values))

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

    def _release(self, code: int) -> None:
        self._users[code] -= 1
        if not self._users[code]:
            del self.values[self._names[code]]
            self._free.append(code)


class LabelColumns:
    """The labels of all rows, and a column for each key that was asked for."""

    def __init__(self) -> None:
        self._labels: list[Mapping[str, str]] = []
        self._columns: dict[str, LabelColumn] = {}
        self._clock = 0

    def __len__(self) -> int:
        return len(self._labels)

    def resize(self, length: int) -> None:
        """Rows that go away have no labels any more; rows that come have none yet."""
        del self._labels[length:]
        self._labels.extend([EMPTY] * (length - len(self._labels)))
        for column in self._columns.values():
            column.resize(length)

    def put(self, row: int, labels: Mapping[str, str]) -> None:
        columns = self._columns
        for key in self._labels[row]:
            if key in columns and key not in labels:
                columns[key].put(row, None)
        for key, value in labels.items():
            if key in columns:
                columns[key].put(row, value)
        self._labels[row] = labels

    def column(self, key: str) -> LabelColumn:
        column = self._columns.get(key)
        if column is None:
            column = self._make(key)
        self._clock += 1
        column.last_used = self._clock
        return column

    def _make(self, key: str) -> LabelColumn:
        if len(self._columns) >= MAX_COLUMNS:
            del self._columns[min(self._columns, key=lambda known: self._columns[known].last_used)]
        column = LabelColumn([labels.get(key) for labels in self._labels])
        self._columns[key] = column
        return column
