"""What if these pods were added there, and those were gone?

A fork shares with its base whatever pods do not change, copies the columns of requests, and answers
questions about selectors with the base's counts plus its own differences. It never writes to its
base, and is good only while its base does not change: for the decision it was made in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kscheduler.state.affinity_term import TermKind
from kscheduler.state.carried_terms import CarriedOver, NodeLabels
from kscheduler.state.columns import read_only
from kscheduler.state.disks import Disks
from kscheduler.state.generations import next_generation
from kscheduler.state.host_ports import HostPorts
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.occupancy import ChangingOccupancy, Occupancy
from kscheduler.state.pod_index import Condition, PodIndex, meets
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.row_counts import Counts, Sums


def fork(nodes: Nodes) -> Fork:
    return Fork(nodes)


class Fork:
    """Pods come and go here without anybody else noticing."""

    def __init__(self, nodes: Nodes) -> None:
        self._base = nodes
        self._occupancy = _ForkedOccupancy(nodes.occupancy, nodes.resources)
        self._shown: Nodes | None = None

    def add(self, pod: PodInfo, row: int) -> None:
        self._occupancy.add(pod, row)
        self._shown = None

    def remove(self, pod: PodInfo, row: int) -> None:
        self._occupancy.remove(pod, row)
        self._shown = None

    @property
    def nodes(self) -> Nodes:
        """The base's nodes as they would be; ask again after a change."""
        if self._shown is None:
            self._shown = self._base.occupied_by(self._occupancy)
        return self._shown


class _ForkedOccupancy(ChangingOccupancy):
    def __init__(self, base: Occupancy, columns: Mapping[str, int]) -> None:
        self._base = base
        self._columns = columns
        self.requested = base.requested.copy()
        self.nonzero_requested = base.nonzero_requested.copy()
        self.pod_count = base.pod_count.copy()
        self.ports = base.ports
        self.disks = base.disks
        self.index = ForkedPodIndex(base.index, len(self.pod_count.view))
        self._pods: dict[int, list[PodInfo]] = {}
        self._claims: dict[str, int] = {}
        self.generation = next_generation()

    def pods(self, row: int) -> Sequence[PodInfo]:
        own = self._pods.get(row)
        return self._base.pods(row) if own is None else own

    def claim_users(self, claim: str) -> int:
        return self._base.claim_users(claim) + self._claims.get(claim, 0)

    def _writable_pods(self, row: int) -> list[PodInfo]:
        own = self._pods.get(row)
        if own is None:
            own = self._pods[row] = list(self._base.pods(row))
        return own

    def _writable_ports(self) -> HostPorts:
        if self.ports is self._base.ports:
            self.ports = self.ports.fork()
        return self.ports

    def _writable_disks(self) -> Disks:
        if self.disks is self._base.disks:
            self.disks = self.disks.fork()
        return self.disks

    def _add_requests(self, pod: PodInfo, row: int) -> None:
        for name, amount in pod.requests.items():
            # A resource without a column is one that no node has: what is asked of it decides
            # nothing.
            column = self._columns.get(name)
            if column is not None:
                self.requested.add(column, row, amount)

    def _remove_requests(self, pod: PodInfo, row: int) -> None:
        for name, amount in pod.requests.items():
            column = self._columns.get(name)
            if column is not None:
                self.requested.add(column, row, -amount)

    def _count_claim(self, claim: str, by: int) -> None:
        self._claims[claim] = self._claims.get(claim, 0) + by


class ForkedPodIndex(PodIndex):
    """The base's answers, corrected by what changed since. Arrays given out stay as they are."""

    def __init__(self, base: PodIndex, length: int) -> None:
        self._base = base
        self._length = length
        self._changes: list[tuple[PodInfo, int, int]] = []
        # Answers, each with the number of changes that are in it.
        self._answers: dict[tuple[tuple[Condition, ...], bool], tuple[int, Counts]] = {}

    def add(self, pod: PodInfo, row: int) -> None:
        self._changes.append((pod, row, 1))

    def remove(self, pod: PodInfo, row: int) -> None:
        self._changes.append((pod, row, -1))

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
            counts = self._changed(counts, changes)
        self._answers[question] = len(self._changes), counts
        return counts

    def _changed(self, counts: Counts | None, changes: Sequence[tuple[int, int]]) -> Counts:
        counts = np.zeros(self._length, np.int32) if counts is None else counts.copy()
        for row, by in changes:
            counts[row] += by
        return read_only(counts)
