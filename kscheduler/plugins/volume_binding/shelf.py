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
from kscheduler.framework.status import Mask, Rows
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


class Layout(NamedTuple):
    """Rows that volumes reach: pairs of row and number, larger numbers first, and beside them the
    volumes of wide reach, which share their rows.
    """

    as_of: int
    rows: Rows
    numbers: Numbers
    # Each with the numbers in order of size.
    wide: Sequence[tuple[Rows, Numbers]]
    # [volumes + 1], the last for NONE: the index in `wide`, or NONE.
    wide_of: Numbers


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
        self._layout: Layout | None = None
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

    def fitting(self, demand: Demand) -> Fitting:
        """The volumes that would do, whoever has them."""
        whole, rest = divmod(demand.size_nanos, NANO)
        exact = (self._whole_bytes == whole) & (self._nanos >= rest)
        fitting = (self._whole_bytes > whole) | exact
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
        return fitting

    def available(self, assumed: Iterable[str]) -> Fitting:
        """The volumes that are still there, but for those that are assumed to be bound."""
        available = self._there.copy()
        for name in assumed:
            number = self._number_of.get(name)
            if number is not None:
                available[number] = False
        return available

    def layout(self, nodes: Nodes) -> Layout:
        layout = self._layout
        if layout is None or layout.as_of != nodes.label_generation:
            layout = self._layout = self._laid_out(nodes)
        return layout

    def _laid_out(self, nodes: Nodes) -> Layout:
        whole, selected = nodes.whole, SelectedRows(nodes)
        rows: list[Rows] = []
        numbers: list[int] = []
        wide: list[tuple[Rows, Numbers]] = []
        wide_of = np.full(len(self) + 1, NONE, np.intp)
        for reach, members in self._by_reach.items():
            reached = whole.rows if reach is None else reach.rows(selected, nodes)
            if len(reached) > NARROW:
                wide_of[members] = len(wide)
                wide.append((reached, np.array(members, np.intp)))
            else:
                rows += [reached] * len(members)
                numbers += members
        of_pair = np.repeat(np.array(numbers, np.intp), [len(some) for some in rows])
        descending = np.argsort(-of_pair)
        row_of_pair = np.concatenate([np.empty(0, np.intp), *rows])
        return Layout(
            nodes.label_generation, row_of_pair[descending], of_pair[descending], wide, wide_of
        )

    def _selected_by(self, selector: Selector) -> Fitting:
        known = self._selected.get(selector)
        if known is None:
            matching = [selector.matches(volume.metadata.labels) for volume in self.volumes]
            known = np.array(matching, np.bool_)
            cost = known.nbytes + size_of(selector, self._selected.largest)
            self._selected.put(selector, known, cost)
        return known


class Picks:
    """Volumes of one shelf for the claims of one pod, claim after claim: on each row the smallest
    that does, and none twice.

    A claim costs O(pairs of the layout + rows of the wide reaches), as long as most rows were given
    the same volumes of wide reach.
    """

    def __init__(self, shelf: Shelf, nodes: Nodes, assumed: Iterable[str]) -> None:
        self.shelf = shelf
        self._length = len(nodes.whole)
        self._layout = shelf.layout(nodes)
        self._available = shelf.available(assumed)
        # [pairs of the layout]: not given away there.
        self._unused: Mask | None = None
        self._wide = [_WideReach(rows, numbers) for rows, numbers in self._layout.wide]
        self._last: Numbers | None = None

    def choose(self, demand: Demand, where: Mask) -> Numbers:
        """Per row of the table the first fitting volume that reaches it and was not chosen there
        before; else NONE, and so on rows outside of `where`.
        """
        if self._last is not None:
            self._give_away(self._last)
        layout, nobody = self._layout, len(self.shelf)
        fitting = self.shelf.fitting(demand) & self._available
        usable = fitting[layout.numbers]
        if self._unused is not None:
            usable &= self._unused
        choice = np.full(self._length, nobody, np.intp)
        # Of several numbers for a row the last one stays: the smallest.
        choice[layout.rows[usable]] = layout.numbers[usable]
        for one in self._wide:
            choice[one.rows] = np.minimum(choice[one.rows], one.first(fitting, nobody))
        choice[(choice == nobody) | ~where] = NONE
        self._last = choice
        return choice

    def _give_away(self, choice: Numbers) -> None:
        """Takes chosen volumes out of the later choices on the same row."""
        layout = self._layout
        kept = choice[layout.rows] != layout.numbers
        self._unused = kept if self._unused is None else self._unused & kept
        wide_of = layout.wide_of[choice]
        for index in np.unique(wide_of[wide_of != NONE]).tolist():
            wide = self._wide[index]
            wide.give_away(wide_of[wide.rows] == index)


class _WideReach:
    """Volumes that reach the same rows. Rows that were given the same of them are in one state; a
    look at the volumes is taken per state, not per row.
    """

    def __init__(self, rows: Rows, numbers: Numbers) -> None:
        self.rows = rows
        self._numbers = numbers
        # [rows]: an index of `_unused`.
        self._state: Numbers = np.zeros(len(rows), np.intp)
        # By state, [numbers]; and where in there is what `first` found last.
        self._unused: list[Mask] = [np.ones(len(numbers), np.bool_)]
        self._places: list[int] = [0]

    def first(self, fitting: Fitting, nobody: int) -> Numbers:
        """Per row the smallest number that fits and was not given away there, or `nobody`."""
        fits = fitting[self._numbers]
        firsts = np.full(len(self._unused), nobody, np.intp)
        for state, unused in enumerate(self._unused):
            usable = fits & unused
            place = self._places[state] = int(usable.argmax())
            if usable[place]:
                firsts[state] = self._numbers[place]
        return firsts[self._state]

    def give_away(self, taken: Mask) -> None:
        """`taken`: the rows, of `rows`, that take what was found for them first."""
        states = len(self._unused)
        takers = np.bincount(self._state[taken], minlength=states)
        others = np.bincount(self._state, minlength=states) - takers
        # Rows of one state that do not take what the others do go on in a state of their own.
        left = np.arange(states)
        for state in np.flatnonzero(takers).tolist():
            if others[state]:
                left[state] = len(self._unused)
                self._unused.append(self._unused[state].copy())
                self._places.append(0)
            self._unused[state][self._places[state]] = False
        self._state = np.where(taken, self._state, left[self._state])


def _coded(values: Sequence[H]) -> tuple[list[H], Numbers]:
    """The distinct values, and for each value which of them it is."""
    code_of: dict[H, int] = {}
    codes = [code_of.setdefault(value, len(code_of)) for value in values]
    return list(code_of), np.array(codes, np.intp)
