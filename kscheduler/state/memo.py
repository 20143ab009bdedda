"""A bounded memory of answers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memo(Generic[K, V]):
    """Keeps at least the `size` most recently used answers and at most twice as many.

    Two dictionaries instead of one ordered by use: a hit stays a single look-up.
    """

    __slots__ = ("_older", "_recent", "_size")

    def __init__(self, size: int) -> None:
        self._size = size
        self._recent: dict[K, V] = {}
        self._older: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        found = self._recent.get(key)
        if found is None and self._older:
            found = self._older.get(key)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: K, value: V) -> None:
        if len(self._recent) >= self._size:
            self._older, self._recent = self._recent, {}
        self._recent[key] = value

    def clear(self) -> None:
        self._recent.clear()
        self._older.clear()
