"""The scheduling queue: pods in, pods out, and cluster events that requeue waiting pods.

Mirrors pkg/scheduler/backend/queue/scheduling_queue.go (PriorityQueue) without pod groups. Differs:
a pod that is added twice, or replaced by another of its name, leaves the queue where it was; the
events kept for pods in flight are bounded (see `in_flight`); an event is put to the pods that it
may concern, many of them in slices (see `move_requests`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import msgspec

from kscheduler import logs
from kscheduler.framework.cluster_event import (
    BACKOFF_COMPLETE,
    FORCE_ACTIVATE,
    SCHEDULE_ATTEMPT_FAILURE,
    TARGET_POD,
    UNSCHEDULABLE_TIMEOUT,
    UNSCHEDULED_POD_ADD,
    ClusterEvent,
)
from kscheduler.metrics import Metrics
from kscheduler.queue.backoff_queue import Backoff
from kscheduler.queue.events import pod_scheduling_properties_change
from kscheduler.queue.in_flight import MAX_EVENTS, InFlight, InFlightEvent
from kscheduler.queue.metrics import QueueMetrics
from kscheduler.queue.move_requests import MoveRequests, Step
from kscheduler.queue.nominator import Nominator
from kscheduler.queue.queued_pod_info import QueuedPodInfo
from kscheduler.queue.queueing_hints import QueueingHints, QueueingStrategy
from kscheduler.queue.sub_queues import Profile, QueueName, SubQueues
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__)

DEFAULT_BACKOFF = Backoff()
MAX_UNSCHEDULABLE_SECONDS = 300.0

# The label in metrics of the event that brings a pod back untried.
POSTPONED = "SlowScheduling"

PreCheck = Callable[[PodInfo], bool]

_QUEUE_IN_WORDS = {
    QueueName.UNSCHEDULABLE: "unschedulable queue",
    QueueName.ACTIVE: "the active queue",
    QueueName.BACKOFF: "the backoff queue",
}


class Identified(Protocol):
    @property
    def key(self) -> str: ...
    @property
    def uid(self) -> str: ...


class Pending(msgspec.Struct, frozen=True):
    """The waiting pods by queue, for the debugger and the sandbox's view."""

    active: Sequence[QueuedPodInfo]
    backoff: Sequence[QueuedPodInfo]
    unschedulable: Sequence[QueuedPodInfo]

    @property
    def pods(self) -> list[QueuedPodInfo]:
        return [*self.active, *self.backoff, *self.unschedulable]

    @property
    def summary(self) -> str:
        return (
            f"activeQ:{len(self.active)}; backoffQ:{len(self.backoff)}; "
            f"unschedulableEntities:{len(self.unschedulable)}"
        )


class SchedulingQueue:
    """Pods by namespace/name while they wait, by uid while they are in flight.

    `profiles` is in the order of the configuration: the first one's sort key orders all pods. The
    caller of `pop` may set `on_ready`, which is called when there is a pod to pop. `later` and
    `hold` let moves of many pods be made in slices, see `MoveRequests`. `counts_pre_hints` is of
    interest to metrics alone: pods that an event cannot concern are spared in any case.

    While `is_reporting`, no pod is popped before its backoff ends. Upstream's loop waits for the
    write of each failure before it pops again; ours does not, and without this rule a crowd of
    pods that an event has moved would be tried, in vain, as fast as the loop can. `reported` must
    be called when reporting ends.

    Nothing here waits or reads a clock: `now` is seconds since the epoch.
    """

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        metrics: Metrics,
        *,
        backoff: Backoff = DEFAULT_BACKOFF,
        max_unschedulable_seconds: float = MAX_UNSCHEDULABLE_SECONDS,
        max_in_flight_events: int = MAX_EVENTS,
        counts_pre_hints: bool = False,
        nominator: Nominator | None = None,
        is_reporting: Callable[[], bool] = lambda: False,
        later: Callable[[Step], object] | None = None,
        hold: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._profiles = profiles
        self.backoff = backoff
        self.max_unschedulable_seconds = max_unschedulable_seconds
        self._metrics = QueueMetrics(metrics)
        self._sub_queues = SubQueues(profiles, backoff, self._metrics, is_reporting)
        self.hints = QueueingHints(
            {name: profile.events for name, profile in profiles.items()},
            self._metrics.hint,
            *([self._metrics.pre_hint] if counts_pre_hints else []),
        )
        self.in_flight = InFlight(self._metrics, max_events=max_in_flight_events)
        self.nominator = nominator or Nominator(self.pod_info, None)
        self._moves = MoveRequests(self._after_change, later, hold)
        self.scheduling_cycle = 0
        self.on_ready: Callable[[], None] = lambda: None

    @property
    def ready(self) -> bool:
        """Whether there is a pod to pop."""
        return self._sub_queues.has_next

    def get(self, key: str) -> QueuedPodInfo | None:
        """A waiting pod; one that is in flight is not found."""
        return self._sub_queues.get(key)

    def queue_of(self, key: str) -> QueueName | None:
        """Where a pod waits; None for one that does not."""
        return self._sub_queues.queue_of(key)

    def ahead_of(self, key: str) -> int:
        """How many active pods are tried before this one, which is active."""
        return self._sub_queues.active.ahead_of(key)

    def sizes(self) -> dict[str, int]:
        """Waiting pods by queue, as the metric pending_pods counts them."""
        queues = self._sub_queues
        gated = queues.unschedulable.gated_count
        return {
            "active": len(queues.active),
            "backoff": len(queues.backoff),
            "unschedulable": len(queues.unschedulable) - gated,
            "gated": gated,
        }

    def pod_info(self, key: str) -> PodInfo | None:
        """A waiting pod as the queue has it; the nominator looks its pods up here."""
        queued = self._sub_queues.get(key)
        return queued.pod if queued else None

    def pending(self) -> Pending:
        places = self._sub_queues
        return Pending(list(places.active), list(places.backoff), list(places.unschedulable))

    def add(self, pod: PodInfo, now: float) -> None:
        self._stop_waiting(self._sub_queues.remove(pod.key))
        queued = QueuedPodInfo(pod, timestamp=now, signature=self._signature(pod))
        # Nominated before it can be popped, and gated pods as well.
        self.nominator.add(pod)
        self._sub_queues.move_to_active_queue(queued, UNSCHEDULED_POD_ADD, now)
        self._after_change()

    def update(self, old: PodInfo, new: PodInfo, now: float) -> None:
        events = pod_scheduling_properties_change(old, new, TARGET_POD)
        if new.uid in self.in_flight:
            # Should the attempt fail, the failure handler queues the latest version, and this
            # update may be what helps it.
            for event in events:
                self.in_flight.record(InFlightEvent(event, old, new))
            return
        queued = self._sub_queues.get(new.key)
        if queued is None or queued.uid != new.uid:
            self.nominator.remove(old.uid)
            self.add(new, now)
            return
        queued.pod = new
        queued.signature = self._signature(new)
        self.nominator.update(old, new)
        if self._sub_queues.queue_of(new.key) is QueueName.UNSCHEDULABLE:
            self._requeue_after_own_update(queued, events, old, now)
        else:
            self._sub_queues.reorder(queued)
        self._after_change()

    def delete(self, pod: Identified) -> None:
        """Forgets the pod; if it is in flight, the attempt goes on."""
        self.nominator.remove(pod.uid)
        queued = self._sub_queues.get(pod.key)
        if queued is not None and queued.uid == pod.uid:
            self._stop_waiting(self._sub_queues.remove(pod.key))
            self._after_change()

    def pop(self) -> QueuedPodInfo | None:
        """The pod to try next; `done` or `add_unschedulable_if_not_present` must follow."""
        while (queued := self._sub_queues.pop()) is not None:
            queued.attempts += 1
            queued.not_before = 0.0
            self._stop_waiting(queued)
            if queued.uid not in self.in_flight:
                break
            log.unhandled(
                f"the same pod is tracked in multiple places in the scheduler: {queued.key}",
                "Discarding the popped entity",
                type="pod",
                entity=logs.ref(queued.pod.pod),
            )
        if queued is not None:
            self.in_flight.start(queued)
            self.scheduling_cycle += 1
        self._after_change()
        return queued

    def reported(self) -> None:
        """Failures have been reported: pods that back off may be popped again."""
        if self.ready:
            self.on_ready()

    def postpone(self, queued: QueuedPodInfo, until: float, now: float) -> None:
        """Takes back a pod that was popped and is not tried before `until`: that was no attempt."""
        queued.attempts -= 1
        queued.not_before = until
        self._metrics.rejected(queued.rejectors, queued.profile)
        self._sub_queues.requeue(queued, QueueingStrategy.AFTER_BACKOFF, POSTPONED, now)
        self.nominator.pod_moved(queued.uid)
        self.in_flight.done(queued.uid)
        self._after_change()

    def done(self, uid: str) -> None:
        self.in_flight.done(uid)

    def add_unschedulable_if_not_present(self, queued: QueuedPodInfo, now: float) -> None:
        """Takes back a pod whose attempt failed; whatever happens, the attempt is over."""
        try:
            present_in = self._sub_queues.queue_of(queued.key)
            if present_in is not None:
                where = _QUEUE_IN_WORDS[present_in]
                log.unhandled(f"Pod {queued.key} is already present in {where}", "Error occurred")
                return
            queued.returned(now)
            self._metrics.rejected(queued.rejectors, queued.profile)
            strategy = self._strategy_for_in_flight_pod(queued)
            queue = self._sub_queues.requeue(queued, strategy, SCHEDULE_ATTEMPT_FAILURE, now)
            self.nominator.pod_moved(queued.uid)
            if v := log.v(3):
                v.info(
                    "Pod moved to an internal scheduling queue",
                    pod=logs.ref(queued.pod.pod),
                    event=SCHEDULE_ATTEMPT_FAILURE,
                    queue=queue.value,
                    schedulingCycle=self.scheduling_cycle,
                    hint=int(strategy),
                    **{"unschedulable plugins": {name: {} for name in sorted(queued.rejectors)}},
                )
        finally:
            self.in_flight.done(queued.uid)
        self._after_change()

    def move_all_to_active_or_backoff_queue(
        self,
        event: ClusterEvent,
        old: Any,
        new: Any,
        now: float,
        pre_check: PreCheck | None = None,
    ) -> None:
        """Requeues the unschedulable pods that the event may help, and records it for those in
        flight. `pre_check` tells which pods it is put to at all.

        `old` and `new` are the object before and after: pods as PodInfo, all else as received.
        """
        if not self.hints.is_event_of_interest(event):
            log.v(6).info(
                "receive an event that isn't interested by any enabled plugins", event=event.label
            )
            return
        unschedulable = self._sub_queues.unschedulable
        if not unschedulable:
            # Usual: a cluster that is listed, or in which every pod has found a place.
            self.in_flight.record(InFlightEvent(event, old, new))
            return
        if event.is_wildcard:
            pods = list(unschedulable)
        elif (keys := self.hints.pods_concerned(event, old, new)) is not None:
            pods = unschedulable.named(keys)
        else:
            # This finds also every pod that waits for its victims to go, whichever victim went.
            pods = unschedulable.rejected_by(self.hints.interested_in(event).rejectors)
        self._move(pods, event, old, new, now, pre_check)

    def activate(self, pods: Iterable[Identified], now: float) -> None:
        """Lets these pods be tried at once, backing off or not."""
        for pod in pods:
            if (queued := self._sub_queues.unschedulable.get(pod.key)) is not None:
                self._sub_queues.move_to_active_queue(queued, FORCE_ACTIVATE.label, now)
            elif (queued := self._sub_queues.backoff.remove(pod.key)) is not None:
                self._sub_queues.move_to_active_queue(
                    queued, FORCE_ACTIVATE.label, now, from_backoff=True
                )
            elif pod.uid in self.in_flight:
                self.in_flight.record(InFlightEvent(FORCE_ACTIVATE, None, pod))
        self._after_change()

    def flush_backoff_completed(self, now: float) -> None:
        """To be called every second, on the second."""

        def visit(queued: QueuedPodInfo) -> None:
            self._sub_queues.move_to_active_queue(queued, BACKOFF_COMPLETE, now, from_backoff=True)

        self._moves.start(self._sub_queues.backoff.pop_completed(now), visit)

    def flush_unschedulable_leftover(self, now: float) -> None:
        """To be called every half minute: pods that waited too long are tried without an event."""
        overdue = []
        for queued in self._sub_queues.unschedulable:
            since = max(queued.timestamp, queued.flush_timestamp or queued.timestamp)
            if now - since > self.max_unschedulable_seconds:
                queued.was_flushed_from_unschedulable = True
                queued.flush_timestamp = now
                overdue.append(queued)
        if overdue:
            self._move(overdue, UNSCHEDULABLE_TIMEOUT, None, None, now)

    def close(self) -> None:
        """No attempt is awaited any more."""
        for uid in list(self.in_flight):
            self.in_flight.done(uid)
        log.v(2).info("Scheduling queue is closed")

    def _move(
        self,
        pods: Iterable[QueuedPodInfo],
        event: ClusterEvent,
        old: Any,
        new: Any,
        now: float,
        pre_check: PreCheck | None = None,
    ) -> None:
        """Puts the event to these unschedulable pods, to the first of them at once.

        Gated pods are in the way of nearly every event. They are spared the hints unless the
        plugin that gates them waits for this event and would now let them pass.
        """
        queues, is_worth_requeuing = self._sub_queues, self.hints.is_pod_worth_requeuing
        awaited_by = frozenset() if event.is_wildcard else self.hints.interested_in(event).plugins

        def visit(queued: QueuedPodInfo) -> None:
            # In a late slice the pod may have left meanwhile, or have failed after the event.
            if queues.unschedulable.get(queued.key) is not queued or queued.timestamp > now:
                return
            if pre_check is not None and not pre_check(queued.pod):
                return
            gate = queued.gating_plugin
            if (
                gate
                and not event.is_wildcard
                and (gate not in awaited_by or queues.is_still_gated(queued))
            ):
                return
            strategy = is_worth_requeuing(queued, event, old, new)
            if strategy is not QueueingStrategy.SKIP:
                queues.unschedulable.remove(queued.key)
                queues.requeue(queued, strategy, event.label, now)

        self.in_flight.record(InFlightEvent(event, old, new))
        self._moves.start(pods, visit)

    def _requeue_after_own_update(
        self, queued: QueuedPodInfo, events: Iterable[ClusterEvent], old: PodInfo, now: float
    ) -> None:
        for event in events:
            strategy = self.hints.is_pod_worth_requeuing(queued, event, old, queued.pod)
            queue = self._sub_queues.requeue(queued, strategy, event.label, now)
            if queue is not QueueName.UNSCHEDULABLE:
                log.v(5).info(
                    "Entity moved to an internal scheduling queue because the Pod is updated",
                    type="pod",
                    entity=logs.ref(queued.pod.pod),
                    pod=logs.ref(queued.pod.pod),
                    event=event.label,
                    queue=queue.value,
                )
                return

    def _strategy_for_in_flight_pod(self, queued: QueuedPodInfo) -> QueueingStrategy:
        """Where the pod goes after its attempt, by the events since it was popped."""
        if not queued.rejectors:
            return QueueingStrategy.AFTER_BACKOFF
        if queued.uid not in self.in_flight:
            log.unhandled(
                "in flight entity isn't found in the scheduling queue. "
                "If you see this error log, it's likely a bug in the scheduler",
                "Error getting cluster events for pod",
                pod=logs.ref(queued.pod.pod),
            )
            return QueueingStrategy.AFTER_BACKOFF
        # Only a pending plugin can improve on the backoff.
        best = QueueingStrategy.AFTER_BACKOFF
        if queued.pending_plugins:
            best = QueueingStrategy.IMMEDIATELY
        strategy = QueueingStrategy.SKIP
        if self.in_flight.missed_events(queued.uid):
            strategy = QueueingStrategy.AFTER_BACKOFF
        for event, old, new in self.in_flight.events_since(queued.uid):
            if strategy >= best:
                break
            answer = self.hints.is_pod_worth_requeuing(queued, event, old, new)
            strategy = max(strategy, answer)
        return strategy

    def _stop_waiting(self, queued: QueuedPodInfo | None) -> None:
        """A pod that has left the queues no longer counts against its rejectors."""
        if queued is not None:
            self.nominator.pod_moved(queued.uid)
            self._metrics.no_longer_rejected(queued.rejectors, queued.profile)

    def _signature(self, pod: PodInfo) -> bytes | None:
        profile = self._profiles.get(pod.pod.spec.scheduler_name)
        return profile.sign(pod) if profile else None

    def _after_change(self) -> None:
        """Every change ends here: the gauges are set, and the loop is told if a pod is ready."""
        self._metrics.set_sizes(self.sizes())
        if self._sub_queues.has_next:
            self.on_ready()
