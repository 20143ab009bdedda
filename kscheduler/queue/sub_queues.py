"""Where pods wait for their next attempt, and the gate in front of two of the three places."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Protocol

from kscheduler import logs
from kscheduler.framework.cluster_event import POP_FROM_BACKOFF_Q
from kscheduler.framework.status import Code, Status
from kscheduler.queue.backoff_queue import Backoff, BackoffQueue
from kscheduler.queue.heap import PodHeap
from kscheduler.queue.metrics import POD, QueueMetrics
from kscheduler.queue.queued_pod_info import QueuedPodInfo, shared_names
from kscheduler.queue.queueing_hints import QueueingStrategy, Registrations
from kscheduler.queue.unschedulable import UnschedulablePods
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__)


class QueueName(Enum):
    """Where a pod waits, by the name logs use."""

    ACTIVE = "Active"
    BACKOFF = "Backoff"
    UNSCHEDULABLE = "Unschedulable"


class Profile(Protocol):
    """What the queue wants to know from a scheduling profile."""

    @property
    def events(self) -> Registrations: ...

    def sort_key(self, queued: QueuedPodInfo, /) -> Any: ...

    def run_pre_enqueue(self, pod: PodInfo, first: str, /) -> Status | None:
        """The first refusal, if any; the plugin called `first` is asked before the others."""

    def still_gates(self, pod: PodInfo, plugin: str, /) -> bool:
        """Whether the plugin that has refused the pod before would do so again."""

    def sign(self, pod: PodInfo, /) -> bytes | None: ...


class SubQueues:
    """Active, backoff and unschedulable; moving a pod takes it from where it was."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        backoff: Backoff,
        recorder: QueueMetrics,
        is_reporting: Callable[[], bool],
    ) -> None:
        sort_key = next(iter(profiles.values())).sort_key
        self._profiles = profiles
        self._times = backoff
        self._recorder = recorder
        self._is_reporting = is_reporting
        self.active = PodHeap(sort_key)
        self.backoff = BackoffQueue(backoff, sort_key)
        self.unschedulable = UnschedulablePods(profiles)

    @property
    def has_next(self) -> bool:
        return bool(self.active) or (self.backoff.rejected_count > 0 and self._may_pop_early())

    def get(self, key: str) -> QueuedPodInfo | None:
        return self.active.get(key) or self.backoff.get(key) or self.unschedulable.get(key)

    def queue_of(self, key: str) -> QueueName | None:
        if key in self.active:
            return QueueName.ACTIVE
        if key in self.backoff:
            return QueueName.BACKOFF
        return QueueName.UNSCHEDULABLE if key in self.unschedulable else None

    def remove(self, key: str) -> QueuedPodInfo | None:
        return self.active.remove(key) or self.backoff.remove(key) or self.unschedulable.remove(key)

    def reorder(self, queued: QueuedPodInfo) -> None:
        """The pod itself changed, and with it perhaps its rank."""
        if queued.key in self.active:
            self.active.put(queued)
        elif queued.key in self.backoff:
            self.backoff.put(queued)

    def next(self) -> QueuedPodInfo | None:
        """Takes out the pod to try next: when nobody is active, one that is backing off."""
        queued = self.active.pop()
        if queued is None and self._may_pop_early():
            queued = self.backoff.pop_early()
            if queued is not None:
                self._recorder.incoming("active", POP_FROM_BACKOFF_Q, None)
        return queued

    def _may_pop_early(self) -> bool:
        """Whether a pod may be tried before its backoff ends: in idle time, which it is not while
        earlier failures are still being reported.
        """
        return self._times.windows and not self._is_reporting()

    def requeue(
        self, queued: QueuedPodInfo, verdict: QueueingStrategy, event: str, now: float
    ) -> QueueName:
        if verdict is QueueingStrategy.SKIP:
            self._put_unschedulable(queued, event, verdict)
            return QueueName.UNSCHEDULABLE
        if verdict is QueueingStrategy.AFTER_BACKOFF and self._times.waiting(queued, now):
            return self._move_to_backoff_queue(queued, event, verdict)
        return self.move_to_active_queue(queued, event, now, verdict=verdict)

    def is_still_gated(self, queued: QueuedPodInfo) -> bool:
        """Whether the gate that the pod waits at is still closed."""
        profile = self._profiles.get(queued.profile)
        return profile is not None and profile.still_gates(queued.pod, queued.gating_plugin)

    def move_to_active_queue(
        self,
        queued: QueuedPodInfo,
        event: str,
        now: float,
        *,
        verdict: QueueingStrategy | None = None,
        from_backoff: bool = False,
    ) -> QueueName:
        """Lets the pod be tried, unless it is gated; without a verdict it counts as new there."""
        asked_before = from_backoff and self._times.windows
        if not asked_before and not self._run_pre_enqueue(queued):
            return self._put_gated(queued, event, verdict)
        if queued.initial_attempt_timestamp is None:
            queued.initial_attempt_timestamp = now
        self.unschedulable.remove(queued.key)
        self.active.put(queued)
        self._moved(queued, QueueName.ACTIVE, event, verdict)
        return QueueName.ACTIVE

    def _move_to_backoff_queue(
        self, queued: QueuedPodInfo, event: str, verdict: QueueingStrategy
    ) -> QueueName:
        # A pod may be popped from here directly, hence the gate.
        if self._times.windows and not self._run_pre_enqueue(queued):
            return self._put_gated(queued, event, verdict)
        self.unschedulable.remove(queued.key)
        self.backoff.put(queued)
        self._moved(queued, QueueName.BACKOFF, event, verdict)
        return QueueName.BACKOFF

    def _put_gated(
        self, queued: QueuedPodInfo, event: str, verdict: QueueingStrategy | None
    ) -> QueueName:
        if queued.key not in self.unschedulable:
            log.v(5).info(
                "Entity moved to an internal scheduling queue, because it is gated",
                type=POD,
                entity=logs.ref(queued.pod.pod),
                event=event,
                queue=QueueName.UNSCHEDULABLE.value,
            )
        # Otherwise the next event that wakes it would pass for the timeout.
        queued.was_flushed_from_unschedulable = False
        self._put_unschedulable(queued, event, verdict)
        return QueueName.UNSCHEDULABLE

    def _put_unschedulable(
        self, queued: QueuedPodInfo, event: str, verdict: QueueingStrategy | None
    ) -> None:
        if queued.key not in self.unschedulable:
            self._recorder.incoming("unschedulable", event, verdict)
        self.unschedulable.put(queued)

    def _moved(
        self, queued: QueuedPodInfo, place: QueueName, event: str, verdict: QueueingStrategy | None
    ) -> None:
        self._recorder.incoming(place.value.lower(), event, verdict)
        log.v(5).info(
            "Entity moved to an internal scheduling queue",
            type=POD,
            entity=logs.ref(queued.pod.pod),
            event=event,
            queue=place.value,
        )

    def _run_pre_enqueue(self, queued: QueuedPodInfo) -> bool:
        profile = self._profiles.get(queued.profile)
        refusal = profile and profile.run_pre_enqueue(queued.pod, queued.gating_plugin)
        if not refusal:
            queued.gating_plugin = ""
            return True
        if refusal.plugin not in queued.rejectors:
            self._recorder.rejected([refusal.plugin], queued.profile)
        rejectors = frozenset({*queued.unschedulable_plugins, refusal.plugin})
        queued.unschedulable_plugins = shared_names(rejectors)
        queued.gating_plugin = refusal.plugin
        _log_refusal(queued, refusal)
        return False


def _log_refusal(queued: QueuedPodInfo, refusal: Status) -> None:
    pod = logs.ref(queued.pod.pod)
    if refusal.code is Code.ERROR:
        log.unhandled(
            refusal.message,
            "Unexpected error running PreEnqueue plugin",
            pod=pod,
            plugin=refusal.plugin,
        )
    elif chatty := log.v(4):
        chatty.info(
            "Status after running PreEnqueue plugin",
            pod=pod,
            plugin=refusal.plugin,
            status=refusal.message,
        )
