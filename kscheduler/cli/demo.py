"""A small mixed workload for a first try: services, batch, cache, an agent on every node.

With example GPUs on the nodes, also some pods with claims for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kscheduler.sandbox.kubelets.devices import (
    DRIVER,
    EXTENDED_RESOURCE,
    GPU_CLASS,
    PARTITION_CLASS,
)

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


def gpu_workload() -> Iterator[Manifest]:
    """Pods that use a GPU: whole, a quarter of one, one for two, one by the name of a resource."""
    whole = {"name": "gpu", "exactly": {"deviceClassName": GPU_CLASS}}
    quarter = f'device.attributes["{DRIVER}"].profile == "quarter"'
    alternatives = [
        {
            "name": "quarter",
            "deviceClassName": PARTITION_CLASS,
            "selectors": [{"cel": {"expression": quarter}}],
        },
        {"name": "whole", "deviceClassName": GPU_CLASS},
    ]
    for name, request in (
        ("gpu", whole),
        ("quarter-gpu", {"name": "gpu", "firstAvailable": alternatives}),
    ):
        spec = {"devices": {"requests": [request]}}
        yield _claims("ResourceClaimTemplate", name, {"spec": spec})
    yield _claims("ResourceClaim", "shared-gpu", {"devices": {"requests": [whole]}})
    for app, count, source in (
        ("train", 2, {"resourceClaimTemplateName": "gpu"}),
        ("infer", 2, {"resourceClaimTemplateName": "quarter-gpu"}),
        ("notebook", 2, {"resourceClaimName": "shared-gpu"}),
    ):
        for i in range(count):
            claims = [{"name": "gpu", **source}]
            pod = _pod(f"{app}-{i}", app, cpu="250m", memory="1Gi", resourceClaims=claims)
            pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
            yield pod
    render = _pod("render", "render", cpu="250m", memory="1Gi")
    resources = render["spec"]["containers"][0]["resources"]
    resources["limits"] = {EXTENDED_RESOURCE: "1"}
    yield render


def _claims(kind: str, name: str, spec: Manifest) -> Manifest:
    about = {"name": name, "namespace": "default"}
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": about, "spec": spec}


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
