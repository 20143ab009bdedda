"""Verdicts: whether claims can be allocated, for all nodes at once, kept until something changes.

Nodes that look alike to a shape are of one class: the devices of their pools are of the same kinds,
in the same order and in use in the same way; names do not count. A class is judged once, by a
search on one of its nodes. A row belongs to a class until its pools change, or devices in them (see
`row_pools`). So a decision classifies the row that the last one has changed, and looks up the rest.

A pool that any node may reach is part of a class as such, and a change in it puts the class on
trial again. Errors name devices: nodes of a class that fails are searched each time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.core import Node
from kscheduler.api.resource import ResourceClaim
from kscheduler.dra.allocated import AllocatedDevices, PoolId
from kscheduler.dra.candidates import Candidates, KindOf, NodeDevices
from kscheduler.dra.counters import Counters
from kscheduler.dra.devices import SliceDevice
from kscheduler.dra.errors import AllocationError, SearchTimeout
from kscheduler.dra.features import AllocatorFeatures
from kscheduler.dra.kinds import Kind, Kinds
from kscheduler.dra.pools import Pool, PoolState
from kscheduler.dra.results import Results
from kscheduler.dra.row_pools import RowPools, can_skip_operations
from kscheduler.dra.search import TIMED_OUT, Search, Solution
from kscheduler.dra.shape import MAX_SUBREQUESTS, AllocationShape
from kscheduler.framework.status import Mask, Scores
from kscheduler.state.nodes_view import Nodes

# Classes that no node is of any more go when there are this many more than of others.
SPARE_CLASSES = 1024

# Codes of verdicts; the last two are no verdicts, but reasons to look again.
FITS, CANNOT_ALLOCATE, INVALID_POOLS, FAILS, UNKNOWN = range(5)
# Numbers of classes: of rows that are not classified, and of rows without a node.
UNCLASSIFIED, FREE = range(2)
# Looks of rows without a node, and of nodes that a slice with a broken selector concerns.
FREE_LOOK, BROKEN_LOOK = ("free",), ("broken",)


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Answers by position in the view that was asked about; positions not asked about fit."""

    # "cannot allocate all claims"
    cannot_allocate: Mask
    # "invalid resource pools were encountered"
    invalid_pools: Mask
    # Texts that end the attempt, by position.
    errors: dict[int, str]
    # Sum over the firstAvailable requests of 8 minus the index of the chosen subrequest.
    scores: Scores


class DeviceCounts(NamedTuple):
    """Devices of a node that selectors accept, and those of them that are free and allowed."""

    matching: int
    free: int


@dataclass(slots=True)
class NodeClass:
    """Nodes that look alike to a shape. `row` is that of a node that was of this class lately."""

    row: int
    shared: tuple[PoolId, ...]


class ShapeVerdicts:
    """Classes of nodes under one shape, and the verdict on each."""

    def __init__(self, shape: AllocationShape, kinds: Kinds) -> None:
        self.shape = shape
        self.kinds = kinds
        # By row.
        self.class_of: NDArray[np.int32] = np.zeros(0, np.int32)
        self.unclassified: set[int] = set()
        # By class.
        self.classes: list[NodeClass] = []
        self.codes: NDArray[np.int8] = np.zeros(0, np.int8)
        self.scores: NDArray[np.int64] = np.zeros(0, np.int64)
        # Classes that have no verdict, and those that fail.
        self.on_trial: set[int] = set()
        self.failing: set[int] = set()
        self._numbers: dict[Hashable, int] = {}
        # How far changes were read.
        self._rows_read = self._shared_read = -1

    def refresh(self, rows: RowPools) -> None:
        """Takes rows that have changed out of their classes, and reopens classes with them."""
        size = len(rows.by_row)
        changed = rows.changes.since(self._rows_read)
        self._rows_read = rows.changes.now
        if (
            changed is None
            or size != len(self.class_of)
            or len(self.classes) > 2 * size + SPARE_CLASSES
        ):
            self._forget(size)
        elif changed:
            self.unclassified |= changed
            self.class_of[list(changed)] = UNCLASSIFIED
        shared = rows.shared_changes.since(self._shared_read)
        self._shared_read = rows.shared_changes.now
        if shared is None or shared:
            for number, one in enumerate(self.classes):
                if one.shared and (shared is None or not shared.isdisjoint(one.shared)):
                    self._put_on_trial(number)

    def classify(self, row: int, look: Hashable, shared: tuple[PoolId, ...]) -> None:
        """Puts a row into the class of that look."""
        number = self._numbers.get(look)
        if number is None:
            number = self._numbers[look] = len(self.classes)
            self.classes.append(NodeClass(row, shared))
            if number == len(self.codes):
                self.codes = np.concatenate([self.codes, np.zeros(number, np.int8)])
                self.scores = np.concatenate([self.scores, np.zeros(number, np.int64)])
            self._put_on_trial(number)
        self.classes[number].row = row
        self.class_of[row] = number
        self.unclassified.discard(row)

    def row_of(self, number: int) -> int:
        """A row of that class, which must have one."""
        row = self.classes[number].row
        if self.class_of[row] != number:
            row = self.classes[number].row = int(np.flatnonzero(self.class_of == number)[0])
        return row

    def settle(self, number: int, code: int, score: int) -> None:
        """The verdict on a class."""
        self.codes[number], self.scores[number] = code, score
        self.on_trial.discard(number)
        if code == FAILS:
            self.failing.add(number)

    def _put_on_trial(self, number: int) -> None:
        self.codes[number] = UNKNOWN
        self.on_trial.add(number)
        self.failing.discard(number)

    def _forget(self, size: int) -> None:
        self.class_of = np.zeros(size, np.int32)
        self.unclassified = set(range(size))
        self.classes = [NodeClass(-1, ()), NodeClass(-1, ())]
        self.codes = np.array([UNKNOWN, FITS], np.int8)
        self.scores = np.zeros(2, np.int64)
        self._numbers = {FREE_LOOK: FREE}
        self.on_trial.clear()
        self.failing.clear()


class Judge:
    """Judges nodes: by the verdict on their class, or by a search."""

    def __init__(
        self,
        rows: RowPools,
        allocated: AllocatedDevices,
        features: AllocatorFeatures,
        results: Results,
        clock: Callable[[], float],
    ) -> None:
        self._rows = rows
        self._allocated = allocated
        self._features = features
        self._results = results
        self._clock = clock

    def verdicts(
        self,
        known: ShapeVerdicts,
        claims: Sequence[ResourceClaim],
        nodes: Nodes,
        within: Mask | None,
        deadline: float | None,
    ) -> Verdicts:
        """A verdict for each position of `nodes` that is `within`."""
        self._rows.refresh(nodes)
        known.refresh(self._rows)
        late = False
        try:
            for row in _rows_among(known.unclassified, nodes, within):
                self._classify(known, nodes.whole, row, deadline)
            if not known.unclassified:
                # A set that was large stays large.
                known.unclassified = set()
            if known.on_trial:
                rows = nodes.rows if within is None else nodes.rows[within]
                asked = set(np.unique(known.class_of.take(rows)).tolist())
                for number in known.on_trial & asked:
                    self._try(known, claims, nodes.whole, number, deadline)
        except SearchTimeout:
            # The attempt is lost; the next one goes on from here.
            late = True
        classes = known.class_of if nodes is nodes.whole else known.class_of.take(nodes.rows)
        codes = known.codes.take(classes)
        cannot, invalid = codes == CANNOT_ALLOCATE, codes == INVALID_POOLS
        troubled = codes >= FAILS if known.failing or late else None
        if within is not None:
            cannot &= within
            invalid &= within
            if troubled is not None:
                troubled &= within
        errors = {}
        failure = None if troubled is None else known.shape.failure(claims)
        for position in () if troubled is None else np.flatnonzero(troubled).tolist():
            pools = self._rows.by_row[nodes.rows[position]]
            if isinstance(pools, AllocationError):
                errors[position] = str(pools)
            elif failure is not None:
                errors[position] = failure
            elif codes[position] == FAILS:
                errors[position] = self._error(known, claims, pools, nodes.node(position), deadline)
            else:
                errors[position] = _timed_out(nodes.node(position))
        return Verdicts(cannot, invalid, errors, known.scores.take(classes))

    def inventories(
        self, known: ShapeVerdicts, nodes: Nodes, most: int
    ) -> Iterator[tuple[int, list[DeviceCounts]]]:
        """Devices on these nodes, for the `most` common looks among them: how many nodes look so,
        and per alternative of the shape the devices there. Nodes must have been judged.
        """
        numbers, positions, counts = np.unique(
            known.class_of.take(nodes.rows), return_index=True, return_counts=True
        )
        for index in np.argsort(-counts, kind="stable")[:most].tolist():
            pools = self._rows.by_row[int(nodes.rows[positions[index]])]
            if numbers[index] not in (UNCLASSIFIED, FREE) and not isinstance(
                pools, AllocationError
            ):
                yield int(counts[index]), self._inventory(known, pools)

    def _inventory(self, known: ShapeVerdicts, pools: Sequence[Pool]) -> list[DeviceCounts]:
        alternatives = known.shape.alternatives
        matching, free = [0] * len(alternatives), [0] * len(alternatives)
        kind_of = self._kind_of(known.kinds, None)
        for pool in pools:
            uses = self._allocated.uses(pool.id)
            for position, device in enumerate(pool.devices):
                kind = kind_of(device)
                if not kind.relevant or position in pool.unreachable:
                    continue
                use = uses.get(device.device.name)
                is_taken = use is not None and use.dedicated > 0
                for number, choice in enumerate(kind.choices):
                    if choice.selectable is True:
                        matching[number] += 1
                        free[number] += choice.allowed and not is_taken
        return [DeviceCounts(*one) for one in zip(matching, free, strict=True)]

    def search(
        self,
        known: ShapeVerdicts,
        claims: Sequence[ResourceClaim],
        pools: Sequence[Pool],
        node: Node,
        deadline: float | None,
    ) -> Solution | None:
        """The first solution on a node; raises AllocationError or SearchTimeout."""
        devices = NodeDevices(pools, self._allocated.uses, can_skip_operations(node))
        kind_of = self._kind_of(known.kinds, deadline)
        candidates = Candidates(known.shape, claims, devices, kind_of)
        solution = Search(candidates, self._features, self._timer(deadline)).find()
        if solution is not None:
            self._results.check(claims, node, solution)
        return solution

    def _timer(self, deadline: float | None) -> Callable[[], bool]:
        clock = self._clock
        return lambda: deadline is not None and clock() > deadline

    def _kind_of(self, kinds: Kinds, deadline: float | None) -> KindOf:
        known = kinds.known

        def kind_of(device: SliceDevice) -> Kind:
            kind = known(device.type)
            if kind is None:
                if deadline is not None and self._clock() > deadline:
                    raise SearchTimeout(TIMED_OUT)
                kind = kinds.find(device.type)
            return kind

        return kind_of

    def _classify(
        self, known: ShapeVerdicts, whole: Nodes, row: int, deadline: float | None
    ) -> None:
        """Finds out what the node looks like to the shape; raises SearchTimeout."""
        node, pools = whole.node(row), self._rows.by_row[row]
        if not node.name:
            known.classify(row, FREE_LOOK, ())
            return
        if isinstance(pools, AllocationError):
            known.classify(row, BROKEN_LOOK, ())
            return
        kind_of, see_used = self._kind_of(known.kinds, deadline), known.shape.see_used
        look: list[Hashable] = [can_skip_operations(node)]
        shared: list[PoolId] = []
        for pool in pools:
            if self._rows.is_shared(pool.id):
                look.append(pool)
                shared.append(pool.id)
            else:
                look.append(self._look(pool, kind_of, see_used=see_used))
        known.classify(row, tuple(look), tuple(shared))

    def _look(self, pool: Pool, kind_of: KindOf, *, see_used: bool) -> Hashable:
        """The look of a pool to a search; equal for pools that differ in names only."""
        uses, unreachable = self._allocated.uses(pool.id), pool.unreachable
        look: list[Hashable] = [pool.state]
        consumes = False
        for position, device in enumerate(pool.devices):
            kind = kind_of(device)
            if not kind.relevant:
                continue
            use = uses.get(device.device.name) if uses else None
            if use is not None and use.dedicated and not see_used:
                continue
            consumes = consumes or bool(kind.consumes)
            if use is None and position not in unreachable:
                look.append(kind.number)
            else:
                state = use.state if use is not None else None
                look.append((kind.number, state, unreachable.get(position, True)))
        if consumes:
            groups = self._features.compatibility_groups
            look.append(Counters(pool.generation, uses, groups=groups).state)
        return tuple(look)

    def _try(
        self,
        known: ShapeVerdicts,
        claims: Sequence[ResourceClaim],
        whole: Nodes,
        number: int,
        deadline: float | None,
    ) -> None:
        """Finds the verdict on a class by a search on one of its nodes; raises SearchTimeout."""
        row = known.row_of(number)
        pools = self._rows.by_row[row]
        if isinstance(pools, AllocationError):
            known.settle(number, FAILS, 0)
            return
        try:
            solution = self.search(known, claims, pools, whole.node(row), deadline)
        except AllocationError:
            known.settle(number, FAILS, 0)
            return
        if solution is not None:
            known.settle(number, FITS, _score(known.shape, solution))
        elif any(pool.state is PoolState.INVALID for pool in pools):
            known.settle(number, INVALID_POOLS, 0)
        else:
            known.settle(number, CANNOT_ALLOCATE, 0)

    def _error(
        self,
        known: ShapeVerdicts,
        claims: Sequence[ResourceClaim],
        pools: Sequence[Pool],
        node: Node,
        deadline: float | None,
    ) -> str:
        """The text of the error on a node of a class that fails."""
        try:
            self.search(known, claims, pools, node, deadline)
        except AllocationError as error:
            return str(error)
        except SearchTimeout:
            return _timed_out(node)
        raise AssertionError("nodes of one class do not fail alike")


def _timed_out(node: Node) -> str:
    return f"node {node.name}: {TIMED_OUT}"


def _rows_among(some: set[int], nodes: Nodes, within: Mask | None) -> list[int]:
    """The rows of a view that are among those, and within."""
    if not some:
        return []
    if nodes is nodes.whole:
        return sorted(some) if within is None else [row for row in sorted(some) if within[row]]
    rows = nodes.rows if within is None else nodes.rows[within]
    return [row for row in rows.tolist() if row in some]


def _score(shape: AllocationShape, solution: Solution) -> int:
    """The earlier a subrequest comes in its list, the better."""
    return sum(
        MAX_SUBREQUESTS - index
        for claim, chosen in zip(shape.claims, solution.chosen, strict=True)
        for request, index in zip(claim.requests, chosen, strict=True)
        if request.prioritized
    )
