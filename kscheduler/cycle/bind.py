"""The binding cycle: what follows a placement, beside the loop, one task per pod.

    pre-flight → nomination if it may take long → wait for Permit → PreBind → Bind → PostBind

Mirrors bindingCycle, handleBindingCycleError and bind of pkg/scheduler/schedule_one.go. Whatever
fails on the way unreserves and forgets the pod, tells waiting pods that room came free, and ends in
the failure handler.

Differs: a binding that got no answer is no failure yet. It may have taken effect, or do so in a
minute, when its room has been given to another pod. So the pod stays assumed on its node, and is
bound there again and again, until the server or the watch has said what became of it:

    sent ──no answer──▶ unsettled ──bind again──▶ bound: so it is, by this request or by an earlier
                            ▲    │                refused: read; on the node: bound, else given up
                            └────┘                no answer

And a placement that foreign binds have made impossible since it was decided is given up before it
is sent: the pod is on a node already, or its kubelet would refuse it (`_overtaken`). A pod that
another has bound to the very node is bound: it keeps what was reserved for it there.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from kscheduler import logs
from kscheduler.api.core import Pod
from kscheduler.api.timestamps import steady_time
from kscheduler.client.kube_client import BindingOutcome
from kscheduler.client.throttle import Backoff
from kscheduler.cycle.attempt import Attempt, DecisionRecorder
from kscheduler.cycle.failure import Failure, FailureHandler, Recorder
from kscheduler.cycle.status_writer import StatusReport, StatusWriter
from kscheduler.errors import KschedulerError
from kscheduler.framework.cluster_event import ASSIGNED_POD, Action, ClusterEvent
from kscheduler.framework.status import SKIP, Code, Diagnosis, Status, failed, fit_error
from kscheduler.metrics import Metrics
from kscheduler.metrics.scheduler import ALREADY_BOUND, NODE_TAKEN, OWN_POD
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.runtime.extenders.extenders import Extenders
from kscheduler.runtime.pods_in_pre_bind import PodsInPreBind
from kscheduler.runtime.reserve import Undo
from kscheduler.state.cache import Cache, CacheError

log = logs.logger(__name__)

# Bindings, and nominations before them, on their way to the API server; beyond it deciding more
# would only make decisions older.
MAX_BINDING = 512

ASSIGNED_POD_DELETE = ClusterEvent(ASSIGNED_POD, Action.DELETE)

# Pauses before a binding without an answer is tried again: like those of the queue.
UNSETTLED_SECONDS = 1.0
MAX_UNSETTLED_SECONDS = 10.0
# When an API server has ended every request, whatever became of it (--request-timeout).
REQUEST_SECONDS = 60.0

# In the API server's refusal of a binding, if the pod has a node.
ALREADY_ASSIGNED = "is already assigned to node"

# From this many attempts on they share one label ("15+"), so that the metric stays small.
MAX_ATTEMPTS_LABEL = 15


class BindingReader(Protocol):
    """Asks the API server what became of a binding."""

    async def binding_outcome(self, pod: Pod, node: str, /) -> BindingOutcome: ...


class Binder:
    def __init__(
        self,
        *,
        cache: Cache,
        queue: SchedulingQueue,
        failures: FailureHandler,
        writer: StatusWriter,
        recorder: Callable[[str], Recorder],
        metrics: Metrics,
        pods_in_pre_bind: PodsInPreBind,
        extenders: Extenders | None = None,
        reader: BindingReader,
        nominates: bool,
        decisions: DecisionRecorder | None = None,
        clock: Callable[[], float] = steady_time,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._failures = failures
        self._writer = writer
        self._recorder = recorder
        self._metrics = metrics
        self._pods_in_pre_bind = pods_in_pre_bind
        self._extenders = extenders or Extenders()
        self._reader = reader
        # Gate NominatedNodeNameForExpectation: say where a pod is headed when that may take long.
        self._nominates = nominates
        self._decisions = decisions
        self._clock = clock
        self._slots = asyncio.Semaphore(MAX_BINDING)

    async def caught_up(self) -> None:
        """Return when there is room for another binding. Pods that plugins hold back take none:
        they may be waiting for those still to be decided.
        """
        async with self._slots:
            pass

    async def run_binding_cycle(self, attempt: Attempt) -> None:
        """The whole binding cycle of one pod; it fails alone."""
        running = self._metrics.goroutines.labels("binding")
        running.inc()
        try:
            try:
                failure = await self._binding_cycle(attempt)
            except Exception as error:  # One pod's trouble: logged, retried, never the daemon's.
                pod, stack = attempt.pod.key, traceback.format_exc()
                log.error(error, "Binding failed unexpectedly", pod=pod, stack=stack)
                failure = Failure(failed(error))
            if failure is not None:
                await self._handle_binding_cycle_error(attempt, failure)
        finally:
            running.dec()

    async def _binding_cycle(self, attempt: Attempt) -> Failure | None:
        framework, cycle = attempt.framework, attempt.cycle
        pod, node = attempt.pod, attempt.node
        pre_flight = (
            framework.run_pre_bind_pre_flight(cycle, pod, node) if self._nominates else None
        )
        if pre_flight is not None and pre_flight is not SKIP:
            return Failure(pre_flight)
        if self._nominates and (pre_flight is None or framework.is_waiting(pod)):
            async with self._slots:
                await self._writer.write(StatusReport(attempt.queued.pod.pod, None, node))
        status = await framework.wait_on_permit(pod)
        if status is not None:
            return rejection(status) if status.rejected else Failure(status)
        # From here on events need no longer be kept for this pod, and no plugin can reject it for
        # good: whatever fails is tried again.
        self._queue.done(pod.uid)
        attempt.point = "PreBind"
        status = self._overtaken(attempt)
        if status is not None:
            return Failure(status)
        if pre_flight is None:
            # While plugins work, preemption may call the pod off to make room for another.
            with self._pods_in_pre_bind.registered(pod.uid) as entry:
                status = await framework.run_pre_bind(cycle, pod, node)
                if status is None and not entry.mark_prebound():
                    status = failed(entry.called_off or "")
            if status is not None:
                return Failure(status)
        else:
            framework.has_nothing_to_pre_bind()
        attempt.point = "Bind"
        status = await self._bind(attempt)
        if status is not None and status.unsettled:
            status = await self._bind_until_settled(attempt, status)
        if status is not None and ALREADY_ASSIGNED in status.message:
            self._metrics.kscheduler_conflicts_total.labels(ALREADY_BOUND).inc()
            if f'{ALREADY_ASSIGNED} "{node}"' in status.message:
                log.info("Another scheduler has bound pod", pod=logs.ref(pod.pod), node=node)
                # The watch tells of it as if it were by us.
                self._metrics.kscheduler_foreign_binds_total.labels(OWN_POD).inc()
                status = None
        if status is not None:
            log.v(1).info("Failed to bind pod", pod=logs.ref(pod.pod))
            return Failure(status)
        self._finish_binding_cycle(attempt)
        return None

    def _overtaken(self, attempt: Attempt) -> Status | None:
        """A failure, if foreign binds since the decision leave the pod no place on its node.

        One comparison where there were none. Of several placements on the node the first to get
        here is given up; that may leave room for the others.
        """
        foreign, pod, node = self._cache.foreign_binds, attempt.pod, attempt.node
        if foreign.latest == attempt.foreign_bind:
            return None
        elsewhere = self._cache.confirmed_node(pod)
        if elsewhere and elsewhere != node:
            self._metrics.kscheduler_conflicts_total.labels(ALREADY_BOUND).inc()
            return failed(f'another scheduler has assigned pod {pod.key} to node "{elsewhere}"')
        if not foreign.any_since(attempt.foreign_bind, node):
            return None
        short = [*self._cache.shortages(pod)]
        if self._cache.has_port_conflict(pod):
            short.append("host ports")
        if not short:
            return None
        self._metrics.kscheduler_conflicts_total.labels(NODE_TAKEN).inc()
        return failed(
            f'node "{node}" has too little left ({", ".join(short)}): another scheduler has placed '
            "pods there since it was chosen"
        )

    async def _bind(self, attempt: Attempt, *, again: bool = False) -> Status | None:
        """Bind proper: an extender that wants to do it comes before plugins.

        `again`: an earlier request may have taken effect, so the decision stands.
        """
        pod, node = attempt.pod, attempt.node
        async with self._slots:
            # No report about the pod's failures may reach the API server after its binding.
            await self._writer.settle(pod.uid)
            overtaken = None if again else self._overtaken(attempt)
            if overtaken is not None:
                return overtaken
            if not self._extenders:
                return await attempt.framework.run_bind(attempt.cycle, pod, node)
            try:
                binding = await self._extenders.bind(pod, node, attempt.extender_answers)
                if binding.is_bound:
                    attempt.bound_by = binding.extender
                    return None
                unsettled = binding.unsettled
                status = await attempt.framework.run_bind(attempt.cycle, pod, node)
            except KschedulerError as error:
                status, unsettled = failed(error), error.unsettled
            if status is None or not unsettled:
                return status
            # The extender may have bound the pod, or do so yet.
            outcome = await self._reader.binding_outcome(pod.pod, node)
            if outcome is BindingOutcome.BOUND:
                return None
            return replace(status, unsettled=outcome is not BindingOutcome.NEVER)

    async def _bind_until_settled(self, attempt: Attempt, status: Status) -> Status | None:
        """Binds again until the outcome is known; the pod keeps its room all the while.

        Every try is reported as a failed attempt, but the decision stays: whichever of the requests
        takes effect, it is on this node.
        """
        pauses = Backoff(first_seconds=UNSETTLED_SECONDS, cap_seconds=MAX_UNSETTLED_SECONDS)
        unanswered_at = time.monotonic()
        while status.unsettled:
            self._failures.report(attempt.queued, Failure(status), started=attempt.started)
            await asyncio.sleep(pauses.next(time.monotonic()))
            if not self._cache.is_assumed(attempt.pod):
                # The watch has delivered the pod, bound or not, or its end.
                try:
                    was_bound = self._cache.get_pod(attempt.pod).node_name == attempt.node
                except CacheError:
                    was_bound = False
                return None if was_bound else replace(status, unsettled=False)
            if not self._cache.has_node(attempt.node):
                return replace(status, unsettled=False)
            self._failures.refresh(attempt.queued)
            attempt.queued.attempts += 1
            attempt.started = time.perf_counter()
            again = await self._bind(attempt, again=True)
            if again is None:
                return None
            if again.unsettled:
                unanswered_at = time.monotonic()
                status = again
                continue
            outcome = await self._reader.binding_outcome(attempt.pod.pod, attempt.node)
            if outcome is BindingOutcome.BOUND:
                return None
            is_over = time.monotonic() > unanswered_at + REQUEST_SECONDS
            status = replace(again, unsettled=not is_over and outcome is not BindingOutcome.NEVER)
        return status

    def _finish_binding_cycle(self, attempt: Attempt) -> None:
        """The pod is bound: log, record, event, metrics, PostBind."""
        if self._decisions is not None:
            self._decisions.ended(attempt, None, self._clock())
        pod, queued, metrics = attempt.pod, attempt.queued, self._metrics
        profile = attempt.framework.profile_name
        if v := log.v(2):
            v.info(
                "Successfully bound pod to node",
                pod=logs.ref(pod.pod),
                node=attempt.node,
                evaluatedNodes=attempt.evaluated,
                feasibleNodes=attempt.feasible,
            )
        note = f"Successfully assigned {pod.key} to {attempt.node}"
        self._recorder(profile).event(queued.pod.pod, "Normal", "Scheduled", "Binding", note)
        seconds = time.perf_counter() - attempt.started
        metrics.schedule_attempts_total.labels("scheduled", profile).inc()
        metrics.scheduling_attempt_duration_seconds.labels("scheduled", profile).observe(seconds)
        metrics.pod_scheduling_attempts.observe(queued.attempts)
        if queued.initial_attempt_timestamp is not None:
            attempts = queued.attempts
            label = f"{MAX_ATTEMPTS_LABEL}+" if attempts >= MAX_ATTEMPTS_LABEL else str(attempts)
            metrics.pod_scheduling_sli_duration_seconds.labels(label).observe(
                self._clock() - queued.initial_attempt_timestamp
            )
        if queued.was_flushed_from_unschedulable:
            metrics.pod_scheduled_after_flush_total.inc()
        attempt.framework.run_post_bind(attempt.cycle, pod, attempt.node)
        if attempt.cycle.pods_to_activate:
            self._queue.activate(attempt.cycle.pods_to_activate.values(), self._clock())

    async def _handle_binding_cycle_error(self, attempt: Attempt, failure: Failure) -> None:
        """Give back what the pod held, and move pods that wait for room. The pod itself hears of it
        only if it failed by an error: a rejected pod is not helped by the room it gave back.
        """
        # A decision may be waiting for extenders that counts on what this pod gives back.
        await self._extenders.moving()
        pod, now = attempt.pod, self._clock()
        if self._decisions is not None:
            self._decisions.ended(attempt, failure, now)
        is_forgotten, undo = self.unreserve_and_forget(attempt)
        if undo is not None:
            await undo()
        if is_forgotten and not failure.rejected:
            self._queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_DELETE, pod, None, now=now)
        self._failures.handle_scheduling_failure(
            attempt.queued, failure, started=attempt.started, now=now
        )
        if is_forgotten and failure.rejected:
            self._queue.move_all_to_active_or_backoff_queue(
                ASSIGNED_POD_DELETE,
                pod,
                None,
                now=now,
                pre_check=lambda waiting: waiting.uid != pod.uid,
            )

    def unreserve_and_forget(self, attempt: Attempt) -> tuple[bool, Undo | None]:
        """Undo Permit, Reserve and the assumption.

        Returns whether the cache had the pod still, and what is left to be undone in the API
        server before the pod may be tried again.
        """
        attempt.framework.let_go(attempt.pod)
        undo = attempt.framework.run_unreserve(attempt.cycle, attempt.pod, attempt.node)
        try:
            self._cache.forget(attempt.pod)
        except CacheError as error:
            log.unhandled(error, "ForgetPod failed", pod=logs.ref(attempt.pod.pod))
            return False, undo
        return True, undo


def rejection(status: Status) -> Failure:
    """The failure of a pod that Reserve or Permit rejected: a FitError of that one node."""
    diagnosis = Diagnosis(absent=Status(status.code, status.reasons, status.plugin))
    diagnosis.blame(status)
    return Failure(
        Status(Code.UNSCHEDULABLE, (fit_error(1, diagnosis),)),
        frozenset(diagnosis.unschedulable_plugins),
        frozenset(diagnosis.pending_plugins),
    )
