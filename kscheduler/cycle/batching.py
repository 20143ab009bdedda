"""Opportunistic batching: a pod that no plugin can tell from the one before it inherits its nodes.

After a placement only the chosen node has changed, so the nodes that were feasible for the first
pod are looked at again instead of all: the best of them is a hint, which is tried before any
other node.

Mirrors pkg/scheduler/framework/runtime/batch.go. Differs: the inherited nodes are scored anew, all
at once, so that what else happened to them meanwhile counts too; upstream keeps their old scores.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from kscheduler import logs
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Rows, Status
from kscheduler.metrics import Metrics
from kscheduler.runtime.framework import Framework
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__)

MAX_AGE_SECONDS = 0.5
NO_ROWS: Rows = np.empty(0, np.intp)


class _KnownNodes:
    """Names by row, of a time between two changes of the set of nodes.

    A row is taken over by the next new node once its own is gone, and the table ends earlier when
    its last rows are free; so what was found out about a row holds for a name.
    """

    __slots__ = ("_names", "order")

    def __init__(self, nodes: Nodes) -> None:
        # Made anew, and only then, when nodes come or go.
        self.order = nodes.order
        self._names = tuple(nodes.names)

    def all_left(self, rows: Rows, nodes: Nodes) -> bool:
        """Whether the nodes of these rows are there, in the same rows, today."""
        if nodes.order is self.order:
            return True
        before, after = self._names, nodes.names
        there = len(after)
        return all(row < there and after[row] == before[row] for row in rows.tolist())


@dataclass(slots=True)
class _Inheritance:
    """What the last pods of a profile left behind."""

    signature: bytes | None = None
    rows: Rows = field(default_factory=lambda: NO_ROWS)
    known: _KnownNodes | None = None
    made_at: float = 0.0
    # The attempt that added to it last, and the node that one got.
    number: int = -1
    chosen: str = ""


class Batching:
    """`number` counts attempts of all profiles: only the next one after a success inherits."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        # Those of the last attempt for a pod with a signature.
        self._known: _KnownNodes | None = None
        self._by_profile: dict[str, _Inheritance] = {}

    def hint(
        self,
        cycle: CycleState,
        framework: Framework,
        pod: PodInfo,
        nodes: Nodes,
        *,
        signature: bytes | None,
        number: int,
    ) -> str:
        """The node to try first, or "". PreFilter has been run in `cycle`."""
        started = perf_counter()
        profile = framework.profile_name
        # Pods that nothing tells apart from others leave nothing behind, see `_leave`.
        if signature is not None and (self._known is None or nodes.order is not self._known.order):
            self._known = _KnownNodes(nodes)
        found = ""
        left = self._by_profile.get(profile)
        if left is not None and len(left.rows):
            why_not = _unusable(left, pod, signature, number, started)
            if why_not:
                self._flushed(profile, number, why_not)
            else:
                found = self._best(left, cycle.clone(), framework, pod, nodes, number)
        if not found:
            self._metrics.batch_attempts_total.labels(profile, "no_hint").inc()
        if v := log.v(3 if found else 4):
            self._log_hint(v, profile, pod, number, found)
        hinted = "hint" if found else "no_hint"
        seconds = perf_counter() - started
        self._metrics.get_node_hint_duration_seconds.labels(hinted, profile).observe(seconds)
        return found

    def _best(
        self,
        left: _Inheritance,
        cycle: CycleState,
        framework: Framework,
        pod: PodInfo,
        nodes: Nodes,
        number: int,
    ) -> str:
        """The best of the inherited nodes, which is then no longer among them."""
        profile = framework.profile_name
        row = nodes.row_of(left.chosen)
        if row is None or left.known is None or not left.known.all_left(left.rows, nodes):
            self._flushed(profile, number, "node_missing")
            return ""
        filtered = framework.run_filter(cycle, pod, nodes.take([row]))
        if filtered.errors:
            self._flushed(profile, number, "filter_error")
            return ""
        rows = left.rows
        if filtered.count:
            self._metrics.batch_rescore_attempts_total.labels(profile).inc()
            rows = np.append(rows, row)
        best = self._best_position(cycle, framework, pod, nodes.take(rows), number)
        if best < 0:
            return ""
        left.rows = np.delete(rows, best)
        return nodes.name_of(int(rows[best]))

    def _best_position(
        self, cycle: CycleState, framework: Framework, pod: PodInfo, nodes: Nodes, number: int
    ) -> int:
        started = perf_counter()
        profile = framework.profile_name
        if framework.run_pre_score(cycle, pod, nodes) is not None:
            self._flushed(profile, number, "prescore_error")
            return -1
        scores = framework.run_score(cycle, pod, nodes)
        seconds = perf_counter() - started
        self._metrics.batch_rescore_duration_seconds.labels(profile).observe(seconds)
        if isinstance(scores, Status):
            self._flushed(profile, number, "rescore_error")
            return -1
        return int(scores.total.argmax())

    def store(
        self,
        profile: str,
        *,
        signature: bytes | None,
        hint: str,
        chosen: str,
        chosen_row: int,
        feasible: Rows,
        number: int,
    ) -> None:
        """A pod got a node, one of those that were found to be feasible."""
        started = perf_counter()
        left = self._by_profile.get(profile)
        if left is None:
            left = self._by_profile[profile] = _Inheritance()
        left.number, left.chosen = number, chosen
        attempts = self._metrics.batch_attempts_total
        if hint == chosen:
            attempts.labels(profile, "hint_used").inc()
        else:
            if hint:
                attempts.labels(profile, "hint_not_used").inc()
            self._leave(left, profile, signature, feasible, chosen_row, started)
        seconds = perf_counter() - started
        self._metrics.store_schedule_results_duration_seconds.labels(profile).observe(seconds)

    def _leave(
        self,
        left: _Inheritance,
        profile: str,
        signature: bytes | None,
        feasible: Rows,
        chosen_row: int,
        now: float,
    ) -> None:
        if signature is not None and len(feasible) > 1:
            left.signature, left.made_at, left.known = signature, now, self._known
            left.rows = feasible[feasible != chosen_row]
        else:
            left.signature, left.rows, left.known = None, NO_ROWS, None
            reason = "pod_not_batchable" if len(feasible) > 1 else "empty_list"
            self._flushed(profile, left.number, reason)

    def _flushed(self, profile: str, number: int, reason: str) -> None:
        self._metrics.batch_cache_flushed_total.labels(profile, reason).inc()
        if v := log.v(4):
            v.info(
                "OpportunisticBatch found unusable state",
                profile=profile,
                cycleCount=number,
                reason=reason,
            )

    def _log_hint(
        self, v: logs.Verbose, profile: str, pod: PodInfo, number: int, found: str
    ) -> None:
        told = {"profile": profile, "pod": logs.ref(pod.pod), "cycleCount": number}
        if found:
            remaining = len(self._by_profile[profile].rows)
            text = "OpportunisticBatch provided node hint"
            v.info(text, **told, hint=found, remainingNodes=remaining)
        else:
            v.info("OpportunisticBatch no node hint available for pod", **told)


def _unusable(
    left: _Inheritance, pod: PodInfo, signature: bytes | None, number: int, now: float
) -> str:
    """Why this pod cannot inherit, or ""."""
    if number != left.number + 1:
        return "pod_skipped"
    if pod.pod.status.nominated_node_name:
        return "pod_nominated"
    if signature is None or signature != left.signature:
        return "pod_incompatible"
    if now > left.made_at + MAX_AGE_SECONDS:
        return "expired"
    return ""
