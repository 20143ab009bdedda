"""Nodes grouped by the value of a label: the domains that pods are kept together or apart in.

Counts come by row; which rows share a domain changes only with the labels of nodes. So the domains
of a key are worked out once per change of labels, and a decision adds up counts with one bincount.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.verdict import Mask
from kscheduler.state.memo import Memo
from kscheduler.state.nodes_view import Nodes

# Keys whose domains are kept; at 5,000 nodes each is 40 kB.
MAX_KEYS = 64

DomainOfRow = NDArray[np.intp]  # [rows]
Amounts = NDArray[np.int32] | NDArray[np.float64]  # [rows]
Totals = NDArray[np.float64]  # [domains + 1], whole numbers


class Domains:
    """The domains of one label key, each a number below `width`.

    `of_row` says which one a row is in, and `width` itself for a row without the label: a table by
    domain has one entry more, the last, for those.
    """

    __slots__ = ("of_row", "reach_all", "values", "width")

    def __init__(self, everywhere: Nodes, key: str) -> None:
        """`everywhere` are all rows of the table, in order."""
        codes = everywhere.label(key)
        self.width = everywhere.label_count(key)
        self.values = dict(everywhere.label_values(key))
        self.of_row: DomainOfRow = np.where(codes < 0, self.width, codes).astype(np.intp)
        # Whether every node has the label.
        self.reach_all = not np.count_nonzero((codes < 0) & everywhere.valid)

    def totals(self, counts: Amounts) -> Totals:
        """Counts by row added up by domain; what is outside of all domains counts nowhere."""
        totals = added_up(self.of_row, counts, self.width)
        totals[-1] = 0.0
        return totals

    def no_totals(self) -> Totals:
        return np.zeros(self.width + 1)

    def at(self, nodes: Nodes) -> DomainOfRow:
        """The domain of each of these nodes."""
        return self.of_row if nodes.whole is nodes else self.of_row.take(nodes.rows)

    def outside(self, nodes: Nodes) -> Mask:
        """The nodes without the label."""
        return self.at(nodes) == self.width


def added_up(domain_of_row: DomainOfRow, counts: Amounts, width: int) -> Totals:
    totals: Any = np.bincount(domain_of_row, counts, width + 1)
    return totals


class Topology:
    """The domains of every key that was asked for, until some node's labels change."""

    def __init__(self) -> None:
        self._generation = 0
        self._domains: Memo[str, Domains] = Memo(MAX_KEYS)

    def domains(self, nodes: Nodes, key: str) -> Domains:
        if nodes.label_generation != self._generation:
            self._domains.clear()
            self._generation = nodes.label_generation
        found = self._domains.get(key)
        if found is None:
            found = Domains(nodes.whole, key)
            self._domains.put(key, found)
        return found
