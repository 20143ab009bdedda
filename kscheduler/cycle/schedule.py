"""The scheduling algorithm: which nodes can take a pod, how much each is liked, which it gets.

Mirrors schedulePod and what it calls in pkg/scheduler/schedule_one.go, under the same names.
Differs: all nodes are filtered at once and the number of feasible ones is limited afterwards, in
the order in which upstream would have come across them (see `node_sampling`); ties are broken at
random, by a generator that can be seeded.

The functions that are coroutines wait for extenders, and only in attempts that are `extended`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from time import perf_counter

import numpy as np

from kscheduler import logs
from kscheduler.cycle.attempt import Attempt, Failed, Feasible, Outcome, Placement, Unschedulable
from kscheduler.cycle.batching import OpportunisticBatch
from kscheduler.cycle.node_sampling import (
    FilterUntilEnough,
    Search,
    first_feasible,
    num_feasible_nodes_to_find,
    rotated,
)
from kscheduler.errors import KschedulerError
from kscheduler.extension_points import Point
from kscheduler.framework.status import Charge, Code, Diagnosis, Rows, Scores, Status, failed
from kscheduler.metrics import Metrics
from kscheduler.runtime.extenders.extenders import EXTENDER, Extenders
from kscheduler.runtime.filter import Filtered
from kscheduler.runtime.score import ScoreBoard
from kscheduler.state.nodes_view import Nodes

log = logs.logger(__name__)

NO_NODES_AVAILABLE = Status(
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("no nodes available to schedule pods",)
)


class SchedulingAlgorithm:
    """Decides for one pod at a time. Where the last search stopped is where the next one starts."""

    def __init__(
        self,
        metrics: Metrics,
        *,
        rng: Random,
        percentage_of_nodes_to_score: int = 0,
        batching: bool = False,
        extenders: Extenders | None = None,
    ) -> None:
        self._rng = rng
        self._percentage = percentage_of_nodes_to_score
        self._batch = OpportunisticBatch(metrics) if batching else None
        self._extenders = extenders or Extenders()
        self._asking_extenders = metrics.goroutines.labels("prioritizing_extender")
        # Where extenders come after plugins, one feasible node is not enough, and the reasons
        # against the others matter although some node passed: extenders may yet reject it.
        self._extenders_choose = self._extenders.can_filter or self._extenders.can_prioritize
        self._filter_until_enough = FilterUntilEnough()
        self.next_start_node_index = 0

    async def schedule_pod(self, attempt: Attempt) -> Outcome:
        found = await self.find_nodes_that_fit_pod(attempt)
        if not isinstance(found, Feasible):
            return found
        rows, evaluated = found
        nodes, count = attempt.nodes, len(rows)
        if count == 1:
            # Nothing to choose from: like upstream, do not score.
            row = int(rows[0])
            placement = Placement(nodes.name_of(row), row, evaluated, 1)
        else:
            # A view of all nodes costs nothing, one of some gathers columns. Extenders see nodes in
            # the order in which they were found.
            is_whole = count == len(nodes) and not attempt.extended
            view = nodes if is_whole else nodes.take(rows)
            scores = await self.prioritize_nodes(attempt, view)
            if isinstance(scores, Status):
                return Failed(scores)
            row = int(view.rows[self.select_host(scores.total)])
            placement = Placement(nodes.name_of(row), row, evaluated, count, scores)
        if self._batch is not None:
            self._batch.store_schedule_results(attempt, placement, rows)
        return placement

    async def find_nodes_that_fit_pod(self, attempt: Attempt) -> Feasible | Unschedulable | Failed:
        """PreFilter, the nominated node, Filter and extenders: nodes, or why there are none."""
        pod, nodes = attempt.pod, attempt.nodes
        if not nodes.total:
            return Failed(NO_NODES_AVAILABLE)
        if pod.error:
            return Failed(Status(Code.ERROR, (pod.error,)))
        pre_filter = attempt.framework.run_pre_filter(attempt.cycle, pod, nodes)
        diagnosis = attempt.diagnosis = Diagnosis(unschedulable_plugins=set(pre_filter.plugins))
        status = pre_filter.status
        if status is not None:
            if not status.rejected:
                return Failed(status)
            diagnosis.absent = status
            diagnosis.pre_filter_message = status.message
            if v := log.v(5):
                what = "Status after running PreFilter plugins for pod"
                v.info(what, pod=logs.ref(pod.pod), status=status.message)
            diagnosis.blame(status)
            return Unschedulable(diagnosis, nodes.total)
        if self._batch is not None:
            attempt.hint = self._batch.get_node_hint(attempt)
        # A nominated node was emptied for the pod by preemption and is likely the only one that
        # fits; a hint is a node that suited a pod just like this one. Either is tried alone first,
        # and if it takes the pod, no other node is filtered.
        nominated = pod.pod.status.nominated_node_name or attempt.hint
        if nominated:
            fits = await self.evaluate_nominated_node(attempt, nominated)
            if fits is not None:
                return fits
        found = self.find_nodes_that_pass_filters(attempt, pre_filter.names)
        if attempt.extended and isinstance(found, Feasible):
            return await self.find_nodes_that_pass_extenders(attempt, found.rows)
        return found

    async def evaluate_nominated_node(self, attempt: Attempt, name: str) -> Feasible | None:
        """The nominated node if plugins and extenders let it pass, else None."""
        framework, nodes, diagnosis = attempt.framework, attempt.nodes, attempt.diagnosis
        problems: Sequence[Exception | str] = ()
        row = nodes.row_of(name)
        if row is None:
            problems = (f'nodeinfo not found for node name "{name}"',)
        else:
            started, view = perf_counter(), nodes.take([row])
            filtered = framework.filter_with_nominated(attempt.cycle, attempt.pod, view)
            framework.observe_filter(Status(Code.ERROR) if filtered.errors else None, started)
            if filtered.count:
                if not attempt.extended:
                    return Feasible(view.rows, 1)
                try:
                    rows = await self._extenders.filter(
                        attempt.pod, nodes, view.rows, diagnosis, attempt.extender_answers
                    )
                    if len(rows):
                        return Feasible(rows, _evaluated(rows, diagnosis))
                except KschedulerError as error:
                    problems = (error,)
            else:
                _charge(diagnosis, filtered.charges)
                # Upstream passes the diagnosis by value: the set of rejecting plugins is shared,
                # the set of pending ones is first made in the copy, and lost with it.
                diagnosis.pending_plugins.clear()
                problems = [error.reason for error in filtered.errors]
        for problem in problems:
            what = "Evaluation failed on nominated node"
            log.unhandled(problem, what, pod=logs.ref(attempt.pod.pod), node=name)
        return None

    def find_nodes_that_pass_filters(
        self, attempt: Attempt, names: frozenset[str] | None
    ) -> Feasible | Unschedulable | Failed:
        """Filter all nodes, or those that PreFilter has named, or as many of them as are needed."""
        framework, cycle, nodes = attempt.framework, attempt.cycle, attempt.nodes
        view, candidates = nodes, nodes.order
        if names is not None:
            # Plugins that rejected the nominated node are named as well, as upstream does.
            plugins = " ".join(sorted(attempt.diagnosis.unschedulable_plugins))
            attempt.diagnosis.absent = Status(
                Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
                (f"node(s) didn't satisfy plugin(s) [{plugins}]",),
            )
            # Plugins may name nodes that do not exist.
            rows = [row for name in sorted(names) if (row := nodes.row_of(name)) is not None]
            view = nodes.take(np.array(rows, np.intp))
            candidates = view.rows
        wanted = 1  # without scoring, the first feasible node is enough
        if framework.has_score_plugins or self._extenders_choose:
            percentage = framework.percentage_of_nodes_to_score
            if percentage is None:
                percentage = self._percentage
            wanted = num_feasible_nodes_to_find(len(candidates), percentage)
        started = perf_counter()
        if wanted < len(candidates) and framework.filters_node_by_node(cycle):
            start = self.next_start_node_index % len(candidates)
            order = rotated(candidates, start, len(candidates))
            filtered = self._filter_until_enough.filter(attempt, view, order, wanted)
        else:
            filtered = framework.filter_with_nominated(cycle, attempt.pod, view)
        found = self._end_search(attempt, filtered, candidates, wanted)
        framework.observe_filter(found.status if isinstance(found, Failed) else None, started)
        return found

    def _end_search(
        self, attempt: Attempt, filtered: Filtered, candidates: Rows, wanted: int
    ) -> Feasible | Unschedulable | Failed:
        """Cut Filter's verdict on the candidates to what upstream would have seen of them, and move
        the start of the next search past the nodes that were processed.

        A node counts as processed if it is feasible or was rejected. So where there is an error it
        does not, and the nominated node, if it was rejected before, does, wherever it is.
        """
        nodes, diagnosis = attempt.nodes, attempt.diagnosis
        start = self.next_start_node_index % max(len(candidates), 1)
        error: Charge | None = None
        if filtered.count <= wanted and not filtered.errors:
            rows, visited = filtered.feasible, len(candidates)
        else:
            rows, visited, error = first_feasible(filtered, nodes, candidates, start, wanted)
        attempt.search = Search(filtered, candidates, start, visited)
        processed = visited
        if diagnosis.charges:
            seen = rotated(candidates, start, visited)
            rejected = seen[~np.isin(seen, rows)]
            before = np.isin(diagnosis.charged_rows, rejected, invert=True)
            processed += int(np.count_nonzero(before))
            diagnosis.acquit(rejected)
        self.next_start_node_index = (self.next_start_node_index + processed) % nodes.total
        if error is not None:
            return Failed(Status(Code.ERROR, (error.reason,), error.plugin))
        if not len(rows):
            _charge(diagnosis, filtered.charges)
            return Unschedulable(diagnosis, nodes.total)
        if self._extenders_choose:
            seen = rotated(candidates, start, visited)
            _charge(
                diagnosis,
                (one._replace(rows=one.rows[np.isin(one.rows, seen)]) for one in filtered.charges),
            )
        return Feasible(rows, processed)

    async def find_nodes_that_pass_extenders(
        self, attempt: Attempt, feasible: Rows
    ) -> Feasible | Unschedulable | Failed:
        diagnosis, nodes = attempt.diagnosis, attempt.nodes
        try:
            rows = await self._extenders.filter(
                attempt.pod, nodes, feasible, diagnosis, attempt.extender_answers
            )
        except KschedulerError as error:
            return Failed(failed(error))
        if len(rows) != len(feasible):
            # Extenders do not say which events would change their mind: every event wakes the pod.
            diagnosis.unschedulable_plugins.add(EXTENDER)
        if not len(rows):
            return Unschedulable(diagnosis, nodes.total)
        return Feasible(rows, _evaluated(rows, diagnosis))

    async def prioritize_nodes(self, attempt: Attempt, view: Nodes) -> ScoreBoard | Status:
        """Scores per position of the view: of plugins, and in the total those of extenders too."""
        framework, cycle, pod = attempt.framework, attempt.cycle, attempt.pod
        status = framework.run_pre_score(cycle, pod, view)
        if status is not None:
            return status
        scores = framework.run_score(cycle, pod, view)
        if isinstance(scores, Status):
            return scores
        v = log.v(10)
        if v:
            _log_plugin_scores(v, attempt, view, scores)
        if attempt.extended:
            self._asking_extenders.inc()
            try:
                added = await self._extenders.prioritize(pod, view, attempt.extender_answers)
                scores.total = scores.total + added
            finally:
                self._asking_extenders.dec()
        if v:
            ref = logs.ref(pod.pod)
            for node, score in zip(view.names, scores.total.tolist(), strict=True):
                v.info("Calculated node's final score for pod", pod=ref, node=node, score=score)
        return scores

    def select_host(self, total: Scores) -> int:
        """The position of the highest total, at random among equals."""
        best = (total == total.item(total.argmax())).nonzero()[0]
        ties = len(best)
        return best.item(0 if ties == 1 else self._rng.randrange(ties))


def _log_plugin_scores(v: logs.Verbose, attempt: Attempt, view: Nodes, scores: ScoreBoard) -> None:
    """One line per node and plugin, plugins in the order of the profile, scores with weights."""
    given = {plugin: (normalized * weight).tolist() for plugin, weight, _, normalized in scores}
    plugins = [one.name for one in attempt.framework.plugins_at[Point.SCORE] if one.name in given]
    pod = logs.ref(attempt.pod.pod)
    for position, node in enumerate(view.names):
        for plugin in plugins:
            v.info(
                "Plugin scored node for pod",
                pod=pod,
                plugin=plugin,
                node=node,
                score=given[plugin][position],
            )


def _evaluated(rows: Rows, diagnosis: Diagnosis) -> int:
    """How many nodes count as evaluated: the feasible ones, and those with a reason against them.

    Nodes that an extender drops without a reason are neither.
    """
    return len(rows) + len(diagnosis.charged_rows)


def _charge(diagnosis: Diagnosis, charges: Iterable[Charge]) -> None:
    for charge in charges:
        diagnosis.charge(charge.plugin, charge.rows, charge.code, charge.reason)
