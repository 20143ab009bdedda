"""Outcomes of dry runs, by node, kept for the next pod of the same template.

Pods that preempt often come in numbers: the replicas of a workload. What a dry run finds on a node
follows from the pod's template, the node, the pods there, the pods nominated to it and the budgets;
between two such pods little of that changes, and on few nodes. It holds only where each plugin
judges a node by itself (`FilterPlugin.local`).
"""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler.api.small_groups import PodDisruptionBudget
from kscheduler.caches import ENTRY_BYTES, BoundedCache
from kscheduler.framework.handle import Nominator
from kscheduler.runtime.preemption.dry_run import NodeOutcome
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.pod_template import PodTemplate

# Each may hold an outcome for every node, so at least as many are kept, and at most twice as many.
MAX_TEMPLATES = 4
MAX_BYTES = 8 << 20
BYTES_PER_OUTCOME = 100
LEAST_COST = MAX_BYTES // (2 * MAX_TEMPLATES) - ENTRY_BYTES


class DryRunCache:
    def __init__(self, nominator: Nominator) -> None:
        self._nominator = nominator
        self._by_template: BoundedCache[PodTemplate, _Outcomes] = BoundedCache(
            "preemption_findings", MAX_BYTES
        )
        self.caches = (self._by_template,)

    def outcomes_for(
        self, pod: PodInfo, nodes: Nodes, budgets: Sequence[PodDisruptionBudget]
    ) -> dict[int, NodeOutcome]:
        """Outcomes by row that still hold; those added to the answer are kept."""
        # The template must tell all that plugins ask about the pod.
        is_like_template = not pod.node_name and pod.requests is pod.template.taken.requests
        # A nomination of its own does not stand in the pod's way, but in that of the others.
        if not is_like_template or self._nominator.node_of(pod.uid) is not None:
            return {}
        known = self._by_template.get(pod.template)
        if known is None:
            known = _Outcomes(self._nominator)
            cost = pod.template.bytes + BYTES_PER_OUTCOME * len(nodes.whole)
            self._by_template.put(pod.template, known, max(cost, LEAST_COST))
        known.drop_changed(nodes, budgets)
        return known.by_row


class _Outcomes:
    """Outcomes for one template; costs what has changed since they were last asked for."""

    def __init__(self, nominator: Nominator) -> None:
        self.by_row: dict[int, NodeOutcome] = {}
        self._nominator = nominator
        self._budgets: Sequence[PodDisruptionBudget] = ()
        # Places in the logs of changed rows and of changed nominations.
        self._rows_seen = -1
        self._nominations_seen = -1

    def drop_changed(self, nodes: Nodes, budgets: Sequence[PodDisruptionBudget]) -> None:
        changed, nominations = nodes.changed_rows, self._nominator.changes
        # None where the log does not go back so far.
        rows = None if changed is None else changed.since(self._rows_seen)
        names = nominations.since(self._nominations_seen)
        if rows is None or names is None or not are_same_objects(budgets, self._budgets):
            self.by_row.clear()
        else:
            rows.update(row for name in names if (row := nodes.row_of(name)) is not None)
            for row in rows:
                self.by_row.pop(row, None)
        self._budgets = budgets
        self._rows_seen = -1 if changed is None else changed.now
        self._nominations_seen = nominations.now


def are_same_objects(some: Sequence[object], others: Sequence[object]) -> bool:
    return len(some) == len(others) and all(
        one is other for one, other in zip(some, others, strict=True)
    )
