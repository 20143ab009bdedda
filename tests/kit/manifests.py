"""Nodes and pods as JSON, as a user would send them to an API server.

What has no keyword of its own is a field of the spec.
"""

from typing import Any

Json = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
IMAGE = "example.com/app:1"


def node_manifest(
    name: str = "n",
    *,
    cpu: str = "4",
    memory: str = "8Gi",
    pods: str | int = 110,
    labels: dict[str, str] | None = None,
    images: list[Json] | None = None,
    **spec: Any,
) -> Json:
    """A node that is ready, with a host name."""
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


def pod_manifest(
    name: str = "p",
    *,
    namespace: str = "",
    labels: dict[str, str] | None = None,
    cpu: str = "",
    memory: str = "",
    image: str = IMAGE,
    ports: list[Json] | None = None,
    host_port: int = 0,
    node_affinity: Json | None = None,
    pod_affinity: Json | None = None,
    pod_anti_affinity: Json | None = None,
    **spec: Any,
) -> Json:
    """A pod of one container, unless `containers` are given; without a namespace, it gets that of
    the request.
    """
    requests = {name: amount for name, amount in (("cpu", cpu), ("memory", memory)) if amount}
    container: Json = {"name": "c", "image": image, "resources": {"requests": requests}}
    if ports or host_port:
        container["ports"] = ports or [{"containerPort": host_port, "hostPort": host_port}]
    rules = {
        "nodeAffinity": node_affinity,
        "podAffinity": pod_affinity,
        "podAntiAffinity": pod_anti_affinity,
    }
    if affinity := {kind: terms for kind, terms in rules.items() if terms}:
        spec["affinity"] = affinity
    metadata: Json = {"name": name, "labels": labels or {}}
    if namespace:
        metadata["namespace"] = namespace
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], **spec},
    }


def on_node(name: str) -> Json:
    """A node selector for just this node."""
    return {"nodeSelector": {HOSTNAME: name}}


def required(term: Json | list[Json]) -> Json:
    """Rules between pods that must hold."""
    terms = term if isinstance(term, list) else [term]
    return {"requiredDuringSchedulingIgnoredDuringExecution": terms}


def near(labels: dict[str, str], key: str = ZONE, **more: Any) -> Json:
    """A term of affinity or anti-affinity."""
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": key, **more}


def node_terms(*expressions: Json) -> Json:
    """Required node affinity of one term."""
    terms = [{"matchExpressions": list(expressions)}]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
