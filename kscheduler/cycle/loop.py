"""The scheduling loop: pop a pod, decide, assume, hand it over to a binding task; the daemon's
only `while True`.

Deciding is synchronous, so nothing changes under it; between two pods the loop yields, so that
watches and bindings advance. Where extenders are asked, deciding waits, and so do deliveries and
bindings that fail: again nothing changes under it. An exception anywhere in an attempt costs that
pod the attempt, with the traceback in the log, and nothing else.
"""

from __future__ import annotations

import asyncio
import random
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from kscheduler import logs
from kscheduler.api.timestamps import steady_time
from kscheduler.cycle.bind import Attempt, Binder, rejection
from kscheduler.cycle.extended import ExtendedScheduler
from kscheduler.cycle.failure import CLEAR, Failure, FailureHandler, Recorder
from kscheduler.cycle.schedule import (
    Failed,
    Outcome,
    Placement,
    Scheduler,
    Turn,
    Unschedulable,
)
from kscheduler.cycle.slow_decisions import SlowDecisions
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugin import PostFilterResult
from kscheduler.framework.status import Code, Status, failed
from kscheduler.metrics import Metrics
from kscheduler.queue.backoff import Backoff
from kscheduler.queue.queue import DEFAULT_BACKOFF, SchedulingQueue
from kscheduler.queue.queued_pod import QueuedPod
from kscheduler.runtime.framework import Framework
from kscheduler.runtime.reserve import Hold
from kscheduler.state.cache import Cache, CacheError

log = logs.logger(__name__)

# Share of attempts whose plugin calls are timed one by one.
SAMPLED = 0.1
BACKOFF_FLUSH_SECONDS = 1.0
UNSCHEDULABLE_FLUSH_SECONDS = 30.0
CACHE_METRICS_SECONDS = 1.0
STALL_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Preparing:
    """An attempt that found no node. It ends when PostFilter has done what it needs time for."""

    queued: QueuedPod
    refusal: Unschedulable
    work: Callable[[], Awaitable[PostFilterResult]]
    started: float


class SchedulingLoop:
    def __init__(
        self,
        *,
        queue: SchedulingQueue,
        cache: Cache,
        frameworks: Mapping[str, Framework],
        scheduler: Scheduler,
        extended: ExtendedScheduler | None = None,
        binder: Binder,
        failures: FailureHandler,
        recorder: Callable[[str], Recorder],
        metrics: Metrics,
        rng: random.Random,
        backoff: Backoff = DEFAULT_BACKOFF,
        clock: Callable[[], float] = steady_time,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`clock` tells seconds since the epoch, `timer` how long something took."""
        self._queue = queue
        self._cache = cache
        self._frameworks = frameworks
        self._scheduler = scheduler
        self._extended = extended
        self._binder = binder
        self._failures = failures
        self._recorder = recorder
        self._metrics = metrics
        self._rng = rng
        self._clock = clock
        self._timer = timer
        self.slow = SlowDecisions(metrics, recorder, backoff, timer=timer)
        self._ready = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled. Bindings under way are then abandoned: their pods show up bound, or
        pending.
        """
        self._queue.on_ready = self._ready.set
        try:
            with self.slow.watch.at_work():
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._flush_backoff(), name="queue/backoff")
                    tasks.create_task(self._flush_unschedulable(), name="queue/unschedulable")
                    tasks.create_task(self._measure_cache(), name="cache/metrics")
                    tasks.create_task(self._measure_stalls(), name="loop/metrics")
                    await self._schedule_forever(tasks)
        finally:
            self._queue.close()

    async def _schedule_forever(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            await self._binder.caught_up()
            queued = self._queue.pop()
            if queued is None:
                self._ready.clear()
                if not self._queue.ready:
                    await self._ready.wait()
                continue
            if until := self.slow.postponed_until(queued.pod, now := self._clock()):
                if v := log.v(2):
                    what = "Postponing pod: decisions on pods like it take too long"
                    v.info(what, pod=logs.ref(queued.pod.pod), seconds=round(until - now, 1))
                self._queue.postpone(queued, until, now)
                # There may be thousands of its kind.
                await asyncio.sleep(0)
                continue
            if self._extended is None:
                outcome = self.schedule(queued)
            else:
                outcome = await self._schedule_extended(queued, self._extended)
            match outcome:
                case Attempt() as attempt:
                    tasks.create_task(self._bind(attempt), name=f"bind/{attempt.pod.key}")
                case Preparing() as preparing:
                    await self._prepare(preparing)
            if self._extended is None:
                await asyncio.sleep(0)
            else:
                await self._extended.catch_up()

    async def _bind(self, attempt: Attempt) -> None:
        binding = self._metrics.goroutines.labels("binding")
        binding.inc()
        try:
            await self._binder.run(attempt)
        finally:
            binding.dec()

    async def _prepare(self, preparing: Preparing) -> None:
        """Wait for PostFilter's answer; only then the attempt is over."""
        queued, refusal = preparing.queued, preparing.refusal
        try:
            result = await preparing.work()
        except Exception as error:  # One pod's trouble: told, retried, and never the daemon's.
            self._log_exception(queued, error)
            result = PostFilterResult(failed(error))
        _note(queued, refusal, result)
        failure = _refusal_failure(refusal, result.nominated_node)
        self._failures.handle(queued, failure, started=preparing.started, now=self._clock())

    def schedule(self, queued: QueuedPod) -> Attempt | Preparing | None:
        """One scheduling cycle: a pod that got a node and is assumed there, one for which room is
        made first, or None and it was dealt with.
        """
        started = self._timer()
        framework = self._begin(queued)
        if framework is None:
            return None
        self.slow.watch.begin(started)
        try:
            cycle, nodes = self._cycle(), self._cache.snapshot()
            turn = Turn(self._queue.scheduling_cycle, queued.signature)
            decided = self._scheduler.decide(cycle, framework, queued.pod, nodes, turn)
            outcome = self._settle(queued, framework, cycle, decided, started)
        except Exception as error:  # One pod's trouble: told, retried, and never the daemon's.
            self._log_exception(queued, error)
            outcome = Failure(failed(error))
        self.slow.watch.end()
        found, now = isinstance(outcome, Attempt), self._clock()
        self.slow.decided(queued, self._timer() - started, found=found, now=now)
        return self._end(queued, outcome, started, now)

    async def _schedule_extended(
        self, queued: QueuedPod, extended: ExtendedScheduler
    ) -> Attempt | Preparing | None:
        """The same with extenders: until it is over, nothing changes but by this cycle."""
        if not extended.concerns(queued.pod):
            return self.schedule(queued)
        started = self._timer()
        framework = self._begin(queued)
        if framework is None:
            return None
        self.slow.watch.begin(started)
        with extended.held():
            try:
                cycle, nodes = self._cycle(), self._cache.snapshot()
                turn = Turn(self._queue.scheduling_cycle, queued.signature)
                decided = await extended.decide(cycle, framework, queued.pod, nodes, turn)
                outcome = self._settle(queued, framework, cycle, decided, started)
            except Exception as error:  # One pod's trouble: told, retried, and never the daemon's.
                self._log_exception(queued, error)
                outcome = Failure(failed(error))
        self.slow.watch.end()
        found, now = isinstance(outcome, Attempt), self._clock()
        self.slow.decided_among_others(queued, found=found, now=now)
        return self._end(queued, outcome, started, now)

    def _begin(self, queued: QueuedPod) -> Framework | None:
        """The profile that takes care of the pod; None, and it was dealt with."""
        if v := log.v(4):
            v.info("About to try and schedule pod", pod=logs.ref(queued.pod.pod))
        framework = self._frameworks.get(queued.profile)
        if framework is None:
            log.error(f'profile not found for scheduler name "{queued.profile}"', "Error occurred")
            self._queue.done(queued.uid)
            return None
        if self._skips(queued, framework):
            self._queue.done(queued.uid)
            return None
        log.v(3).info("Attempting to schedule pod", pod=logs.ref(queued.pod.pod))
        return framework

    def _end(
        self, queued: QueuedPod, outcome: Attempt | Preparing | Failure, started: float, now: float
    ) -> Attempt | Preparing | None:
        if isinstance(outcome, Failure):
            self._failures.handle(queued, outcome, started=started, now=now)
            return None
        return outcome

    def _log_exception(self, queued: QueuedPod, error: Exception) -> None:
        stack = traceback.format_exc()
        log.error(error, "Scheduling failed unexpectedly", pod=queued.key, stack=stack)

    def _skips(self, queued: QueuedPod, framework: Framework) -> bool:
        """Pods being deleted are not placed any more, and assumed ones are on their way already."""
        pod = queued.pod
        if pod.terminating:
            note = f"skip schedule deleting pod: {pod.key}"
            recorder = self._recorder(framework.profile_name)
            recorder.event(pod.pod, "Warning", "FailedScheduling", "Scheduling", note)
            log.v(3).info("Skip schedule deleting pod", pod=logs.ref(pod.pod))
            return True
        return self._cache.is_assumed(pod)

    def _cycle(self) -> CycleState:
        return CycleState(sampled=self._rng.random() < SAMPLED)

    def _settle(
        self,
        queued: QueuedPod,
        framework: Framework,
        cycle: CycleState,
        outcome: Outcome,
        started: float,
    ) -> Attempt | Preparing | Failure:
        """What follows from a decision, as far as that is known at once."""
        try:
            settled = self._concluded(cycle, framework, queued, outcome, started)
        finally:
            took = self._metrics.scheduling_algorithm_duration_seconds
            took.observe(self._timer() - started)
        if not isinstance(settled, Placement):
            return settled
        node, _, evaluated, feasible, _ = settled
        return self._take(
            Attempt(queued, queued.pod, node, framework, cycle, started, evaluated, feasible)
        )

    def _concluded(
        self,
        cycle: CycleState,
        framework: Framework,
        queued: QueuedPod,
        outcome: Outcome,
        started: float,
    ) -> Placement | Preparing | Failure:
        match outcome:
            case Placement() as placement:
                return placement
            case Unschedulable() as refusal:
                return self._refused(cycle, framework, queued, refusal, started)
            case Failed(status=status):
                if not status.rejected:
                    pod = logs.ref(queued.pod.pod)
                    log.error(status.message, "Error selecting node for pod", pod=pod)
                return Failure(status)

    def _refused(
        self,
        cycle: CycleState,
        framework: Framework,
        queued: QueuedPod,
        refusal: Unschedulable,
        started: float,
    ) -> Preparing | Failure:
        """No node fits. PostFilter may make room; either way this attempt comes to its end."""
        nominated: str | None = CLEAR
        if framework.has_post_filter_plugins:
            result = framework.run_post_filter(cycle, queued.pod, refusal.diagnosis)
            if result.preparation is not None:
                return Preparing(queued, refusal, result.preparation, started)
            _note(queued, refusal, result)
            nominated = result.nominated_node
        elif v := log.v(3):
            what = "No PostFilter plugins are registered, so no preemption will be performed"
            v.info(what, pod=logs.ref(queued.pod.pod))
        return _refusal_failure(refusal, nominated)

    def _take(self, attempt: Attempt) -> Attempt | Failure:
        """Assume the pod on its node, so that the next decision sees it there, and ask Reserve and
        Permit.
        """
        pod = attempt.pod = attempt.pod.assigned_to(attempt.node)
        try:
            self._cache.assume(pod)
        except CacheError as error:
            return Failure(failed(error))
        self._queue.nominator.remove(pod.uid)
        try:
            failure = self._reserve(attempt)
        except BaseException:
            # Or else the pod would count as on its way for ever.
            self._binder.release(attempt)
            raise
        if failure is not None:
            self._binder.release(attempt)
            return failure
        return attempt

    def _reserve(self, attempt: Attempt) -> Failure | None:
        framework, cycle, pod = attempt.framework, attempt.cycle, attempt.pod
        status: Status | Hold | None = framework.run_reserve(cycle, pod, attempt.node)
        if status is None:
            status = framework.run_permit(cycle, pod, attempt.node)
        if isinstance(status, Hold):
            framework.hold(pod, status)
        elif status is not None:
            return rejection(status) if status.rejected else Failure(status)
        if cycle.pods_to_activate:
            self._queue.activate(cycle.pods_to_activate.values(), self._clock())
            cycle.pods_to_activate.clear()
        return None

    async def _flush_backoff(self) -> None:
        while True:
            now = self._clock()
            await asyncio.sleep(BACKOFF_FLUSH_SECONDS - now % BACKOFF_FLUSH_SECONDS)
            self._queue.flush_backoff(self._clock())

    async def _flush_unschedulable(self) -> None:
        while True:
            await asyncio.sleep(UNSCHEDULABLE_FLUSH_SECONDS)
            self._queue.flush_unschedulable(self._clock())

    async def _measure_cache(self) -> None:
        sizes = self._metrics.cache_size
        while True:
            await asyncio.sleep(CACHE_METRICS_SECONDS)
            sizes.labels("nodes").set(self._cache.node_count)
            sizes.labels("pods").set(self._cache.pod_count)
            sizes.labels("assumed_pods").set(self._cache.assumed_pod_count)

    async def _measure_stalls(self) -> None:
        """A task that asks for a tenth of a second gets it later by as long as the loop is held."""
        stalls, timer = self._metrics.kscheduler_loop_stall_seconds, self._timer
        while True:
            started = timer()
            await asyncio.sleep(STALL_LOOK_SECONDS)
            stalls.observe(max(0.0, timer() - started - STALL_LOOK_SECONDS))


def _note(queued: QueuedPod, refusal: Unschedulable, result: PostFilterResult) -> None:
    """What PostFilter found goes into the log, and to whoever asks why no node fits."""
    code, said = result.status.code, result.status.message
    refusal.diagnosis.post_filter_message = said
    what = "Status after running PostFilter plugins for pod"
    if code is Code.ERROR:
        log.unhandled(None, what, pod=logs.ref(queued.pod.pod), status=said)
    elif v := log.v(5):
        v.info(what, pod=logs.ref(queued.pod.pod), status=said)


def _refusal_failure(refusal: Unschedulable, nominated: str | None) -> Failure:
    diagnosis = refusal.diagnosis
    return Failure(
        Status(Code.UNSCHEDULABLE, (refusal.message,)),
        frozenset(diagnosis.unschedulable_plugins),
        frozenset(diagnosis.pending_plugins),
        nominated,
    )
