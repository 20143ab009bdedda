"""A decision in which extenders have a say: the same stages, with questions to them in between.

Whoever runs it holds the view of the cluster still meanwhile, so that it is one decision like any
other; only that it waits.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import numpy as np

from kscheduler import logs
from kscheduler.cycle.schedule import (
    FIRST_FAILED,
    Failed,
    Feasible,
    Outcome,
    Placement,
    Scheduler,
    Search,
    Turn,
    Unschedulable,
)
from kscheduler.errors import KschedulerError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Diagnosis, Rows, failed
from kscheduler.metrics import Metrics
from kscheduler.runtime.extenders.extenders import EXTENDER, Extenders
from kscheduler.runtime.framework import Framework
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__)


class ExtendedScheduler:
    """What a Scheduler decides, as extenders leave it."""

    def __init__(self, scheduler: Scheduler, extenders: Extenders, metrics: Metrics) -> None:
        self._scheduler = scheduler
        self._extenders = extenders
        self._asking = metrics.goroutines.labels("prioritizing_extender")

    def concerns(self, pod: PodInfo) -> bool:
        return self._extenders.concern(pod)

    def held(self) -> AbstractContextManager[None]:
        return self._extenders.held()

    async def catch_up(self) -> None:
        """Let the cluster be followed up to now; others run meanwhile."""
        await self._extenders.catch_up()

    async def decide(
        self, cycle: CycleState, framework: Framework, pod: PodInfo, nodes: Nodes, turn: Turn
    ) -> Outcome:
        """`nodes` is a whole snapshot and does not change until the decision is made."""
        search = self._scheduler.prepare(cycle, framework, pod, nodes, turn)
        if not isinstance(search, Search):
            return search
        found: Feasible | Unschedulable | Failed | None
        found = await self._first(cycle, framework, pod, nodes, search)
        if found is None:
            found = await self._find(cycle, framework, pod, nodes, search)
        if not isinstance(found, Feasible):
            return found
        outcome = await self._choose(cycle, framework, pod, nodes, found)
        if isinstance(outcome, Placement):
            self._scheduler.leave(framework, turn, found, outcome)
        return outcome

    async def _first(
        self,
        cycle: CycleState,
        framework: Framework,
        pod: PodInfo,
        nodes: Nodes,
        search: Search,
    ) -> Feasible | None:
        """The node the pod was promised, if everybody agrees."""
        if not search.first:
            return None
        if not self._scheduler.fits_first(cycle, framework, pod, nodes, search):
            return None
        promised = np.array([nodes.row_of(search.first)], np.intp)
        try:
            rows = await self._extenders.filter(pod, nodes, promised, search.diagnosis)
        except KschedulerError as error:
            log.unhandled(error, FIRST_FAILED, pod=logs.ref(pod.pod), node=search.first)
            return None
        if not len(rows):
            return None
        return Feasible(rows, _evaluated(rows, search.diagnosis), search.hint)

    async def _find(
        self,
        cycle: CycleState,
        framework: Framework,
        pod: PodInfo,
        nodes: Nodes,
        search: Search,
    ) -> Feasible | Unschedulable | Failed:
        found = self._scheduler.look(cycle, framework, pod, nodes, search)
        if not isinstance(found, Feasible):
            return found
        diagnosis = search.diagnosis
        try:
            rows = await self._extenders.filter(pod, nodes, found.rows, diagnosis)
        except KschedulerError as error:
            return Failed(failed(error))
        if len(rows) != len(found.rows):
            # Nobody knows what might change an extender's mind: every event wakes the pod.
            diagnosis.unschedulable_plugins.add(EXTENDER)
        if not len(rows):
            return Unschedulable(diagnosis, nodes.total)
        return found._replace(rows=rows, evaluated=_evaluated(rows, diagnosis))

    async def _choose(
        self,
        cycle: CycleState,
        framework: Framework,
        pod: PodInfo,
        nodes: Nodes,
        found: Feasible,
    ) -> Placement | Failed:
        if len(found.rows) == 1:
            return self._scheduler.choose(cycle, framework, pod, nodes, found)
        view = nodes.take(found.rows)
        scores = self._scheduler.score(cycle, framework, pod, view)
        if isinstance(scores, Failed):
            return scores
        self._asking.inc()
        try:
            scores.total = scores.total + await self._extenders.prioritize(pod, view)
        finally:
            self._asking.dec()
        return self._scheduler.pick(nodes, view, found, scores)


def _evaluated(rows: Rows, diagnosis: Diagnosis) -> int:
    """How many nodes are said to have been judged: those of which somebody said something."""
    return len(rows) + len(diagnosis.charged_rows)
