"""Filter with pods that are not there yet: those promised to a node that is being emptied for them.

A node with such pods of the same or a higher priority must suit the pod twice: with them and
without them. With them, so that the pod does not take their place; without them, because they may
end up elsewhere. Only nodes with promised pods are judged twice; all the others go through Filter
once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Nominator
from kscheduler.framework.status import Charge, Code, Rows, Status
from kscheduler.runtime.filter import Filtered, Filtering
from kscheduler.runtime.nominated_pods import Promises
from kscheduler.runtime.pre_filter import PreFiltering
from kscheduler.state.fork import fork
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.nominated import Promised
from kscheduler.state.pod_info import PodInfo


class FilteringWithNominated:
    def __init__(
        self, pre_filtering: PreFiltering, filtering: Filtering, nominator: Nominator
    ) -> None:
        self._pre_filtering = pre_filtering
        self._run_filter = filtering.run_filter
        self._nominator = nominator
        self._promises = Promises(nominator)
        self.caches = self._promises.caches

    def filter_with_nominated(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Filtered:
        if not self._nominator.nodes:
            return self._run_filter(cycle, pod, nodes)
        promised = self._promises.beside(pod, nodes)
        rows = nodes.rows[promised.marked.take(nodes.rows)]
        if not len(rows):
            return self._run_filter(cycle, pod, nodes)
        with_them = self._filter_with(cycle, pod, nodes, promised, rows)
        refused = np.zeros(len(promised.marked), np.bool_)
        refused[rows] = True
        refused[with_them.feasible] = False
        result = self._run_filter(cycle, pod, nodes, nodes.valid & ~refused.take(nodes.rows))
        result.also(with_them)
        return result

    def _filter_with(
        self, cycle: CycleState, pod: PodInfo, nodes: Nodes, promised: Promised, rows: Rows
    ) -> Filtered:
        """What becomes of the promised nodes when their pods are there.

        A plugin without prepared state for added pods looks at one node's own pods only. If no
        other plugin takes part, or if the others can keep apart what happens on each node, all
        nodes are judged together.
        """
        if self._pre_filtering.can_track_pods_by_row(cycle):
            what_if = cycle.clone()
            self._let_come(what_if, nodes, promised, rows)
            return self._run_filter(what_if, pod, promised.join(nodes).take(rows))
        results = [
            self._filter_alone(cycle, pod, nodes, row, promised.pods[row]) for row in rows.tolist()
        ]
        merged = Filtered(np.concatenate([result.feasible for result in results]))
        for result in results:
            merged.also(result)
        return merged

    def _let_come(self, what_if: CycleState, nodes: Nodes, promised: Promised, rows: Rows) -> None:
        if not self._pre_filtering.has_extensions(what_if):
            return
        pods_on = [promised.pods[row] for row in rows.tolist()]
        pods = [pod for some in pods_on for pod in some]
        row_of_pod = np.repeat(rows, [len(some) for some in pods_on])
        for update_pods in self._pre_filtering.track_pods_by_row(what_if, pods, row_of_pod, nodes):
            update_pods(np.arange(len(pods)), 1)

    def _filter_alone(
        self, cycle: CycleState, pod: PodInfo, nodes: Nodes, row: int, promised: Sequence[PodInfo]
    ) -> Filtered:
        what_if = cycle.clone()
        overlay = fork(nodes)
        for added in promised:
            overlay.add(added, row)
            status = self._pre_filtering.run_add_pod(what_if, pod, added, row, overlay.nodes)
            if status is not None:
                return _unjudged(row, status)
        return self._run_filter(what_if, pod, overlay.nodes.take([row]))


def _unjudged(row: int, status: Status) -> Filtered:
    nothing = np.empty(0, np.intp)
    error = Charge("", np.array([row], np.intp), Code.ERROR, status.message)
    result = Filtered(nothing)
    result.errors.append(error)
    return result
