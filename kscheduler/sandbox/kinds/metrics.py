"""The metrics API, for `kubectl top`: read from simulated nodes and pods, nothing is stored."""

from __future__ import annotations

from kscheduler.sandbox.kinds.resource import Resource

METRICS_GROUP = "metrics.k8s.io"
_READ = ("get", "list")
RESOURCES = (
    Resource(METRICS_GROUP, "v1beta1", "nodes", "NodeMetrics", namespaced=False, verbs=_READ),
    Resource(METRICS_GROUP, "v1beta1", "pods", "PodMetrics", verbs=_READ),
)
