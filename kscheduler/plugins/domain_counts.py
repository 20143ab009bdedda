"""Pods by domain, for the domains of several label keys at once."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kscheduler.framework.verdict import Mask
from kscheduler.plugins.topology import Domains, Topology, Totals
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.row_counts import Counts


class DomainCounts:
    """How many pods there are around a node, near or far as each key has it."""

    __slots__ = ("_by_key", "_topology")

    def __init__(
        self, topology: Topology, nodes: Nodes, counted: Iterable[tuple[str, Counts]] = ()
    ) -> None:
        """`counted`: keys, and the pods by row that count for each; a key may come twice."""
        self._topology = topology
        self._by_key: dict[str, tuple[Domains, Totals]] = {}
        for key, counts in counted:
            domains = topology.domains(nodes, key)
            totals = domains.totals(counts)
            if key in self._by_key:
                totals += self._by_key[key][1]
            self._by_key[key] = domains, totals

    def clone(self) -> DomainCounts:
        twin = DomainCounts.__new__(DomainCounts)
        twin._topology = self._topology
        twin._by_key = {
            key: (domains, totals.copy()) for key, (domains, totals) in self._by_key.items()
        }
        return twin

    def change(self, key: str, row: int, by: int, nodes: Nodes) -> None:
        """As if pods came to the row, or left it; a row without the label is in no domain."""
        if key not in self._by_key:
            unknown = self._topology.domains(nodes, key)
            self._by_key[key] = unknown, unknown.no_totals()
        domains, totals = self._by_key[key]
        domain = domains.of_row[row]
        if domain != domains.width:
            totals[domain] += by

    @property
    def are_none(self) -> bool:
        """No pod in any domain."""
        return not any(np.count_nonzero(totals) for _, totals in self._by_key.values())

    def around(self, nodes: Nodes) -> Mask | None:
        """The nodes with a pod in one of their domains; None if there is no such node."""
        found: Mask | None = None
        for domains, totals in self._by_key.values():
            here = (totals > 0).take(domains.at(nodes))
            found = here if found is None else found | here
        return found

    def all_around(self, nodes: Nodes) -> Mask:
        """The nodes that are in a domain for every key, with a pod in each of them."""
        found: Mask | None = None
        for domains, totals in self._by_key.values():
            here = (totals > 0).take(domains.at(nodes))
            found = here if found is None else found & here
        return np.ones(len(nodes), np.bool_) if found is None else found

    def within(self, nodes: Nodes) -> Mask:
        """The nodes that are in a domain for every key, whether there are pods or not."""
        found = np.ones(len(nodes), np.bool_)
        for domains, _ in self._by_key.values():
            if not domains.reach_all:
                found &= ~domains.outside(nodes)
        return found
