"""The Executor: evicts the victims of a candidate, in the background or before the attempt ends.

A pod whose victims are being evicted must not be tried meanwhile: it would find its place still
taken, and look for more victims. `is_running_preemption` says so until the last victim is seen
terminating, for from then on events about victims are what wakes the pod; and the last victim's
eviction starts only when those of the others have succeeded:

    start → others are deleted, 16 at a time → the last is deleted → its deletion is seen → over
      └─────────── any failure: over at once, and the pod is activated ──────────────┘

Mirrors the Executor of pkg/scheduler/framework/preemption. Differs: the pod waits until the last
victim is seen terminating, not only until its deletion was requested; two pods with the same victim
send one request; victims that were seen terminating meanwhile are left alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial

from msgspec import structs

from kscheduler import logs
from kscheduler.api.core import Pod, PodCondition, with_condition
from kscheduler.api.timestamps import format_time
from kscheduler.errors import KschedulerError, MissingError
from kscheduler.framework.status import Status, failed
from kscheduler.runtime.handle import RuntimeHandle
from kscheduler.runtime.preemption.candidate import (
    DISRUPTION_TARGET,
    PREEMPTION_BY_SCHEDULER,
    Candidate,
)
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__)

# Victims of one pod that are evicted at the same time.
MAX_PARALLEL_EVICTIONS = 16
# A victim's deletion comes back as an event within moments. If not, something else is wrong.
MAX_WAIT_SECONDS = 30.0
# Entries that a table must have before it is searched for ones that are over; then twice what is
# left and so many more, so that searching costs a constant share.
MIN_BEFORE_CLEANUP = 64


class Executor:
    def __init__(self, handle: RuntimeHandle, plugin: str) -> None:
        self._handle = handle
        self._plugin = plugin
        self._pods = handle.listers.lister(Pod)
        # By the preemptor's uid.
        self._preemptions: dict[str, _Preemption] = {}
        # By the victim's uid; requested and not seen yet.
        self._deletions: dict[str, _Deletion] = {}
        self._clean_preemptions_at = self._clean_deletions_at = MIN_BEFORE_CLEANUP

    def is_running_preemption(self, uid: str) -> bool:
        """Whether the pod must wait until all its victims are seen terminating."""
        preemption = self._preemptions.get(uid)
        if preemption is None:
            return False
        if preemption.last_victim is None:
            return True
        over_at = preemption.over_at
        waited = None if over_at is None else time.monotonic() - over_at
        seen = self._is_terminating(preemption.last_victim)
        if waited is not None and (seen or waited > MAX_WAIT_SECONDS):
            del self._preemptions[uid]
            return False
        return not seen

    def prepare_candidate_async(self, preemptor: PodInfo, candidate: Candidate) -> None:
        """Evict in the background."""
        victims = self._victims_to_evict(preemptor, candidate)
        if not victims:
            return
        # As a rule pods ask about themselves; those that were deleted meanwhile never do.
        if len(self._preemptions) >= self._clean_preemptions_at:
            for uid in list(self._preemptions):
                self.is_running_preemption(uid)
            self._clean_preemptions_at = 2 * len(self._preemptions) + MIN_BEFORE_CLEANUP
        preemption = self._preemptions[preemptor.uid] = _Preemption()
        work = partial(self._evict_in_background, preemptor, candidate, victims, preemption)
        self._handle.background.add(f"preempt/{preemptor.key}", work)

    async def prepare_candidate(self, preemptor: PodInfo, candidate: Candidate) -> Status | None:
        """Evict before the attempt ends; the status is an error."""
        try:
            victims = self._victims_to_evict(preemptor, candidate)
            await self._evict_in_parallel(preemptor, candidate.node, victims)
        except KschedulerError as error:
            return failed(error)
        await self._clear_lower_nominations(preemptor, candidate.node)
        return None

    def _victims_to_evict(self, preemptor: PodInfo, candidate: Candidate) -> list[PodInfo]:
        self._handle.metrics.preemption_victims.observe(len(candidate.victims))
        for victim in candidate.victims:
            if victim.terminating:
                log.v(2).info(
                    "Victim Pod is already being deleted, skipping the API call for it",
                    preemptor=logs.ref(preemptor.pod),
                    node=candidate.node,
                    victim=logs.ref(victim.pod),
                )
        return [victim for victim in candidate.victims if not victim.terminating]

    async def _evict_in_background(
        self,
        preemptor: PodInfo,
        candidate: Candidate,
        victims: Sequence[PodInfo],
        preemption: _Preemption,
    ) -> None:
        fields = {"preemptor": logs.ref(preemptor.pod), "node": candidate.node}
        log.v(2).info(
            "Start the preemption asynchronously",
            **fields,
            numVictims=len(candidate.victims),
            numVictimsToDelete=len(victims),
        )
        result, event_wakes_pod = "error", False
        started = time.perf_counter()
        try:
            cleared = await self._clear_lower_nominations(preemptor, candidate.node)
            *others, last = victims
            await self._evict_in_parallel(preemptor, candidate.node, others)
            # If the last victim is gone already, that was an event, but one at which the pod still
            # had to wait for the others.
            if self._stored(last) is not None:
                preemption.last_victim = last
                event_wakes_pod = not await self._preempt_pod(preemptor, candidate.node, last)
            result = "success" if cleared else "error"
        except KschedulerError as error:
            log.unhandled(error, "Error occurred during async preemption", **fields)
        finally:
            preemption.over_at = time.monotonic()
            metrics, seconds = self._handle.metrics, time.perf_counter() - started
            metrics.preemption_goroutines_execution_total.labels(result).inc()
            metrics.preemption_goroutines_duration_seconds.labels(result).observe(seconds)
            # Otherwise nothing might ever wake the pod.
            if result == "error" or not event_wakes_pod:
                # It may have been let through before, and have started the next preemption.
                if self._preemptions.get(preemptor.uid) is preemption:
                    del self._preemptions[preemptor.uid]
                self._handle.activate([preemptor])
        log.v(2).info("Async Preemption finished completely", **fields, result=result)

    async def _evict_in_parallel(
        self, preemptor: PodInfo, node: str, victims: Sequence[PodInfo]
    ) -> None:
        """After a failure, which is raised at the end, no further eviction is started."""
        left = iter(victims)
        failures: list[KschedulerError] = []

        async def work() -> None:
            while not failures and (victim := next(left, None)) is not None:
                try:
                    await self._preempt_pod(preemptor, node, victim)
                except KschedulerError as error:
                    failures.append(error)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(MAX_PARALLEL_EVICTIONS, len(victims))):
                tasks.create_task(work(), name=f"preempt/{preemptor.key}")
        if failures:
            raise failures[0]

    async def _preempt_pod(self, preemptor: PodInfo, node: str, victim: PodInfo) -> bool:
        """Returns whether it was enough to stop the victim's own binding, in memory."""
        fields = {
            "preemptor": logs.ref(preemptor.pod),
            "victim": logs.ref(victim.pod),
            "node": node,
        }
        note = f"Preempted by pod {preemptor.uid} on node {node}"
        # A victim that still waits in Permit, or is in PreBind, needs no API call.
        waiting = self._handle.waiting_pods.get(victim.uid)
        in_pre_bind = self._handle.pods_in_pre_bind.get(victim.uid)
        in_memory, by = False, {"preemptorType": "pod", "preemptor": logs.ref(preemptor.pod)}
        if waiting is not None:
            in_memory = waiting.preempt(self._plugin, "preempted")
            if in_memory:
                what = "Preemptor preempted a waiting pod"
                log.v(2).info(what, **by, waitingPod=logs.ref(victim.pod), node=node)
        elif in_pre_bind is not None:
            in_memory = in_pre_bind.cancel(f"preempted by {self._plugin}")
            if in_memory:
                what = "Preemptor rejected a pod in preBind"
                log.v(2).info(what, **by, podInPreBind=logs.ref(victim.pod), node=node)
            else:
                log.v(5).info(
                    "Failed to reject a pod in preBind, falling back to deletion via api call",
                    preemptor=logs.ref(preemptor.pod),
                    podInPreBind=logs.ref(victim.pod),
                    node=node,
                )
        if in_memory:
            note += " (in kube-scheduler memory)."
        elif await self._delete_once(preemptor, victim):
            log.v(2).info("Preemptor Pod preempted victim Pod", **fields)
        else:
            log.v(2).info("Victim Pod is already deleted", **fields)
            return False
        self._handle.recorder.event(victim.pod, "Normal", "Preempted", "Preempting", note)
        return in_memory

    async def _delete_once(self, preemptor: PodInfo, victim: PodInfo) -> bool:
        """False if the victim is, or was, deleted by another request than this one."""
        under_way = self._deletions.get(victim.uid)
        if under_way is not None:
            await under_way.wait()
            return False
        if self._is_terminating(victim):
            return False
        if len(self._deletions) >= self._clean_deletions_at:
            for uid, known in list(self._deletions.items()):
                if known.done.is_set() and self._is_terminating(known.victim):
                    del self._deletions[uid]
            self._clean_deletions_at = 2 * len(self._deletions) + MIN_BEFORE_CLEANUP
        deletion = self._deletions[victim.uid] = _Deletion(victim)
        try:
            return await self._delete(preemptor, victim)
        except BaseException as error:
            # It may be tried again.
            del self._deletions[victim.uid]
            deletion.failed_with(error)
            raise
        finally:
            deletion.done.set()

    async def _delete(self, preemptor: PodInfo, victim: PodInfo) -> bool:
        pod, client = victim.pod, self._handle.client
        scheduler = preemptor.pod.spec.scheduler_name
        condition = PodCondition(
            type=DISRUPTION_TARGET,
            status="True",
            reason=PREEMPTION_BY_SCHEDULER,
            message=f"{scheduler}: preempting to accommodate a higher priority pod",
            observed_generation=pod.metadata.generation,
            last_transition_time=format_time(time.time()),
        )
        conditions = with_condition(pod.status.conditions, condition)
        try:
            await client.patch_pod_status(pod, structs.replace(pod.status, conditions=conditions))
            await client.delete_pod(pod)
        except MissingError:
            return False
        return True

    async def _clear_lower_nominations(self, preemptor: PodInfo, node: str) -> bool:
        """Pods of lower priority that are nominated to the node may have to go elsewhere now."""
        cleared = True
        for other in self._handle.nominator.pods_for_node(node):
            status = other.pod.status
            if other.priority >= preemptor.priority or not status.nominated_node_name:
                continue
            try:
                await self._handle.client.patch_pod_status(
                    other.pod, structs.replace(status, nominated_node_name="")
                )
            except KschedulerError as error:
                log.unhandled(error, "Cannot clear 'NominatedNodeName' field", node=node)
                cleared = False
        return cleared

    def _is_terminating(self, victim: PodInfo) -> bool:
        stored = self._stored(victim)
        return stored is None or stored.metadata.deletion_timestamp is not None

    def _stored(self, pod: PodInfo) -> Pod | None:
        """The pod as the API server last reported it; None if it is gone."""
        known = self._pods.get(pod.key)
        return known if known is not None and known.uid == pod.uid else None


class _Preemption:
    """The evictions for one pod."""

    # Known once the others have been deleted.
    last_victim: PodInfo | None = None
    # By time.monotonic, when the deletion of all had been requested.
    over_at: float | None = None


class _Deletion:
    """One request to the API server, which several pods may wait for."""

    def __init__(self, victim: PodInfo) -> None:
        self.victim = victim
        self.done = asyncio.Event()
        self._failure: KschedulerError | None = None

    def failed_with(self, error: BaseException) -> None:
        self._failure = (
            error if isinstance(error, KschedulerError) else KschedulerError(repr(error))
        )

    async def wait(self) -> None:
        await self.done.wait()
        if self._failure is not None:
            raise self._failure
