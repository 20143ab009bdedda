"""A bounded memory of answers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memo(Generic[K, V]):
    """Keeps at least the `size` most recently used answers and at most twice as many.

    Where answers say what they cost, `size` is the sum of the costs, in bytes. Two dictionaries
    instead of one ordered by use: a hit stays a single look-up.
    """

    __slots__ = ("_cost", "_costs", "_older", "_recent", "_size")

    def __init__(self, size: int) -> None:
        self._size = size
        self._recent: dict[K, V] = {}
        self._older: dict[K, V] = {}
        self._costs: dict[K, int] = {}
        self._cost = 0

    def get(self, key: K) -> V | None:
        found = self._recent.get(key)
        if found is None and self._older:
            found = self._older.get(key)
            if found is not None:
                self.put(key, found, self._costs.get(key, 1))
        return found

    def put(self, key: K, value: V, cost_bytes: int = 1) -> None:
        if self._recent and self._cost + cost_bytes > self._size:
            self._older, self._recent = self._recent, {}
            self._cost = 0
            if self._costs:
                self._costs = {
                    known: cost for known, cost in self._costs.items() if known in self._older
                }
        self._cost += cost_bytes
        if cost_bytes != 1:
            self._costs[key] = cost_bytes
        self._recent[key] = value

    def clear(self) -> None:
        self._recent.clear()
        self._older.clear()
        self._costs.clear()
        self._cost = 0
