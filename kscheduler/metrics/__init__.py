"""Metrics of the scheduler, under kube-scheduler's names, labels and buckets.

There is one `Metrics` per scheduler, passed to all that measures, so that two schedulers in
one process do not collide. An attribute is called like the exported family without its `scheduler_`
prefix. Families with labels are asked for a series once and the series is kept:

    active = metrics.pending_pods.labels("active")
    active.inc()

Families without a series yet are not printed, as upstream; those without labels always are.
`kscheduler_` marks what upstream does not have. Help texts are our own. Every label takes few
values, which the configuration decides: no name of a pod, node or caller is one.
"""

from __future__ import annotations

from prometheus_client import GCCollector, PlatformCollector

from kscheduler.metrics.access import AccessMetrics, ServerLibraryMetrics, WorkQueueMetrics
from kscheduler.metrics.client import InformerMetrics, RequestMetrics
from kscheduler.metrics.instruments import Counter, Family, Gauge, Histogram, exponential
from kscheduler.metrics.process import CacheMetrics, ComponentMetrics, ProcessMetrics
from kscheduler.metrics.registry import ALPHA, BETA, EVERYTHING, STABLE, Selection
from kscheduler.metrics.scheduler import (
    QUEUES,
    AttemptMetrics,
    BatchMetrics,
    ClaimMetrics,
    GroupMetrics,
    PreemptionMetrics,
    WaitingMetrics,
)

__all__ = [
    "ALPHA",
    "BETA",
    "EVERYTHING",
    "QUEUES",
    "STABLE",
    "Counter",
    "Family",
    "Gauge",
    "Histogram",
    "Metrics",
    "Selection",
    "exponential",
]


class Metrics(
    AttemptMetrics,
    PreemptionMetrics,
    BatchMetrics,
    GroupMetrics,
    WaitingMetrics,
    ClaimMetrics,
    CacheMetrics,
    ComponentMetrics,
    RequestMetrics,
    InformerMetrics,
    AccessMetrics,
    WorkQueueMetrics,
    ServerLibraryMetrics,
):
    """All families of one scheduler, with a registry of their own."""

    def __init__(self, selection: Selection = EVERYTHING) -> None:
        super().__init__(selection)
        self.registry.register(ProcessMetrics())
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)

    def forget_state(self) -> None:
        """Zero pods and nodes: the scheduler that these gauges counted for has stopped."""
        for gauges in (
            self.pending_pods,
            self.queued_entities,
            self.unschedulable_pods,
            self.inflight_events,
            self.cache_size,
        ):
            gauges.reset()
