"""The Evaluator: would the pod fit somewhere if pods of lower priority went, and where best?

    may it preempt? → nodes where that could help → dry run on them → extenders → the best candidate

Nothing is evicted here; see `executor`.

Mirrors the Evaluator of pkg/scheduler/framework/preemption without pod groups.
Differs: among equally good candidates the first by name is taken, not a random one; a pod that was
replaced by another of its name preempts no pods; a pod whose victims are going preempts no others
even if its own nomination has not come back from the API server yet.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec
import numpy as np

from kscheduler import logs
from kscheduler.api.core import Pod
from kscheduler.api.small_groups import PodDisruptionBudget
from kscheduler.errors import KschedulerError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Code, Diagnosis, Rows, Status, failed, fit_error, rejected
from kscheduler.runtime.extenders.extenders import ExtenderAnswer
from kscheduler.runtime.extenders.messages import Victims
from kscheduler.runtime.handle import RuntimeHandle
from kscheduler.runtime.preemption.candidate import (
    Candidate,
    PreemptionAnswers,
    is_terminating_by_preemption,
    pick_nodes_for_preemption,
)
from kscheduler.runtime.preemption.dry_run import DryRun, DryRunResult
from kscheduler.runtime.preemption.dry_run_cache import DryRunCache, are_same_objects
from kscheduler.runtime.preemption.potential_victims import DisruptionBudgets
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__, "PostFilter.DefaultPreemption")

NEVER = "not eligible due to preemptionPolicy=Never."
WAITS_FOR_VICTIMS = "not eligible due to a terminating pod on the nominated node."
NOT_HELPFUL = Status(
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("Preemption is not helpful for scheduling",)
)
NO_CANDIDATE_LEFT = rejected("no candidate node for preemption")


class Candidates(msgspec.Struct, frozen=True):
    """Nodes where preemption helps the pod, at least one."""

    pod: PodInfo  # as it is now
    candidates: Sequence[Candidate]
    now_ns: int

    @property
    def best(self) -> Candidate:
        return pick_nodes_for_preemption(self.candidates, self.now_ns)[0]


class NoCandidate(msgspec.Struct, frozen=True):
    """Why no pod is evicted; `nominated_node` as in PostFilterResult."""

    status: Status
    nominated_node: str | None = None


class Evaluator:
    """Of the nodes where preemption might help, `min_candidate_nodes_percentage`, but at least
    `min_candidate_nodes_absolute`, are tried.
    """

    def __init__(
        self,
        handle: RuntimeHandle,
        *,
        min_candidate_nodes_percentage: int,
        min_candidate_nodes_absolute: int,
    ) -> None:
        self._handle = handle
        self._percentage = min_candidate_nodes_percentage
        self._absolute = min_candidate_nodes_absolute
        self._dry_runs = DryRunCache(handle.nominator)
        self.caches = self._dry_runs.caches
        # Budgets as listed, and compiled from these very objects.
        self._listed_budgets: Sequence[PodDisruptionBudget] = ()
        self._budgets = DisruptionBudgets()

    def evaluate(
        self, cycle: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> Candidates | NoCandidate:
        """Candidates before extenders are asked, or why there is none."""
        current = self._handle.listers.lister(Pod).get(pod.key)
        if current is None or current.uid != pod.uid:
            problem = f'pod "{pod.name}" not found'
            log.error(problem, "Could not get the updated preemptor pod object", pod=pod.key)
            return NoCandidate(failed(problem))
        if current is not pod.pod:
            pod = pod.renewed(current)
        nodes = self._handle.snapshot()
        # Per row of the table the gravest code of its verdicts; nodes that no verdict names
        # (PreFilter left them out) have that of `absent`.
        codes = np.full(len(nodes), Code.SUCCESS, np.intp)
        for charge in diagnosis.charges:
            codes[charge.rows] = np.maximum(codes[charge.rows], charge.code)
        codes[codes == Code.SUCCESS] = diagnosis.absent.code
        ineligible = self._ineligible_to_preempt_others(pod, nodes, codes)
        if ineligible is not None:
            reason = ineligible.status.message
            log.v(5).info(
                "Pod is not eligible for preemption", pod=logs.ref(pod.pod), reason=reason
            )
            return ineligible
        now_ns = time.time_ns()
        # In upstream's order of nodes, as the offset below counts in it.
        rows = nodes.order[codes[nodes.order] == Code.UNSCHEDULABLE]
        result = self._dry_run(cycle, pod, nodes, rows, now_ns)
        if result.candidates:
            return Candidates(pod, result.candidates, now_ns)
        if result.errors:
            # Each text once; several in brackets, as upstream's aggregates write them.
            texts = list(dict.fromkeys(result.errors))
            return NoCandidate(failed(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"))
        log.v(2).info(
            "No preemption candidate is found; preemption is not helpful for scheduling",
            pod=logs.ref(pod.pod),
        )
        not_helpful = Diagnosis(result.charges, absent=NOT_HELPFUL)
        return NoCandidate(rejected(fit_error(nodes.total, not_helpful)), "")

    def _ineligible_to_preempt_others(
        self, pod: PodInfo, nodes: Nodes, codes: Rows
    ) -> NoCandidate | None:
        """Why the pod must not preempt, if so."""
        if pod.pod.spec.preemption_policy == "Never":
            return NoCandidate(rejected(NEVER))
        in_status = pod.pod.status.nominated_node_name
        # The nomination is known here before the pod's status says so.
        nominated = in_status or self._handle.nominator.node_of(pod.uid) or ""
        row = nodes.row_of(nominated)
        # A nominated node that will never do is no reason to wait.
        if row is None or codes[row] == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return None
        victims = (other for other in nodes.occupancy.pods(row) if other.priority < pod.priority)
        if not any(map(is_terminating_by_preemption, victims)):
            return None
        return NoCandidate(rejected(WAITS_FOR_VICTIMS), None if in_status else nominated)

    def _dry_run(
        self, cycle: CycleState, pod: PodInfo, nodes: Nodes, rows: Rows, now_ns: int
    ) -> DryRunResult:
        """`rows`: where preemption might help."""
        if not len(rows):
            log.v(3).info(
                "Preemption will not help schedule pod on any node", pod=logs.ref(pod.pod)
            )
            return DryRunResult(0)
        # A random place to start spreads preemption over the cluster.
        offset = self._handle.rng.randrange(len(rows))
        num_candidates = min(max(len(rows) * self._percentage // 100, self._absolute), len(rows))
        listed = tuple(self._handle.listers.lister(PodDisruptionBudget).items())
        if not are_same_objects(listed, self._listed_budgets):
            self._listed_budgets, self._budgets = listed, DisruptionBudgets(listed)
        framework = self._handle.framework()
        known = None
        if framework.filters_locally(cycle):
            known = self._dry_runs.outcomes_for(pod, nodes, listed)
        dry_run = DryRun(
            framework, cycle, pod, nodes, budgets=self._budgets, now_ns=now_ns, known=known
        )
        if v := log.v(5):
            v.info(
                "Dry run the preemption",
                pod=logs.ref(pod.pod),
                potentialNodesNumber=len(rows),
                pdbsNumber=len(listed),
                offset=offset,
                candidatesNumber=num_candidates,
            )
        return dry_run.run(np.roll(rows, -offset), num_candidates)

    def budgets_of(self, pod: PodInfo) -> tuple[str, ...]:
        """Names of the disruption budgets that select the pod, as they were at the last dry run."""
        return self._budgets.names_selecting(pod)

    async def call_extenders(
        self, cycle: CycleState, found: Candidates
    ) -> Candidates | NoCandidate:
        """Candidates that extenders leave, with the victims they leave on each; the cycle keeps
        what each of them answered.
        """
        answers: list[ExtenderAnswer] = []
        cycle.put(PreemptionAnswers(answers))
        victims = {
            one.node: Victims(one.victims, one.num_pdb_violations) for one in found.candidates
        }
        handle = self._handle
        try:
            with handle.extenders.held():
                chosen = await handle.extenders.process_preemption(
                    found.pod, victims, handle.snapshot(), answers
                )
        except KschedulerError as error:
            return NoCandidate(failed(error))
        # Extenders may take victims from the list, and say how many of the others violate budgets.
        violating = {one.node: one.violating for one in found.candidates}
        left = [
            Candidate(
                name,
                tuple(one.pods),
                one.num_pdb_violations,
                violating.get(name, frozenset()).intersection([pod.uid for pod in one.pods]),
            )
            for name, one in chosen.items()
        ]
        return Candidates(found.pod, left, found.now_ns) if left else NoCandidate(NO_CANDIDATE_LEFT)
