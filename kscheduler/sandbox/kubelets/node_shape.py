"""What simulated nodes look like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kscheduler.sandbox.metadata import now
from kscheduler.sandbox.store import Object
from kscheduler.version import KUBERNETES_VERSION

_CONDITIONS = (
    (
        "MemoryPressure",
        "False",
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)
_KUBELET_PORT = 10250


@dataclass(frozen=True, slots=True)
class Image:
    """An image that is already on a node."""

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class NodeShape:
    """Size and labels of nodes; zones are dealt out in turn."""

    cpu: str = "8"
    memory: str = "32Gi"
    pods: str = "110"
    ephemeral_storage: str = "100Gi"
    extended_resources: Mapping[str, str] = field(default_factory=dict)
    region: str = "sandbox"
    zones: int = 3
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    images: tuple[Image, ...] = (Image("registry.k8s.io/pause:3.10", 319_000),)

    @property
    def capacity(self) -> dict[str, str]:
        return {
            "cpu": self.cpu,
            "memory": self.memory,
            "pods": self.pods,
            "ephemeral-storage": self.ephemeral_storage,
            **self.extended_resources,
        }


def node_manifest(name: str, index: int = 0, shape: NodeShape | None = None) -> Object:
    """A ready node; `index` decides its zone and address."""
    shape = shape or NodeShape()
    node: Object = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": _labels(name, index, shape)},
        "spec": {},
        "status": _status(name, index, shape),
    }
    if shape.taints:
        node["spec"]["taints"] = [dict(taint) for taint in shape.taints]
    return node


def _labels(name: str, index: int, shape: NodeShape) -> dict[str, str]:
    return {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/region": shape.region,
        "topology.kubernetes.io/zone": f"{shape.region}-{chr(ord('a') + index % shape.zones)}",
        **shape.labels,
    }


def _status(name: str, index: int, shape: NodeShape) -> Object:
    moment = now()
    return {
        "capacity": shape.capacity,
        "allocatable": shape.capacity,
        "conditions": [
            {
                "type": kind,
                "status": value,
                "lastHeartbeatTime": moment,
                "lastTransitionTime": moment,
                "reason": reason,
                "message": message,
            }
            for kind, value, reason, message in _CONDITIONS
        ],
        "addresses": [
            {"type": "InternalIP", "address": node_address(index)},
            {"type": "Hostname", "address": name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": _KUBELET_PORT}},
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": "",
            "containerRuntimeVersion": "sandbox://1.0",
            "kernelVersion": "6.0.0-sandbox",
            "kubeProxyVersion": "",
            "kubeletVersion": KUBERNETES_VERSION,
            "machineID": "",
            "operatingSystem": "linux",
            "osImage": "Sandbox Linux",
            "systemUUID": "",
        },
        "images": [{"names": [one.name], "sizeBytes": one.size_bytes} for one in shape.images],
    }


def node_address(index: int) -> str:
    return f"172.{16 + index // 65536 % 16}.{index // 256 % 256}.{index % 256}"
