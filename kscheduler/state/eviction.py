"""What if all these pods were gone, and then some of them came back?

Pods leave many rows at once and come back one per row at a time. What they take is laid out in
arrays first, so that each step costs a few additions whatever the number of rows. What is seldom
asked for (the pods of a row, claims, the index) is worked out when it is.

Like a fork, an eviction never writes to its base and is good while its base does not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from kscheduler.state.columns import Matrix, wrap_int64
from kscheduler.state.fork import ForkedPodIndex
from kscheduler.state.generations import next_generation
from kscheduler.state.late_columns import LateColumns, WorkedOutBy
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

Rows = NDArray[np.intp]
Numbers = NDArray[np.intp]  # into `Eviction.pods`
Amounts = NDArray[np.int64]  # [columns, pods]


class _Numbered:
    """Pods are numbered row by row, in the order in which the rows and their pods were given."""

    def __init__(self, evicted: Mapping[int, Sequence[PodInfo]]) -> None:
        self.pods = [pod for pods in evicted.values() for pod in pods]
        counts = np.fromiter(map(len, evicted.values()), np.intp, len(evicted))
        self.rows: Rows = np.fromiter(evicted, np.intp, len(evicted))
        self.row_of_pod: Rows = np.repeat(self.rows, counts)
        self.first_of_row: Numbers = np.cumsum(counts) - counts
        self._position = {row: position for position, row in enumerate(evicted)}

    def numbers_of(self, row: int) -> tuple[int, int]:
        """The first number of a row's pods, and the first after them."""
        position = self._position.get(row)
        if position is None:
            return 0, 0
        after = position + 1
        end = int(self.first_of_row[after]) if after < len(self.rows) else len(self.pods)
        return int(self.first_of_row[position]), end


class Eviction:
    def __init__(self, nodes: Nodes, evicted: Mapping[int, Sequence[PodInfo]]) -> None:
        """`evicted`: by row, at least one pod each."""
        self._base = nodes
        # The occupancy knows these, not the eviction: in a cycle of references its columns would
        # stay until the garbage collector comes.
        numbered = _Numbered(evicted)
        self.pods = numbered.pods
        self.rows = numbered.rows
        self.row_of_pod = numbered.row_of_pod
        self.first_of_row = numbered.first_of_row
        self.numbers_of = numbered.numbers_of
        self._occupancy = _Thinned(nodes, numbered)
        self._shown: Nodes | None = None

    def bring_back(self, which: Numbers) -> None:
        """Pods that are gone, no two of one row."""
        self._occupancy.shift(which, 1)
        self._shown = None

    def take_away(self, which: Numbers) -> None:
        """Pods that are there, no two of one row."""
        self._occupancy.shift(which, -1)
        self._shown = None

    @property
    def nodes(self) -> Nodes:
        """The base's nodes as they would be; ask again after a change."""
        if self._shown is None:
            self._shown = self._base.occupied_by(self._occupancy)
        return self._shown


class _Thinned(LateColumns):
    def __init__(self, nodes: Nodes, eviction: _Numbered) -> None:
        self._base = base = nodes.occupancy
        self._eviction = eviction
        self._gone = np.ones(len(eviction.pods), np.bool_)
        self._requests = _requests(eviction.pods, nodes.resources, base.requested.view.shape[1])
        self.requested = self._less(base.requested, self._requests)
        self.pod_count = base.pod_count.copy()
        counts = np.diff(eviction.first_of_row, append=len(eviction.pods))
        self.pod_count.add_to_rows(eviction.rows, -counts)
        self._with_ports = {n for n, pod in enumerate(eviction.pods) if pod.host_ports}
        self.ports = base.ports.fork() if self._with_ports else base.ports
        self._shift_ports(self._with_ports, -1)
        self._with_disks = {n for n, pod in enumerate(eviction.pods) if pod.disks}
        self.disks = base.disks.fork() if self._with_disks else base.disks
        self._shift_disks(self._with_disks, -1)
        self.generation = next_generation()

    def shift(self, which: Numbers, by: int) -> None:
        rows = self._eviction.row_of_pod[which]
        self._gone[which] = by < 0
        self.requested.add_to_rows(rows, by * self._requests[:, which])
        self.pod_count.add_to_rows(rows, by)
        if self._with_ports:
            self._shift_ports(which.tolist(), by)
        if self._with_disks:
            self._shift_disks(self._with_disks.intersection(which.tolist()), by)
        self._forget_late_columns()
        self.generation = next_generation()

    def _shift_ports(self, which: Iterable[int], by: int) -> None:
        """Step by step: of two pods that claim the same port, the last to move decides."""
        eviction, ports = self._eviction, self.ports
        move = ports.add if by > 0 else ports.remove
        for number in which:
            for port in eviction.pods[number].host_ports if number in self._with_ports else ():
                move(port, int(eviction.row_of_pod[number]))

    def _shift_disks(self, which: Iterable[int], by: int) -> None:
        move = self.disks.add if by > 0 else self.disks.remove
        for number in which:
            for use in self._eviction.pods[number].disks:
                move(use, int(self._eviction.row_of_pod[number]))

    def pods(self, row: int) -> Sequence[PodInfo]:
        pods = self._base.pods(row)
        first, end = self._eviction.numbers_of(row)
        if first == end:
            return pods
        evicted, gone = self._eviction.pods, self._gone
        missing = {evicted[number].uid for number in range(first, end) if gone[number]}
        return [pod for pod in pods if pod.uid not in missing]

    def claim_users(self, claim: str) -> int:
        gone = sum(pod.claims.count(claim) for pod, _ in self._gone_pods())
        return self._base.claim_users(claim) - gone

    def _gone_pods(self) -> Iterator[tuple[PodInfo, int]]:
        pods, rows = self._eviction.pods, self._eviction.row_of_pod
        for number in self._gone.nonzero()[0].tolist():
            yield pods[number], int(rows[number])

    def _less(self, matrix: Matrix, amounts: Amounts) -> Matrix:
        """Without what the pods that are gone take."""
        left, eviction = matrix.copy(), self._eviction
        taken = np.where(self._gone, amounts, 0)
        left.add_to_rows(eviction.rows, -np.add.reduceat(taken, eviction.first_of_row, axis=1))
        return left

    def _nonzero_requested(self) -> Matrix:
        return self._less(self._base.nonzero_requested, self._nonzero_requests)

    @cached_property
    def _nonzero_requests(self) -> Amounts:
        pods = self._eviction.pods
        amounts = [[pod.nonzero_cpu for pod in pods], [pod.nonzero_memory for pod in pods]]
        return np.array(amounts, np.int64)

    def _index(self) -> ForkedPodIndex:
        index = ForkedPodIndex(self._base.index, len(self.pod_count.view))
        for pod, row in self._gone_pods():
            index.remove(pod, row)
        return index

    worked_out_by: ClassVar[WorkedOutBy] = {
        "nonzero_requested": _nonzero_requested,
        "index": _index,
    }


def _requests(pods: Sequence[PodInfo], columns: Mapping[str, int], width: int) -> Amounts:
    amounts = np.zeros((width, len(pods)), np.int64)
    named: set[str] = set()
    named.update(*(pod.requests for pod in pods))
    for name in named:
        column = columns.get(name)
        if column is not None:
            asked = [pod.requests.get(name, 0) for pod in pods]
            try:
                amounts[column] = asked
            except OverflowError:
                amounts[column] = [wrap_int64(amount) for amount in asked]
    return amounts
