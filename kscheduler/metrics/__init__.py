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

from functools import cached_property
from typing import TYPE_CHECKING

from kscheduler.metrics.access import AccessMetrics, ServerLibraryMetrics, WorkQueueMetrics
from kscheduler.metrics.client import InformerMetrics, RequestMetrics
from kscheduler.metrics.component import CacheMetrics, ComponentMetrics
from kscheduler.metrics.instruments import Counter, Family, Gauge, Histogram, exponential
from kscheduler.metrics.registry import ALPHA, BETA, EVERYTHING, STABLE, Selection
from kscheduler.metrics.scheduler import (
    QUEUES,
    AttemptMetrics,
    BatchMetrics,
    ClaimMetrics,
    GroupMetrics,
    PreemptionMetrics,
    RivalMetrics,
    WaitingMetrics,
)

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

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
    RivalMetrics,
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

    @cached_property
    def registry(self) -> CollectorRegistry:
        """All that is printed: the families, and the metrics of process, platform and collector."""
        from kscheduler.metrics.process import new_registry

        return new_registry(self.families)

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
