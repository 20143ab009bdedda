"""What happens to a pod that could not be placed: back into the queue, an event, and a line in its
status.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kscheduler import logs
from kscheduler.api.core import Pod, PodCondition
from kscheduler.api.timestamps import format_time
from kscheduler.cycle.schedule import NO_NODES
from kscheduler.cycle.status_writer import StatusReport, StatusWriter
from kscheduler.framework.status import Status
from kscheduler.metrics import Metrics
from kscheduler.queue.queue import SchedulingQueue
from kscheduler.queue.queued_pod import QueuedPod, shared_names
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__)

POD_SCHEDULED = "PodScheduled"
REASON_UNSCHEDULABLE = "Unschedulable"
REASON_SCHEDULER_ERROR = "SchedulerError"

# What an attempt leaves behind for the pod's nomination, when it is not the name of a node.
CLEAR = ""
KEEP = None


@dataclass(frozen=True, slots=True)
class Failure:
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
    """Where every attempt ends that does not end in a binding. Whatever happens, the pod leaves
    the in-flight list.
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

    def handle(self, queued: QueuedPod, failure: Failure, *, started: float, now: float) -> None:
        pod = queued.pod
        self._log(pod, failure)
        self._count(queued.profile, failure, time.perf_counter() - started)
        queued.unschedulable_plugins = shared_names(failure.unschedulable_plugins)
        queued.pending_plugins = shared_names(failure.pending_plugins)
        current = self._pods.get(pod.key)
        if current is not None and current.metadata.uid != pod.uid:
            log.v(2).info(
                "Pod was recreated while handling scheduling failure. "
                "Skip requeueing and status updates.",
                pod=logs.ref(pod.pod),
                oldUID=pod.uid,
                newUID=current.uid,
            )
            self._queue.done(pod.uid)
            return
        self._requeue(queued, current, failure, now=now)
        self._tell(queued, failure)

    def tell(self, queued: QueuedPod, failure: Failure, *, started: float) -> None:
        """Log, count and tell an attempt that failed, of a pod that is not given up: it does not
        go back into the queue.
        """
        self._log(queued.pod, failure)
        self._count(queued.profile, failure, time.perf_counter() - started)
        self._tell(queued, failure)

    def refresh(self, queued: QueuedPod) -> None:
        """Take the pod's latest version, as for a pod that leaves the queue once more."""
        current = self._pods.get(queued.key)
        if current is not None and current.uid == queued.uid and current is not queued.pod.pod:
            queued.pod = queued.pod.renewed(current)

    def _count(self, profile: str, failure: Failure, seconds: float) -> None:
        result = "unschedulable" if failure.rejected else "error"
        metrics = self._metrics
        metrics.schedule_attempts_total.labels(result, profile).inc()
        metrics.scheduling_attempt_duration_seconds.labels(result, profile).observe(seconds)

    def _requeue(
        self, queued: QueuedPod, current: Pod | None, failure: Failure, *, now: float
    ) -> None:
        if current is None:
            log.info(
                "Pod doesn't exist in informer cache",
                pod=logs.ref(queued.pod.pod),
                err=f'pod "{queued.pod.name}" not found',
            )
            self._queue.done(queued.pod.uid)
        elif current.spec.node_name:
            log.info(
                "Pod has been assigned to node. Abort adding it back to queue.",
                pod=logs.ref(current),
                node=current.spec.node_name,
            )
            self._queue.done(queued.pod.uid)
        else:
            if current is not queued.pod.pod:
                queued.pod = queued.pod.renewed(current)
            self._queue.add_unschedulable_if_not_present(queued, now=now)
            self._queue.nominator.add(queued.pod, failure.nominated_node)

    def _tell(self, queued: QueuedPod, failure: Failure) -> None:
        pod, message = queued.pod.pod, failure.status.message
        self._recorder(queued.profile).event(
            pod, "Warning", "FailedScheduling", "Scheduling", message
        )
        condition = PodCondition(
            type=POD_SCHEDULED,
            status="False",
            reason=failure.reason,
            message=message,
            observed_generation=pod.metadata.generation,
            last_transition_time=format_time(self._wall_clock()),
        )
        self._writer.report(StatusReport(pod, condition, failure.nominated_node))

    def _log(self, pod: PodInfo, failure: Failure) -> None:
        if failure.status == NO_NODES:
            log.v(2).info(
                "Unable to schedule pod; no nodes are registered to the cluster; waiting",
                pod=logs.ref(pod.pod),
            )
        elif failure.rejected:
            log.v(2).info(
                "Unable to schedule pod; no fit; waiting",
                pod=logs.ref(pod.pod),
                err=failure.status.message,
            )
        else:
            log.unhandled(
                failure.status.message, "Error scheduling pod; retrying", pod=logs.ref(pod.pod)
            )
