"""The failure handler: a pod that could not be placed goes back into the queue, with an event and
a condition in its status.

Mirrors handleSchedulingFailure of pkg/scheduler/schedule_one.go. Differs: the status is written
beside the loop (see `status_writer`), where upstream's loop waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import msgspec

from kscheduler import logs
from kscheduler.api.core import Pod, PodCondition
from kscheduler.api.timestamps import format_time
from kscheduler.cycle.schedule import NO_NODES_AVAILABLE
from kscheduler.cycle.status_writer import StatusReport, StatusWriter
from kscheduler.framework.status import Status
from kscheduler.metrics import Metrics
from kscheduler.queue.queued_pod_info import QueuedPodInfo, shared_names
from kscheduler.queue.scheduling_queue import SchedulingQueue

log = logs.logger(__name__)

POD_SCHEDULED = "PodScheduled"
REASON_UNSCHEDULABLE = "Unschedulable"
REASON_SCHEDULER_ERROR = "SchedulerError"

# What an attempt does to the pod's nomination, when it does not set it to the name of a node.
CLEAR = ""
KEEP = None


class Failure(msgspec.Struct, frozen=True):
    """An attempt that ended without a binding."""

    status: Status
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()
    nominated_node: str | None = CLEAR

    @property
    def rejected(self) -> bool:
        return self.status.rejected

    @property
    def reason(self) -> str:
        return REASON_UNSCHEDULABLE if self.rejected else REASON_SCHEDULER_ERROR


class PodLister(Protocol):
    def get(self, key: str) -> Pod | None: ...


class Recorder(Protocol):
    def event(self, regarding: Pod, kind: str, reason: str, action: str, note: str) -> None: ...


class FailureHandler:
    """The end of every attempt that does not end in a binding. Whatever happens, the pod leaves the
    in-flight list.
    """

    def __init__(
        self,
        queue: SchedulingQueue,
        pods: PodLister,
        recorder: Callable[[str], Recorder],
        writer: StatusWriter,
        metrics: Metrics,
        *,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._queue = queue
        self._pods = pods
        self._recorder = recorder
        self._writer = writer
        self._metrics = metrics
        self._wall_clock = wall_clock

    def handle_scheduling_failure(
        self, queued: QueuedPodInfo, failure: Failure, *, started: float, now: float
    ) -> None:
        """Take the pod back into the queue and report. `started` is a reading of perf_counter()."""
        pod = queued.pod
        self._log_and_count(queued, failure, started)
        queued.unschedulable_plugins = shared_names(failure.unschedulable_plugins)
        queued.pending_plugins = shared_names(failure.pending_plugins)
        current = self._pods.get(pod.key)
        if current is None:
            log.info(
                "Pod doesn't exist in informer cache",
                pod=logs.ref(pod.pod),
                err=f'pod "{pod.name}" not found',
            )
            self._queue.done(pod.uid)
        elif current.metadata.uid != pod.uid:
            log.v(2).info(
                "Pod was recreated while handling scheduling failure. "
                "Skip requeueing and status updates.",
                pod=logs.ref(pod.pod),
                oldUID=pod.uid,
                newUID=current.uid,
            )
            self._queue.done(pod.uid)
            return
        elif current.spec.node_name:
            log.info(
                "Pod has been assigned to node. Abort adding it back to queue.",
                pod=logs.ref(current),
                node=current.spec.node_name,
            )
            self._queue.done(pod.uid)
        else:
            self.refresh(queued)
            self._queue.add_unschedulable_if_not_present(queued, now=now)
            self._queue.nominator.add(queued.pod, failure.nominated_node)
        self._record_event_and_condition(queued, failure)

    def report(self, queued: QueuedPodInfo, failure: Failure, *, started: float) -> None:
        """Log, count and report a failed attempt at a pod that is not given up: it does not go
        back into the queue.
        """
        self._log_and_count(queued, failure, started)
        self._record_event_and_condition(queued, failure)

    def refresh(self, queued: QueuedPodInfo) -> None:
        """Take the pod's latest version, as for a pod that leaves the queue once more."""
        current = self._pods.get(queued.key)
        if current is not None and current.uid == queued.uid and current is not queued.pod.pod:
            queued.pod = queued.pod.renewed(current)

    def _log_and_count(self, queued: QueuedPodInfo, failure: Failure, started: float) -> None:
        pod, message = logs.ref(queued.pod.pod), failure.status.message
        if failure.status == NO_NODES_AVAILABLE:
            what = "Unable to schedule pod; no nodes are registered to the cluster; waiting"
            log.v(2).info(what, pod=pod)
        elif failure.rejected:
            log.v(2).info("Unable to schedule pod; no fit; waiting", pod=pod, err=message)
        else:
            log.unhandled(message, "Error scheduling pod; retrying", pod=pod)
        result = "unschedulable" if failure.rejected else "error"
        metrics, labels = self._metrics, (result, queued.profile)
        metrics.schedule_attempts_total.labels(*labels).inc()
        seconds = time.perf_counter() - started
        metrics.scheduling_attempt_duration_seconds.labels(*labels).observe(seconds)

    def _record_event_and_condition(self, queued: QueuedPodInfo, failure: Failure) -> None:
        pod, message = queued.pod.pod, failure.status.message
        recorder = self._recorder(queued.profile)
        recorder.event(pod, "Warning", "FailedScheduling", "Scheduling", message)
        condition = PodCondition(
            type=POD_SCHEDULED,
            status="False",
            reason=failure.reason,
            message=message,
            observed_generation=pod.metadata.generation,
            last_transition_time=format_time(self._wall_clock()),
        )
        self._writer.report(StatusReport(pod, condition, failure.nominated_node))
