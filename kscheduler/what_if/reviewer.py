"""The Reviewer: answers a PlacementReview on a fork of the living scheduler.

    check → contents of one moment → changed nodes → fork → pod after pod: decide, assume
                                                            └─ no node: preemption, if allowed

Pods that have to leave drained nodes come first, then the pods asked about, in their order; pods
that were evicted on the way come last. Each step is one decision, and between two steps all other
tasks run.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain
from random import Random

import numpy as np
from msgspec.structs import replace

from kscheduler.api.explanation import (
    ERROR,
    SCHEDULED,
    UNSCHEDULABLE,
    AttemptRecord,
    PlacementReview,
    PlacementReviewSpec,
    PlacementReviewStatus,
    Remedy,
    ReviewedPlacement,
    Victim,
)
from kscheduler.api.field_errors import FieldError, aggregate
from kscheduler.api.scheduling import PriorityClass
from kscheduler.api.small_groups import PodDisruptionBudget
from kscheduler.config.load import load_config
from kscheduler.config.profiles import Completed, complete
from kscheduler.config.validation import validate
from kscheduler.cycle.attempt import Attempt, Failed, Outcome, Placement, Unschedulable
from kscheduler.decisions.explain import View
from kscheduler.errors import ConfigError
from kscheduler.framework.added_by_devices import AddedByDevices
from kscheduler.framework.status import Status
from kscheduler.metrics import Metrics
from kscheduler.runtime.preemption.candidate import Candidate
from kscheduler.runtime.preemption.evaluator import Candidates
from kscheduler.runtime.preemption.potential_victims import DisruptionBudgets, potential_victims
from kscheduler.slices import Slices
from kscheduler.what_if import question, summary
from kscheduler.what_if.errors import SPEC, ReviewError
from kscheduler.what_if.fork import Fork, LiveScheduler
from kscheduler.what_if.question import PodReader, PodToPlace
from kscheduler.what_if.remedies import remedies_for

# Makes the record of an attempt, as far as the asker may see it.
Explain = Callable[[Attempt, Outcome, View], AttemptRecord]

# Placements that are explained; the others of a large review are only told.
MAX_EXPLAINED = 100
TIME_LIMIT_SECONDS = 10.0
NUMERIC_OPERATORS = "TaintTolerationComparisonOperators"


class Reviewer:
    """Answers reviews one after the other: a copy of a large cluster is large."""

    def __init__(
        self,
        live: LiveScheduler,
        *,
        explain: Explain | None = None,
        time_limit_seconds: float = TIME_LIMIT_SECONDS,
        seed: int = 0,
        timer: Callable[[], float] = time.perf_counter,
        make_slices: Callable[[], Slices] = Slices,
    ) -> None:
        """`seed`: ties are broken alike in all reviews. The time limit is that of one review, from
        its turn on; pods that are not tried by then are told in the answer.
        """
        self._live = live
        self._explain = explain
        self._time_limit_seconds = time_limit_seconds
        self._seed = seed
        self._timer = timer
        self._make_slices = make_slices
        # Decisions of reviews are no decisions of the scheduler.
        self._metrics = Metrics()
        self._turn = asyncio.Lock()

    async def review(self, review: PlacementReview, *, node_names: bool = True) -> PlacementReview:
        """The review with its status; ReviewError if its spec cannot be answered. Without
        `node_names` no node is named in it.
        """
        async with self._turn:
            status = await self._answer(review.spec, node_names=node_names)
        return replace(review, status=status)

    async def _answer(
        self, spec: PlacementReviewSpec, *, node_names: bool
    ) -> PlacementReviewStatus:
        live, started, slices = self._live, self._timer(), self._make_slices()
        completed = self._completed(spec.configuration)
        # Consistent, because nothing waits between these lines.
        generation, contents = live.cache.snapshot().generation, live.cache.contents()
        await slices.rest()
        question.check(spec, {node.name for node in contents.nodes})
        changed = question.change(spec, contents)
        classes = live.listers.lister(PriorityClass)
        reader = PodReader(list(completed.plugins), classes, live.counting)
        question.check_number(len(spec.pods) * spec.replicas + len(changed.drained))
        await slices.rest()
        pods = await reader.read(spec, slices)
        await slices.rest()
        try:
            fork = Fork(live, completed, self._metrics, Random(self._seed))
        except ConfigError as error:
            raise _bad_configuration(error) from error
        await slices.rest()
        try:
            await fork.fill(changed.contents, slices)
            run = _Run(
                fork,
                spec,
                explain=self._explain if spec.detail != question.DETAILS[0] else None,
                numeric_operators=live.gates.enabled(NUMERIC_OPERATORS),
                node_names=node_names,
            )
            run.tally.total = len(changed.drained) + len(spec.pods) * spec.replicas
            wanted = chain(changed.drained, reader.replicas(pods, spec.replicas))
            deadline = started + self._time_limit_seconds
            for _ in run.steps(wanted):
                if self._timer() >= deadline:
                    break
                if slices.due():
                    await slices.rest()
                else:
                    await asyncio.sleep(0)
        finally:
            fork.close()
        notes = [*changed.notes, *reader.notes]
        if completed.config.extenders:
            notes.append("Extenders are configured and were not asked.")
        if not run.is_over:
            limit = f"{self._time_limit_seconds:g} seconds"
            notes.append(f"The time limit of {limit} was reached: the answer is not complete.")
        return run.status(notes, generation, self._timer() - started)

    def _completed(self, text: str) -> Completed:
        """The configuration in force, or the one to decide by instead."""
        live = self._live
        if not text:
            return live.completed
        try:
            config = load_config(text.encode(), live.catalog, gates=live.gates)
            if errors := validate(config, live.catalog, live.gates):
                raise ConfigError(aggregate(errors))
            return complete(config, live.catalog, gates=live.gates)
        except ConfigError as error:
            raise _bad_configuration(error) from error


def _bad_configuration(error: ConfigError) -> ReviewError:
    return ReviewError(FieldError(str(SPEC / "configuration"), f"Invalid value: {error}"))


class _Run:
    """The pods of one review on their way to nodes of the fork."""

    def __init__(
        self,
        fork: Fork,
        spec: PlacementReviewSpec,
        *,
        explain: Explain | None,
        numeric_operators: bool,
        node_names: bool,
    ) -> None:
        self._fork = fork
        self._allow_preemption = spec.allow_preemption
        self._explain = explain
        self._numeric_operators = numeric_operators
        # "Candidates" are the nodes that can take the pod; "All" has those that cannot as well.
        self._view = View(node_names=node_names, rejected_nodes=spec.detail == "All")
        self._placements: list[ReviewedPlacement] = []
        self._nodes: set[str] = set()
        self._explained = 0
        self._evicted: deque[PodToPlace] = deque()
        self._first_refusal = ""
        self._remedies: tuple[Remedy, ...] = ()
        self._tried = 0
        self.tally = summary.Tally(0)
        self.is_over = False

    def steps(self, wanted: Iterator[PodToPlace]) -> Iterator[None]:
        """One decision each, or what explains it."""
        for one in wanted:
            yield from self._place(one)
            self._tried += 1
            yield
        while self._evicted:
            yield from self._place(self._evicted.popleft())
            yield
        self.is_over = True

    def status(
        self, notes: list[str], generation: int, duration_seconds: float
    ) -> PlacementReviewStatus:
        tally = self.tally
        tally.nodes, tally.untried = len(self._nodes), tally.total - self._tried
        fits = tally.placed == tally.total
        return PlacementReviewStatus(
            summary=summary.sentence(tally),
            fits=fits,
            placed=tally.placed,
            total=tally.total,
            placements=tuple(self._placements),
            message=" ".join(filter(None, [self._first_refusal, *notes])),
            remedies=self._remedies,
            snapshot_generation=generation,
            duration_seconds=duration_seconds,
            partial=not self._view.node_names,
        )

    def _place(self, wanted: PodToPlace) -> Iterator[None]:
        attempt, outcome = self._fork.decide(wanted.pod)
        victims: tuple[Victim, ...] = ()
        note = wanted.note
        if isinstance(outcome, Unschedulable) and self._allow_preemption and not wanted.evicted:
            yield
            candidate = self._find_candidate(attempt, outcome)
            if candidate is not None:
                victims = self._evict(attempt, candidate)
                yield
                # Upstream tries the pod again when its victims are gone, on this node first.
                status = replace(wanted.pod.pod.status, nominated_node_name=candidate.node)
                pod = wanted.pod.renewed(replace(wanted.pod.pod, status=status))
                attempt, outcome = self._fork.decide(pod)
        refusal: Status | None = None
        if isinstance(outcome, Placement):
            refusal = self._assume(attempt, outcome)
        message, told, node = note, SCHEDULED, ""
        if isinstance(outcome, Placement) and refusal is None:
            node = outcome.node
            message = "; ".join(filter(None, [note, _ties(outcome)]))
            if not wanted.evicted:
                self.tally.placed += 1
                self._nodes.add(node)
        else:
            if refusal is not None:
                outcome = Failed(refusal)
            assert not isinstance(outcome, Placement)
            failed = isinstance(outcome, Failed) and not outcome.status.rejected
            told = ERROR if failed else UNSCHEDULABLE
            why = outcome.status.message if isinstance(outcome, Failed) else outcome.message
            message = "; ".join(filter(None, [note, why]))
            if wanted.evicted:
                self.tally.homeless += 1
            elif not self._first_refusal:
                self._first_refusal = f"{wanted.pod.key}: {why.rstrip('.')}."
                self.tally.obstacle = summary.obstacle(
                    attempt, outcome, node_names=self._view.node_names
                ).rstrip(".")
                if isinstance(outcome, Unschedulable):
                    yield
                    self._remedies = remedies_for(
                        attempt, numeric_operators=self._numeric_operators
                    )
        explanation = None
        if self._explain is not None and self._explained < MAX_EXPLAINED:
            self._explained += 1
            explanation = self._explain(attempt, outcome, self._view)
        self._placements.append(
            ReviewedPlacement(
                wanted.pod.namespace,
                wanted.pod.name,
                node if self._view.node_names else "",
                told,
                message,
                explanation,
                victims,
            )
        )

    def _assume(self, attempt: Attempt, placement: Placement) -> Status | None:
        """Puts the pod on its node of the copy, with what in-tree plugins reserve for it."""
        cycle, node = attempt.cycle, placement.node
        attempt.node, attempt.evaluated, attempt.feasible = node, *placement[2:4]
        added = cycle.get(AddedByDevices)
        pod = attempt.pod = attempt.pod.assigned_to(node, None if added is None else added.on(node))
        self._fork.cache.assume(pod)
        status = attempt.framework.run_reserve(cycle, pod, node)
        if status is not None:
            # What is left to undo would be written to the API server, and nothing was.
            attempt.framework.run_unreserve(cycle, pod, node)
            self._fork.cache.forget(pod)
        return status

    def _find_candidate(self, attempt: Attempt, refusal: Unschedulable) -> Candidate | None:
        plugin = self._fork.preemption(attempt.framework)
        if plugin is None:
            return None
        found = plugin.evaluator.evaluate(attempt.cycle, attempt.pod, refusal.diagnosis)
        return found.best if isinstance(found, Candidates) else None

    def _evict(self, attempt: Attempt, candidate: Candidate) -> tuple[Victim, ...]:
        """Takes the victims off their node; they are placed again at the end."""
        violating = self._violating(attempt, candidate)
        told = []
        for pod in candidate.victims:
            self._fork.cache.remove_pod(pod)
            name = pod.namespace, pod.name
            told.append(Victim(*name, pod.priority, violates_budget=pod.uid in violating))
            controller = pod.pod.metadata.controller
            if not pod.terminating and (controller is None or controller.kind != "DaemonSet"):
                where = f" from {candidate.node}" if self._view.node_names else ""
                note = f"evicted{where} for {attempt.pod.key}"
                self._evicted.append(PodToPlace(question.unbound(pod), note, evicted=True))
        self.tally.evicted += len(told)
        return tuple(told)

    def _violating(self, attempt: Attempt, candidate: Candidate) -> set[str]:
        """Uids of the pods on the node whose eviction would exceed a budget, as the dry run saw
        them.
        """
        row = attempt.nodes.row_of(candidate.node)
        if not candidate.num_pdb_violations or row is None:
            return set()
        budgets = DisruptionBudgets(self._fork.listers.lister(PodDisruptionBudget).items())
        priority, now_ns = attempt.pod.priority, time.time_ns()
        found = potential_victims([row], attempt.nodes, priority, budgets, now_ns)[row]
        return {pod.uid for pod in found.pods[: found.num_violating]}


def _ties(placement: Placement) -> str:
    """Nodes that share the highest score are drawn from: the scheduler may take another one."""
    if placement.scores is None:
        return ""
    total = placement.scores.total
    ties = int(np.count_nonzero(total == total.max()))
    return f"one of {ties:,} equal nodes" if ties > 1 else ""
