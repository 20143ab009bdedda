"""What the queue tells the metrics."""

from collections.abc import Iterable

from kscheduler.metrics import Metrics
from kscheduler.queue.queueing_hints import QueueingStrategy

POD = "pod"

_PLACE_OF_VERDICT = {
    QueueingStrategy.SKIP: "unschedulable",
    QueueingStrategy.AFTER_BACKOFF: "backoff",
    QueueingStrategy.IMMEDIATELY: "active",
}


class QueueMetrics:
    def __init__(self, metrics: Metrics) -> None:
        self._incoming_pods = metrics.queue_incoming_pods_total
        self._incoming_entities = metrics.queue_incoming_entities_total
        self._rejected = metrics.unschedulable_pods
        self._in_flight = metrics.inflight_events
        self._hints = metrics.queueing_hint_execution_duration_seconds
        self._pending = metrics.pending_pods
        self._entities = metrics.queued_entities
        self._sizes: dict[str, int] = {}
        self._dropped = metrics.kscheduler_inflight_events_dropped_total

    def incoming(self, place: str, event: str, verdict: QueueingStrategy | None) -> None:
        """A pod entered a place.

        As upstream, it is no new entity there if the place is the one its verdict speaks of: a
        rejected pod that parks was never counted as having left.
        """
        self._incoming_pods.labels(place, event).inc()
        if verdict is None or place != _PLACE_OF_VERDICT[verdict]:
            self._incoming_entities.labels(place, event, POD).inc()

    def rejected(self, plugins: Iterable[str], profile: str) -> None:
        for plugin in plugins:
            self._rejected.labels(plugin, profile).inc()

    def no_longer_rejected(self, plugins: Iterable[str], profile: str) -> None:
        for plugin in plugins:
            self._rejected.labels(plugin, profile).dec()

    def waiting(self, *, active: int, backoff: int, unschedulable: int, gated: int) -> None:
        """How many pods wait where."""
        self._resize("active", active)
        self._resize("backoff", backoff)
        self._resize("unschedulable", unschedulable)
        self._resize("gated", gated)

    def _resize(self, place: str, size: int) -> None:
        if size != self._sizes.get(place, 0):
            self._sizes[place] = size
            self._pending.labels(place).set(size)
            self._entities.labels(place, POD).set(size)

    def in_flight(self, label: str, change: int) -> None:
        self._in_flight.labels(label).inc(change)

    def in_flight_event_dropped(self) -> None:
        self._dropped.inc()

    def hint(self, plugin: str, event: str, answer: str, seconds: float) -> None:
        self._hints.labels(plugin, event, answer).observe(seconds)
