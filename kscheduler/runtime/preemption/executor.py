"""Makes the room that preemption decided on: evicts the victims, beside the loop or before it goes
on.

A pod whose victims are being evicted must not be tried meanwhile: it would find its place still
taken, and look for more victims. `is_preempting` tells so. It stops doing so when the last victim
is seen going, for from then on events about victims are what wakes the pod; and the last victim's
eviction starts only when those of the others have succeeded.

Mirrors the Executor of pkg/scheduler/framework/preemption. Differs: the pod waits until the last
victim is seen going, not only until its deletion was asked for; two pods that want the same victim
gone send one request; who has been seen going meanwhile is left alone.
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
from kscheduler.runtime.handle import Handle
from kscheduler.runtime.preemption.candidates import Candidate
from kscheduler.runtime.preemption.victims import DISRUPTION_TARGET, PREEMPTION_BY_SCHEDULER
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__)

# Victims of one pod that are evicted at the same time.
AT_ONCE = 16
# News of a victim's deletion come within moments. If they do not, something else is wrong.
MAX_WAIT_SECONDS = 30.0
# With so many that are not seen yet, it is time to look whether they were.
MANY = 64


class Executor:
    def __init__(self, handle: Handle, plugin: str) -> None:
        self._handle = handle
        self._plugin = plugin
        self._pods = handle.listers.lister(Pod)
        # By the uid of the pod that waits for them.
        self._runs: dict[str, _Run] = {}
        # Victims whose deletion was asked for and is not seen yet, by uid.
        self._evictions: dict[str, _Deletion] = {}
        self._tidy_at = self._tidy_runs_at = MANY

    def is_preempting(self, uid: str) -> bool:
        """Whether the pod must wait until its victims are asked to go."""
        run = self._runs.get(uid)
        if run is None:
            return False
        if run.last_victim is None:
            return True
        waited = None if run.over_at is None else time.monotonic() - run.over_at
        seen = self._is_going(run.last_victim)
        if waited is not None and (seen or waited > MAX_WAIT_SECONDS):
            del self._runs[uid]
            return False
        return not seen

    def start(self, preemptor: PodInfo, candidate: Candidate) -> None:
        """Evict in the background."""
        victims = self._to_evict(preemptor, candidate)
        if victims:
            self._forget_runs_that_are_over()
            run = self._runs[preemptor.uid] = _Run()
            work = partial(self._evict_aside, preemptor, candidate, victims, run)
            self._handle.background.leave(f"preempt/{preemptor.key}", work)

    async def prepare(self, preemptor: PodInfo, candidate: Candidate) -> Status | None:
        """Evict, and only then go on; the status is an error."""
        try:
            victims = self._to_evict(preemptor, candidate)
            await self._evict_each(preemptor, candidate.node, victims)
        except KschedulerError as error:
            return failed(error)
        await self._clear_nominations(preemptor, candidate.node)
        return None

    def _to_evict(self, preemptor: PodInfo, candidate: Candidate) -> list[PodInfo]:
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

    async def _evict_aside(
        self, preemptor: PodInfo, candidate: Candidate, victims: Sequence[PodInfo], run: _Run
    ) -> None:
        told = {"preemptor": logs.ref(preemptor.pod), "node": candidate.node}
        log.v(2).info(
            "Start the preemption asynchronously",
            **told,
            numVictims=len(candidate.victims),
            numVictimsToDelete=len(victims),
        )
        result, wakes_by_itself = "error", False
        started = time.perf_counter()
        try:
            cleared = await self._clear_nominations(preemptor, candidate.node)
            wakes_by_itself = await self._evict_in_order(preemptor, candidate.node, victims, run)
            result = "success" if cleared else "error"
        except KschedulerError as error:
            log.unhandled(error, "Error occurred during async preemption", **told)
        finally:
            run.over_at = time.monotonic()
            self._count(result, time.perf_counter() - started)
            # Otherwise nobody might ever wake the pod.
            if result == "error" or not wakes_by_itself:
                # It may have been let through before, and have started the next run.
                if self._runs.get(preemptor.uid) is run:
                    del self._runs[preemptor.uid]
                self._handle.activate([preemptor])
        log.v(2).info("Async Preemption finished completely", **told, result=result)

    def _count(self, result: str, seconds: float) -> None:
        metrics = self._handle.metrics
        metrics.preemption_goroutines_execution_total.labels(result).inc()
        metrics.preemption_goroutines_duration_seconds.labels(result).observe(seconds)

    async def _evict_in_order(
        self, preemptor: PodInfo, node: str, victims: Sequence[PodInfo], run: _Run
    ) -> bool:
        """All but one at once, then that one; whether its going will be an event."""
        *others, last = victims
        await self._evict_each(preemptor, node, others)
        if self._current(last) is None:
            # That was an event, but then the pod had to wait for the others.
            return False
        run.last_victim = last
        return not await self._evict(preemptor, node, last)

    async def _evict_each(self, preemptor: PodInfo, node: str, victims: Sequence[PodInfo]) -> None:
        """After a failure, which is raised at the end, no further eviction is started."""
        left = iter(victims)
        failures: list[KschedulerError] = []

        async def work() -> None:
            while not failures and (victim := next(left, None)) is not None:
                try:
                    await self._evict(preemptor, node, victim)
                except KschedulerError as error:
                    failures.append(error)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(AT_ONCE, len(victims))):
                tasks.create_task(work(), name=f"preempt/{preemptor.key}")
        if failures:
            raise failures[0]

    async def _evict(self, preemptor: PodInfo, node: str, victim: PodInfo) -> bool:
        """Whether it was enough to call off the victim's own way to the node."""
        told = {"preemptor": logs.ref(preemptor.pod), "victim": logs.ref(victim.pod), "node": node}
        note = f"Preempted by pod {preemptor.uid} on node {node}"
        in_memory = self._call_off(victim)
        if in_memory:
            log.v(2).info("Preemptor called off a pod that was not bound yet", **told)
            note += " (in kube-scheduler memory)."
        elif await self._delete_once(preemptor, victim):
            log.v(2).info("Preemptor Pod preempted victim Pod", **told)
        else:
            log.v(2).info("Victim Pod is already deleted", **told)
            return False
        self._handle.recorder.event(victim.pod, "Normal", "Preempted", "Preempting", note)
        return in_memory

    def _call_off(self, victim: PodInfo) -> bool:
        """A pod that waits for permission or is being prepared needs no API call."""
        waiting = self._handle.waiting_pods.get(victim.uid)
        if waiting is not None:
            return waiting.preempt(self._plugin, "preempted")
        preparing = self._handle.pods_in_pre_bind.get(victim.uid)
        return preparing is not None and preparing.cancel(f"preempted by {self._plugin}")

    async def _delete_once(self, preemptor: PodInfo, victim: PodInfo) -> bool:
        """False if somebody else sees, or saw, to it that the victim goes."""
        under_way = self._evictions.get(victim.uid)
        if under_way is not None:
            await under_way.wait()
            return False
        if self._is_going(victim):
            return False
        self._forget_those_seen_going()
        deletion = self._evictions[victim.uid] = _Deletion(victim)
        try:
            return await self._delete(preemptor, victim)
        except BaseException as error:
            # It may be tried again.
            del self._evictions[victim.uid]
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

    async def _clear_nominations(self, preemptor: PodInfo, node: str) -> bool:
        """Pods of lower priority that were promised the node may want to look elsewhere."""
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

    def _is_going(self, victim: PodInfo) -> bool:
        current = self._current(victim)
        return current is None or current.metadata.deletion_timestamp is not None

    def _current(self, pod: PodInfo) -> Pod | None:
        """As the API server last told of it; None if it is gone."""
        known = self._pods.get(pod.key)
        return known if known is not None and known.uid == pod.uid else None

    def _forget_runs_that_are_over(self) -> None:
        """As a rule pods ask; those that were deleted meanwhile do not."""
        if len(self._runs) < self._tidy_runs_at:
            return
        for uid in list(self._runs):
            self.is_preempting(uid)
        self._tidy_runs_at = 2 * len(self._runs) + MANY

    def _forget_those_seen_going(self) -> None:
        if len(self._evictions) < self._tidy_at:
            return
        over = [
            uid
            for uid, deletion in self._evictions.items()
            if deletion.done.is_set() and self._is_going(deletion.victim)
        ]
        for uid in over:
            del self._evictions[uid]
        self._tidy_at = 2 * len(self._evictions) + MANY


class _Run:
    """The evictions for one pod; the last victim is known once its turn has come."""

    last_victim: PodInfo | None = None
    # When all were asked to go.
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
