"""The clusters and pods that benchmarks are made of, shaped like upstream's scheduler_perf.

Objects are plain JSON values as a user or an API server would write them: nodes of 4 CPUs and 32 Gi
in three zones, pods of one small container that differ in what they ask of their place.
"""

from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

Json = dict[str, Any]

NAMESPACE = "bench"
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
ZONES = ("moon-1", "moon-2", "moon-3")
PLAIN, MIXED = "plain", "mixed"
IMAGE = "registry.k8s.io/pause:3.10"

REQUESTS = {"cpu": "100m", "memory": "500Mi"}
ALLOCATABLE = {"cpu": "4", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}


def node(number: int) -> Json:
    name = f"node-{number:05d}"
    labels = {
        HOSTNAME: name,
        ZONE: ZONES[number % len(ZONES)],
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {
            "capacity": ALLOCATABLE,
            "allocatable": ALLOCATABLE,
            "conditions": [{"type": "Ready", "status": "True"}],
            "images": [{"names": [IMAGE], "sizeBytes": 737_280}],
        },
    }


def pod(name: str, **spec: Any) -> Json:
    """A small pod; `labels` are its own, everything else goes into its spec."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": spec.pop("labels", {"app": "plain"}),
        },
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [
                {
                    "name": "pause",
                    "image": IMAGE,
                    "ports": [{"containerPort": 80}],
                    "resources": {"requests": REQUESTS, "limits": REQUESTS},
                }
            ],
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{trouble}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for trouble in ("not-ready", "unreachable")
            ],
            **spec,
        },
        "status": {"phase": "Pending"},
    }


def placed(number: int, on: str) -> Json:
    """One of the pods that are there before anything is measured."""
    return pod(f"placed-{number}", nodeName=on)


def running() -> Json:
    """The status of a pod as its kubelet reports it."""
    since = "2026-01-01T00:00:00Z"
    true = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "phase": "Running",
        "conditions": [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": since}
            for kind in true
        ],
        "hostIP": "10.0.0.1",
        "podIP": "10.1.0.1",
        "podIPs": [{"ip": "10.1.0.1"}],
        "startTime": since,
        "qosClass": "Guaranteed",
        "containerStatuses": [
            {
                "name": "pause",
                "state": {"running": {"startedAt": since}},
                "lastState": {},
                "ready": True,
                "started": True,
                "restartCount": 0,
                "image": IMAGE,
                "imageID": f"{IMAGE}@sha256:{'0' * 64}",
                "containerID": f"containerd://{'1' * 64}",
                "allocatedResources": REQUESTS,
                "resources": {"requests": REQUESTS, "limits": REQUESTS},
            }
        ],
    }


def _selecting(labels: Json) -> Json:
    return {"labelSelector": {"matchLabels": labels}}


def _plain(name: str) -> Json:
    return pod(name)


def _node_affinity(name: str) -> Json:
    zones = {"key": ZONE, "operator": "In", "values": list(ZONES[:2])}
    required = {"nodeSelectorTerms": [{"matchExpressions": [zones]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return pod(name, affinity=affinity)


def _required(kind: str, labels: Json, key: str) -> Json:
    term = {**_selecting(labels), "topologyKey": key}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _preferred(kind: str, labels: Json, key: str) -> Json:
    term = {**_selecting(labels), "topologyKey": key}
    weighted = [{"weight": 1, "podAffinityTerm": term}]
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}


def _affinity(name: str) -> Json:
    labels = {"color": "blue"}
    return pod(name, labels=labels, affinity=_required("podAffinity", labels, ZONE))


def _anti_affinity(name: str) -> Json:
    labels = {"color": "green", "name": "test"}
    return pod(name, labels=labels, affinity=_required("podAntiAffinity", labels, HOSTNAME))


def _preferred_affinity(name: str) -> Json:
    labels = {"color": "red"}
    return pod(name, labels=labels, affinity=_preferred("podAffinity", labels, HOSTNAME))


def _preferred_anti_affinity(name: str) -> Json:
    labels = {"color": "yellow"}
    return pod(name, labels=labels, affinity=_preferred("podAntiAffinity", labels, HOSTNAME))


def _spread(name: str, color: str, action: str) -> Json:
    labels = {"color": color}
    constraint = {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": action}
    return pod(
        name, labels=labels, topologySpreadConstraints=[{**constraint, **_selecting(labels)}]
    )


def _hard_spread(name: str) -> Json:
    return _spread(name, "purple", "DoNotSchedule")


def _soft_spread(name: str) -> Json:
    return _spread(name, "orange", "ScheduleAnyway")


Shape = Callable[[str], Json]

SHAPES: dict[str, Shape] = {
    PLAIN: _plain,
    "node-affinity": _node_affinity,
    "affinity": _affinity,
    "anti-affinity": _anti_affinity,
    "preferred-affinity": _preferred_affinity,
    "preferred-anti-affinity": _preferred_anti_affinity,
    "hard-spread": _hard_spread,
    "soft-spread": _soft_spread,
}
WORKLOADS = (*SHAPES, MIXED)


def pods(workload: str, prefix: str) -> Iterator[Json]:
    """As many pods of a workload as are asked for; mixed ones take turns."""
    shapes = SHAPES.values() if workload == MIXED else (SHAPES[workload],)
    for number, shape in enumerate(cycle(shapes)):
        yield shape(f"{prefix}-{number}")


def at_most(workload: str, count: int, nodes: int) -> int:
    """As many of these pods as surely find a place: those with anti-affinity take a node each."""
    room = {"anti-affinity": nodes // 2, MIXED: nodes * 4}
    return min(count, room.get(workload, nodes * 20))
