"""Filter with pods that are not there yet: those promised to a node that is being emptied for them.

A node with such pods of the same or a higher priority must suit the pod twice: with them and
without them. With them, so that the pod does not take their place; without them, because they may
end up elsewhere. Few nodes have promised pods, so only those are judged twice, each in a fork that
holds the promised pods; all the others go through Filter together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.filtering import Filtered, Filtering
from kscheduler.framework.handle import Nominator
from kscheduler.framework.pre_filtering import PreFiltering
from kscheduler.framework.verdict import Charge, Code, Status
from kscheduler.state.fork import fork
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo


class Promised(NamedTuple):
    """The row of a node being judged, and the pods that count as being there."""

    row: int
    pods: Sequence[PodInfo]


class FilteringWithNominated:
    def __init__(
        self, pre_filtering: PreFiltering, filtering: Filtering, nominator: Nominator
    ) -> None:
        self._pre_filtering = pre_filtering
        self._run_filter = filtering.run_filter
        self._nominator = nominator

    def filter_with_nominated(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Filtered:
        if not self._nominator.nodes:
            return self._run_filter(cycle, pod, nodes)
        promised = self._promised(pod, nodes)
        if not promised:
            return self._run_filter(cycle, pod, nodes)
        with_them = self._filter_with(cycle, pod, nodes, promised)
        refused = np.setdiff1d([one.row for one in promised], with_them.feasible)
        within = nodes.valid & np.isin(nodes.rows, refused, invert=True)
        result = self._run_filter(cycle, pod, nodes, within)
        result.also(with_them)
        return result

    def _promised(self, pod: PodInfo, nodes: Nodes) -> list[Promised]:
        found = []
        for row, name in self._promising(nodes):
            pods = [
                other
                for other in self._nominator.pods_for_node(name)
                if other.priority >= pod.priority and other.uid != pod.uid
            ]
            if pods:
                found.append(Promised(row, pods))
        return found

    def _promising(self, nodes: Nodes) -> Iterator[tuple[int, str]]:
        """The nodes being judged that have promised pods; found from whichever side is shorter."""
        promising = self._nominator.nodes
        if len(nodes) < len(promising):
            pairs = zip(nodes.rows.tolist(), nodes.names, strict=True)
            yield from ((row, name) for row, name in pairs if name in promising)
            return
        judged = np.zeros(len(nodes.whole), np.bool_)
        judged[nodes.rows] = True
        for name in promising:
            row = nodes.row_of(name)
            if row is not None and judged[row]:
                yield row, name

    def _filter_with(
        self, cycle: CycleState, pod: PodInfo, nodes: Nodes, promised: Sequence[Promised]
    ) -> Filtered:
        """What becomes of the promised nodes when their pods are there.

        A plugin without prepared state for added pods looks at one node's own pods only. If no
        other plugin takes part, all nodes can be judged in one fork; otherwise the pods promised to
        one node must not be seen by the others.
        """
        alone = self._pre_filtering.has_extensions(cycle)
        groups = [[one] for one in promised] if alone else [promised]
        results = [self._filter_group(cycle, pod, nodes, group) for group in groups]
        merged = Filtered(np.concatenate([result.feasible for result in results]))
        for result in results:
            merged.also(result)
        return merged

    def _filter_group(
        self, cycle: CycleState, pod: PodInfo, nodes: Nodes, group: Sequence[Promised]
    ) -> Filtered:
        what_if = cycle.clone()
        overlay = fork(nodes)
        for row, pods in group:
            for added in pods:
                overlay.add(added, row)
                status = self._pre_filtering.run_add_pod(what_if, pod, added, row, overlay.nodes)
                if status is not None:
                    return _unjudged(row, status)
        rows = [one.row for one in group]
        return self._run_filter(what_if, pod, overlay.nodes.take(rows))


def _unjudged(row: int, status: Status) -> Filtered:
    nothing = np.empty(0, np.intp)
    error = Charge("", np.array([row], np.intp), Code.ERROR, status.message)
    result = Filtered(nothing)
    result.errors.append(error)
    return result
