"""The queue's metrics, by the events and queues they are labelled with."""

from collections.abc import Iterable, Mapping

from kscheduler.metrics import Metrics
from kscheduler.queue.queueing_hints import QueueingStrategy

POD = "pod"

_QUEUE_OF_STRATEGY = {
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
        self._pre_hints = metrics.pre_queueing_hint_evaluations_total
        self._pending = metrics.pending_pods
        self._entities = metrics.queued_entities
        self._sizes: dict[str, int] = {}
        self._dropped = metrics.kscheduler_inflight_events_dropped_total

    def incoming(self, queue: str, event: str, strategy: QueueingStrategy | None) -> None:
        """Counts a pod that entered a queue.

        As upstream, it is no new entity there if the queue is the one its strategy speaks of: a
        rejected pod that becomes unschedulable was never counted as having left.
        """
        self._incoming_pods.labels(queue, event).inc()
        if strategy is None or queue != _QUEUE_OF_STRATEGY[strategy]:
            self._incoming_entities.labels(queue, event, POD).inc()

    def rejected(self, plugins: Iterable[str], profile: str) -> None:
        for plugin in plugins:
            self._rejected.labels(plugin, profile).inc()

    def no_longer_rejected(self, plugins: Iterable[str], profile: str) -> None:
        for plugin in plugins:
            self._rejected.labels(plugin, profile).dec()

    def set_sizes(self, sizes: Mapping[str, int]) -> None:
        """Sets the gauges of those queues whose number of pods has changed."""
        for queue, size in sizes.items():
            if size != self._sizes.get(queue, 0):
                self._sizes[queue] = size
                self._pending.labels(queue).set(size)
                self._entities.labels(queue, POD).set(size)

    def in_flight(self, label: str, change: int) -> None:
        self._in_flight.labels(label).inc(change)

    def in_flight_event_dropped(self) -> None:
        self._dropped.inc()

    def hint(self, plugin: str, event: str, answer: str, seconds: float) -> None:
        self._hints.labels(plugin, event, answer).observe(seconds)

    def pre_hint(self, plugin: str, result: str) -> None:
        self._pre_hints.labels(plugin, result).inc()
