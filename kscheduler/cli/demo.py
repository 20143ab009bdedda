"""A small mixed workload for a first try: services, batch, cache, an agent on every node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

Manifest = dict[str, Any]

IMAGE = "registry.k8s.io/pause:3.10"


def workload(nodes: Sequence[str]) -> Iterator[Manifest]:
    """Pods that fit on any handful of the sandbox's nodes."""
    # As a DaemonSet makes them: each for one node and no other.
    for node in nodes:
        this_node = {"key": "metadata.name", "operator": "In", "values": [node]}
        terms = {"nodeSelectorTerms": [{"matchFields": [this_node]}]}
        affinity: Manifest = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        }
        yield _pod(f"agent-{node}", "agent", cpu="50m", memory="64Mi", affinity=affinity)

    # Replicas of a service, evenly over zones.
    spread = {
        "maxSkew": 2,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule" if len(nodes) >= 3 else "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    for i in range(6):
        yield _pod(
            f"web-{i}", "web", cpu="250m", memory="256Mi", topologySpreadConstraints=[spread]
        )

    # Replicas that prefer not to share a node with each other.
    apart = {
        "weight": 100,
        "podAffinityTerm": {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"app": "cache"}},
        },
    }
    affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [apart]}}
    for i in range(3):
        yield _pod(f"cache-{i}", "cache", cpu="200m", memory="2Gi", affinity=affinity)

    yield from (_pod(f"batch-{i}", "batch", cpu="500m", memory="1Gi") for i in range(8))
    yield _pod("urgent", "urgent", cpu="1", memory="2Gi", priority="system-cluster-critical")


def _pod(
    name: str, app: str, *, cpu: str, memory: str, priority: str = "", **spec: Any
) -> Manifest:
    requests = {"cpu": cpu, "memory": memory}
    container = {"name": app, "image": IMAGE, "resources": {"requests": requests}}
    pod: Manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": app}},
        "spec": {"containers": [container], **spec},
    }
    if priority:
        pod["spec"]["priorityClassName"] = priority
        pod["metadata"]["namespace"] = "kube-system"
    return pod
