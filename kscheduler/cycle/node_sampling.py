"""Node sampling: how many feasible nodes are enough, and which come first.

A search goes round the nodes from where the last one stopped, and after the last node comes the
first. Upstream filters node by node in that order, until it has found one feasible node more than
wanted. Here all nodes are filtered at once, because that costs little more than filtering one, and
the feasible ones are cut to those that upstream would have found (`first_feasible`). Only plugins
that are asked node by node are spared the rest (`FilterUntilEnough`): they would be asked about
thousands of nodes for nothing.

Rows are positions in the table of all nodes. `candidates` are the rows in question in the order of
the node tree (zone by zone), or in the order of their names where PreFilter has named a few.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kscheduler.cycle.attempt import Attempt
from kscheduler.framework.status import Charge, Mask, Rows
from kscheduler.runtime.filter import Filtered
from kscheduler.state.nodes_view import Nodes

MIN_FEASIBLE_NODES_TO_FIND = 100
MIN_FEASIBLE_NODES_PERCENTAGE_TO_FIND = 5

# A slice of nodes is this part larger than it should have to be: a second one costs more.
SPARE = 32


def num_feasible_nodes_to_find(num_nodes: int, percentage: int) -> int:
    """How many feasible nodes end the search; 0 % leaves it to the size of the cluster."""
    if num_nodes < MIN_FEASIBLE_NODES_TO_FIND:
        return num_nodes
    if percentage == 0:
        percentage = max(50 - num_nodes // 125, MIN_FEASIBLE_NODES_PERCENTAGE_TO_FIND)
    return max(num_nodes * percentage // 100, MIN_FEASIBLE_NODES_TO_FIND)


def rotated(rows: Rows, start: int, count: int) -> Rows:
    """So many rows from a start on; after the last comes the first."""
    end = start + count
    if end <= len(rows):
        return rows[start:end]
    return np.concatenate((rows[start:], rows[: end - len(rows)]))


class Search(NamedTuple):
    """A search for feasible nodes: Filter's verdict, and the candidates that were visited."""

    filtered: Filtered
    candidates: Rows
    start: int
    visited: int


def first_feasible(
    filtered: Filtered, nodes: Nodes, candidates: Rows, start: int, wanted: int
) -> tuple[Rows, int, Charge | None]:
    """The first so many feasible rows, how many candidates were visited, and any error there.

    Only one feasible node more than wanted ends the search, so nodes that are rejected before it
    are visited; it is not, and neither is one that ends the search by an error.
    """
    if filtered.count == len(candidates):
        return rotated(candidates, start, wanted), wanted, None
    if filtered.rows is nodes.rows and filtered.passed is not None:
        passed = filtered.passed
    else:
        passed = np.zeros(len(nodes), np.bool_)
        passed[filtered.feasible] = True
    rows, visited = _first_marked(passed, candidates, start, wanted)
    if filtered.errors:
        error_of = {int(row): error for error in filtered.errors for row in error.rows}
        for position, row in enumerate(rotated(candidates, start, visited).tolist()):
            if row in error_of:
                return rows, position, error_of[row]
    return rows, visited, None


def _first_marked(marked: Mask, candidates: Rows, start: int, wanted: int) -> tuple[Rows, int]:
    """The first so many marked candidates, and how many come before the next marked one.

    As a rule most candidates are marked, so a slice twice as long as wanted is enough.
    """
    count = 2 * wanted + 1
    while True:
        count = min(count, len(candidates))
        part = rotated(candidates, start, count)
        hits = marked.take(part).nonzero()[0][: wanted + 1]
        if len(hits) > wanted:
            return part.take(hits[:wanted]), int(hits[wanted])
        if count == len(candidates):
            return part.take(hits), count
        count *= 4


class FilterUntilEnough:
    """Filter for profiles that pay for each node: slice by slice, until enough nodes are feasible.

    The first slice is as large as the last search suggests, because pods tend to be alike.
    """

    def __init__(self) -> None:
        # Of the last search.
        self._visited = self._feasible = 1

    def filter(self, attempt: Attempt, view: Nodes, order: Rows, wanted: int) -> Filtered:
        """The verdict on the nodes of the view, or on the first of them in this order.

        It ends where nothing more can be learned: one feasible node more than wanted tells that
        the search ended before it, and an error before that ends it. What follows from the verdict
        is what would follow from one on all nodes.
        """
        run_filter, cycle, pod = attempt.framework.filter_with_nominated, attempt.cycle, attempt.pod
        passed = np.zeros(len(view.whole), np.bool_)
        slices: list[Filtered] = []
        visited = feasible = 0
        # At most twice as many as wanted: should this pod be of another kind than the last, not
        # much was filtered in vain.
        end = min(_slice_size(wanted + 1, self._visited, self._feasible), 2 * wanted)
        while visited < len(order) and feasible <= wanted:
            filtered = run_filter(cycle, pod, view.take(order[visited:end]))
            passed[filtered.feasible] = True
            slices.append(filtered)
            visited, feasible = min(end, len(order)), feasible + filtered.count
            if filtered.errors:
                break
            end = visited + _slice_size(wanted + 1 - feasible, visited, feasible)
        self._visited, self._feasible = visited, feasible
        whole = Filtered(view.rows, passed.take(view.rows), feasible)
        for filtered in slices:
            whole.also(filtered)
        return whole


def _slice_size(missing: int, visited: int, feasible: int) -> int:
    """How many more nodes it should take, going by the share of feasible ones so far."""
    expected = missing * visited // max(feasible, 1)
    return expected + expected // SPARE + 1
