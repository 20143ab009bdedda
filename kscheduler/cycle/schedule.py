"""One pod: which nodes can take it, how much each is liked, which it gets.

Mirrors schedulePod and findNodesThatFitPod of pkg/scheduler/schedule_one.go. Differs: all nodes are
judged at once and the number of feasible ones is limited afterwards, in the order in which upstream
would have come across them (plugins asked node by node are spared the rest, see `enough`); ties are
broken at random, by a generator that can be seeded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from time import perf_counter
from typing import NamedTuple

import numpy as np

from kscheduler import logs
from kscheduler.cycle.batching import Batching
from kscheduler.cycle.enough import Enough
from kscheduler.cycle.sampling import by_row, first_error, first_marked, nodes_to_find, rotated
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import (
    Charge,
    Code,
    Diagnosis,
    Rows,
    Scores,
    Status,
    fit_error,
)
from kscheduler.runtime.extenders.extenders import Extenders
from kscheduler.runtime.filter import Filtered
from kscheduler.runtime.framework import Framework
from kscheduler.runtime.pre_filter import PreFilterOutcome
from kscheduler.runtime.score import ScoreBoard
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__)

FIRST_FAILED = "Evaluation failed on nominated node"
NO_NODES = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("no nodes available to schedule pods",))


class Placement(NamedTuple):
    """The node the pod should run on; `scores` is None when there was nothing to choose from."""

    node: str
    row: int
    evaluated: int
    feasible: int
    scores: ScoreBoard | None = None


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """No node can take the pod; preemption may make room."""

    diagnosis: Diagnosis
    num_nodes: int

    @property
    def message(self) -> str:
        return fit_error(self.num_nodes, self.diagnosis)


@dataclass(frozen=True, slots=True)
class Failed:
    """There is no verdict on nodes: something went wrong, or there is no node at all."""

    status: Status


class Feasible(NamedTuple):
    """Rows that can take the pod, and how many were looked at to find them."""

    rows: Rows
    evaluated: int
    # The node that was tried first because the pod before got on well with its like.
    hint: str = ""


class Search(NamedTuple):
    """What is known of a pod before any node is looked at: where to look, and where first."""

    prepared: PreFilterOutcome
    diagnosis: Diagnosis
    # The node it was promised, or else the hint; "" for none.
    first: str
    hint: str


class Turn(NamedTuple):
    """Which attempt this is, and what tells the pod from others, if that can be said."""

    number: int = 0
    signature: bytes | None = None


FIRST_TURN = Turn()

Outcome = Placement | Unschedulable | Failed


class Scheduler:
    """Decides for one pod at a time. Where the last search stopped is where the next one starts."""

    def __init__(
        self,
        *,
        rng: Random,
        percentage_of_nodes_to_score: int = 0,
        batching: Batching | None = None,
        extenders: Extenders | None = None,
    ) -> None:
        self._rng = rng
        self._percentage = percentage_of_nodes_to_score
        self._batching = batching
        # What comes after plugins may want a choice, and may reject what is left by them.
        self._chosen_by_extenders = bool(
            extenders and (extenders.can_filter or extenders.can_prioritize)
        )
        self._enough = Enough()
        self.next_start_node_index = 0

    def decide(
        self,
        cycle: CycleState,
        framework: Framework,
        pod: PodInfo,
        nodes: Nodes,
        turn: Turn = FIRST_TURN,
    ) -> Outcome:
        """`nodes` is a whole snapshot: a position in it is a row."""
        found = self.find(cycle, framework, pod, nodes, turn)
        if not isinstance(found, Feasible):
            return found
        outcome = self.choose(cycle, framework, pod, nodes, found)
        if isinstance(outcome, Placement):
            self.leave(framework, turn, found, outcome)
        return outcome

    def leave(
        self, framework: Framework, turn: Turn, found: Feasible, placement: Placement
    ) -> None:
        """Let the next pod profit from what was found for this one."""
        if self._batching is not None:
            self._batching.store(
                framework.profile_name,
                signature=turn.signature,
                hint=found.hint,
                chosen=placement.node,
                chosen_row=placement.row,
                feasible=found.rows,
                number=turn.number,
            )

    def find(
        self,
        cycle: CycleState,
        framework: Framework,
        pod: PodInfo,
        nodes: Nodes,
        turn: Turn = FIRST_TURN,
    ) -> Feasible | Unschedulable | Failed:
        """The nodes that can take the pod, or why there are none."""
        search = self.prepare(cycle, framework, pod, nodes, turn)
        if not isinstance(search, Search):
            return search
        if search.first and self.fits_first(cycle, framework, pod, nodes, search):
            return Feasible(np.array([nodes.row_of(search.first)], np.intp), 1, search.hint)
        return self.look(cycle, framework, pod, nodes, search)

    def prepare(
        self, cycle: CycleState, framework: Framework, pod: PodInfo, nodes: Nodes, turn: Turn
    ) -> Search | Unschedulable | Failed:
        """What plugins say of the pod before they look at nodes."""
        if not nodes.total:
            return Failed(NO_NODES)
        if pod.error:
            return Failed(Status(Code.ERROR, (pod.error,)))
        prepared = framework.run_pre_filter(cycle, pod, nodes)
        diagnosis = Diagnosis(unschedulable_plugins=set(prepared.plugins))
        if prepared.status is not None:
            return _ended_by_pre_filter(prepared.status, diagnosis, nodes)
        hint = ""
        if self._batching is not None:
            hint = self._batching.hint(
                cycle, framework, pod, nodes, signature=turn.signature, number=turn.number
            )
        return Search(prepared, diagnosis, pod.pod.status.nominated_node_name or hint, hint)

    def look(
        self,
        cycle: CycleState,
        framework: Framework,
        pod: PodInfo,
        nodes: Nodes,
        search: Search,
    ) -> Feasible | Unschedulable | Failed:
        """Look at all nodes that come into question, or as many of them as are needed."""
        prepared, diagnosis, hint = search.prepared, search.diagnosis, search.hint
        view = nodes
        if prepared.names is not None:
            # Whoever rejected the node that was tried first is named as well, as upstream does.
            diagnosis.absent = _unsatisfied(diagnosis.unschedulable_plugins)
            view = nodes.take(_rows_of(prepared.names, nodes))
        candidates = nodes.order if view is nodes else view.rows
        wanted = self._nodes_to_find(framework, len(candidates))
        started = perf_counter()
        if wanted < len(candidates) and framework.filters_node_by_node(cycle):
            turn = rotated(candidates, self._start(candidates), len(candidates))
            filtered = self._enough.filter(cycle, framework, pod, view, turn, wanted)
        else:
            filtered = framework.filter_with_nominated(cycle, pod, view)
        found = self._conclude(nodes, candidates, wanted, filtered, diagnosis)
        framework.filter_took(found.status if isinstance(found, Failed) else None, started)
        return found._replace(hint=hint) if hint and isinstance(found, Feasible) else found

    def fits_first(
        self,
        cycle: CycleState,
        framework: Framework,
        pod: PodInfo,
        nodes: Nodes,
        search: Search,
    ) -> bool:
        """Whether the node the pod was promised takes it; if so, no other is looked at."""
        name, diagnosis = search.first, search.diagnosis
        row = nodes.row_of(name)
        if row is None:
            problems = [f'nodeinfo not found for node name "{name}"']
        else:
            started = perf_counter()
            filtered = framework.filter_with_nominated(cycle, pod, nodes.take([row]))
            framework.filter_took(Status(Code.ERROR) if filtered.errors else None, started)
            if filtered.count:
                return True
            _charge(diagnosis, filtered.charges)
            # Unlike those who reject it, plugins that make the pod wait have to say so again.
            diagnosis.pending_plugins.clear()
            problems = [error.reason for error in filtered.errors]
        for problem in problems:
            log.unhandled(problem, FIRST_FAILED, pod=logs.ref(pod.pod), node=name)
        return False

    def _conclude(
        self,
        nodes: Nodes,
        candidates: Rows,
        wanted: int,
        filtered: Filtered,
        diagnosis: Diagnosis,
    ) -> Feasible | Unschedulable | Failed:
        """What Filter's verdict on the candidates means, when so many of them are wanted.

        A node counts as processed if it is feasible or was rejected: where there is an error it
        does not, and the node that was tried first counts, wherever it is.
        """
        if filtered.count <= wanted and not filtered.errors:
            rows, looked_at, error = filtered.feasible, len(candidates), None
        else:
            rows, looked_at, error = self._cut(filtered, wanted, candidates, nodes)
        processed, start = looked_at, self._start(candidates)
        if diagnosis.charges:
            tried = rotated(candidates, start, looked_at)
            rejected = tried[~np.isin(tried, rows)]
            before = np.isin(diagnosis.charged_rows, rejected, invert=True)
            processed += int(np.count_nonzero(before))
            diagnosis.acquit(rejected)
        self._move_on(processed, nodes)
        if error is not None:
            return Failed(Status(Code.ERROR, (error.reason,), error.plugin))
        if not len(rows):
            _charge(diagnosis, filtered.charges)
            return Unschedulable(diagnosis, nodes.total)
        if self._chosen_by_extenders:
            # They may yet reject what passed; then it matters why the others did not.
            tried = rotated(candidates, start, looked_at)
            _charge(diagnosis, _only_of(filtered.charges, tried))
        return Feasible(rows, processed)

    def _move_on(self, processed: int, nodes: Nodes) -> None:
        self.next_start_node_index = (self.next_start_node_index + processed) % nodes.total

    def _cut(
        self, filtered: Filtered, wanted: int, candidates: Rows, nodes: Nodes
    ) -> tuple[Rows, int, Charge | None]:
        """The first feasible rows in rotation order, how many nodes that took, any error there.

        Only one feasible node more than wanted ends the search, so nodes that are rejected before
        it are looked at; it is not, and neither is one that ends it by an error.
        """
        start = self._start(candidates)
        if filtered.count == len(candidates):
            return rotated(candidates, start, wanted), wanted, None
        rows, looked_at = first_marked(by_row(filtered, nodes), wanted, candidates, start)
        if not filtered.errors:
            return rows, looked_at, None
        position, error = first_error(filtered.errors, rotated(candidates, start, looked_at))
        return rows, looked_at if error is None else position, error

    def _start(self, candidates: Rows) -> int:
        """At which of the candidates the search starts."""
        return self.next_start_node_index % max(len(candidates), 1)

    def _nodes_to_find(self, framework: Framework, num_nodes: int) -> int:
        """How many feasible nodes are enough; without scoring, the first one is."""
        if not (framework.has_score_plugins or self._chosen_by_extenders):
            return 1
        percentage = framework.percentage_of_nodes_to_score
        if percentage is None:
            percentage = self._percentage
        return nodes_to_find(num_nodes, percentage)

    def choose(
        self,
        cycle: CycleState,
        framework: Framework,
        pod: PodInfo,
        nodes: Nodes,
        found: Feasible,
    ) -> Placement | Failed:
        """The best of the feasible nodes."""
        count = len(found.rows)
        if count == 1:
            row = int(found.rows[0])
            return Placement(nodes.name_of(row), row, found.evaluated, 1)
        view = nodes if count == len(nodes) else nodes.take(found.rows)
        scores = self.score(cycle, framework, pod, view)
        if isinstance(scores, Failed):
            return scores
        return self.pick(nodes, view, found, scores)

    def score(
        self, cycle: CycleState, framework: Framework, pod: PodInfo, view: Nodes
    ) -> ScoreBoard | Failed:
        """How much plugins like each of these nodes."""
        status = framework.run_pre_score(cycle, pod, view)
        if status is not None:
            return Failed(status)
        scores = framework.run_score(cycle, pod, view)
        return Failed(scores) if isinstance(scores, Status) else scores

    def pick(self, nodes: Nodes, view: Nodes, found: Feasible, scores: ScoreBoard) -> Placement:
        """The node with the highest total."""
        row = int(view.rows[self._pick(scores.total)])
        return Placement(nodes.name_of(row), row, found.evaluated, len(found.rows), scores)

    def _pick(self, total: Scores) -> int:
        """The position of the highest total, at random among equals."""
        best = (total == total.item(total.argmax())).nonzero()[0]
        ties = len(best)
        return best.item(0 if ties == 1 else self._rng.randrange(ties))


def _ended_by_pre_filter(
    status: Status, diagnosis: Diagnosis, nodes: Nodes
) -> Unschedulable | Failed:
    if not status.rejected:
        return Failed(status)
    diagnosis.absent = status
    diagnosis.pre_filter_message = status.message
    diagnosis.blame(status)
    return Unschedulable(diagnosis, nodes.total)


def _rows_of(names: frozenset[str], nodes: Nodes) -> Rows:
    """Names nobody has are left out."""
    rows = [row for name in sorted(names) if (row := nodes.row_of(name)) is not None]
    return np.array(rows, np.intp)


def _unsatisfied(plugins: Iterable[str]) -> Status:
    text = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}]"
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))


def _charge(diagnosis: Diagnosis, charges: Iterable[Charge]) -> None:
    for charge in charges:
        diagnosis.charge(charge.plugin, charge.rows, charge.code, charge.reason)


def _only_of(charges: Iterable[Charge], rows: Rows) -> list[Charge]:
    """What is said of these rows."""
    return [charge._replace(rows=charge.rows[np.isin(charge.rows, rows)]) for charge in charges]
