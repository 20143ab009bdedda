"""Sets of namespaces that a selector selects, small enough to keep thousands of them.

A pod may have thousands of terms, each with a namespace selector of its own that selects nearly
all of thousands of namespaces. As sets of names these would be gigabytes. A large set is a bit for
each namespace that exists instead; all sets made at the same time share the list of names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from itertools import compress

import numpy as np
from numpy.typing import NDArray

# Up to so many names, a plain set is small enough, and equal whenever it was made.
FEW_NAMES = 64
BYTES_OF_NAME = 60


class Universe:
    """The names of all namespaces at one time."""

    __slots__ = ("names", "positions")

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.positions = {name: position for position, name in enumerate(names)}

    def subset(self, chosen: NDArray[np.bool_], more: frozenset[str]) -> Set[str]:
        """The names at these positions and some more, which need not exist."""
        number = int(np.count_nonzero(chosen))
        if number <= FEW_NAMES:
            few = [self.names[position] for position in np.flatnonzero(chosen).tolist()]
            return more.union(few)
        at = self.positions
        also = frozenset([name for name in more if name not in at or not chosen[at[name]]])
        return NamespaceBits(self, np.packbits(chosen).tobytes(), number, also)


class NamespaceBits(Set[str]):
    """A large set. It equals sets with the same names only if they were made at the same time."""

    __slots__ = ("_also", "_bits", "_length", "_universe")

    def __init__(self, universe: Universe, bits: bytes, number: int, also: frozenset[str]) -> None:
        self._universe = universe
        self._bits = bits
        self._also = also
        self._length = number + len(also)

    def __contains__(self, name: object) -> bool:
        position = self._universe.positions.get(name)  # type: ignore[call-overload]
        if position is not None and self._bits[position >> 3] << (position & 7) & 0x80:
            return True
        return name in self._also

    def __iter__(self) -> Iterator[str]:
        names = self._universe.names
        bits = np.unpackbits(np.frombuffer(self._bits, np.uint8), count=len(names))
        yield from compress(names, bits.tobytes())
        yield from self._also

    def __len__(self) -> int:
        return self._length

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NamespaceBits):
            return NotImplemented
        return (
            self._universe is other._universe
            and self._bits == other._bits
            and self._also == other._also
        )

    def __hash__(self) -> int:
        return hash((id(self._universe), self._bits, self._also))

    @property
    def nbytes(self) -> int:
        """Without the list of names, which is shared."""
        return 200 + len(self._bits) + BYTES_OF_NAME * len(self._also)


def bytes_of_namespaces(namespaces: Set[str]) -> int:
    """About as much memory as the set takes, for those who keep it."""
    if isinstance(namespaces, NamespaceBits):
        return namespaces.nbytes
    return 200 + BYTES_OF_NAME * len(namespaces)
