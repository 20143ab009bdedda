"""Simulated nodes: their manifests, and the leases that say they are alive."""

from __future__ import annotations

import heapq
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from kscheduler.api.timestamps import format_micro_time
from kscheduler.sandbox.metadata import now
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.resources import LEASES
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
# The reason of conditions that no kubelet has confirmed for too long.
STATUS_UNKNOWN = "NodeStatusUnknown"


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
    shape, moment = shape or NodeShape(), now()
    zone = chr(ord("a") + index % shape.zones)
    node: Object = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                "kubernetes.io/hostname": name,
                "topology.kubernetes.io/region": shape.region,
                "topology.kubernetes.io/zone": f"{shape.region}-{zone}",
                **shape.labels,
            },
        },
        "spec": {},
        "status": {
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
        },
    }
    if shape.taints:
        node["spec"]["taints"] = [dict(taint) for taint in shape.taints]
    return node


def post_conditions(state: Object) -> bool:
    """Set the conditions of a kubelet that is well; says whether any of them is news."""
    moment, changed = now(), False
    conditions = state.setdefault("conditions", [])
    for kind, value, reason, message in _CONDITIONS:
        current = next((one for one in conditions if one["type"] == kind), None)
        if current is None:
            current = {"type": kind}
            conditions.append(current)
        if current.get("status") in ("True", "False") and kind != "Ready":
            continue  # a pressure that somebody has set stays
        if current.get("status") != value:
            current |= {
                "status": value,
                "lastHeartbeatTime": moment,
                "lastTransitionTime": moment,
                "reason": reason,
                "message": message,
            }
            changed = True
    return changed


def node_address(index: int) -> str:
    return f"172.{16 + index // 65536 % 16}.{index // 256 % 256}.{index % 256}"


NAMESPACE = "kube-node-lease"
RENEW_SECONDS = 10.0
DURATION_SECONDS = 40
_SPREAD = 97  # steps of a period over which first renewals are spread


class NodeLeases:
    """Renews leases in turn so that each is renewed once per period and the load stays even."""

    def __init__(self, registry: Registry, renew_seconds: float = RENEW_SECONDS) -> None:
        self._registry = registry
        self._renew_seconds = renew_seconds
        self._next: dict[str, float] = {}
        self._renewals: list[tuple[float, str]] = []  # a heap; entries not in `_next` are void

    def add(self, node: str, uid: str) -> None:
        if node not in self._next:
            # Spread by arrival: nodes that come together do not stay together.
            share = (1 + len(self._next) % _SPREAD) / _SPREAD
            self._schedule(node, time.monotonic() + share * self._renew_seconds)
            self._write(node, uid)

    def pause(self, node: str) -> None:
        """Let the lease of a node run out."""
        self._next.pop(node, None)

    def remove(self, node: str) -> None:
        self.pause(node)
        collection = self._registry.collection(LEASES)
        if collection.get((NAMESPACE, node)) is not None:
            collection.remove((NAMESPACE, node))

    def renew_due(self, now: float) -> None:
        while self._renewals and self._renewals[0][0] <= now:
            moment, node = heapq.heappop(self._renewals)
            if self._next.get(node) == moment:
                self._schedule(node, now + self._renew_seconds)
                self._write(node)

    def renew(self, node: str) -> None:
        """Renew the lease of a node before its turn."""
        if node in self._next:
            self._write(node)

    def _schedule(self, node: str, moment: float) -> None:
        self._next[node] = moment
        heapq.heappush(self._renewals, (moment, node))

    def _write(self, node: str, uid: str = "") -> None:
        key = (NAMESPACE, node)
        stored = self._registry.collection(LEASES).get(key)
        moment = format_micro_time(time.time())
        if stored is None:
            owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}
            new = {
                "metadata": {"name": node, "ownerReferences": [owner] if uid else []},
                "spec": {
                    "holderIdentity": node,
                    "leaseDurationSeconds": DURATION_SECONDS,
                    "renewTime": moment,
                },
            }
            self._registry.create(LEASES, NAMESPACE, new)
            return
        lease = stored.decode()
        lease["spec"]["renewTime"] = moment
        self._registry.replace(LEASES, key, lease)
