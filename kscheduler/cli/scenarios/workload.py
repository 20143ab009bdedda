"""Workloads of scenarios: services, batch, cache, an agent on every node, pods with GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from kscheduler.sandbox.kubelets.devices import (
    DRIVER,
    EXTENDED_RESOURCE,
    GPU_CLASS,
    PARTITION_CLASS,
)

Manifest = dict[str, Any]

IMAGE, OTHER_IMAGE = "registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10.1"
BURST = "burst"
# Pods whose owners replace them leave a node that has failed after so long, not after 5 minutes.
TOLERATED_SECONDS = 5
_TOLERATIONS = [
    {
        "key": f"node.kubernetes.io/{taint}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": TOLERATED_SECONDS,
    }
    for taint in ("not-ready", "unreachable")
]


def workload(nodes: int) -> Iterator[Manifest]:
    """Workloads whose pods fit on any handful of the sandbox's nodes."""
    yield workload_manifest("DaemonSet", "agent", cpu="50m", memory="64Mi")

    # Replicas of a service, evenly over zones.
    spread = {
        "maxSkew": 2,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule" if nodes >= 3 else "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    web = deployment("web", 6, cpu="250m", memory="256Mi", topologySpreadConstraints=[spread])
    # A rollout takes some steps, slowly enough to be watched.
    web["spec"]["strategy"] = {"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}
    web["spec"]["minReadySeconds"] = 1
    yield web

    # Replicas that prefer not to share a node with each other.
    apart = {
        "weight": 100,
        "podAffinityTerm": {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"app": "cache"}},
        },
    }
    affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [apart]}}
    yield workload_manifest("StatefulSet", "cache", 3, cpu="200m", memory="2Gi", affinity=affinity)

    yield deployment("batch", 8, cpu="500m", memory="1Gi")
    yield pod_manifest(
        "urgent", "urgent", cpu="1", memory="2Gi", priority="system-cluster-critical"
    )


def burst_deployment() -> Manifest:
    """Small pods that come and go in numbers; made without any."""
    return deployment(BURST, 0, cpu="50m", memory="32Mi")


def deployment(app: str, replicas: int, *, cpu: str, memory: str, **spec: Any) -> Manifest:
    """Replicas that leave a node soon after it has failed."""
    tolerant = {"tolerations": _TOLERATIONS, **spec}
    return workload_manifest("Deployment", app, replicas, cpu=cpu, memory=memory, **tolerant)


def scheduler_name(config: str) -> str:
    """The name of the first profile of a KubeSchedulerConfiguration; empty: the default one.

    What is wrong with the file is the scheduler's to say.
    """
    if not config:
        return ""
    try:
        read = yaml.safe_load(Path(config).read_text(encoding="utf-8"))
        name = read["profiles"][0]["schedulerName"]
    except (OSError, ValueError, yaml.YAMLError, LookupError, TypeError):
        return ""
    return name if isinstance(name, str) else ""


def with_scheduler(manifest: Manifest, name: str) -> Manifest:
    """The object with its pods left to the scheduler of this name."""
    if name and "template" in (spec := manifest.get("spec") or {}):
        spec["template"]["spec"]["schedulerName"] = name
    elif name and manifest["kind"] == "Pod":
        spec["schedulerName"] = name
    return manifest


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
            pod = pod_manifest(f"{app}-{i}", app, cpu="50m", memory="64Mi", resourceClaims=claims)
            pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
            yield pod
    render = pod_manifest("render", "render", cpu="50m", memory="64Mi")
    resources = render["spec"]["containers"][0]["resources"]
    resources["limits"] = {EXTENDED_RESOURCE: "1"}
    yield render


def workload_manifest(
    kind: str, app: str, replicas: int | None = None, *, cpu: str, memory: str, **spec: Any
) -> Manifest:
    pod = pod_manifest(app, app, cpu=cpu, memory=memory, **spec)
    labels = pod["metadata"]["labels"]
    template = {"metadata": {"labels": labels}, "spec": pod["spec"]}
    about = {"name": app, "namespace": "default"}
    inner: Manifest = {"selector": {"matchLabels": labels}, "template": template}
    if replicas is not None:
        inner["replicas"] = replicas
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": about, "spec": inner}


def _claims(kind: str, name: str, spec: Manifest) -> Manifest:
    about = {"name": name, "namespace": "default"}
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": about, "spec": spec}


def pod_manifest(
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
