"""Volumes in order of size, so that each node can take the smallest that does, all nodes at once.

A shelf is filled once and then only loses volumes; what comes new asks for a new shelf. A volume is
known by its number, and smaller numbers are taken first.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.core import PersistentVolume
from kscheduler.api.labels import Selector
from kscheduler.api.quantity import NANO
from kscheduler.caches import BoundedCache, size_of
from kscheduler.framework.verdict import Rows
from kscheduler.plugins.volume_binding.offer import Demand, Offer
from kscheduler.plugins.volume_binding.reach import Reach
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.selected_rows import SelectedRows

H = TypeVar("H", bound=Hashable)

NONE = -1
# Volumes that reach more rows than this are looked at by their reach, and only as many as needed.
NARROW = 8
MAX_SELECTED_BYTES = 1 << 20

Numbers = NDArray[np.intp]  # of volumes: [rows], or as said
Fitting = NDArray[np.bool_]  # [volumes]


class _Layout(NamedTuple):
    """Who reaches whom: pairs of row and number, and beside them the volumes of wide reach."""

    as_of: int
    rows: Rows
    numbers: Numbers
    wide: Sequence[tuple[Rows, Numbers]]


class Shelf:
    def __init__(self, volumes: Sequence[PersistentVolume], offers: Sequence[Offer]) -> None:
        order = sorted(range(len(volumes)), key=lambda index: offers[index].size_nanos)
        self.volumes = [volumes[index] for index in order]
        self._number_of = {volume.name: n for n, volume in enumerate(self.volumes)}
        ordered = [offers[index] for index in order]
        self._there = np.ones(len(order), np.bool_)
        self.lost = 0
        # Sizes in bytes, and classes; the last entries are for NONE.
        self.sizes = np.array([*(offer.size_bytes for offer in ordered), 0], np.int64)
        classes = [volume.spec.storage_class_name for volume in self.volumes]
        self.classes, codes = _coded(classes)
        self.class_codes = np.append(codes, NONE)
        # Nanobytes do not fit into 64 bits.
        parts = [divmod(offer.size_nanos, NANO) for offer in ordered]
        self._whole_bytes, self._nanos = np.array(parts, np.int64).reshape(-1, 2).T
        self._kinds, self._kind = _coded(
            [(one.mode, one.attributes_class, one.access_modes) for one in ordered]
        )
        self._by_reach: dict[Reach | None, list[int]] = {}
        for number, offer in enumerate(ordered):
            self._by_reach.setdefault(offer.reach, []).append(number)
        self._layout: _Layout | None = None
        self._selected: BoundedCache[Selector, Fitting] = BoundedCache(
            "volume_selectors", MAX_SELECTED_BYTES
        )

    def __len__(self) -> int:
        return len(self.volumes)

    def lose(self, name: str) -> None:
        number = self._number_of.get(name)
        if number is not None and self._there[number]:
            self._there[number] = False
            self.lost += 1

    def renew(self, volume: PersistentVolume) -> None:
        """Another version of a volume that offers what it did."""
        number = self._number_of.get(volume.name)
        if number is not None:
            self.volumes[number] = volume

    def fitting(self, demand: Demand, taken: Iterable[str]) -> Fitting:
        """The volumes that would do, but for those that are taken."""
        whole, rest = divmod(demand.size_nanos, NANO)
        exact = (self._whole_bytes == whole) & (self._nanos >= rest)
        fitting = self._there & ((self._whole_bytes > whole) | exact)
        kinds = [
            mode == demand.mode
            and attributes_class == demand.attributes_class
            and demand.access_modes <= access_modes
            for mode, attributes_class, access_modes in self._kinds
        ]
        if not all(kinds):
            fitting &= np.array(kinds, np.bool_)[self._kind]
        if not demand.selector.matches_everything:
            fitting &= self._selected_by(demand.selector)
        for name in taken:
            number = self._number_of.get(name)
            if number is not None:
                fitting[number] = False
        return fitting

    def choose(self, fitting: Fitting, nodes: Nodes, earlier: Sequence[Numbers]) -> Numbers:
        """Per row of the table the first fitting volume that reaches it and that no earlier choice
        from this shelf gave away there; else NONE.
        """
        layout = self._layout
        if layout is None or layout.as_of != nodes.label_generation:
            layout = self._layout = self._laid_out(nodes)
        usable = fitting[layout.numbers]
        pairs = [(layout.rows[usable], layout.numbers[usable])]
        for rows, numbers in layout.wide:
            # Earlier choices can have given away one each.
            needed = numbers[fitting[numbers]][: len(earlier) + 1]
            pairs += [(rows, np.full(len(rows), number, np.intp)) for number in needed]
        nobody = len(self)
        choice = np.full(len(nodes.whole), nobody, np.intp)
        for rows, numbers in pairs:
            for given in earlier:
                free = given[rows] != numbers
                rows, numbers = rows[free], numbers[free]
            np.minimum.at(choice, rows, numbers)
        choice[choice == nobody] = NONE
        return choice

    def _laid_out(self, nodes: Nodes) -> _Layout:
        whole, selected = nodes.whole, SelectedRows(nodes)
        rows: list[Rows] = []
        numbers: list[Numbers] = []
        wide: list[tuple[Rows, Numbers]] = []
        for reach, members in self._by_reach.items():
            reached = whole.rows if reach is None else reach.rows(selected, nodes)
            if len(reached) > NARROW:
                wide.append((reached, np.array(members, np.intp)))
                continue
            for number in members:
                rows.append(reached)
                numbers.append(np.full(len(reached), number, np.intp))
        nothing = np.empty(0, np.intp)
        return _Layout(
            nodes.label_generation,
            np.concatenate([nothing, *rows]),
            np.concatenate([nothing, *numbers]),
            wide,
        )

    def _selected_by(self, selector: Selector) -> Fitting:
        known = self._selected.get(selector)
        if known is None:
            matching = [selector.matches(volume.metadata.labels) for volume in self.volumes]
            known = np.array(matching, np.bool_)
            cost = known.nbytes + size_of(selector, self._selected.largest)
            self._selected.put(selector, known, cost)
        return known


def _coded(values: Sequence[H]) -> tuple[list[H], Numbers]:
    """The distinct values, and for each value which of them it is."""
    code_of: dict[H, int] = {}
    codes = [code_of.setdefault(value, len(code_of)) for value in values]
    return list(code_of), np.array(codes, np.intp)
