"""Change logs and generations: how caches by row or by name find out what to refresh."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import count
from typing import Generic, TypeVar

# Changes looked back at; beyond, working everything out again is no dearer.
MAX_REMEMBERED = 4096

T = TypeVar("T", bound=Hashable)


class ChangeLog(Generic[T]):
    """Names of what changed, in order. Readers remember how far they have read (`now`)."""

    __slots__ = ("_changed", "_forgotten")

    def __init__(self) -> None:
        self._changed: list[T] = []
        # How many entries there were before the first one that is still known.
        self._forgotten = 0

    @property
    def now(self) -> int:
        return self._forgotten + len(self._changed)

    def add(self, changed: T) -> None:
        entries = self._changed
        entries.append(changed)
        if len(entries) > MAX_REMEMBERED:
            self._forgotten += len(entries) // 2
            del entries[: len(entries) // 2]

    def add_all(self) -> None:
        """More has changed than can be named."""
        self._forgotten = self.now + 1
        self._changed.clear()

    def since(self, then: int) -> set[T] | None:
        """Names of what changed after that reading of `now`; None if that cannot be told."""
        start = then - self._forgotten
        return set(self._changed[start:]) if start >= 0 else None


# A number for every change, never the same twice, whichever table or what-if changed.
next_generation = count(1).__next__
