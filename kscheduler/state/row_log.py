"""Which rows changed lately, for whoever keeps answers by row and brings them up to date."""

from __future__ import annotations

# Rows looked back at; beyond, working everything out again is no dearer.
MAX_REMEMBERED = 4096


class RowLog:
    """Rows in the order they changed. Readers remember how far they have read (`now`)."""

    __slots__ = ("_forgotten", "_rows")

    def __init__(self) -> None:
        self._rows: list[int] = []
        # How many entries there were before the first one that is still known.
        self._forgotten = 0

    @property
    def now(self) -> int:
        return self._forgotten + len(self._rows)

    def add(self, row: int) -> None:
        rows = self._rows
        rows.append(row)
        if len(rows) > MAX_REMEMBERED:
            self._forgotten += len(rows) // 2
            del rows[: len(rows) // 2]

    def add_all(self) -> None:
        """More has changed than single rows."""
        self._forgotten = self.now + 1
        self._rows.clear()

    def since(self, then: int) -> set[int] | None:
        """The rows that changed after that reading of `now`; None if that cannot be told."""
        start = then - self._forgotten
        return set(self._rows[start:]) if start >= 0 else None
