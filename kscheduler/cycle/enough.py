"""Filter over as many nodes as are needed, for profiles that pay for each node they look at.

As a rule all nodes are judged at once, because that costs little more than judging one, and which
of them count is settled afterwards. A plugin that is asked node by node would be asked about
thousands for nothing. So then nodes are judged slice by slice, in the order of the search, until
there is nothing more to be learned: what follows from the verdicts is the same.
"""

from __future__ import annotations

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Rows
from kscheduler.runtime.filter import Filtered
from kscheduler.runtime.framework import Framework
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

# A slice is this part larger than it should have to be: a second one costs more.
SPARE = 32


class Enough:
    """Searches in slices, the first as large as the last search suggests: pods tend to be alike."""

    def __init__(self) -> None:
        self._tried = self._found = 1

    def filter(
        self,
        cycle: CycleState,
        framework: Framework,
        pod: PodInfo,
        nodes: Nodes,
        turn: Rows,
        wanted: int,
    ) -> Filtered:
        """The verdict on these nodes, or on the first of them in this order of their rows."""
        passed = np.zeros(len(nodes.whole), np.bool_)
        slices: list[Filtered] = []
        tried = found = 0
        # Should this pod be of another kind, not much was tried in vain.
        end = min(_slice_size(wanted + 1, self._tried, self._found), 2 * wanted)
        while tried < len(turn) and not (slices and _settled(found, wanted, slices[-1])):
            judged = framework.filter_with_nominated(cycle, pod, nodes.take(turn[tried:end]))
            passed[judged.feasible] = True
            slices.append(judged)
            tried, found = min(end, len(turn)), found + judged.count
            end = tried + _slice_size(wanted + 1 - found, tried, found)
        self._tried, self._found = tried, found
        filtered = Filtered(nodes.rows, passed.take(nodes.rows), found)
        for judged in slices:
            filtered.also(judged)
        return filtered


def _settled(found: int, wanted: int, last: Filtered) -> bool:
    """One more than wanted tells that the search ended before; an error before that ends it."""
    return found > wanted or bool(last.errors)


def _slice_size(missing: int, tried: int, found: int) -> int:
    """How many more nodes it should take, going by those already tried."""
    expected = missing * tried // max(found, 1)
    return expected + expected // SPARE + 1
