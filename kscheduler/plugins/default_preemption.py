"""DefaultPreemption: makes room for a pod that fits nowhere, at the cost of less important ones.

Mirrors pkg/scheduler/framework/plugins/defaultpreemption without pod groups. Differs: nothing
beyond what `runtime.preemption.evaluator` and `runtime.preemption.executor` say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from kscheduler import logs
from kscheduler.config.plugin_args import DefaultPreemptionArgs
from kscheduler.framework.cluster_event import (
    ASSIGNED_POD,
    Action,
    ClusterEvent,
    EventWithHint,
    Hint,
)
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugin import PostFilterResult
from kscheduler.framework.status import Code, Diagnosis, Status, rejected_for_good
from kscheduler.runtime.handle import RuntimeHandle
from kscheduler.runtime.preemption.candidates import Candidate
from kscheduler.runtime.preemption.evaluator import Choice, Evaluator, NoCandidate
from kscheduler.runtime.preemption.executor import Executor
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__, "PostFilter.DefaultPreemption")

NAME = "DefaultPreemption"
STILL_PREEMPTING = rejected_for_good("waiting for the preemption for this pod to be finished").by(
    NAME
)
SUCCESS = Status(Code.SUCCESS)


class DefaultPreemption:
    name = NAME

    def __init__(self, args: DefaultPreemptionArgs, handle: RuntimeHandle) -> None:
        self._evictions_aside = handle.gates.enabled("SchedulerAsyncPreemption")
        self._extenders = handle.extenders
        self._attempts = handle.metrics.preemption_attempts_total
        self._evaluator = Evaluator(
            handle,
            percentage=args.min_candidate_nodes_percentage,
            absolute=args.min_candidate_nodes_absolute,
        )
        self.caches = self._evaluator.caches
        self._executor = Executor(handle, self.name)

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        return STILL_PREEMPTING if self._executor.is_preempting(pod.uid) else None

    def post_filter(
        self, cycle: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        self._attempts.inc()
        match self._evaluator.evaluate(cycle, pod, diagnosis):
            case NoCandidate(status, nominated):
                return PostFilterResult(_told(status), nominated)
            case Choice() as choice if self._extenders.may_choose_victims_for(pod):
                return PostFilterResult(SUCCESS, None, partial(self._ask_extenders, pod, choice))
            case Choice() as choice:
                return self._preempt(pod, choice.best)

    async def _ask_extenders(self, pod: PodInfo, choice: Choice) -> PostFilterResult:
        match await self._evaluator.ask_extenders(choice):
            case NoCandidate(status, nominated):
                return PostFilterResult(_told(status), nominated)
            case Choice() as left:
                return self._preempt(pod, left.best)

    def _preempt(self, pod: PodInfo, candidate: Candidate) -> PostFilterResult:
        node = candidate.node
        log.v(2).info(
            "the target node for the preemption is determined", node=node, pod=logs.ref(pod.pod)
        )
        found = f"found a potential placement for pod on node {node}"
        success = f"{found}, preempting {len(candidate.victims)} victims"
        result = PostFilterResult(_told(Status(Code.SUCCESS, (success,))), node)
        if self._evictions_aside:
            self._executor.start(pod, candidate)
            return result
        return replace(result, preparation=partial(self._evict, pod, candidate, result))

    async def _evict(
        self, pod: PodInfo, candidate: Candidate, result: PostFilterResult
    ) -> PostFilterResult:
        problem = await self._executor.prepare(pod, candidate)
        return result if problem is None else PostFilterResult(_told(problem))

    def events_to_register(self) -> Sequence[EventWithHint]:
        """Whom this plugin gates was rejected by others as well; when to try it is theirs to say.
        But only events that are registered here reach it at all.
        """
        if not self._evictions_aside:
            return []
        return [EventWithHint(ClusterEvent(ASSIGNED_POD, Action.DELETE), _leave_it_to_others)]


def _leave_it_to_others(pod: PodInfo, old: object, new: object) -> Hint:
    return Hint.SKIP


def _told(status: Status) -> Status:
    return Status(status.code, tuple(f"preemption: {reason}" for reason in status.reasons))
