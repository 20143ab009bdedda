"""Pods in flight, between pop and done, and the events of that time.

Both are numbered in one order: a pod that comes back rejected must hear of every event since it was
popped, and of none before. An event is kept until every pod still in flight is younger than it.

Mirrors the in-flight lists of pkg/scheduler/backend/queue/active_queue.go. Differs: at most
`MAX_EVENTS` are kept. One more drops the oldest, and a pod that was in flight when it happened has
then `missed_events`: it is tried again after its backoff, because nobody can tell any more whether
the event would have helped. A wake-up may come without need; none is lost.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from itertools import count, takewhile
from typing import Any, NamedTuple

from kscheduler.framework.cluster_event import ClusterEvent
from kscheduler.queue.metrics import QueueMetrics
from kscheduler.queue.queued_pod_info import QueuedPodInfo

MAX_EVENTS = 20_000
POD_POPPED = "PodPopped"


class InFlightEvent(NamedTuple):
    """A cluster event with the object before and after it."""

    event: ClusterEvent
    old: Any
    new: Any


class InFlight:
    """Pods by uid, and the events that some of them still have to hear of."""

    def __init__(self, metrics: QueueMetrics, *, max_events: int = MAX_EVENTS) -> None:
        self._metrics = metrics
        self._max_events = max_events
        # Numbers of the common order; oldest first in both collections.
        self._numbers = count(1)
        self._pods: OrderedDict[str, tuple[int, QueuedPodInfo]] = OrderedDict()
        self._events: deque[tuple[int, InFlightEvent]] = deque()
        self._last_dropped = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def __iter__(self) -> Iterator[str]:
        return iter(self._pods)

    @property
    def event_count(self) -> int:
        return len(self._events)

    @property
    def pods(self) -> list[QueuedPodInfo]:
        """The pod that was popped first comes first."""
        return [queued for _, queued in self._pods.values()]

    def get(self, uid: str) -> QueuedPodInfo | None:
        entry = self._pods.get(uid)
        return entry[1] if entry else None

    def start(self, queued: QueuedPodInfo) -> None:
        self._pods[queued.uid] = next(self._numbers), queued
        self._metrics.in_flight(POD_POPPED, 1)

    def record(self, happened: InFlightEvent) -> None:
        """Keeps the event for the pods in flight, if there are any."""
        if not self._pods:
            return
        if len(self._events) >= self._max_events:
            self._last_dropped = self._drop_oldest()
            self._metrics.in_flight_event_dropped()
        self._events.append((next(self._numbers), happened))
        self._metrics.in_flight(happened.event.label, 1)

    def events_since(self, uid: str) -> Sequence[InFlightEvent]:
        """The events since the pod was popped, in order."""
        start, _ = self._pods[uid]
        newest_first = takewhile(lambda entry: entry[0] > start, reversed(self._events))
        return [happened for _, happened in newest_first][::-1]

    def missed_events(self, uid: str) -> bool:
        """Whether an event was dropped that the pod should have heard of."""
        return self._pods[uid][0] < self._last_dropped

    def done(self, uid: str) -> None:
        """The attempt is over; for a pod not in flight nothing happens."""
        if self._pods.pop(uid, None) is None:
            return
        self._metrics.in_flight(POD_POPPED, -1)
        oldest, _ = next(iter(self._pods.values()), (None, None))
        while self._events and (oldest is None or self._events[0][0] < oldest):
            self._drop_oldest()

    def entries(self) -> list[str | InFlightEvent]:
        """Pods (by uid) and events in their common order."""
        numbered: list[tuple[int, str | InFlightEvent]] = [*self._events]
        numbered += ((number, uid) for uid, (number, _) in self._pods.items())
        return [entry for _, entry in sorted(numbered, key=lambda entry: entry[0])]

    def _drop_oldest(self) -> int:
        number, happened = self._events.popleft()
        self._metrics.in_flight(happened.event.label, -1)
        return number
