"""Opportunistic batching: a pod that no plugin can tell from the one before it reuses its nodes.

After a placement only the chosen node has changed. So instead of filtering all nodes again for the
next pod with the same signature, the best of the nodes that were feasible for the first one is
given as a hint, which is tried before any other node.

Mirrors pkg/scheduler/framework/runtime/batch.go. Differs: the nodes of a batch are scored anew, all
at once, so that what else happened to them meanwhile counts too; upstream keeps their old scores.
"""

from __future__ import annotations

from time import perf_counter

import msgspec
import numpy as np

from kscheduler import logs
from kscheduler.cycle.attempt import Attempt, Placement
from kscheduler.framework.status import Rows, Status
from kscheduler.metrics import Metrics
from kscheduler.state.nodes_view import Nodes

log = logs.logger(__name__)

MAX_BATCH_AGE_SECONDS = 0.5
NO_ROWS: Rows = np.empty(0, np.intp)


class _NodeNames:
    """Names by row, as long as no node comes or goes.

    Once its node is gone a row is taken over by the next new node, and the table ends earlier when
    its last rows are free. So what was found out about a row holds only while it has this name.
    """

    __slots__ = ("_names", "order")

    def __init__(self, nodes: Nodes) -> None:
        # An array that is made anew when nodes come or go, and only then: its identity stands for
        # the set of nodes.
        self.order = nodes.order
        self._names = tuple(nodes.names)

    def still_hold(self, rows: Rows, nodes: Nodes) -> bool:
        """Whether the nodes of these rows are there, in the same rows, today."""
        if nodes.order is self.order:
            return True
        before, after = self._names, nodes.names
        count = len(after)
        return all(row < count and after[row] == before[row] for row in rows.tolist())


class _Batch(msgspec.Struct):
    """State of one profile's batch."""

    signature: bytes | None = None
    # Feasible nodes that are not yet given as a hint.
    rows: Rows = msgspec.field(default_factory=lambda: NO_ROWS)
    names: _NodeNames | None = None
    created_at: float = 0.0
    # The last attempt that found a node, and that node.
    cycle_number: int = -1
    chosen: str = ""

    def why_unusable(self, attempt: Attempt, now: float) -> str:
        """Why the batch is of no use to this attempt, or ""; metrics have these words as labels."""
        if attempt.cycle_number != self.cycle_number + 1:
            return "pod_skipped"
        if attempt.pod.pod.status.nominated_node_name:
            return "pod_nominated"
        signature = attempt.queued.signature
        if signature is None or signature != self.signature:
            return "pod_incompatible"
        if now > self.created_at + MAX_BATCH_AGE_SECONDS:
            return "expired"
        return ""


class OpportunisticBatch:
    """The batches of all profiles. Only the attempt right after a success can use one."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        # Of the last attempt at a pod with a signature: the others leave no batch behind.
        self._names: _NodeNames | None = None
        self._by_profile: dict[str, _Batch] = {}

    def get_node_hint(self, attempt: Attempt) -> str:
        """The node to try first, or "". PreFilter has been run for the attempt."""
        started = perf_counter()
        profile, nodes = attempt.framework.profile_name, attempt.nodes
        if attempt.queued.signature is not None and (
            self._names is None or nodes.order is not self._names.order
        ):
            self._names = _NodeNames(nodes)
        hint = ""
        batch = self._by_profile.get(profile)
        if batch is not None and len(batch.rows):
            why_unusable = batch.why_unusable(attempt, started)
            if why_unusable:
                self._count_flush(attempt, why_unusable)
            else:
                hint = self._take_best_node(attempt, batch)
        if not hint:
            self._metrics.batch_attempts_total.labels(profile, "no_hint").inc()
        if v := log.v(3 if hint else 4):
            values = {
                "profile": profile,
                "pod": logs.ref(attempt.pod.pod),
                "cycleCount": attempt.cycle_number,
            }
            if batch is not None and hint:
                text = "OpportunisticBatch provided node hint"
                v.info(text, **values, hint=hint, remainingNodes=len(batch.rows))
            else:
                v.info("OpportunisticBatch no node hint available for pod", **values)
        seconds = perf_counter() - started
        duration = self._metrics.get_node_hint_duration_seconds
        duration.labels("hint" if hint else "no_hint", profile).observe(seconds)
        return hint

    def _take_best_node(self, attempt: Attempt, batch: _Batch) -> str:
        """The best node of the batch, which is then no longer part of it."""
        framework, nodes, pod = attempt.framework, attempt.nodes, attempt.pod
        # The attempt itself goes on with the state that PreFilter has left.
        cycle = attempt.cycle.clone()
        chosen_row = nodes.row_of(batch.chosen)
        names = batch.names
        if chosen_row is None or names is None or not names.still_hold(batch.rows, nodes):
            self._count_flush(attempt, "node_missing")
            return ""
        filtered = framework.run_filter(cycle, pod, nodes.take([chosen_row]))
        if filtered.errors:
            self._count_flush(attempt, "filter_error")
            return ""
        rows = batch.rows
        if filtered.count:
            # The node of the pod before takes this one too: it competes with the others again.
            self._metrics.batch_rescore_attempts_total.labels(framework.profile_name).inc()
            rows = np.append(rows, chosen_row)
        started, view = perf_counter(), nodes.take(rows)
        if framework.run_pre_score(cycle, pod, view) is not None:
            self._count_flush(attempt, "prescore_error")
            return ""
        scores = framework.run_score(cycle, pod, view)
        seconds = perf_counter() - started
        duration = self._metrics.batch_rescore_duration_seconds
        duration.labels(framework.profile_name).observe(seconds)
        if isinstance(scores, Status):
            self._count_flush(attempt, "rescore_error")
            return ""
        # The first among equals: unlike a whole decision, a hint is not drawn by lot.
        best = int(scores.total.argmax())
        batch.rows = np.delete(rows, best)
        return nodes.name_of(int(rows[best]))

    def store_schedule_results(
        self, attempt: Attempt, placement: Placement, feasible: Rows
    ) -> None:
        """Remembers the feasible nodes that are left as hints for pods with the same signature."""
        started = perf_counter()
        profile = attempt.framework.profile_name
        batch = self._by_profile.get(profile)
        if batch is None:
            batch = self._by_profile[profile] = _Batch()
        batch.cycle_number, batch.chosen = attempt.cycle_number, placement.node
        if attempt.hint == placement.node:
            # The batch goes on: its remaining nodes are as they were.
            self._metrics.batch_attempts_total.labels(profile, "hint_used").inc()
        else:
            if attempt.hint:
                self._metrics.batch_attempts_total.labels(profile, "hint_not_used").inc()
            signature = attempt.queued.signature
            if signature is not None and len(feasible) > 1:
                batch.signature, batch.created_at, batch.names = signature, started, self._names
                batch.rows = feasible[feasible != placement.row]
            else:
                batch.signature, batch.rows, batch.names = None, NO_ROWS, None
                reason = "pod_not_batchable" if len(feasible) > 1 else "empty_list"
                self._count_flush(attempt, reason)
        seconds = perf_counter() - started
        self._metrics.store_schedule_results_duration_seconds.labels(profile).observe(seconds)

    def _count_flush(self, attempt: Attempt, reason: str) -> None:
        """The batch cannot be used and starts again with the next placement."""
        profile = attempt.framework.profile_name
        self._metrics.batch_cache_flushed_total.labels(profile, reason).inc()
        if v := log.v(4):
            v.info(
                "OpportunisticBatch found unusable state",
                profile=profile,
                cycleCount=attempt.cycle_number,
                reason=reason,
            )
