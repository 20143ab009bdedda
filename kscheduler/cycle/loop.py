"""The scheduling loop: pop a pod, decide, assume, hand it over to a binding task.

Mirrors ScheduleOne and schedulingCycle of pkg/scheduler/schedule_one.go, and the timers that
upstream's queue and cache run by themselves.

Deciding is synchronous, so nothing changes under it; between two pods the loop yields, so that
watches and bindings advance. Where extenders take part, deciding waits for them, and so do
deliveries from informers and bindings that fail: again nothing changes under it. An exception
anywhere in an attempt costs that pod the attempt, with the traceback in the log, and nothing else.
"""

from __future__ import annotations

import asyncio
import random
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from kscheduler import logs
from kscheduler.api.timestamps import steady_time
from kscheduler.cycle.attempt import (
    Attempt,
    DecisionRecorder,
    Failed,
    Placement,
    Unschedulable,
    at_once,
)
from kscheduler.cycle.bind import Binder, rejection
from kscheduler.cycle.failure import CLEAR, Failure, FailureHandler, Recorder
from kscheduler.cycle.schedule import SchedulingAlgorithm
from kscheduler.cycle.slow_decisions import SlowDecisions
from kscheduler.framework.added_by_devices import AddedByDevices
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugin import PostFilterResult
from kscheduler.framework.status import Code, Status, failed
from kscheduler.metrics import Metrics
from kscheduler.metrics.rates import AttemptRates
from kscheduler.queue.backoff_queue import Backoff
from kscheduler.queue.queued_pod_info import QueuedPodInfo
from kscheduler.queue.scheduling_queue import DEFAULT_BACKOFF, SchedulingQueue
from kscheduler.runtime.extenders.extenders import Extenders
from kscheduler.runtime.framework import Framework
from kscheduler.runtime.reserve import Hold, Undo
from kscheduler.state.cache import Cache, CacheError

log = logs.logger(__name__)

# Share of attempts whose plugin calls are timed one by one.
PLUGIN_METRICS_SAMPLE_SHARE = 0.1
BACKOFF_FLUSH_SECONDS = 1.0
UNSCHEDULABLE_FLUSH_SECONDS = 30.0
CACHE_METRICS_SECONDS = 1.0
STALL_SAMPLE_SECONDS = 0.1


class UnfinishedPostFilter(NamedTuple):
    """A pod that no node fits, and the rest of PostFilter, which waits for API or extenders."""

    refusal: Unschedulable
    finish: Callable[[], Awaitable[PostFilterResult]]


class UnfinishedUnreserve(NamedTuple):
    """A pod that Reserve or Permit rejected, and what plugins undo in the API server."""

    failure: Failure
    finish: Undo


Unfinished = UnfinishedPostFilter | UnfinishedUnreserve


class SchedulingLoop:
    def __init__(
        self,
        *,
        queue: SchedulingQueue,
        cache: Cache,
        frameworks: Mapping[str, Framework],
        algorithm: SchedulingAlgorithm,
        extenders: Extenders | None = None,
        binder: Binder,
        failures: FailureHandler,
        recorder: Callable[[str], Recorder],
        metrics: Metrics,
        rng: random.Random,
        decisions: DecisionRecorder | None = None,
        backoff: Backoff = DEFAULT_BACKOFF,
        clock: Callable[[], float] = steady_time,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`clock` tells seconds since the epoch, `timer` how long something took."""
        self._queue = queue
        self._cache = cache
        self._frameworks = frameworks
        self.algorithm = algorithm
        self._extenders = extenders or Extenders()
        self._binder = binder
        self._failures = failures
        self._recorder = recorder
        self._metrics = metrics
        self._rng = rng
        self._decisions = decisions
        self._clock = clock
        self._timer = timer
        self.slow = SlowDecisions(metrics, recorder, backoff, timer=timer)
        self.rates = AttemptRates(metrics.schedule_attempts_total)
        self._pod_is_ready = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled. Bindings under way are then abandoned: their pods show up bound, or
        pending.
        """
        self._queue.on_ready = self._pod_is_ready.set
        try:
            with self.slow.watch.at_work():
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._flush_backoff_completed(), name="queue/backoff")
                    tasks.create_task(
                        self._flush_unschedulable_leftover(), name="queue/unschedulable"
                    )
                    tasks.create_task(self._measure_every_second(), name="cache/metrics")
                    tasks.create_task(self._measure_stalls(), name="loop/metrics")
                    await self._schedule_forever(tasks)
        finally:
            self._queue.close()

    async def _schedule_forever(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            await self._binder.caught_up()
            queued = self._queue.pop()
            if queued is None:
                self._pod_is_ready.clear()
                if not self._queue.ready:
                    await self._pod_is_ready.wait()
                continue
            if until := self.slow.postponed_until(queued.pod, now := self._clock()):
                if v := log.v(2):
                    what = "Postponing pod: decisions on pods like it take too long"
                    v.info(what, pod=logs.ref(queued.pod.pod), seconds=round(until - now, 1))
                self._queue.postpone(queued, until, now)
                # There may be thousands of its kind.
                await asyncio.sleep(0)
                continue
            attempt = await self.schedule_one(queued)
            if attempt is not None:
                binding_cycle = self._binder.run_binding_cycle(attempt)
                tasks.create_task(binding_cycle, name=f"bind/{attempt.pod.key}")
            if self._extenders:
                # While extenders were asked deliveries have piled up.
                await self._extenders.catch_up()
            else:
                await asyncio.sleep(0)

    async def schedule_one(self, queued: QueuedPodInfo) -> Attempt | None:
        """One scheduling cycle. A pod that got a node is assumed there and needs binding; None
        tells that the attempt is over.

        It waits only for extenders, and for PostFilter or Unreserve where those have to wait.
        """
        started = self._timer()
        framework = self._framework_for_pod(queued)
        if framework is None:
            self._queue.done(queued.uid)
            return None
        attempt = Attempt(
            queued,
            framework,
            CycleState(sampled=self._rng.random() < PLUGIN_METRICS_SAMPLE_SHARE),
            self._cache.snapshot(),
            self._queue.scheduling_cycle,
            started,
            self._clock(),
            extended=self._extenders.any_interested(queued.pod),
        )
        self.slow.watch.begin(started)
        if attempt.extended:
            with self._extenders.held():
                outcome = await self._scheduling_cycle(attempt)
        else:
            outcome = at_once(self._scheduling_cycle(attempt))
        self.slow.watch.end()
        now = self._clock()
        # Other tasks ran while extenders were asked: then only what plugins took counts.
        took = self.slow.watch.seconds_in_plugins if attempt.extended else self._timer() - started
        self.slow.decided(queued, took, found=outcome is None, now=now)
        if isinstance(outcome, UnfinishedUnreserve):
            await outcome.finish()
            outcome, now = outcome.failure, self._clock()
        elif isinstance(outcome, UnfinishedPostFilter):
            # PostFilter has to wait for answers: it does so when the decision is over.
            try:
                result = await outcome.finish()
            except Exception as error:  # One pod's trouble: logged, retried, never the daemon's.
                _log_exception(attempt, error)
                result = PostFilterResult(failed(error))
            outcome = _unschedulable_after_post_filter(attempt, outcome.refusal, result)
            now = self._clock()
        if outcome is not None:
            if self._decisions is not None:
                self._decisions.ended(attempt, outcome, now)
            self._failures.handle_scheduling_failure(queued, outcome, started=started, now=now)
            return None
        return attempt

    def _framework_for_pod(self, queued: QueuedPodInfo) -> Framework | None:
        """The profile that schedules the pod; None if the pod is not to be scheduled (any more)."""
        pod = queued.pod
        if v := log.v(4):
            v.info("About to try and schedule pod", pod=logs.ref(pod.pod))
        framework = self._frameworks.get(queued.profile)
        if framework is None:
            log.error(f'profile not found for scheduler name "{queued.profile}"', "Error occurred")
            return None
        if pod.terminating:
            note = f"skip schedule deleting pod: {pod.key}"
            recorder = self._recorder(framework.profile_name)
            recorder.event(pod.pod, "Warning", "FailedScheduling", "Scheduling", note)
            log.v(3).info("Skip schedule deleting pod", pod=logs.ref(pod.pod))
            return None
        # An assumed pod has its node already: it was updated, and queued again, meanwhile.
        if self._cache.is_assumed(pod):
            return None
        log.v(3).info("Attempting to schedule pod", pod=logs.ref(pod.pod))
        return framework

    async def _scheduling_cycle(self, attempt: Attempt) -> Unfinished | Failure | None:
        """Decide and carry the decision out in memory; None is success."""
        try:
            outcome = await self.algorithm.schedule_pod(attempt)
            if self._decisions is not None:
                self._decisions.decided(attempt, outcome, self._clock())
            ended: Unfinished | Failure | None = None
            try:
                if isinstance(outcome, Unschedulable):
                    ended = self._run_post_filter(attempt, outcome)
                elif isinstance(outcome, Failed):
                    status = outcome.status
                    if not status.rejected:
                        pod = logs.ref(attempt.pod.pod)
                        log.error(status.message, "Error selecting node for pod", pod=pod)
                    ended = Failure(status)
            finally:
                took = self._metrics.scheduling_algorithm_duration_seconds
                took.observe(self._timer() - attempt.started)
            if isinstance(outcome, Placement):
                ended = self._prepare_for_binding_cycle(attempt, outcome)
        except Exception as error:  # One pod's trouble: logged, retried, and never the daemon's.
            _log_exception(attempt, error)
            return Failure(failed(error))
        return ended

    def _run_post_filter(
        self, attempt: Attempt, refusal: Unschedulable
    ) -> UnfinishedPostFilter | Failure:
        """No node fits. PostFilter may make room by preemption, for another attempt."""
        framework = attempt.framework
        if not framework.has_post_filter_plugins:
            if v := log.v(3):
                what = "No PostFilter plugins are registered, so no preemption will be performed"
                v.info(what, pod=logs.ref(attempt.pod.pod))
            return _unschedulable(refusal, CLEAR)
        result = framework.run_post_filter(attempt.cycle, attempt.pod, refusal.diagnosis)
        if result.preparation is not None:
            return UnfinishedPostFilter(refusal, result.preparation)
        return _unschedulable_after_post_filter(attempt, refusal, result)

    def _prepare_for_binding_cycle(
        self, attempt: Attempt, placement: Placement
    ) -> UnfinishedUnreserve | Failure | None:
        """Assume the pod on its node, so that the next decision sees it there, and run Reserve and
        Permit.
        """
        framework, cycle = attempt.framework, attempt.cycle
        node, _, attempt.evaluated, attempt.feasible, _ = placement
        attempt.node = node
        attempt.foreign_bind = self._cache.foreign_binds.latest
        added = cycle.get(AddedByDevices)
        pod = attempt.pod = attempt.pod.assigned_to(node, None if added is None else added.on(node))
        try:
            self._cache.assume(pod)
        except CacheError as error:
            return Failure(failed(error))
        self._queue.nominator.remove(pod.uid)
        try:
            attempt.point = "Reserve"
            status: Status | Hold | None = framework.run_reserve(cycle, pod, node)
            if status is None:
                attempt.point = "Permit"
                status = framework.run_permit(cycle, pod, node)
            if isinstance(status, Hold):
                framework.hold(pod, status)
                attempt.held_by, status = tuple(status.timeouts), None
            if status is None and cycle.pods_to_activate:
                self._queue.activate(cycle.pods_to_activate.values(), self._clock())
                cycle.pods_to_activate.clear()
        except BaseException:
            # Or else the pod would count as on its way for ever.
            self._binder.unreserve_and_forget(attempt)
            raise
        if status is None:
            return None
        _, undo = self._binder.unreserve_and_forget(attempt)
        failure = rejection(status) if status.rejected else Failure(status)
        return failure if undo is None else UnfinishedUnreserve(failure, undo)

    async def _flush_backoff_completed(self) -> None:
        while True:
            now = self._clock()
            await asyncio.sleep(BACKOFF_FLUSH_SECONDS - now % BACKOFF_FLUSH_SECONDS)
            self._queue.flush_backoff_completed(self._clock())

    async def _flush_unschedulable_leftover(self) -> None:
        while True:
            await asyncio.sleep(UNSCHEDULABLE_FLUSH_SECONDS)
            self._queue.flush_unschedulable_leftover(self._clock())

    async def _measure_every_second(self) -> None:
        sizes = self._metrics.cache_size
        while True:
            await asyncio.sleep(CACHE_METRICS_SECONDS)
            sizes.labels("nodes").set(self._cache.node_count)
            sizes.labels("pods").set(self._cache.pod_count)
            sizes.labels("assumed_pods").set(self._cache.assumed_pod_count)
            self.rates.sample(self._clock())

    async def _measure_stalls(self) -> None:
        """A task that asks for a tenth of a second gets it later by as long as the loop is held."""
        stalls, timer = self._metrics.kscheduler_loop_stall_seconds, self._timer
        while True:
            started = timer()
            await asyncio.sleep(STALL_SAMPLE_SECONDS)
            stalls.observe(max(0.0, timer() - started - STALL_SAMPLE_SECONDS))


def _log_exception(attempt: Attempt, error: Exception) -> None:
    stack = traceback.format_exc()
    log.error(error, "Scheduling failed unexpectedly", pod=attempt.queued.key, stack=stack)


def _unschedulable_after_post_filter(
    attempt: Attempt, refusal: Unschedulable, result: PostFilterResult
) -> Failure:
    """The refusal, with PostFilter's message in its text and the node PostFilter nominates."""
    code, message = result.status.code, result.status.message
    refusal.diagnosis.post_filter_message = message
    what = "Status after running PostFilter plugins for pod"
    if code is Code.ERROR:
        log.unhandled(None, what, pod=logs.ref(attempt.pod.pod), status=message)
    elif v := log.v(5):
        v.info(what, pod=logs.ref(attempt.pod.pod), status=message)
    return _unschedulable(refusal, result.nominated_node)


def _unschedulable(refusal: Unschedulable, nominated_node: str | None) -> Failure:
    diagnosis = refusal.diagnosis
    return Failure(
        Status(Code.UNSCHEDULABLE, (refusal.message,)),
        frozenset(diagnosis.unschedulable_plugins),
        frozenset(diagnosis.pending_plugins),
        nominated_node,
    )
