"""What if the pods that are promised to nodes were there already?

What they would take is kept in columns as long as the table of nodes, and follows one row at a
time. To look at all of those nodes with their pods then costs a few additions, however many they
are. What is seldom asked for (ports, disks, claims, the index) is worked out when it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from kscheduler.state.columns import Column, Matrix, wrap_int64
from kscheduler.state.disks import Disks
from kscheduler.state.fork import ForkedPodIndex
from kscheduler.state.generations import next_generation
from kscheduler.state.host_ports import HostPorts
from kscheduler.state.late_columns import LateColumns, WorkedOutBy
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

Amounts = NDArray[np.int64]  # [rows]


class Promised:
    """By row, the pods that are promised to it; no row of the table is beyond `length`."""

    def __init__(self, length: int) -> None:
        self._length = length
        self.pods: dict[int, Sequence[PodInfo]] = {}
        # The rows that have such pods.
        self.marked = np.zeros(length, np.bool_)
        self.counts: Amounts = np.zeros(length, np.int64)
        self.nonzero_requests = np.zeros((2, length), np.int64)
        # name → row → amount, never 0; and as a column for names that somebody asked about. A pod
        # may name thousands of resources, of which nodes have few.
        self._requests: dict[str, dict[int, int]] = {}
        self._columns: dict[str, Amounts] = {}

    def put(self, row: int, pods: Sequence[PodInfo]) -> None:
        """From now on these, and no others, are promised to the row."""
        if row in self.pods:
            self._clear(row)
        if not pods:
            return
        self.pods[row] = pods
        self.marked[row] = True
        self.counts[row] = len(pods)
        cpu, memory = sum(pod.nonzero_cpu for pod in pods), sum(pod.nonzero_memory for pod in pods)
        self.nonzero_requests[:, row] = wrap_int64(cpu), wrap_int64(memory)
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
        self.counts[row] = 0
        self.nonzero_requests[:, row] = 0

    def requests_of(self, name: str) -> Amounts | None:
        """What the promised pods ask of one resource; None if nothing."""
        rows = self._requests.get(name)
        if rows is None:
            return None
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = np.zeros(self._length, np.int64)
            column[list(rows)] = list(rows.values())
        return column

    def join(self, nodes: Nodes) -> Nodes:
        """These nodes with the promised pods on them; good until either changes."""
        return nodes.occupied_by(_Joined(nodes, self))


class _Joined(LateColumns):
    def __init__(self, nodes: Nodes, promised: Promised) -> None:
        self._base = nodes.occupancy
        self._columns = nodes.resources
        self._promised = promised
        self.generation = next_generation()

    def pods(self, row: int) -> Sequence[PodInfo]:
        return [*self._base.pods(row), *self._promised.pods.get(row, ())]

    def claim_users(self, claim: str) -> int:
        more = sum(pod.claims.count(claim) for pod, _ in self._newcomers())
        return self._base.claim_users(claim) + more

    def _newcomers(self) -> Iterator[tuple[PodInfo, int]]:
        for row, pods in self._promised.pods.items():
            for pod in pods:
                yield pod, row

    def _requested(self) -> Matrix:
        joined = self._base.requested.copy()
        # A resource without a column is one that no node has: what is asked of it decides nothing.
        for name, column in self._columns.items():
            amounts = self._promised.requests_of(name)
            if amounts is not None:
                joined.add_to_column(column, amounts)
        return joined

    def _nonzero_requested(self) -> Matrix:
        joined = self._base.nonzero_requested.copy()
        for column, amounts in enumerate(self._promised.nonzero_requests):
            joined.add_to_column(column, amounts)
        return joined

    def _pod_count(self) -> Column:
        joined = self._base.pod_count.copy()
        joined.add_to_all(self._promised.counts)
        return joined

    def _ports(self) -> HostPorts:
        joined = self._base.ports.fork()
        for pod, row in self._newcomers():
            for port in pod.host_ports:
                joined.add(port, row)
        return joined

    def _disks(self) -> Disks:
        joined = self._base.disks.fork()
        for pod, row in self._newcomers():
            for disk in pod.disks:
                joined.add(disk, row)
        return joined

    def _index(self) -> ForkedPodIndex:
        joined = ForkedPodIndex(self._base.index, len(self._promised.marked))
        for pod, row in self._newcomers():
            joined.add(pod, row)
        return joined

    worked_out_by: ClassVar[WorkedOutBy] = {
        "requested": _requested,
        "nonzero_requested": _nonzero_requested,
        "pod_count": _pod_count,
        "ports": _ports,
        "disks": _disks,
        "index": _index,
    }
