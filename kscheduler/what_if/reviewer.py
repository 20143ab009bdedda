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
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace

from kscheduler.api.explanation import (
    ERROR,
    SCHEDULED,
    UNSCHEDULABLE,
    AttemptRecord,
    BudgetLeft,
    PlacementReview,
    PlacementReviewSpec,
    PlacementReviewStatus,
    Remedy,
    ReviewedPlacement,
    Victim,
)
from kscheduler.api.field_errors import FieldError, aggregate
from kscheduler.api.resource import ResourceClaimTemplate
from kscheduler.api.scheduling import PriorityClass
from kscheduler.api.small_groups import PodDisruptionBudget
from kscheduler.api.storage import StorageClass
from kscheduler.config.load import load_config
from kscheduler.config.profiles import Completed, complete
from kscheduler.config.validation import validate
from kscheduler.cycle.attempt import Attempt, Failed, Outcome, Placement, Unschedulable
from kscheduler.decisions.explain import View
from kscheduler.errors import ConfigError
from kscheduler.framework.added_by_devices import AddedByDevices
from kscheduler.framework.cluster_event import ASSIGNED_POD, Action, ClusterEvent
from kscheduler.framework.status import Status
from kscheduler.metrics import Metrics
from kscheduler.queue.queued_pod_info import QueuedPodInfo
from kscheduler.queue.queueing_hints import QueueingStrategy
from kscheduler.runtime.preemption.candidate import Candidate
from kscheduler.runtime.preemption.evaluator import Candidates
from kscheduler.runtime.preemption.potential_victims import DisruptionBudgets
from kscheduler.slices import IdleSlices, Slices
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo
from kscheduler.what_if import question, summary
from kscheduler.what_if.errors import SPEC, ReviewError
from kscheduler.what_if.fork import Fork, LiveScheduler
from kscheduler.what_if.made_claims import ClaimMaker
from kscheduler.what_if.question import PodReader, PodToPlace
from kscheduler.what_if.remedies import remedies_for

# Makes the record of an attempt, as far as the asker may see it.
Explain = Callable[[Attempt, Outcome, View], AttemptRecord]
# The namespaces of these whose pods the asker may be told of.
NamespacesSeen = Callable[[Iterable[str]], Awaitable[Collection[str]]]

# Placements that are explained; the others of a large review are only told.
MAX_EXPLAINED = 100
# API servers end requests after a minute. While pods wait to be decided, 1/40 of it is work.
TIME_LIMIT_SECONDS = 30.0
# Refused pods that may be tried again, nodes told of a tie, and budgets.
MAX_REFUSED = 1000
MAX_TIES = 100
MAX_BUDGETS = 100
ASSIGNED_POD_ADD = ClusterEvent(ASSIGNED_POD, Action.ADD)
ASSIGNED_POD_DELETE = ClusterEvent(ASSIGNED_POD, Action.DELETE)
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
        make_slices: Callable[[], Slices] | None = None,
    ) -> None:
        """`seed`: ties are broken alike in all reviews. The time limit is that of one review, from
        its turn on; pods that are not tried by then are told in the answer.
        """
        self._live = live
        self._explain = explain
        self._time_limit_seconds = time_limit_seconds
        self._seed = seed
        self._timer = timer
        self._make_slices = make_slices or partial(IdleSlices, live.is_busy)
        # Decisions of reviews are no decisions of the scheduler.
        self._metrics = Metrics()
        self._turn = asyncio.Lock()

    async def review(
        self,
        review: PlacementReview,
        *,
        node_names: bool = True,
        namespaces_seen: NamespacesSeen | None = None,
    ) -> PlacementReview:
        """The review with its status; ReviewError if its spec cannot be answered. Without
        `node_names` nodes are counted in it, as in the scheduler's events: no node is named, and
        nothing is told of how much is left on one. No sentence is about a drained pod of a
        namespace that is not among the `namespaces_seen`; its placement is there all the same.
        """
        async with self._turn:
            status = await self._answer(
                review.spec, node_names=node_names, namespaces_seen=namespaces_seen
            )
        return replace(review, status=status)

    async def _answer(
        self,
        spec: PlacementReviewSpec,
        *,
        node_names: bool,
        namespaces_seen: NamespacesSeen | None,
    ) -> PlacementReviewStatus:
        live, started, slices = self._live, self._timer(), self._make_slices()
        completed = self._completed(spec.configuration)
        if live.priority_classes is None:
            classes = live.listers.lister(PriorityClass).items()
        else:
            classes = await live.priority_classes()
        # Consistent, because nothing waits between these lines.
        generation, contents = live.cache.snapshot().generation, live.cache.contents()
        await slices.rest()
        question.check(spec, {node.name for node in contents.nodes})
        changed = question.change(spec, contents)
        storage_classes = live.listers.lister(StorageClass).items()
        claims = ClaimMaker(live.claim_template or self._listed_template, storage_classes)
        reader = PodReader(list(completed.plugins), classes, claims, live.counting)
        question.check_number(len(spec.pods) * spec.replicas + len(changed.drained))
        await slices.rest()
        pods = await reader.read(spec, slices)
        hidden: frozenset[str] = frozenset()
        if namespaces_seen is not None and changed.drained:
            seen = await namespaces_seen({one.pod.namespace for one in changed.drained})
            hidden = frozenset(
                one.pod.uid for one in changed.drained if one.pod.namespace not in seen
            )
        await slices.rest()
        try:
            asked = {f"{one.pod.namespace}/{one.pod.name}" for one in pods}
            fork = Fork(live, completed, self._metrics, Random(self._seed), asked)
        except ConfigError as error:
            raise _bad_configuration(error) from error
        await slices.rest()
        try:
            await fork.fill(changed.contents, slices)
            await fork.equip(changed.copies, slices)
            for drained in changed.drained:
                # All of them have gone before the first is placed anew.
                for _ in fork.claims.release(drained.pod):
                    pass
                if slices.due():
                    await slices.rest()
            run = _Run(
                fork,
                spec,
                changed.drained,
                explain=self._explain if spec.detail != question.DETAILS[0] else None,
                numeric_operators=live.gates.enabled(NUMERIC_OPERATORS),
                node_names=node_names,
                hidden=hidden,
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
            await slices.rest()
            run.explain_refusal()
        finally:
            fork.close()
        notes = [*changed.notes, *reader.notes]
        if completed.config.extenders:
            notes.append("Extenders are configured and were not asked.")
        if not run.is_over:
            limit = f"{self._time_limit_seconds:g} seconds"
            notes.append(f"The time limit of {limit} was reached: the answer is not complete.")
        return run.status(notes, generation, self._timer() - started)

    async def _listed_template(self, namespace: str, name: str) -> ResourceClaimTemplate | None:
        return self._live.listers.lister(ResourceClaimTemplate).get(f"{namespace}/{name}")

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


class _Refused(msgspec.Struct):
    """A pod that no node took, its place among the placements, and who rejected it."""

    wanted: PodToPlace
    index: int
    queued: QueuedPodInfo


class _Run:
    """The pods of one review on their way to nodes of the fork.

    A pod that does not fit waits, as in the scheduler's queue, and is tried again when a pod is
    placed or evicted that a plugin which rejected it was waiting for.
    """

    def __init__(
        self,
        fork: Fork,
        spec: PlacementReviewSpec,
        drained: Sequence[PodToPlace],
        *,
        explain: Explain | None,
        numeric_operators: bool,
        node_names: bool,
        hidden: Collection[str],
    ) -> None:
        """`hidden`: uids of drained pods that no sentence may be about."""
        self._fork = fork
        self._allow_preemption = spec.allow_preemption
        self._explain = explain
        self._numeric_operators = numeric_operators
        self._hidden = hidden
        # "Candidates" are the nodes that can take the pod; "All" has those that cannot as well.
        self._view = View(node_names=node_names, rejected_nodes=spec.detail == "All")
        self._placements: list[ReviewedPlacement] = []
        self._explained = 0
        self._evicted: deque[PodToPlace] = deque()
        # Pods that may be woken, and all that are without a node, by their place.
        self._refused: list[_Refused] = []
        self._unplaced: dict[int, PodToPlace] = {}
        # Pods that were placed or evicted, and claims that were released, since the last look at
        # refused ones.
        self._events: list[tuple[ClusterEvent, Any, Any]] = []
        # Nodes of the pods asked about, and where victims went next, by uid.
        self._node_of: dict[str, str] = {}
        self._next_node: dict[str, str] = {}
        self._victims_of: dict[int, tuple[PodInfo, ...]] = {}
        self._disrupted: list[PodInfo] = [one.pod for one in drained]
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
            yield from self._retry_woken()
            yield
        while self._evicted:
            yield from self._place(self._evicted.popleft())
            yield from self._retry_woken()
            yield
        self.is_over = True

    def _retry_woken(self) -> Iterator[None]:
        """Tries pods again that were refused and that an event since may help, important first."""
        is_worth_requeuing = self._fork.hints.is_pod_worth_requeuing
        while self._events:
            events, self._events = self._events, []
            woken = [
                one
                for one in self._refused
                if any(
                    is_worth_requeuing(one.queued, *event) is not QueueingStrategy.SKIP
                    for event in events
                )
            ]
            for one in sorted(woken, key=lambda one: -one.queued.pod.priority):
                self._refused.remove(one)
                yield
                yield from self._place(one.wanted, one.index)

    def explain_refusal(self) -> None:
        """Why the first pod does not fit that does not, and what would help it."""
        if not self._unplaced:
            return
        told_of = [i for i, one in self._unplaced.items() if one.pod.uid not in self._hidden]
        if not told_of:
            self.tally.obstacle = summary.HIDDEN
            return
        index = min(told_of)
        wanted, told = self._unplaced[index], self._placements[index]
        attempt, outcome = self._fork.decide(wanted.pod)
        if isinstance(outcome, Placement):
            # Reserve refuses it.
            why = obstacle = told.message
        else:
            why = outcome.status.message if isinstance(outcome, Failed) else outcome.message
            names = self._view.node_names
            obstacle = summary.obstacle(attempt, outcome, node_names=names)
        self._first_refusal = f"{wanted.pod.key}: {why.rstrip('.')}."
        self.tally.obstacle = obstacle.rstrip(".")
        if isinstance(outcome, Unschedulable):
            self._remedies = remedies_for(
                attempt,
                numeric_operators=self._numeric_operators,
                tells_nodes=self._view.node_names,
            )

    def status(
        self, notes: list[str], generation: int, duration_seconds: float
    ) -> PlacementReviewStatus:
        tally = self.tally
        tally.placed, tally.nodes = len(self._node_of), len(set(self._node_of.values()))
        tally.untried = tally.total - self._tried
        placements, names = list(self._placements), self._view.node_names
        for index, victims in self._victims_of.items():
            told = tuple(
                replace(one, next_node=self._next_node.get(pod.uid, "") if names else "")
                for one, pod in zip(placements[index].victims, victims, strict=True)
            )
            placements[index] = replace(placements[index], victims=told)
        budgets = self._budgets()
        exceeded = sum(one.left < 0 for one in budgets)
        if exceeded:
            # Their names are with the budgets, as not every asker may see them.
            what = "1 disruption budget" if exceeded == 1 else f"{exceeded} disruption budgets"
            notes = [*notes, f"{what} would be exceeded."]
        return PlacementReviewStatus(
            summary=summary.sentence(tally),
            fits=tally.placed == tally.total,
            placed=tally.placed,
            total=tally.total,
            placements=tuple(placements),
            message=" ".join(filter(None, [self._first_refusal, *notes])),
            remedies=self._remedies,
            budgets=budgets,
            snapshot_generation=generation,
            duration_seconds=duration_seconds,
            partial=not names,
        )

    def _budgets(self) -> tuple[BudgetLeft, ...]:
        """Budgets of evicted and drained pods, those with the least left first."""
        if not self._disrupted:
            return ()
        listed = self._fork.listers.lister(PodDisruptionBudget).items()
        found = [
            BudgetLeft(namespace, name, allowed, allowed - count)
            for namespace, name, allowed, count in DisruptionBudgets(listed).covering(
                self._disrupted
            )
        ]
        found.sort(key=lambda one: (one.left, one.namespace, one.name))
        return tuple(found[:MAX_BUDGETS])

    def _place(self, wanted: PodToPlace, index: int | None = None) -> Iterator[None]:
        """Decides on a pod; `index` is its place among the placements if it was refused before."""
        self._fork.claims.put_made(wanted.made)
        attempt, outcome = self._fork.decide(wanted.pod)
        candidate: Candidate | None = None
        told_victims: tuple[Victim, ...] = ()
        if isinstance(outcome, Unschedulable) and self._allow_preemption and not wanted.evicted:
            yield
            candidate = self._find_candidate(attempt, outcome)
            if candidate is not None:
                told_victims = self._evict(attempt, candidate)
                yield
                # Upstream tries the pod again when its victims are gone, on this node first.
                status = replace(wanted.pod.pod.status, nominated_node_name=candidate.node)
                pod = wanted.pod.renewed(replace(wanted.pod.pod, status=status))
                attempt, outcome = self._fork.decide(pod)
        refusal: Status | None = None
        if isinstance(outcome, Placement):
            refusal = self._assume(attempt, outcome)
        if index is None:
            index = len(self._placements)
            self._placements.append(ReviewedPlacement())
        said = [wanted.note]
        told, node = SCHEDULED, ""
        ties: tuple[str, ...] = ()
        uid = wanted.pod.uid
        if isinstance(outcome, Placement) and refusal is None:
            node, ties = outcome.node, _ties(outcome, attempt.nodes)
            if index in self._unplaced:
                del self._unplaced[index]
                said.append("once the others were placed")
            if len(ties) > 1:
                said.append(f"one of {len(ties):,} equal nodes")
            if wanted.asked:
                self._node_of[uid] = node
            if wanted.evicted:
                self._next_node[uid] = node
            self._events.append((ASSIGNED_POD_ADD, None, attempt.pod))
        else:
            if refusal is not None:
                outcome = Failed(refusal)
            assert not isinstance(outcome, Placement)
            failed = isinstance(outcome, Failed) and not outcome.status.rejected
            told = ERROR if failed else UNSCHEDULABLE
            said.append(outcome.status.message if isinstance(outcome, Failed) else outcome.message)
            if wanted.asked:
                self._unplaced[index] = wanted
            if wanted.evicted:
                self.tally.homeless += 1
            elif isinstance(outcome, Unschedulable) and len(self._refused) < MAX_REFUSED:
                rejectors = frozenset(outcome.diagnosis.unschedulable_plugins)
                queued = QueuedPodInfo(wanted.pod, 0.0, unschedulable_plugins=rejectors)
                self._refused.append(_Refused(wanted, index, queued))
        explanation = None
        if self._explain is not None and self._explained < MAX_EXPLAINED:
            self._explained += 1
            explanation = self._explain(attempt, outcome, self._view)
        if candidate is not None:
            self._victims_of[index] = candidate.victims
        names = self._view.node_names
        self._placements[index] = ReviewedPlacement(
            namespace=wanted.pod.namespace,
            name=wanted.pod.name,
            node=node if names else "",
            outcome=told,
            message="; ".join(filter(None, said)),
            explanation=explanation,
            victims=told_victims,
            ties=ties[:MAX_TIES] if len(ties) > 1 and names else (),
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
        nodes = self._fork.cache.snapshot()
        row = nodes.row_of(node)
        assert row is not None
        self._fork.claims.settle(cycle, pod, nodes.node(row))
        return None

    def _find_candidate(self, attempt: Attempt, refusal: Unschedulable) -> Candidate | None:
        plugin = self._fork.preemption(attempt.framework)
        if plugin is None:
            return None
        found = plugin.evaluator.evaluate(attempt.cycle, attempt.pod, refusal.diagnosis)
        return found.best if isinstance(found, Candidates) else None

    def _evict(self, attempt: Attempt, candidate: Candidate) -> tuple[Victim, ...]:
        """Takes the victims off their node; they are placed again at the end."""
        plugin = self._fork.preemption(attempt.framework)
        assert plugin is not None
        told = []
        for pod in candidate.victims:
            self._fork.cache.remove_pod(pod)
            self._events.append((ASSIGNED_POD_DELETE, pod, None))
            self._events += self._fork.claims.release(pod)
            told.append(
                Victim(
                    pod.namespace,
                    pod.name,
                    pod.priority,
                    violates_budget=pod.uid in candidate.violating,
                    budgets=plugin.evaluator.budgets_of(pod),
                )
            )
            if not pod.terminating:
                self._disrupted.append(pod)
                controller = pod.pod.metadata.controller
                if controller is None or controller.kind != "DaemonSet":
                    where = f" from {candidate.node}" if self._view.node_names else ""
                    is_hidden = attempt.pod.uid in self._hidden
                    for_whom = "a drained pod" if is_hidden else attempt.pod.key
                    note = f"evicted{where} for {for_whom}"
                    # A pod of the review itself may have to make room for a later one.
                    asked = self._node_of.pop(pod.uid, None) is not None
                    again = PodToPlace(question.unbound(pod), note, evicted=True, asked=asked)
                    self._evicted.append(again)
        self.tally.evicted += len(told)
        return tuple(told)


def _ties(placement: Placement, nodes: Nodes) -> tuple[str, ...]:
    """Names of the nodes with the highest score, if there was anything to choose from: one of them
    is drawn, so the scheduler may take another one.
    """
    board = placement.scores
    if board is None:
        return ()
    best = board.rows[board.total == board.total.max()]
    return tuple([nodes.names[row] for row in best.tolist()])
