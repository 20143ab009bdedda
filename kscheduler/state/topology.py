"""Nodes grouped by the value of a label: the domains that pods are kept together or apart in.

Counts come by row; which rows share a domain changes only with the labels of nodes. So the domains
of a key are worked out once per change of labels, and a decision adds up counts with one bincount.

Keys that no node has are as good as one: no node is in a domain of theirs. They share one `Domains`
without any, so that a pod may name as many of them as it likes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kscheduler.caches import BoundedCache
from kscheduler.state.label_columns import Mask
from kscheduler.state.nodes_view import Nodes

HOSTNAME = "kubernetes.io/hostname"

# Domains that are kept; at 5,000 nodes those of a key are 40 kB. To work them out again takes as
# long as to use them twice.
MAX_DOMAIN_BYTES = 2 << 20

DomainOfRow = NDArray[np.intp]  # [rows]
Amounts = NDArray[np.int32] | NDArray[np.int64] | NDArray[np.float64]  # [rows]
Totals = NDArray[np.float64]  # [domains + 1], whole numbers


class Domains:
    """The domains of one label key, each a number below `width`.

    `of_row` says which one a row is in, and `width` itself for a row without the label: a table by
    domain has one entry more, the last, for those.
    """

    __slots__ = ("empty_value", "of_row", "on_all_nodes", "unlabelled", "width")

    # Rows without the label that are in a domain nevertheless; None where there are none.
    unlabelled: Mask | None

    def __init__(self, everywhere: Nodes, key: str) -> None:
        """`everywhere` are all rows of the table, in order."""
        codes = everywhere.label(key)
        self.width = everywhere.label_count(key)
        # The domain of nodes whose label is there and empty; `width` if there are none.
        self.empty_value = everywhere.label_values(key).get("", self.width)
        self.of_row: DomainOfRow = np.where(codes < 0, self.width, codes).astype(np.intp)
        # Whether every node has the label.
        self.on_all_nodes = not np.count_nonzero((codes < 0) & everywhere.valid)
        self.unlabelled = None

    @classmethod
    def of_nodes(cls, everywhere: Nodes, key: str) -> Domains:
        """Each node in a domain of its own, whatever the label says, and even if it is missing."""
        domains = cls(everywhere, key)
        domains.unlabelled = domains.of_row == domains.width
        domains.of_row, domains.width = everywhere.rows, len(everywhere)
        return domains

    def totals(self, counts: Amounts) -> Totals:
        """Counts by row added up by domain; rows without the label count nowhere."""
        totals = added_up(self.of_row, counts, self.width)
        totals[-1] = 0.0
        return totals

    def no_totals(self) -> Totals:
        return np.zeros(self.width + 1)

    def at(self, nodes: Nodes) -> DomainOfRow:
        """The domain of each of these nodes."""
        return self.of_row if nodes.whole is nodes else self.of_row.take(nodes.rows)

    def without_label(self, nodes: Nodes) -> Mask:
        """Nodes without the label."""
        if self.unlabelled is not None:
            return self.unlabelled.take(nodes.rows)
        return self.at(nodes) == self.width


def added_up(domain_of_row: DomainOfRow, counts: Amounts, width: int) -> Totals:
    totals: Any = np.bincount(domain_of_row, counts, width + 1)
    return totals


class Topology:
    """The domains of every key that was asked for, until some node's labels change."""

    def __init__(self, *, hostname_is_node: bool = False) -> None:
        """`hostname_is_node`: the domains of `kubernetes.io/hostname` are `Domains.of_nodes`."""
        self._hostname_is_node = hostname_is_node
        self._generation = 0
        self._domains: BoundedCache[str, Domains] = BoundedCache(
            "topology_domains", MAX_DOMAIN_BYTES
        )
        self.caches = (self._domains,)
        self._none: Domains | None = None

    def domains(self, nodes: Nodes, key: str) -> Domains:
        if nodes.label_generation != self._generation:
            self._domains.clear()
            self._none = None
            self._generation = nodes.label_generation
        found = self._domains.get(key)
        if found is not None:
            return found
        if key in nodes.label_keys:
            by_node = self._hostname_is_node and key == HOSTNAME
            found = Domains.of_nodes(nodes.whole, key) if by_node else Domains(nodes.whole, key)
            self._domains.put(key, found, found.of_row.nbytes)
            return found
        if self._none is None:
            self._none = Domains(nodes.whole, key)
        return self._none
