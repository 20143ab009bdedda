"""Pods by topology domain, for the domains of several label keys at once.

What upstream calls topologyToMatchedTermCount, as one array per key: [domains + 1], the last entry
for nodes without the label.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from kscheduler.framework.in_tree import UpdatePods
from kscheduler.framework.status import Mask
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.row_counts import Counts, Sums
from kscheduler.state.topology import DomainOfRow, Domains, Topology, Totals, added_up

K = TypeVar("K", bound=Hashable)


class DomainCounts:
    """Pods in the domains of each key.

    For what-ifs on many rows at once (`track_pods`) there is beside the totals of each domain, by
    row, how many pods that row's domain has more, or less, because of pods added to or removed from
    that very row. So each row is judged as if nothing had happened on the others.
    """

    __slots__ = ("_by_key", "_by_row", "_topology")

    def __init__(
        self, topology: Topology, nodes: Nodes, counted: Sequence[tuple[str, Counts | Sums]] = ()
    ) -> None:
        """`counted`: keys, each with the pods by row that count for it; a key may come twice."""
        self._topology = topology
        self._by_key: dict[str, tuple[Domains, Totals]] = {}
        for key, counts in counted if len(counted) < 2 else counts_by(counted).items():
            domains = topology.domains(nodes, key)
            self._by_key[key] = domains, domains.totals(counts)
        # By key, [rows], see above; empty unless pods are tracked by row.
        self._by_row: dict[str, Totals] = {}

    def clone(self) -> DomainCounts:
        twin = DomainCounts.__new__(DomainCounts)
        twin._topology = self._topology
        twin._by_key = {
            key: (domains, totals.copy()) for key, (domains, totals) in self._by_key.items()
        }
        twin._by_row = {key: changes.copy() for key, changes in self._by_row.items()}
        return twin

    def add(self, key: str, row: int, by: int, nodes: Nodes) -> None:
        """Add pods (or remove, if negative) on a row; one without the label is in no domain."""
        domains, totals = self._of(key, nodes)
        domain = domains.of_row[row]
        if domain != domains.width:
            totals[domain] += by

    def _of(self, key: str, nodes: Nodes) -> tuple[Domains, Totals]:
        if key not in self._by_key:
            unknown = self._topology.domains(nodes, key)
            self._by_key[key] = unknown, unknown.no_totals()
        return self._by_key[key]

    def track_pods(
        self, key: str, pods: Totals, row_of_pod: DomainOfRow, nodes: Nodes
    ) -> UpdatePods:
        """Count pods that are added to rows or removed from them, for each row on its own.

        `pods[i]`: how often pod i counts for the key. See `TracksPodsByRow`.
        """
        domains, _ = self._of(key, nodes)
        weights = pods * (domains.of_row[row_of_pod] != domains.width)
        size = len(domains.of_row)
        changes = self._by_row.setdefault(key, np.zeros(size))

        def update(which: DomainOfRow, by: int) -> None:
            nonlocal changes
            changes += by * added_up(row_of_pod[which], weights[which], size - 1)

        return update

    @property
    def tracks_rows(self) -> bool:
        return bool(self._by_row)

    @property
    def none_anywhere(self) -> bool:
        """Whether there is no pod in any domain."""
        return not any(np.count_nonzero(totals) for _, totals in self._by_key.values())

    def none_anywhere_by_row(self, nodes: Nodes) -> Mask:
        """`none_anywhere` for each node, with the changes of its own row only."""
        found = np.ones(len(nodes), np.bool_)
        for key, (domains, totals) in self._by_key.items():
            here = totals.take(domains.at(nodes))
            # Domains with pods, other than the node's own.
            elsewhere = np.count_nonzero(totals) - (here != 0)
            found &= (elsewhere == 0) & (here + self._changes_at(key, nodes) == 0)
        return found

    def in_any_domain(self, nodes: Nodes) -> Mask | None:
        """Nodes with a pod in one of their domains; None if there is no such node."""
        found: Mask | None = None
        for key, (domains, totals) in self._by_key.items():
            here = self._in_domain(key, domains, totals, nodes)
            found = here if found is None else found | here
        return found

    def in_all_domains(self, nodes: Nodes) -> Mask:
        """Nodes that have the label of every key, with a pod in each of these domains."""
        found: Mask | None = None
        for key, (domains, totals) in self._by_key.items():
            here = self._in_domain(key, domains, totals, nodes)
            found = here if found is None else found & here
        return np.ones(len(nodes), np.bool_) if found is None else found

    def by_key(self, nodes: Nodes) -> Iterator[tuple[str, Mask]]:
        """Per key the nodes with a pod in their domain of it."""
        for key, (domains, totals) in self._by_key.items():
            yield key, self._in_domain(key, domains, totals, nodes)

    def has_all_labels(self, nodes: Nodes) -> Mask:
        """Nodes that have the label of every key, whether there are pods or not."""
        found = np.ones(len(nodes), np.bool_)
        for domains, _ in self._by_key.values():
            if not domains.on_all_nodes:
                found &= ~domains.without_label(nodes)
        return found

    def _in_domain(self, key: str, domains: Domains, totals: Totals, nodes: Nodes) -> Mask:
        """Nodes with a pod in their domain of this key."""
        if not self._by_row:
            # Compared by domain, of which there are fewer than nodes.
            here = (totals > 0).take(domains.at(nodes))
        else:
            here = totals.take(domains.at(nodes)) + self._changes_at(key, nodes) > 0
        return here if domains.unlabelled is None else here & ~domains.without_label(nodes)

    def _changes_at(self, key: str, nodes: Nodes) -> Totals | float:
        changes = self._by_row.get(key)
        return 0.0 if changes is None else changes.take(nodes.rows)


def counts_by(counted: Iterable[tuple[K, Counts | Sums]]) -> dict[K, Counts | Sums]:
    """Counts of the same kind added up, so that their domains are added up only once."""
    found: dict[K, Counts | Sums] = {}
    for kind, counts in counted:
        if kind not in found:
            found[kind] = counts
        elif np.count_nonzero(counts):
            found[kind] = found[kind] + counts
    return found
