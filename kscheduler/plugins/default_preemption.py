"""DefaultPreemption: makes room for a pod that fits nowhere, at the cost of less important ones.

Mirrors pkg/scheduler/framework/plugins/defaultpreemption without pod groups. Differs: nothing
beyond what `runtime.preemption.evaluator` and `runtime.preemption.executor` say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import ClassVar

from msgspec.structs import replace

from kscheduler import logs
from kscheduler.api.field_errors import FieldError, Path, invalid
from kscheduler.api.resources import POD_DISRUPTION_BUDGETS
from kscheduler.config.plugin_args import Gates, PluginArgs
from kscheduler.config.wire import Int32
from kscheduler.extension_points import Point
from kscheduler.framework.cluster_event import (
    ASSIGNED_POD,
    Action,
    ClusterEvent,
    EventWithHint,
    Hint,
)
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.declaration import plugin
from kscheduler.framework.plugin import PostFilterResult
from kscheduler.framework.status import Code, Diagnosis, Status, rejected_for_good
from kscheduler.runtime.handle import RuntimeHandle
from kscheduler.runtime.preemption.candidate import (
    MOST_VICTIMS_TOLD,
    Candidate,
    VictimBudgets,
)
from kscheduler.runtime.preemption.evaluator import Candidates, Evaluator, NoCandidate
from kscheduler.runtime.preemption.executor import Executor
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__, "PostFilter.DefaultPreemption")

NAME = "DefaultPreemption"
STILL_PREEMPTING = rejected_for_good("waiting for the preemption for this pod to be finished").by(
    NAME
)
SUCCESS = Status(Code.SUCCESS)


class DefaultPreemptionArgs(PluginArgs):
    """The number of candidate nodes to look for: a share of all, but not below a number."""

    wrong_type: ClassVar[str] = "got args of type {got}, want *{want}"

    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100

    def errors(self, path: Path, gates: Gates) -> Iterator[FieldError]:
        percentage = self.min_candidate_nodes_percentage
        absolute = self.min_candidate_nodes_absolute
        percentage_path = path / "minCandidateNodesPercentage"
        absolute_path = path / "minCandidateNodesAbsolute"
        if not 0 <= percentage <= 100:
            yield invalid(percentage_path, percentage, "not in valid range [0, 100]")
        if absolute < 0:
            yield invalid(absolute_path, absolute, "not in valid range [0, inf)")
        if percentage == absolute == 0:
            text = "cannot be zero at the same time as minCandidateNodes"
            yield invalid(percentage_path, percentage, f"{text}Absolute")
            yield invalid(absolute_path, absolute, f"{text}Percentage")


@plugin(
    args=DefaultPreemptionArgs,
    reads=(POD_DISRUPTION_BUDGETS,),
    also_at=(Point.POD_GROUP_POST_FILTER,),
)
class DefaultPreemption:
    name = NAME

    def __init__(self, args: DefaultPreemptionArgs, handle: RuntimeHandle) -> None:
        self._async_preemption = handle.gates.enabled("SchedulerAsyncPreemption")
        self._extenders = handle.extenders
        self._attempts = handle.metrics.preemption_attempts_total
        # Without side effects, so that a review may ask it what preemption would do.
        self.evaluator = Evaluator(
            handle,
            min_candidate_nodes_percentage=args.min_candidate_nodes_percentage,
            min_candidate_nodes_absolute=args.min_candidate_nodes_absolute,
        )
        self.caches = self.evaluator.caches
        self._executor = Executor(handle, self.name)

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        return STILL_PREEMPTING if self._executor.is_running_preemption(pod.uid) else None

    def post_filter(
        self, cycle: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        self._attempts.inc()
        match self.evaluator.evaluate(cycle, pod, diagnosis):
            case NoCandidate(status, nominated):
                return PostFilterResult(_with_prefix(status), nominated)
            case Candidates() as found if self._extenders.support_preemption(pod):
                return PostFilterResult(
                    SUCCESS, None, partial(self._call_extenders, cycle, pod, found)
                )
            case Candidates() as found:
                return self._preempt(cycle, pod, found.best)

    async def _call_extenders(
        self, cycle: CycleState, pod: PodInfo, found: Candidates
    ) -> PostFilterResult:
        match await self.evaluator.call_extenders(cycle, found):
            case NoCandidate(status, nominated):
                return PostFilterResult(_with_prefix(status), nominated)
            case Candidates() as left:
                return self._preempt(cycle, pod, left.best)

    def _preempt(self, cycle: CycleState, pod: PodInfo, candidate: Candidate) -> PostFilterResult:
        # For whoever wants to know the victims of this attempt, and why they are protected.
        cycle.put(candidate)
        told = map(self.evaluator.budgets_of, candidate.victims[:MOST_VICTIMS_TOLD])
        cycle.put(VictimBudgets(tuple(told)))
        node = candidate.node
        log.v(2).info(
            "the target node for the preemption is determined", node=node, pod=logs.ref(pod.pod)
        )
        found = f"found a potential placement for pod on node {node}"
        success = f"{found}, preempting {len(candidate.victims)} victims"
        result = PostFilterResult(_with_prefix(Status(Code.SUCCESS, (success,))), node)
        if self._async_preemption:
            self._executor.prepare_candidate_async(pod, candidate)
            return result
        return replace(result, preparation=partial(self._evict, pod, candidate, result))

    async def _evict(
        self, pod: PodInfo, candidate: Candidate, result: PostFilterResult
    ) -> PostFilterResult:
        problem = await self._executor.prepare_candidate(pod, candidate)
        return result if problem is None else PostFilterResult(_with_prefix(problem))

    def events_to_register(self) -> Sequence[EventWithHint]:
        """A gated pod was rejected by other plugins as well, whose hints say when to try it again.
        But only at events that are registered here is the gate asked again at all.
        """
        if not self._async_preemption:
            return []
        return [EventWithHint(ClusterEvent(ASSIGNED_POD, Action.DELETE), _skip)]


def _skip(pod: PodInfo, old: object, new: object) -> Hint:
    return Hint.SKIP


def _with_prefix(status: Status) -> Status:
    return Status(status.code, tuple(f"preemption: {reason}" for reason in status.reasons))
