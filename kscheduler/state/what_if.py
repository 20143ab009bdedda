"""What-if: nodes as they would be if pods came or left.

    what_if = WhatIf(nodes)
    what_if.remove(victims)         # PodsByRow: all pods that might be evicted
    what_if.add(victims.some(back)) # … some of which are reprieved
    what_if.nodes                   # a view like any other, for Filter

A what-if is its base plus a log of batches, each a set of pods with what they take laid out in
arrays. A column is copied from the base when a plugin first asks for it, gets the whole log, and
from then on each batch as it comes: a few array additions whatever the number of rows. What nobody
asks for costs nothing. A what-if never writes to its base and is good only while its base does not
change: for the decision it was made in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kscheduler.state.affinity_term import TermKind
from kscheduler.state.carried_terms import CarriedOver, NodeLabels
from kscheduler.state.change_log import next_generation
from kscheduler.state.columns import read_only, wrap_int64
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.occupancy import Occupancy, take_out
from kscheduler.state.pod_index import Condition, PodIndex, meets
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.row_counts import Counts, Sums

Rows = NDArray[np.intp]
Numbers = NDArray[np.intp]  # into `PodsByRow.pods`
Amounts = NDArray[np.int64]
Columns = Mapping[str, int]  # resource name → column of the table


class PodBatch(ABC):
    """Pods on rows, with what they take of each row.

    Amounts wrap around like the machine's own integers, as the columns do that they are added to.
    """

    # Distinct; the last axis of all amounts.
    rows: Rows

    @abstractmethod
    def requests(self, columns: Columns, width: int) -> Amounts:
        """[width, rows]. A resource without a column is one that no node has: what is asked of it
        decides nothing.
        """

    @property
    @abstractmethod
    def nonzero_requests(self) -> Amounts:
        """[2, rows]: cpu and memory."""

    @property
    @abstractmethod
    def counts(self) -> Amounts:
        """Pods on each of the rows."""

    @abstractmethod
    def __iter__(self) -> Iterator[tuple[PodInfo, int]]:
        """Each pod with its row."""

    @abstractmethod
    def on_row(self, row: int) -> Sequence[PodInfo]: ...


class PodsByRow(PodBatch):
    """Pods numbered row by row, in the order in which the rows and their pods are given.

    What each pod asks for is laid out once, so that any selection of them is a slice.
    """

    def __init__(self, by_row: Mapping[int, Sequence[PodInfo]]) -> None:
        """`by_row`: at least one pod each."""
        self.pods = [pod for pods in by_row.values() for pod in pods]
        self._counts = np.fromiter(map(len, by_row.values()), np.int64, len(by_row))
        self.rows = np.fromiter(by_row, np.intp, len(by_row))
        self.row_of_pod: Rows = np.repeat(self.rows, self._counts)
        self.first_of_row: Numbers = np.cumsum(self._counts) - self._counts
        self._position = {row: position for position, row in enumerate(by_row)}
        self._requests: Amounts | None = None

    def numbers_of(self, row: int) -> tuple[int, int]:
        """The first number of a row's pods, and the first after them."""
        position = self._position.get(row)
        if position is None:
            return 0, 0
        first = int(self.first_of_row[position])
        return first, first + int(self._counts[position])

    def some(self, which: Numbers) -> PodBatch:
        """Some of the pods, in ascending order, no two of one row."""
        return _SomePods(self, which)

    def requests(self, columns: Columns, width: int) -> Amounts:
        return self._by_row(self.requests_of_pods(columns, width))

    def requests_of_pods(self, columns: Columns, width: int) -> Amounts:
        """[width, pods]. `columns` are always the same: those of the base."""
        if self._requests is None:
            amounts = self._requests = np.zeros((width, len(self.pods)), np.int64)
            named: set[str] = set()
            named.update(*(pod.requests for pod in self.pods))
            for name in named & columns.keys():
                asked = [pod.requests.get(name, 0) for pod in self.pods]
                try:
                    amounts[columns[name]] = asked
                except OverflowError:
                    amounts[columns[name]] = [wrap_int64(amount) for amount in asked]
        return self._requests

    @property
    def nonzero_requests(self) -> Amounts:
        return self._by_row(self.nonzero_requests_of_pods)

    @cached_property
    def nonzero_requests_of_pods(self) -> Amounts:
        """[2, pods]."""
        cpu = [wrap_int64(pod.nonzero_cpu) for pod in self.pods]
        memory = [wrap_int64(pod.nonzero_memory) for pod in self.pods]
        return np.array([cpu, memory], np.int64)

    @property
    def counts(self) -> Amounts:
        return self._counts

    def __iter__(self) -> Iterator[tuple[PodInfo, int]]:
        return zip(self.pods, self.row_of_pod.tolist(), strict=True)

    def on_row(self, row: int) -> Sequence[PodInfo]:
        first, end = self.numbers_of(row)
        return self.pods[first:end]

    def _by_row(self, amounts: Amounts) -> Amounts:
        if not self.pods:
            return amounts
        return np.add.reduceat(amounts, self.first_of_row, axis=1)


class _SomePods(PodBatch):
    def __init__(self, among: PodsByRow, which: Numbers) -> None:
        self._among = among
        self._which = which
        self.rows = among.row_of_pod[which]

    def requests(self, columns: Columns, width: int) -> Amounts:
        return self._among.requests_of_pods(columns, width)[:, self._which]

    @property
    def nonzero_requests(self) -> Amounts:
        return self._among.nonzero_requests_of_pods[:, self._which]

    @property
    def counts(self) -> Amounts:
        return np.ones(len(self._which), np.int64)

    def __iter__(self) -> Iterator[tuple[PodInfo, int]]:
        pods = self._among.pods
        return (
            (pods[n], row) for n, row in zip(self._which.tolist(), self.rows.tolist(), strict=True)
        )

    def on_row(self, row: int) -> Sequence[PodInfo]:
        first, end = self._among.numbers_of(row)
        position = int(self._which.searchsorted(first))
        if position == len(self._which) or self._which[position] >= end:
            return ()
        return (self._among.pods[self._which[position]],)


class NominatedPods(PodBatch):
    """Pods nominated to nodes, by row; changes a row at a time and is kept between decisions.

    Sums are columns as long as the table, so that a decision adds them up at the cost of a few
    array operations, however many pods are nominated. No row of the table is beyond `length`.
    """

    def __init__(self, length: int) -> None:
        self._length = length
        self.pods: dict[int, Sequence[PodInfo]] = {}
        # The rows that have such pods, [length].
        self.marked = np.zeros(length, np.bool_)
        self._counts: Amounts = np.zeros(length, np.int64)
        self._nonzero_requests = np.zeros((2, length), np.int64)
        # name → row → amount, never 0; and as a column for names that are columns of the table. A
        # pod may name thousands of resources, of which nodes have few.
        self._requests: dict[str, dict[int, int]] = {}
        self._columns: dict[str, Amounts] = {}
        # The columns that `requests` was asked for last, and its answer, until a row changes.
        self._laid_out: tuple[Columns, Amounts] | None = None

    def put(self, row: int, pods: Sequence[PodInfo]) -> None:
        """From now on these, and no others, are nominated to the row."""
        self.__dict__.pop("rows", None)
        self._laid_out = None
        if row in self.pods:
            self._clear(row)
        if not pods:
            return
        self.pods[row] = pods
        self.marked[row] = True
        self._counts[row] = len(pods)
        cpu, memory = sum(pod.nonzero_cpu for pod in pods), sum(pod.nonzero_memory for pod in pods)
        self._nonzero_requests[:, row] = wrap_int64(cpu), wrap_int64(memory)
        totals: Counter[str] = Counter()
        for pod in pods:
            totals.update(pod.requests)
        for name, amount in totals.items():
            if amount:
                amount = wrap_int64(amount)
                self._requests.setdefault(name, {})[row] = amount
                if name in self._columns:
                    self._columns[name][row] = amount

    def _clear(self, row: int) -> None:
        for name in {name for pod in self.pods.pop(row) for name in pod.requests}:
            rows = self._requests.get(name)
            if rows is None or rows.pop(row, None) is None:
                continue
            if not rows:
                del self._requests[name]
                self._columns.pop(name, None)
            elif name in self._columns:
                self._columns[name][row] = 0
        self.marked[row] = False
        self._counts[row] = 0
        self._nonzero_requests[:, row] = 0

    @cached_property
    def rows(self) -> Rows:  # type: ignore[override]
        return self.marked.nonzero()[0]

    def requests(self, columns: Columns, width: int) -> Amounts:
        if self._laid_out is not None and self._laid_out[0] == columns:
            return self._laid_out[1]
        amounts = np.zeros((width, len(self.rows)), np.int64)
        for name in columns.keys() & self._requests.keys():
            column = self._columns.get(name)
            if column is None:
                by_row = self._requests[name]
                column = self._columns[name] = np.zeros(self._length, np.int64)
                column[list(by_row)] = list(by_row.values())
            amounts[columns[name]] = column.take(self.rows)
        self._laid_out = dict(columns), amounts
        return amounts

    @property
    def nonzero_requests(self) -> Amounts:
        return self._nonzero_requests.take(self.rows, 1)

    @property
    def counts(self) -> Amounts:
        return self._counts.take(self.rows)

    def __iter__(self) -> Iterator[tuple[PodInfo, int]]:
        return ((pod, row) for row, pods in self.pods.items() for pod in pods)

    def on_row(self, row: int) -> Sequence[PodInfo]:
        return self.pods.get(row, ())


class WhatIf:
    def __init__(self, nodes: Nodes) -> None:
        self._base = nodes
        self._occupancy = _SupposedOccupancy(nodes)
        self._shown: Nodes | None = None

    def add(self, pods: PodBatch) -> None:
        self._occupancy.apply(pods, 1)
        self._shown = None

    def remove(self, pods: PodBatch) -> None:
        """Pods that are there, by the base or by an earlier `add`."""
        self._occupancy.apply(pods, -1)
        self._shown = None

    def add_pod(self, pod: PodInfo, row: int) -> None:
        self.add(PodsByRow({row: [pod]}))

    def remove_pod(self, pod: PodInfo, row: int) -> None:
        """Take back what was added under this pod's uid, be it another version of the object."""
        known = next(there for there in self._occupancy.pods(row) if there.uid == pod.uid)
        self.remove(PodsByRow({row: [known]}))

    @property
    def nodes(self) -> Nodes:
        """The base's nodes as they would be; ask again after a change."""
        if self._shown is None:
            self._shown = self._base.occupied_by(self._occupancy)
        return self._shown


class _SupposedOccupancy(Occupancy):
    """The base's pods, and the log of batches that came (1) or left (-1)."""

    index: WhatIfPodIndex
    # `namespace/name` → users more than in the base.
    claims: Counter[str]

    def __init__(self, nodes: Nodes) -> None:
        self._base = nodes.occupancy
        self._columns = nodes.resources
        self._log: list[tuple[PodBatch, int]] = []
        self.generation = next_generation()

    def apply(self, batch: PodBatch, by: int) -> None:
        self._log.append((batch, by))
        self.generation = next_generation()
        for name in self.__dict__.keys() & _LATE_COLUMNS.keys():
            _LATE_COLUMNS[name][1](self, batch, by)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Called for a column that was not asked for yet."""
            if name not in _LATE_COLUMNS:
                raise AttributeError(name)
            copied, apply = _LATE_COLUMNS[name]
            column = self.__dict__[name] = copied(self._base)
            for batch, by in self._log:
                apply(self, batch, by)
            return column

    def pods(self, row: int) -> Sequence[PodInfo]:
        pods = list(self._base.pods(row))
        for batch, by in self._log:
            for pod in batch.on_row(row):
                if by > 0:
                    pods.append(pod)
                else:
                    take_out(pods, pod)
        return pods

    def claim_users(self, claim: str) -> int:
        return self._base.claim_users(claim) + self.claims[claim]

    # One function per column: a batch applied to it.

    def _apply_requested(self, batch: PodBatch, by: int) -> None:
        width = self.requested.view.shape[1]
        self.requested.add_to_rows(batch.rows, by * batch.requests(self._columns, width))

    def _apply_nonzero_requested(self, batch: PodBatch, by: int) -> None:
        self.nonzero_requested.add_to_rows(batch.rows, by * batch.nonzero_requests)

    def _apply_pod_count(self, batch: PodBatch, by: int) -> None:
        self.pod_count.add_to_rows(batch.rows, by * batch.counts)

    def _apply_ports(self, batch: PodBatch, by: int) -> None:
        """Pod by pod: of two pods that hold the same port, the last to move decides."""
        move = self.ports.add if by > 0 else self.ports.remove
        for pod, row in batch:
            for port in pod.host_ports:
                move(port, row)

    def _apply_disks(self, batch: PodBatch, by: int) -> None:
        move = self.disks.add if by > 0 else self.disks.remove
        for pod, row in batch:
            for disk in pod.disks:
                move(disk, row)

    def _apply_claims(self, batch: PodBatch, by: int) -> None:
        for pod, _ in batch:
            for claim in pod.claims:
                self.claims[claim] += by

    def _apply_index(self, batch: PodBatch, by: int) -> None:
        self.index.change(batch, by)


# By column: a copy of the base's that can be changed without changing the base; and the function
# that applies a batch to it.
_LATE_COLUMNS: Mapping[
    str,
    tuple[Callable[[Occupancy], object], Callable[[_SupposedOccupancy, PodBatch, int], None]],
] = {
    "requested": (lambda base: base.requested.copy(), _SupposedOccupancy._apply_requested),
    "nonzero_requested": (
        lambda base: base.nonzero_requested.copy(),
        _SupposedOccupancy._apply_nonzero_requested,
    ),
    "pod_count": (lambda base: base.pod_count.copy(), _SupposedOccupancy._apply_pod_count),
    "ports": (lambda base: base.ports.what_if(), _SupposedOccupancy._apply_ports),
    "disks": (lambda base: base.disks.what_if(), _SupposedOccupancy._apply_disks),
    "claims": (lambda base: Counter(), _SupposedOccupancy._apply_claims),
    "index": (
        lambda base: WhatIfPodIndex(base.index, len(base.pod_count.view)),
        _SupposedOccupancy._apply_index,
    ),
}


class WhatIfPodIndex(PodIndex):
    """The base's answers, corrected by what changed since. Arrays given out stay as they are."""

    def __init__(self, base: PodIndex, length: int) -> None:
        self._base = base
        self._length = length
        self._changes: list[tuple[PodInfo, int, int]] = []
        # Answers, each with the number of changes that are in it.
        self._answers: dict[tuple[tuple[Condition, ...], bool], tuple[int, Counts]] = {}

    def change(self, batch: PodBatch, by: int) -> None:
        self._changes.extend((pod, row, by) for pod, row in batch)

    def carried(
        self,
        kind: TermKind,
        pod: PodInfo,
        namespace_labels: Mapping[str, str],
        nodes: NodeLabels,
    ) -> list[CarriedOver]:
        base, keys = self._base.carried(kind, pod, namespace_labels, nodes), nodes.label_keys
        # By topology key, what the pods that came and went add to the base's sum.
        more: dict[str, list[tuple[int, int]]] = {}
        for changed, row, by in self._changes:
            for carried_as, term, weight in changed.carried_terms:
                if carried_as is not kind or term.topology_key not in keys:
                    continue
                if term.matches(pod.namespace, pod.labels, namespace_labels):
                    more.setdefault(term.topology_key, []).append((row, by * weight))
        carried = []
        for key, weight, counts in base:
            changes = more.pop(key, None)
            if changes is not None:
                weight, counts = 1, self._added(weight * counts.astype(np.int64), changes)
            carried.append(CarriedOver(key, weight, counts))
        for key, changes in more.items():
            counts = self._added(np.zeros(self._length, np.int64), changes)
            carried.append(CarriedOver(key, 1, counts))
        return [terms for terms in carried if terms.counts.any()]

    def number_carried(self, kind: TermKind, key: str) -> int:
        number = self._base.number_carried(kind, key)
        for changed, _, by in self._changes:
            for carried_as, term, _ in changed.carried_terms:
                if carried_as is kind and term.topology_key == key:
                    number += by
        return number

    def _added(self, sums: Sums, changes: Sequence[tuple[int, int]]) -> Sums:
        rows, amounts = zip(*changes, strict=True)
        np.add.at(sums, list(rows), list(amounts))
        return read_only(sums)

    def _matching(self, conditions: tuple[Condition, ...], *, terminating: bool) -> Counts:
        question = (conditions, terminating)
        known = self._answers.get(question)
        if known is None:
            known = 0, self._base._matching(conditions, terminating=terminating)
        included, counts = known
        changes = [
            (row, by)
            for pod, row, by in self._changes[included:]
            if terminating or not pod.terminating
            if meets(pod.namespace, pod.labels, conditions)
        ]
        if changes:
            # A copy: arrays given out stay as they are.
            counts = counts.copy()
            for row, by in changes:
                counts[row] += by
            counts = read_only(counts)
        self._answers[question] = len(self._changes), counts
        return counts
