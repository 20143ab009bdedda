"""What dry runs found out, node by node, for the next pod of the same template.

Pods that preempt often come in numbers: the replicas of a workload. What a dry run finds on a node
follows from the pod's template, the node, the pods there, the pods promised to it and the budgets;
between two such pods little of that changes, and on few nodes. It holds only where each plugin
judges a node by itself (`FilterPlugin`).
"""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler.api.small_groups import PodDisruptionBudget
from kscheduler.caches import ENTRY_BYTES, BoundedCache
from kscheduler.runtime.handle import Nominator
from kscheduler.runtime.preemption.dry_run import Finding
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.pod_template import PodTemplate

# Each may hold a finding for every node, so at least as many are kept, and at most twice as many.
MAX_TEMPLATES = 4
MAX_BYTES = 8 << 20
BYTES_PER_FINDING = 100
LEAST_COST = MAX_BYTES // (2 * MAX_TEMPLATES) - ENTRY_BYTES


class Memory:
    def __init__(self, nominator: Nominator) -> None:
        self._nominator = nominator
        self._kept: BoundedCache[PodTemplate, _Kept] = BoundedCache(
            "preemption_findings", MAX_BYTES
        )
        self.caches = (self._kept,)

    def recall(
        self, pod: PodInfo, nodes: Nodes, budgets: Sequence[PodDisruptionBudget]
    ) -> dict[int, Finding]:
        """By row, what still holds; what is added there is remembered."""
        if not _is_like_others(pod) or self._nominator.node_of(pod.uid) is not None:
            return {}
        kept = self._kept.get(pod.template)
        if kept is None:
            kept = _Kept(self._nominator)
            cost = pod.template.bytes + BYTES_PER_FINDING * len(nodes.whole)
            self._kept.put(pod.template, kept, max(cost, LEAST_COST))
        kept.forget_what_changed(nodes, budgets)
        return kept.findings


def _is_like_others(pod: PodInfo) -> bool:
    """Whether the template tells all that plugins ask about the pod."""
    return not pod.node_name and pod.requests is pod.template.taken.requests


class _Kept:
    def __init__(self, nominator: Nominator) -> None:
        self.findings: dict[int, Finding] = {}
        self._nominator = nominator
        self._budgets: Sequence[PodDisruptionBudget] = ()
        # Until when rows and nominations were followed.
        self._rows_seen = -1
        self._promises_seen = -1

    def forget_what_changed(self, nodes: Nodes, budgets: Sequence[PodDisruptionBudget]) -> None:
        changed, promises = nodes.changed_rows, self._nominator.changes
        rows = None if changed is None else changed.since(self._rows_seen)
        names = promises.since(self._promises_seen)
        if rows is None or names is None or not same_objects(budgets, self._budgets):
            self.findings.clear()
        else:
            rows.update(row for name in names if (row := nodes.row_of(name)) is not None)
            for row in rows:
                self.findings.pop(row, None)
        self._budgets = budgets
        self._rows_seen = -1 if changed is None else changed.now
        self._promises_seen = promises.now


def same_objects(some: Sequence[object], others: Sequence[object]) -> bool:
    return len(some) == len(others) and all(
        one is other for one, other in zip(some, others, strict=True)
    )
