"""How many nodes are enough, and which are the first so many in the order of the search.

The search starts where the last one stopped, and after the last node comes the first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kscheduler.framework.status import Charge, Mask, Rows
from kscheduler.runtime.filter import Filtered
from kscheduler.state.nodes_view import Nodes

MIN_NODES_TO_FIND = 100
MIN_PERCENTAGE_TO_FIND = 5


def nodes_to_find(num_nodes: int, percentage: int) -> int:
    """How many feasible nodes end the search; 0 % leaves it to the size of the cluster."""
    if num_nodes < MIN_NODES_TO_FIND:
        return num_nodes
    if percentage == 0:
        percentage = max(50 - num_nodes // 125, MIN_PERCENTAGE_TO_FIND)
    return max(num_nodes * percentage // 100, MIN_NODES_TO_FIND)


def rotated(rows: Rows, start: int, count: int) -> Rows:
    """So many rows from a start on; after the last comes the first."""
    end = start + count
    if end <= len(rows):
        return rows[start:end]
    return np.concatenate((rows[start:], rows[: end - len(rows)]))


def by_row(filtered: Filtered, nodes: Nodes) -> Mask:
    """Which rows of the table passed."""
    if filtered.rows is nodes.rows and filtered.passed is not None:
        return filtered.passed
    passed = np.zeros(len(nodes), np.bool_)
    passed[filtered.feasible] = True
    return passed


def first_marked(marked: Mask, wanted: int, candidates: Rows, start: int) -> tuple[Rows, int]:
    """The first so many marked rows, and how many candidates come before the one after them.

    As a rule most candidates are marked, so that looking at a few of them is enough.
    """
    count = 2 * wanted + 1
    while True:
        count = min(count, len(candidates))
        tried = rotated(candidates, start, count)
        hits = marked.take(tried).nonzero()[0][: wanted + 1]
        if len(hits) > wanted:
            return tried.take(hits[:wanted]), int(hits[wanted])
        if count == len(candidates):
            return tried.take(hits), count
        count *= 4


def first_error(errors: Sequence[Charge], rows: Rows) -> tuple[int, Charge | None]:
    """Which of these rows is the first that has an error, and that error."""
    error_of = {int(row): error for error in errors for row in error.rows}
    places = enumerate(rows.tolist())
    return next(((place, error_of[row]) for place, row in places if row in error_of), (-1, None))
