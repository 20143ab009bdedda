"""Pods by domain, for the domains of several label keys at once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from kscheduler.framework.plugin import UpdatePods
from kscheduler.framework.status import Mask
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.row_counts import Counts, Sums
from kscheduler.state.topology import DomainOfRow, Domains, Topology, Totals, added_up

K = TypeVar("K", bound=Hashable)


class DomainCounts:
    """How many pods there are around a node, near or far as each key has it."""

    __slots__ = ("_by_key", "_own", "_topology")

    def __init__(
        self, topology: Topology, nodes: Nodes, counted: Sequence[tuple[str, Counts | Sums]] = ()
    ) -> None:
        """`counted`: keys, and the pods by row that count for each; a key may come twice."""
        self._topology = topology
        self._by_key: dict[str, tuple[Domains, Totals]] = {}
        for key, counts in counted if len(counted) < 2 else counts_by(counted).items():
            domains = topology.domains(nodes, key)
            self._by_key[key] = domains, domains.totals(counts)
        # Where every row is in a world of its own: by key, how many more pods there are in the
        # domain of the row because of what happened on it.
        self._own: dict[str, Totals] = {}

    def clone(self) -> DomainCounts:
        twin = DomainCounts.__new__(DomainCounts)
        twin._topology = self._topology
        twin._by_key = {
            key: (domains, totals.copy()) for key, (domains, totals) in self._by_key.items()
        }
        twin._own = {key: own.copy() for key, own in self._own.items()}
        return twin

    def change(self, key: str, row: int, by: int, nodes: Nodes) -> None:
        """As if pods came to the row, or left it; a row without the label is in no domain."""
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
        own = self._own.setdefault(key, np.zeros(size))

        def update(which: DomainOfRow, by: int) -> None:
            nonlocal own
            own += by * added_up(row_of_pod[which], weights[which], size - 1)

        return update

    @property
    def has_own_worlds(self) -> bool:
        return bool(self._own)

    def none(self, nodes: Nodes) -> Mask:
        """By node, whether there is no pod in any domain in the node's own world."""
        found = np.ones(len(nodes), np.bool_)
        for key, (domains, totals) in self._by_key.items():
            here = totals.take(domains.at(nodes))
            elsewhere = np.count_nonzero(totals) - (here != 0)
            found &= (elsewhere == 0) & (here + self._own_at(key, nodes) == 0)
        return found

    @property
    def are_none(self) -> bool:
        """No pod in any domain."""
        return not any(np.count_nonzero(totals) for _, totals in self._by_key.values())

    def around(self, nodes: Nodes) -> Mask | None:
        """The nodes with a pod in one of their domains; None if there is no such node."""
        found: Mask | None = None
        for key, (domains, totals) in self._by_key.items():
            here = self._here(key, domains, totals, nodes)
            found = here if found is None else found | here
        return found

    def all_around(self, nodes: Nodes) -> Mask:
        """The nodes that are in a domain for every key, with a pod in each of them."""
        found: Mask | None = None
        for key, (domains, totals) in self._by_key.items():
            here = self._here(key, domains, totals, nodes)
            found = here if found is None else found & here
        return np.ones(len(nodes), np.bool_) if found is None else found

    def _here(self, key: str, domains: Domains, totals: Totals, nodes: Nodes) -> Mask:
        """The nodes with a pod in their domain of this key."""
        if not self._own:
            here = (totals > 0).take(domains.at(nodes))
        else:
            here = totals.take(domains.at(nodes)) + self._own_at(key, nodes) > 0
        return here if domains.unlabelled is None else here & ~domains.outside(nodes)

    def _own_at(self, key: str, nodes: Nodes) -> Totals | float:
        own = self._own.get(key)
        return 0.0 if own is None else own.take(nodes.rows)

    def within(self, nodes: Nodes) -> Mask:
        """The nodes that are in a domain for every key, whether there are pods or not."""
        found = np.ones(len(nodes), np.bool_)
        for domains, _ in self._by_key.values():
            if not domains.reach_all:
                found &= ~domains.outside(nodes)
        return found


def counts_by(counted: Iterable[tuple[K, Counts | Sums]]) -> dict[K, Counts | Sums]:
    """Counts of the same kind added up, so that their domains are looked at only once."""
    found: dict[K, Counts | Sums] = {}
    for kind, counts in counted:
        if kind not in found:
            found[kind] = counts
        elif np.count_nonzero(counts):
            found[kind] = found[kind] + counts
    return found
