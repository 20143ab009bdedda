"""Nodes and pods with sane defaults; whatever a test is about is a keyword."""

from typing import Any

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
SMALL_IMAGE = "registry.example/app:1"


def node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "8Gi",
    pods: int = 110,
    labels: dict[str, str] | None = None,
    images: list[dict[str, Any]] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    room = {"cpu": cpu, "memory": memory, "pods": str(pods)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name, **(labels or {})}},
        "spec": spec,
        "status": {
            "capacity": room,
            "allocatable": room,
            "images": images or [],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(
    name: str,
    *,
    cpu: str = "",
    memory: str = "",
    labels: dict[str, str] | None = None,
    host_port: int = 0,
    image: str = SMALL_IMAGE,
    node_affinity: dict[str, Any] | None = None,
    pod_affinity: dict[str, Any] | None = None,
    pod_anti_affinity: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    requests = {name: amount for name, amount in (("cpu", cpu), ("memory", memory)) if amount}
    container: dict[str, Any] = {"name": "app", "image": image, "resources": {"requests": requests}}
    if host_port:
        container["ports"] = [{"containerPort": host_port, "hostPort": host_port}]
    affinity = {
        "nodeAffinity": node_affinity,
        "podAffinity": pod_affinity,
        "podAntiAffinity": pod_anti_affinity,
    }
    affinity = {kind: rules for kind, rules in affinity.items() if rules}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"containers": [container], **({"affinity": affinity} if affinity else {}), **spec},
    }


def on_node(name: str) -> dict[str, Any]:
    """A node selector for just this node."""
    return {"nodeSelector": {HOSTNAME: name}}


def required(term: dict[str, Any] | list[dict[str, Any]]) -> dict[str, Any]:
    """Rules between pods that must hold."""
    terms = term if isinstance(term, list) else [term]
    return {"requiredDuringSchedulingIgnoredDuringExecution": terms}


def near(labels: dict[str, str], key: str = ZONE, **more: Any) -> dict[str, Any]:
    """A term of affinity or anti-affinity."""
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": key, **more}


def node_terms(*expressions: dict[str, Any]) -> dict[str, Any]:
    """Required node affinity of one term."""
    terms = [{"matchExpressions": list(expressions)}]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
