"""Free volumes of a class in order of size: the smallest that does is found for all nodes at once.

The volumes are ordered once and then only removed; a new one takes a new `VolumesBySize`. A volume
is known by its number, and smaller numbers are taken first.
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
from kscheduler.plugins.volume_binding.volume_traits import (
    ClaimDemand,
    VolumeNodeAffinity,
    VolumeTraits,
)
from kscheduler.state.nodes_view import Nodes, SelectedRows

H = TypeVar("H", bound=Hashable)

NONE = -1
# Volumes that can be used from more rows than this are kept once for all these rows; others, local
# volumes mostly, as pairs of row and volume.
MAX_ROWS_AS_PAIRS = 8
MAX_SELECTED_BYTES = 1 << 20

Numbers = NDArray[np.intp]  # of volumes: [rows], or as said
Fitting = NDArray[np.bool_]  # [volumes]


class Layout(NamedTuple):
    """Rows that volumes can be used from.

    `rows` and `numbers` are [pairs] of row and volume, larger numbers first. Beside them are
    volumes that share many rows.
    """

    # A label generation.
    as_of: int
    rows: Rows
    numbers: Numbers
    # Rows, and the numbers of the volumes that share them, in order of size.
    shared: Sequence[tuple[Rows, Numbers]]
    # [volumes + 1], the last for NONE: the index in `shared`, or NONE.
    shared_of: Numbers


class VolumesBySize:
    def __init__(self, volumes: Sequence[PersistentVolume], traits: Sequence[VolumeTraits]) -> None:
        order = sorted(range(len(volumes)), key=lambda index: traits[index].size_nanos)
        self.volumes = [volumes[index] for index in order]
        self._number_of = {volume.name: n for n, volume in enumerate(self.volumes)}
        ordered = [traits[index] for index in order]
        self._present = np.ones(len(order), np.bool_)
        self.removed = 0
        # Sizes in bytes, and classes; the last entries are for NONE.
        self.sizes = np.array([*(one.size_bytes for one in ordered), 0], np.int64)
        classes = [volume.spec.storage_class_name for volume in self.volumes]
        self.classes, codes = _coded(classes)
        self.class_codes = np.append(codes, NONE)
        # Nanobytes do not fit into 64 bits: bytes and the rest apart.
        parts = [divmod(one.size_nanos, NANO) for one in ordered]
        self._whole_bytes, self._nanos = np.array(parts, np.int64).reshape(-1, 2).T
        self._kinds, self._kind = _coded(
            [(one.mode, one.attributes_class, one.access_modes) for one in ordered]
        )
        self._by_affinity: dict[VolumeNodeAffinity | None, list[int]] = {}
        for number, one in enumerate(ordered):
            self._by_affinity.setdefault(one.node_affinity, []).append(number)
        self._layout: Layout | None = None
        self._selected: BoundedCache[Selector, Fitting] = BoundedCache(
            "volume_selectors", MAX_SELECTED_BYTES
        )

    def __len__(self) -> int:
        return len(self.volumes)

    def remove(self, name: str) -> None:
        number = self._number_of.get(name)
        if number is not None and self._present[number]:
            self._present[number] = False
            self.removed += 1

    def replace(self, volume: PersistentVolume) -> None:
        """Keep another version of a volume whose traits are the same."""
        number = self._number_of.get(volume.name)
        if number is not None:
            self.volumes[number] = volume

    def fitting(self, demand: ClaimDemand) -> Fitting:
        """Volumes that meet the demand, whether they are available or not."""
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
        selector = demand.selector
        if not selector.matches_everything:
            selected = self._selected.get(selector)
            if selected is None:
                matches = [selector.matches(volume.metadata.labels) for volume in self.volumes]
                selected = np.array(matches, np.bool_)
                cost = selected.nbytes + size_of(selector, self._selected.largest)
                self._selected.put(selector, selected, cost)
            fitting &= selected
        return fitting

    def available(self, assumed: Iterable[str]) -> Fitting:
        """Volumes that are still free, without those that are assumed to be bound."""
        available = self._present.copy()
        for name in assumed:
            number = self._number_of.get(name)
            if number is not None:
                available[number] = False
        return available

    def layout(self, nodes: Nodes) -> Layout:
        """Worked out again when labels of nodes have changed."""
        layout = self._layout
        if layout is not None and layout.as_of == nodes.label_generation:
            return layout
        whole, selected = nodes.whole, SelectedRows(nodes)
        rows: list[Rows] = []
        numbers: list[int] = []
        shared: list[tuple[Rows, Numbers]] = []
        shared_of = np.full(len(self) + 1, NONE, np.intp)
        for affinity, members in self._by_affinity.items():
            usable_from = whole.rows if affinity is None else affinity.rows(selected, nodes)
            if len(usable_from) > MAX_ROWS_AS_PAIRS:
                shared_of[members] = len(shared)
                shared.append((usable_from, np.array(members, np.intp)))
            else:
                rows += [usable_from] * len(members)
                numbers += members
        number_of_pair = np.repeat(np.array(numbers, np.intp), [len(some) for some in rows])
        descending = np.argsort(-number_of_pair)
        row_of_pair = np.concatenate([np.empty(0, np.intp), *rows])
        layout = self._layout = Layout(
            nodes.label_generation,
            row_of_pair[descending],
            number_of_pair[descending],
            shared,
            shared_of,
        )
        return layout


class SmallestVolumes:
    """Volumes for the claims of one pod, claim after claim: on each row the smallest that does, and
    none twice.

    A claim costs O(pairs of the layout + rows of the shared volumes), as long as most rows were
    given the same shared volumes.
    """

    def __init__(self, volumes: VolumesBySize, nodes: Nodes, assumed: Iterable[str]) -> None:
        self.volumes = volumes
        self._length = len(nodes.whole)
        self._layout = volumes.layout(nodes)
        self._available = volumes.available(assumed)
        # [pairs of the layout]: not given to an earlier claim there.
        self._unused: Mask | None = None
        self._shared = [_SharedVolumes(rows, numbers) for rows, numbers in self._layout.shared]
        self._last: Numbers | None = None

    def choose(self, demand: ClaimDemand, where: Mask) -> Numbers:
        """By row of the whole table, the smallest fitting volume that can be used there and was not
        chosen there before; NONE where there is none, and on rows that are not in `where`.
        """
        if self._last is not None:
            self._exclude(self._last)
        # `nobody` is larger than all numbers.
        layout, nobody = self._layout, len(self.volumes)
        fitting = self.volumes.fitting(demand) & self._available
        usable = fitting[layout.numbers]
        if self._unused is not None:
            usable &= self._unused
        choice = np.full(self._length, nobody, np.intp)
        # Of several numbers for a row the last one stays: the smallest.
        choice[layout.rows[usable]] = layout.numbers[usable]
        for one in self._shared:
            choice[one.rows] = np.minimum(choice[one.rows], one.first(fitting, nobody))
        choice[(choice == nobody) | ~where] = NONE
        self._last = choice
        return choice

    def _exclude(self, choice: Numbers) -> None:
        """Take chosen volumes out of the later choices on the same row."""
        layout = self._layout
        kept = choice[layout.rows] != layout.numbers
        self._unused = kept if self._unused is None else self._unused & kept
        shared_of = layout.shared_of[choice]
        for index in np.unique(shared_of[shared_of != NONE]).tolist():
            shared = self._shared[index]
            shared.exclude_first(shared_of[shared.rows] == index)


class _SharedVolumes:
    """Volumes that can be used from the same rows. Rows that were given the same of them are in one
    state; volumes are searched per state, not per row.
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
        """By row, the smallest number that fits and is unused there, or `nobody`."""
        fits = fitting[self._numbers]
        firsts = np.full(len(self._unused), nobody, np.intp)
        for state, unused in enumerate(self._unused):
            usable = fits & unused
            place = self._places[state] = int(usable.argmax())
            if usable[place]:
                firsts[state] = self._numbers[place]
        return firsts[self._state]

    def exclude_first(self, taken: Mask) -> None:
        """`taken`, [rows]: rows where the volume that `first` found is used now."""
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
    """Distinct values, and for each value the index of it among them."""
    code_of: dict[H, int] = {}
    codes = [code_of.setdefault(value, len(code_of)) for value in values]
    return list(code_of), np.array(codes, np.intp)
