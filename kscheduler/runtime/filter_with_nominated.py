"""Filter in the presence of nominated pods: those that a node is being emptied for.

A node with nominated pods of the same or a higher priority must suit the pod twice: with them and
without them. With them, so that the pod does not take their place; without them, because they may
end up elsewhere. Mirrors RunFilterPluginsWithNominatedPods of pkg/scheduler/framework/runtime.
Differs: only nodes with nominated pods are filtered twice, all of them together; the others go
through Filter once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kscheduler.caches import BoundedCache
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Nominator
from kscheduler.framework.status import Charge, Code, Rows
from kscheduler.runtime.filter import Filtered, Filtering
from kscheduler.runtime.pre_filter import PreFiltering
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.what_if import NominatedPods, WhatIf

# Pods that preempt are of few priorities; for each a few columns as long as the table are kept.
MAX_BYTES = 4 << 20
BYTES_PER_ROW = 64


class FilteringWithNominated:
    def __init__(
        self, pre_filtering: PreFiltering, filtering: Filtering, nominator: Nominator
    ) -> None:
        self._pre_filtering = pre_filtering
        self._run_filter = filtering.run_filter
        self._nominator = nominator
        self._by_priority: BoundedCache[int, NominatedBesidePriority] = BoundedCache(
            "nominated_rows", MAX_BYTES
        )
        self.caches = (self._by_priority,)

    def filter_with_nominated(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Filtered:
        if not self._nominator.nodes:
            return self._run_filter(cycle, pod, nodes)
        beside = self._by_priority.get(pod.priority)
        if beside is None:
            beside = NominatedBesidePriority(self._nominator, pod.priority)
            self._by_priority.put(pod.priority, beside, BYTES_PER_ROW * len(nodes.whole))
        nominated = beside.refresh(pod.uid, nodes)
        rows = nodes.rows[nominated.marked.take(nodes.rows)]
        if not len(rows):
            return self._run_filter(cycle, pod, nodes)
        with_nominated = self._filter_with(cycle, pod, nodes, nominated, rows)
        rejected = np.zeros(len(nominated.marked), np.bool_)
        rejected[rows] = True
        rejected[with_nominated.feasible] = False
        result = self._run_filter(cycle, pod, nodes, nodes.valid & ~rejected.take(nodes.rows))
        result.also(with_nominated)
        return result

    def _filter_with(
        self, cycle: CycleState, pod: PodInfo, nodes: Nodes, nominated: NominatedPods, rows: Rows
    ) -> Filtered:
        """The verdict on these rows if their nominated pods were there.

        A plugin without prepared state for added pods looks at one node's own pods only. If no
        other plugin takes part, or if the others can keep apart what happens on each row, all
        rows are filtered together; else each in a what-if of its own.
        """
        extensions = self._pre_filtering
        if not extensions.can_track_pods_by_row(cycle):
            results = [
                self._filter_row_with(cycle, pod, nodes, row, nominated.pods[row])
                for row in rows.tolist()
            ]
            merged = Filtered(np.concatenate([result.feasible for result in results]))
            for result in results:
                merged.also(result)
            return merged
        supposed = cycle.clone()
        if extensions.has_extensions(supposed):
            pods_of_row = [nominated.pods[row] for row in rows.tolist()]
            pods = [added for of_row in pods_of_row for added in of_row]
            row_of_pod = np.repeat(rows, [len(of_row) for of_row in pods_of_row])
            for update_pods in extensions.track_pods_by_row(supposed, pods, row_of_pod, nodes):
                update_pods(np.arange(len(pods)), 1)
        what_if = WhatIf(nodes)
        what_if.add(nominated)
        return self._run_filter(supposed, pod, what_if.nodes.take(rows))

    def _filter_row_with(
        self, cycle: CycleState, pod: PodInfo, nodes: Nodes, row: int, nominated: Sequence[PodInfo]
    ) -> Filtered:
        supposed, what_if = cycle.clone(), WhatIf(nodes)
        for added in nominated:
            what_if.add_pod(added, row)
            status = self._pre_filtering.run_add_pod(supposed, pod, added, row, what_if.nodes)
            if status is not None:
                result = Filtered(np.empty(0, np.intp))
                error = Charge("", np.array([row], np.intp), Code.ERROR, status.message)
                result.errors.append(error)
                return result
        return self._run_filter(supposed, pod, what_if.nodes.take([row]))


class NominatedBesidePriority:
    """Nominated pods that pods of one priority must leave room for, kept between attempts.

    Those of the same or a higher priority, and not the pod itself. Between two attempts few
    nominations change: only nodes whose nominations changed are read again.
    """

    _nominated: NominatedPods

    def __init__(self, nominator: Nominator, priority: int) -> None:
        self._nominator = nominator
        self._priority = priority
        # The state of nominations and of the table's rows that `_nominated` shows, and the pod for
        # which: no pod stands in its own way.
        self._changes_seen = -1
        self._rows_seen = -1
        self._uid = ""

    def refresh(self, uid: str, nodes: Nodes) -> NominatedPods:
        """Nominated pods as this pod sees them; good until the next call."""
        changes, rows = self._nominator.changes, nodes.label_generation
        names = changes.since(self._changes_seen)
        if names is None or rows != self._rows_seen:
            self._nominated = NominatedPods(len(nodes.whole))
            names = set(self._nominator.nodes)
        elif uid != self._uid:
            node_of = self._nominator.node_of
            names.update(name for name in (node_of(self._uid), node_of(uid)) if name)
        for name in names:
            row = nodes.row_of(name)
            if row is not None:
                pods = self._nominator.pods_for_node(name)
                beside = [p for p in pods if p.priority >= self._priority and p.uid != uid]
                self._nominated.put(row, beside)
        self._changes_seen, self._rows_seen, self._uid = changes.now, rows, uid
        return self._nominated
