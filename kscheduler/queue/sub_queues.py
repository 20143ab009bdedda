"""The three queues that pods wait in, and PreEnqueue, the gate in front of two of them.

    active          pods to try now, in the order of the QueueSort plugin
    backoff         pods to try when their backoff has ended
    unschedulable   rejected pods, until an event may help them, and gated pods, until PreEnqueue
                    lets them pass

Mirrors moveToActiveQ, moveToBackoffQ and requeueEntityWithQueueingStrategy of
pkg/scheduler/backend/queue/scheduling_queue.go, and unschedulable_entities.go. Differs:
unschedulable pods are indexed by the plugins that rejected them, where upstream walks all of them
for every event.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from kscheduler import logs
from kscheduler.framework.cluster_event import (
    BACKOFF_COMPLETE,
    POP_FROM_BACKOFF_Q,
    SCHEDULE_ATTEMPT_FAILURE,
    UNSCHEDULED_POD_ADD,
)
from kscheduler.framework.status import Code, Status
from kscheduler.queue.backoff_queue import Backoff, BackoffQueue
from kscheduler.queue.heap import PodHeap
from kscheduler.queue.metrics import POD, QueueMetrics
from kscheduler.queue.queued_pod_info import MAX_SHARED_SETS, QueuedPodInfo, shared_names
from kscheduler.queue.queueing_hints import QueueingStrategy, Registrations, Rejector
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__)

# Pods that no plugin in particular has rejected are filed under this one: any event may help them.
ANY_PLUGIN = Rejector("", "")
# Moves between queues that no event of the cluster is the cause of.
NOT_WAKING = frozenset({SCHEDULE_ATTEMPT_FAILURE, BACKOFF_COMPLETE, UNSCHEDULED_POD_ADD})


class QueueName(Enum):
    """The queues by the names that logs use."""

    ACTIVE = "Active"
    BACKOFF = "Backoff"
    UNSCHEDULABLE = "Unschedulable"


class Profile(Protocol):
    """A scheduling profile as far as the queue needs it."""

    @property
    def events(self) -> Registrations: ...

    def sort_key(self, queued: QueuedPodInfo, /) -> Any: ...

    def run_pre_enqueue(self, pod: PodInfo, first: str, /) -> Status | None:
        """The first refusal, if any; the plugin called `first` is asked before the others."""

    def still_gates(self, pod: PodInfo, plugin: str, /) -> bool:
        """Whether the plugin that has refused the pod before would do so again."""

    def sign(self, pod: PodInfo, /) -> bytes | None: ...


class _Filed(NamedTuple):
    """An unschedulable pod, and its state when it was filed."""

    queued: QueuedPodInfo
    gated: bool
    rejectors: tuple[Rejector, ...]


class UnschedulablePods:
    """Rejected and gated pods by key.

    A pod is filed under each of its rejectors, so that an event which only some plugins wait for
    visits only their pods. A change of a pod's rejectors or of its gate asks for another `put`.
    """

    def __init__(self, profiles: Container[str]) -> None:
        self._profiles = profiles
        self._pods: dict[str, _Filed] = {}
        self._by_rejector: dict[Rejector, dict[str, QueuedPodInfo]] = {}
        self.gated_count = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, key: str) -> bool:
        return key in self._pods

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return (filed.queued for filed in self._pods.values())

    def get(self, key: str) -> QueuedPodInfo | None:
        filed = self._pods.get(key)
        return filed.queued if filed else None

    def put(self, queued: QueuedPodInfo) -> None:
        self.remove(queued.key)
        profile, plugins = queued.profile, queued.rejectors
        if profile in self._profiles and plugins:
            rejectors = _shared_rejectors(profile, frozenset(plugins))
        else:
            rejectors = (ANY_PLUGIN,)
        self._pods[queued.key] = _Filed(queued, queued.gated, rejectors)
        self.gated_count += queued.gated
        for rejector in rejectors:
            self._by_rejector.setdefault(rejector, {})[queued.key] = queued

    def remove(self, key: str) -> QueuedPodInfo | None:
        filed = self._pods.pop(key, None)
        if filed is None:
            return None
        self.gated_count -= filed.gated
        for rejector in filed.rejectors:
            pods = self._by_rejector[rejector]
            del pods[key]
            if not pods:
                del self._by_rejector[rejector]
        return filed.queued

    def rejected_by(self, rejectors: Iterable[Rejector]) -> list[QueuedPodInfo]:
        """Each pod once that one of these rejected, or no plugin in particular."""
        found: dict[str, QueuedPodInfo] = {}
        for rejector in (ANY_PLUGIN, *rejectors):
            found.update(self._by_rejector.get(rejector, {}))
        return list(found.values())

    def named(self, keys: Iterable[str]) -> list[QueuedPodInfo]:
        """Each pod once that is named, or that no plugin in particular has rejected."""
        found = dict(self._by_rejector.get(ANY_PLUGIN, {}))
        for key in keys:
            if (filed := self._pods.get(key)) is not None:
                found[key] = filed.queued
        return list(found.values())


@lru_cache(maxsize=MAX_SHARED_SETS)
def _shared_rejectors(profile: str, plugins: frozenset[str]) -> tuple[Rejector, ...]:
    """One tuple for all pods that were rejected alike: there may be 100,000."""
    return tuple(Rejector(profile, plugin) for plugin in plugins)


class SubQueues:
    """Active, backoff and unschedulable; moving a pod takes it from where it was."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        backoff: Backoff,
        metrics: QueueMetrics,
        is_reporting: Callable[[], bool],
    ) -> None:
        sort_key = next(iter(profiles.values())).sort_key
        self._profiles = profiles
        self._times = backoff
        self._metrics = metrics
        self._is_reporting = is_reporting
        self.active = PodHeap(sort_key)
        self.backoff = BackoffQueue(backoff, sort_key)
        self.unschedulable = UnschedulablePods(profiles)

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

    @property
    def has_next(self) -> bool:
        """Whether `pop` would find a pod."""
        return bool(self.active) or (self.backoff.rejected_count > 0 and self._may_pop_early())

    def pop(self) -> QueuedPodInfo | None:
        """Take out the pod to try next: when none is active, one that is backing off."""
        queued = self.active.pop()
        if queued is None and self._may_pop_early():
            queued = self.backoff.pop_early()
            if queued is not None:
                self._metrics.incoming("active", POP_FROM_BACKOFF_Q, None)
        return queued

    def _may_pop_early(self) -> bool:
        """Whether a pod may be tried before its backoff ends: in idle time, which it is not while
        earlier failures are still being reported.
        """
        return self._times.windows and not self._is_reporting()

    def requeue(
        self, queued: QueuedPodInfo, strategy: QueueingStrategy, event: str, now: float
    ) -> QueueName:
        if strategy is QueueingStrategy.SKIP:
            return self._put_unschedulable(queued, event, strategy)
        if strategy is QueueingStrategy.AFTER_BACKOFF and self._times.is_backing_off(queued, now):
            return self._move_to_backoff_queue(queued, event, now, strategy)
        return self.move_to_active_queue(queued, event, now, strategy=strategy)

    def move_to_active_queue(
        self,
        queued: QueuedPodInfo,
        event: str,
        now: float,
        *,
        strategy: QueueingStrategy | None = None,
        from_backoff: bool = False,
    ) -> QueueName:
        """Let the pod be tried, unless it is gated. Without a strategy metrics count it as new."""
        # With windows, pods passed PreEnqueue on their way into the backoff queue.
        is_checked = from_backoff and self._times.windows
        if not is_checked and not self._run_pre_enqueue(queued):
            return self._put_gated(queued, event, strategy)
        if queued.initial_attempt_timestamp is None:
            queued.initial_attempt_timestamp = now
        self.unschedulable.remove(queued.key)
        self.active.put(queued)
        queued.active_since = now
        return self._record_move(queued, QueueName.ACTIVE, event, strategy)

    def _move_to_backoff_queue(
        self, queued: QueuedPodInfo, event: str, now: float, strategy: QueueingStrategy
    ) -> QueueName:
        # With windows, a pod may be popped from the backoff queue directly, hence PreEnqueue.
        if self._times.windows and not self._run_pre_enqueue(queued):
            return self._put_gated(queued, event, strategy)
        self.unschedulable.remove(queued.key)
        self.backoff.put(queued)
        queued.backoff_since = now
        return self._record_move(queued, QueueName.BACKOFF, event, strategy)

    def _record_move(
        self,
        queued: QueuedPodInfo,
        queue: QueueName,
        event: str,
        strategy: QueueingStrategy | None,
    ) -> QueueName:
        if event not in NOT_WAKING:
            queued.woken_by = event
        self._metrics.incoming(queue.value.lower(), event, strategy)
        log.v(5).info(
            "Entity moved to an internal scheduling queue",
            type=POD,
            entity=logs.ref(queued.pod.pod),
            event=event,
            queue=queue.value,
        )
        return queue

    def _put_gated(
        self, queued: QueuedPodInfo, event: str, strategy: QueueingStrategy | None
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
        return self._put_unschedulable(queued, event, strategy)

    def _put_unschedulable(
        self, queued: QueuedPodInfo, event: str, strategy: QueueingStrategy | None
    ) -> QueueName:
        if queued.key not in self.unschedulable:
            self._metrics.incoming("unschedulable", event, strategy)
        self.unschedulable.put(queued)
        return QueueName.UNSCHEDULABLE

    def is_still_gated(self, queued: QueuedPodInfo) -> bool:
        """Whether the PreEnqueue plugin that holds the pod would hold it again."""
        profile = self._profiles.get(queued.profile)
        return profile is not None and profile.still_gates(queued.pod, queued.gating_plugin)

    def _run_pre_enqueue(self, queued: QueuedPodInfo) -> bool:
        """Whether the pod may enter the active queue; if not, it remembers the gating plugin."""
        profile = self._profiles.get(queued.profile)
        status = profile and profile.run_pre_enqueue(queued.pod, queued.gating_plugin)
        if not status:
            queued.gating_plugin = ""
            return True
        if status.plugin not in queued.rejectors:
            self._metrics.rejected([status.plugin], queued.profile)
        rejectors = frozenset({*queued.unschedulable_plugins, status.plugin})
        queued.unschedulable_plugins = shared_names(rejectors)
        queued.gating_plugin = status.plugin
        pod = logs.ref(queued.pod.pod)
        if status.code is Code.ERROR:
            what = "Unexpected error running PreEnqueue plugin"
            log.unhandled(status.message, what, pod=pod, plugin=status.plugin)
        elif v := log.v(4):
            what = "Status after running PreEnqueue plugin"
            v.info(what, pod=pod, plugin=status.plugin, status=status.message)
        return False
