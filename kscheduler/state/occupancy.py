"""Occupancy of nodes by pods, row by row: requests, pod counts, host ports, disks, claims."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from kscheduler.state.change_log import ChangeLog, next_generation
from kscheduler.state.columns import Column, Matrix
from kscheduler.state.disks import Disks
from kscheduler.state.host_ports import HostPorts
from kscheduler.state.pod_index import LivePodIndex, PodIndex
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.resources import Resources


class Occupancy(ABC):
    """Pods on rows, and what they take there."""

    requested: Matrix
    nonzero_requested: Matrix
    pod_count: Column
    ports: HostPorts
    disks: Disks
    index: PodIndex
    generation: int
    # None where "lately" means nothing: a what-if has no past.
    changed_rows: ChangeLog[int] | None = None

    @abstractmethod
    def pods(self, row: int) -> Sequence[PodInfo]: ...

    @abstractmethod
    def claim_users(self, claim: str) -> int:
        """Number of times that pods on any row name the claim `namespace/name`."""


class LiveOccupancy(Occupancy):
    """Pods of the cluster. They enter and leave rows, and every column changes at once."""

    index: LivePodIndex
    changed_rows: ChangeLog[int]

    def __init__(self, resources: Resources, changed_rows: ChangeLog[int]) -> None:
        self._resources = resources
        self.changed_rows = changed_rows
        self.requested = resources.requested
        self.nonzero_requested = Matrix(2)
        self.pod_count = Column(np.int64)
        self.ports = HostPorts()
        self.disks = Disks()
        self.index = LivePodIndex()
        self._pods: list[list[PodInfo]] = []
        # `namespace/name` → users, never 0.
        self._claims: dict[str, int] = {}
        self.generation = next_generation()

    def resize(self, length: int) -> None:
        """Rows that go away are empty by now."""
        del self._pods[length:]
        while len(self._pods) < length:
            self._pods.append([])
        self.nonzero_requested.resize(length, 2)
        self.pod_count.resize(length)
        self.index.resize(length)

    def pods(self, row: int) -> Sequence[PodInfo]:
        return self._pods[row]

    def claim_users(self, claim: str) -> int:
        return self._claims.get(claim, 0)

    def add(self, pod: PodInfo, row: int) -> None:
        self._pods[row].append(pod)
        self._count(pod, row, 1)
        for port in pod.host_ports:
            self.ports.add(port, row)
        for disk in pod.disks:
            self.disks.add(disk, row)
        self.index.add(pod, row)

    def remove(self, pod: PodInfo, row: int) -> None:
        """Take back what was added under this pod's uid, be it another version of the object."""
        pod = take_out(self._pods[row], pod)
        self._count(pod, row, -1)
        for port in pod.host_ports:
            self.ports.remove(port, row)
        for disk in pod.disks:
            self.disks.remove(disk, row)
        self.index.remove(pod, row)

    def _count(self, pod: PodInfo, row: int, by: int) -> None:
        self.generation = next_generation()
        self.changed_rows.add(row)
        self._resources.add_requests(pod.requests, row, by)
        self.pod_count.cells[row] += by
        self.nonzero_requested.add(0, row, by * pod.nonzero_cpu)
        self.nonzero_requested.add(1, row, by * pod.nonzero_memory)
        for claim in pod.claims:
            users = self._claims.get(claim, 0) + by
            if users:
                self._claims[claim] = users
            else:
                del self._claims[claim]


def take_out(pods: list[PodInfo], pod: PodInfo) -> PodInfo:
    """Removes the pod; the last one takes its place, as upstream's list does it."""
    if pods[-1] is pod:
        return pods.pop()
    if pod not in pods:
        pod = next(known for known in pods if known.uid == pod.uid)
    position = pods.index(pod)
    last = pods.pop()
    if last is not pod:
        pods[position] = last
    return pod
