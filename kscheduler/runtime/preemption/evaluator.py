"""Preemption: would the pod fit somewhere if pods of lower priority went, and whose going is best?

    may it preempt? → nodes where that could help → dry run on them → extenders → the best candidate

Nothing is evicted here; see `preemption_executor`.

Mirrors the Evaluator of pkg/scheduler/framework/preemption without pod groups.
Differs: among equally good candidates the first by name is taken, not a random one; a pod that was
replaced by another of its name preempts nobody; a pod whose victims are going preempts no others
even if the news of its own nomination have not come yet.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from kscheduler import logs
from kscheduler.api.core import Pod
from kscheduler.api.small_groups import PodDisruptionBudget
from kscheduler.errors import KschedulerError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Code, Diagnosis, Rows, Status, failed, fit_error, rejected
from kscheduler.runtime.extenders.questions import Victims
from kscheduler.runtime.handle import Handle
from kscheduler.runtime.preemption.budgets import Budgets
from kscheduler.runtime.preemption.candidates import Candidate, best
from kscheduler.runtime.preemption.dry_run import DryRun, Rehearsal
from kscheduler.runtime.preemption.memory import Memory, same_objects
from kscheduler.runtime.preemption.victims import is_going_by_preemption
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__, "PostFilter.DefaultPreemption")

NEVER = "not eligible due to preemptionPolicy=Never."
WAITS_FOR_VICTIMS = "not eligible due to a terminating pod on the nominated node."
NOT_HELPFUL = Status(
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("Preemption is not helpful for scheduling",)
)
NO_CANDIDATE_LEFT = rejected("no candidate node for preemption")


@dataclass(frozen=True, slots=True)
class Choice:
    """The nodes where preemption helps the pod, at least one."""

    pod: PodInfo  # as it is now
    candidates: Sequence[Candidate]
    now_ns: int

    @property
    def best(self) -> Candidate:
        return best(self.candidates, self.now_ns)[0]


@dataclass(frozen=True, slots=True)
class NoCandidate:
    """Why nobody is evicted; `nominated_node` as in PostFilterResult."""

    status: Status
    nominated_node: str | None = None


class Evaluator:
    """Of the nodes where preemption may help, `percentage` but at least `absolute` are enough."""

    def __init__(self, handle: Handle, *, percentage: int, absolute: int) -> None:
        self._handle = handle
        self._percentage = percentage
        self._absolute = absolute
        self._memory = Memory(handle.nominator)
        self.caches = self._memory.caches
        self._known_budgets: Sequence[PodDisruptionBudget] = ()
        self._budgets = Budgets()

    def evaluate(
        self, cycle: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> Choice | NoCandidate:
        current = self._handle.listers.lister(Pod).get(pod.key)
        if current is None or current.uid != pod.uid:
            problem = f'pod "{pod.name}" not found'
            log.error(problem, "Could not get the updated preemptor pod object", pod=pod.key)
            return NoCandidate(failed(problem))
        if current is not pod.pod:
            pod = pod.renewed(current)
        nodes = self._handle.snapshot()
        codes = _codes(diagnosis, nodes)
        ineligible = self._ineligible(pod, nodes, codes)
        if ineligible is not None:
            reason = ineligible.status.message
            log.v(5).info(
                "Pod is not eligible for preemption", pod=logs.ref(pod.pod), reason=reason
            )
            return ineligible
        now_ns = time.time_ns()
        found = self._dry_run(cycle, pod, nodes, codes, now_ns)
        if found.candidates:
            return Choice(pod, found.candidates, now_ns)
        if found.errors:
            return NoCandidate(failed(_aggregate(found.errors)))
        return self._not_helpful(pod, nodes, found)

    def _ineligible(self, pod: PodInfo, nodes: Nodes, codes: Rows) -> NoCandidate | None:
        """Why the pod must not preempt, if so."""
        if pod.pod.spec.preemption_policy == "Never":
            return NoCandidate(rejected(NEVER))
        said = pod.pod.status.nominated_node_name
        # The promise is known here before the pod's status says so.
        promised = said or self._handle.nominator.node_of(pod.uid) or ""
        row = nodes.row_of(promised)
        # A nominated node that will never do is no reason to wait.
        if row is None or codes[row] == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return None
        victims = (other for other in nodes.occupancy.pods(row) if other.priority < pod.priority)
        if not any(map(is_going_by_preemption, victims)):
            return None
        return NoCandidate(rejected(WAITS_FOR_VICTIMS), None if said else promised)

    async def ask_extenders(self, choice: Choice) -> Choice | NoCandidate:
        """What extenders leave of the choice, or make of it."""
        victims = {one.node: Victims(one.victims, one.violations) for one in choice.candidates}
        handle = self._handle
        try:
            with handle.extenders.held():
                chosen = await handle.extenders.choose_victims(
                    choice.pod, victims, handle.snapshot()
                )
        except KschedulerError as error:
            return NoCandidate(failed(error))
        left = [Candidate(name, tuple(one.pods), one.violations) for name, one in chosen.items()]
        return Choice(choice.pod, left, choice.now_ns) if left else NoCandidate(NO_CANDIDATE_LEFT)

    def _dry_run(
        self, cycle: CycleState, pod: PodInfo, nodes: Nodes, codes: Rows, now_ns: int
    ) -> DryRun:
        rows = nodes.order[codes[nodes.order] == Code.UNSCHEDULABLE]
        if not len(rows):
            log.v(3).info(
                "Preemption will not help schedule pod on any node", pod=logs.ref(pod.pod)
            )
            return DryRun(0)
        offset = self._handle.rng.randrange(len(rows))
        known = tuple(self._handle.listers.lister(PodDisruptionBudget).items())
        if not same_objects(known, self._known_budgets):
            self._known_budgets, self._budgets = known, Budgets(known)
        framework = self._handle.framework
        remembers = framework.filters_locally(cycle)
        rehearsal = Rehearsal(
            framework,
            cycle,
            pod,
            nodes,
            budgets=self._budgets,
            now_ns=now_ns,
            known=self._memory.recall(pod, nodes, known) if remembers else None,
        )
        enough = self._enough_of(len(rows))
        if v := log.v(5):
            v.info(
                "Dry run the preemption",
                pod=logs.ref(pod.pod),
                potentialNodesNumber=len(rows),
                pdbsNumber=len(known),
                offset=offset,
                candidatesNumber=enough,
            )
        return rehearsal.run(np.roll(rows, -offset), enough)

    def _enough_of(self, num_nodes: int) -> int:
        share = num_nodes * self._percentage // 100
        return min(max(share, self._absolute), num_nodes)

    def _not_helpful(self, pod: PodInfo, nodes: Nodes, found: DryRun) -> NoCandidate:
        log.v(2).info(
            "No preemption candidate is found; preemption is not helpful for scheduling",
            pod=logs.ref(pod.pod),
        )
        diagnosis = Diagnosis(found.charges, absent=NOT_HELPFUL)
        return NoCandidate(rejected(fit_error(nodes.total, diagnosis)), "")


def _codes(diagnosis: Diagnosis, nodes: Nodes) -> Rows:
    """Per row the code of its verdict; what speaks for the absent ones included."""
    codes = np.full(len(nodes), Code.SUCCESS, np.intp)
    for charge in diagnosis.charges:
        codes[charge.rows] = np.maximum(codes[charge.rows], charge.code)
    codes[codes == Code.SUCCESS] = diagnosis.absent.code
    return codes


def _aggregate(errors: Iterable[str]) -> str:
    """Each text once; several in brackets, as upstream's aggregates write them."""
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
