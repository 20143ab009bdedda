"""Who may go from each node, in the order in which they may come back.

Those whose going would exceed a budget come first, then the others; among either the more important
before the less. All nodes are put in order at once, by arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.status import Rows
from kscheduler.runtime.preemption.budgets import Budgets
from kscheduler.runtime.preemption.victims import start_ns
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo


class LineUp(NamedTuple):
    """The pods of a node that may go."""

    pods: Sequence[PodInfo]
    # So many, at the beginning, should stay for the sake of budgets.
    protected: int
    # How important each is among them: the smaller, the more.
    ranks: Sequence[int]
    # Whether the order stays as it is while time goes by.
    settled: bool


def line_ups(
    rows: Sequence[int], nodes: Nodes, priority: int, budgets: Budgets, now_ns: int
) -> dict[int, LineUp]:
    """By row, where there are pods of lower priority."""
    pods_on = nodes.occupancy.pods
    lower = {
        row: there
        for row in rows
        if (there := [pod for pod in pods_on(row) if pod.priority < priority])
    }
    pods = [pod for there in lower.values() for pod in there]
    sizes = np.fromiter(map(len, lower.values()), np.intp, len(lower))
    # To which node, by number, each place in line belongs.
    node = np.repeat(np.arange(len(lower)), sizes)
    priorities = np.fromiter((pod.priority for pod in pods), np.int64, len(pods))
    starts = _starts(pods, now_ns)
    order = np.lexsort((starts, -priorities, node))
    # Some clocks are ahead: who was started later than now is not always later than now.
    early = np.bincount(node[starts > now_ns], minlength=len(lower)) == 0
    ranks = _ranks(priorities[order], starts[order])
    protected = np.zeros(len(lower), np.intp)
    if budgets:
        violates = budgets.violated_by([pods[number] for number in order], node)
        protected = np.bincount(node[violates], minlength=len(lower))
        kept_first = np.lexsort((~violates, node))
        order, ranks = order[kept_first], ranks[kept_first]
    in_line, ranked = [pods[number] for number in order.tolist()], ranks.tolist()
    ends = np.cumsum(sizes)
    firsts = (ends - sizes).tolist()
    return {
        row: LineUp(in_line[first:end], count, ranked[first:end], settled)
        for row, first, end, count, settled in zip(
            lower, firsts, ends.tolist(), protected.tolist(), early.tolist(), strict=True
        )
    }


def _ranks(priorities: NDArray[np.int64], starts: NDArray[np.int64]) -> Rows:
    """In the order given, numbers that grow from one to the next who is less important."""
    differs = (np.diff(priorities, prepend=0) != 0) | (np.diff(starts, prepend=0) != 0)
    return np.cumsum(differs)


def _starts(pods: Sequence[PodInfo], now_ns: int) -> NDArray[np.int64]:
    """When each was started; many say so in the same words."""
    known: dict[str | None, int] = {}
    starts = []
    for pod in pods:
        said = pod.pod.status.start_time
        start = known.get(said)
        if start is None:
            start = start_ns(pod)
            start = known[said] = now_ns if start is None else start
        starts.append(start)
    return np.array(starts, np.int64)
