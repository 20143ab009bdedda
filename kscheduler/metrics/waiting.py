"""Pods that wait, what wakes them, and what the cache holds."""

from __future__ import annotations

from kscheduler.metrics.attempts import PLUGIN_SECONDS, POINT_SECONDS
from kscheduler.metrics.registry import ALPHA, BETA, EVERYTHING, STABLE, Registry, Selection

QUEUES = ("active", "backoff", "unschedulable", "gated", "incomplete", "pending")


class WaitingMetrics(Registry):
    """Queue, cache and the events that change them."""

    def __init__(self, selection: Selection = EVERYTHING) -> None:
        super().__init__(selection)
        self.pending_pods = self.gauges(
            "scheduler_pending_pods", STABLE, "Pods that wait, by where they wait.", ("queue",)
        )
        for queue in QUEUES:
            self.pending_pods.labels(queue)
        self.queued_entities = self.gauges(
            "scheduler_queued_entities",
            ALPHA,
            "Pods on their own and pod groups that wait, by where they wait.",
            ("queue", "type"),
        )
        self.queue_incoming_pods_total = self.counters(
            "scheduler_queue_incoming_pods_total",
            STABLE,
            "Pods that entered a queue, by what sent them there.",
            ("queue", "event"),
        )
        self.queue_incoming_entities_total = self.counters(
            "scheduler_queue_incoming_entities_total",
            ALPHA,
            "Pods on their own and pod groups that entered a queue, by what sent them there.",
            ("queue", "event", "type"),
        )
        self.unschedulable_pods = self.gauges(
            "scheduler_unschedulable_pods",
            BETA,
            "Waiting pods that a plugin rejected; a pod counts once for each of its rejectors.",
            ("plugin", "profile"),
        )
        self.event_handling_duration_seconds = self.histograms(
            "scheduler_event_handling_duration_seconds",
            ALPHA,
            "How long taking in one change of the cluster took.",
            ("event",),
            buckets=POINT_SECONDS,
        )
        self.queueing_hint_execution_duration_seconds = self.histograms(
            "scheduler_queueing_hint_execution_duration_seconds",
            ALPHA,
            "How long a plugin took to say whether an event helps a waiting pod.",
            ("plugin", "event", "hint"),
            buckets=PLUGIN_SECONDS,
        )
        self.inflight_events = self.gauges(
            "scheduler_inflight_events",
            ALPHA,
            "Events remembered for pods that are being tried.",
            ("event",),
        )
        self.cache_size = self.gauges(
            "scheduler_cache_size", ALPHA, "Nodes, pods and assumed pods in the cache.", ("type",)
        )
        for kind in ("assumed_pods", "nodes", "pods"):
            self.cache_size.labels(kind)
        self.pre_queueing_hint_evaluations_total = self.counters(
            "scheduler_pre_queueing_hint_evaluations_total",
            ALPHA,
            "Events for which a plugin named the pods that they can concern, or could not.",
            ("plugin", "result"),
        )
        self.kscheduler_inflight_events_dropped_total = self.counters(
            "kscheduler_inflight_events_dropped_total",
            ALPHA,
            "Events that too many pods in flight made us forget.",
        ).labels()
