"""What a node lacks for a pod, as the bits of one number per node.

The lowest bit stands for a place; then each resource the pod wants has two bits: one for "not
enough is left", one for "never enough, even if the node were empty". Numbers can be kept by row
from one attempt to the next, and only bits that occur somewhere are turned into sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.quantity import MAX_INT64, MIN_INT64
from kscheduler.framework.status import Rejection, unresolvable, unschedulable
from kscheduler.state.nodes_view import Nodes

TOO_MANY_PODS = "Too many pods"

# Resource and amount, in the order in which they are told.
Wanted = tuple[tuple[str, int], ...]
Shortages = NDArray[np.int64]  # [nodes]

_NO_PLACE = 1
_NOT_LEFT = 2
_NEVER = 4
_BITS_PER_RESOURCE = 2
# As many as there are bits for; more are judged in portions.
MAX_RESOURCES = 31


def shortages(wanted: Wanted, nodes: Nodes) -> Shortages:
    found = (nodes.pod_count >= nodes.max_pods).astype(np.int64)
    for index, (resource, amount) in enumerate(wanted):
        found |= _of_resource(resource, amount, nodes) << (index * _BITS_PER_RESOURCE)
    found[~nodes.valid] = 0
    return found


def _of_resource(resource: str, amount: int, nodes: Nodes) -> Shortages | int:
    column = nodes.resources.get(resource)
    if column is None:
        return _NEVER
    capacity = nodes.allocatable[:, column]
    short = capacity - nodes.requested[:, column] < amount
    return np.where(short, np.where(capacity < amount, _NEVER, _NOT_LEFT), 0)


def shortages_of_row(wanted: Wanted, nodes: Nodes, row: int) -> int | None:
    """The same for one row, in plain arithmetic; None where int64 would not hold a difference."""
    if not nodes.valid.item(row):
        return 0
    found = _NO_PLACE if nodes.pod_count.item(row) >= nodes.max_pods.item(row) else 0
    capacities, taken = nodes.allocatable[row].tolist(), nodes.requested[row].tolist()
    for index, (resource, amount) in enumerate(wanted):
        column = nodes.resources.get(resource)
        capacity, used = (0, 0) if column is None else (capacities[column], taken[column])
        left = capacity - used
        if not MIN_INT64 <= left <= MAX_INT64:
            return None
        if left < amount:
            bit = _NEVER if capacity < amount else _NOT_LEFT
            found |= bit << (index * _BITS_PER_RESOURCE)
    return found


def rejections(wanted: Wanted, shortages_of: Callable[[Wanted], Shortages]) -> Iterator[Rejection]:
    """One sentence per resource and whether preemption could help."""
    for start in range(0, max(len(wanted), 1), MAX_RESOURCES):
        portion = wanted[start : start + MAX_RESOURCES]
        found = shortages_of(portion)
        if np.count_nonzero(found):
            yield from _sentences(portion, found, tells_places=start == 0)


def _sentences(wanted: Wanted, found: Shortages, *, tells_places: bool) -> Iterator[Rejection]:
    occurring = int(np.bitwise_or.reduce(found))
    if occurring & _NO_PLACE and tells_places:
        yield unschedulable((found & _NO_PLACE).astype(np.bool_), TOO_MANY_PODS)
    for index, (resource, _) in enumerate(wanted):
        shift, reason = index * _BITS_PER_RESOURCE, f"Insufficient {resource}"
        if occurring & (_NOT_LEFT << shift):
            yield unschedulable((found & (_NOT_LEFT << shift)).astype(np.bool_), reason)
        if occurring & (_NEVER << shift):
            yield unresolvable((found & (_NEVER << shift)).astype(np.bool_), reason)
