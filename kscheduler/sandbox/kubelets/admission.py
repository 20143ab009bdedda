"""Kubelet admission: the check of a pod that was bound to the node, in a kubelet's words.

Mirrors pkg/kubelet/lifecycle: resources first, then node affinity, ports and NoExecute taints; the
first failure is the reason. A scheduler that overcommits a node is seen here as OutOfcpu.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kscheduler.api.core import Node, Pod
from kscheduler.api.node_selector import required_node_affinity
from kscheduler.api.quantity import milli_value, value
from kscheduler.api.requests import in_units, pod_requests
from kscheduler.api.resource_names import CPU
from kscheduler.api.taints import find_untolerated

Ports = frozenset[tuple[str, str, int]]  # address, protocol, port
_ANY_ADDRESS = "0.0.0.0"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a node does not take a pod; `reason` becomes the pod's status."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """Resources and ports a pod takes on its node."""

    requests: dict[str, int]
    ports: Ports


@dataclass(slots=True)
class NodeLoad:
    """One node and what runs on it."""

    node: Node
    address: str = ""
    used: dict[str, int] = field(default_factory=dict)  # the sum of the requests in `pods`
    pods: dict[str, Accepted] = field(default_factory=dict)  # by uid

    def check(self, pod: Pod) -> Refusal | Accepted:
        """Refuse the pod or say what it would take."""
        return next(self._refusals(pod), None) or self.measure(pod)

    def measure(self, pod: Pod) -> Accepted:
        """Resources and ports the pod takes, whether or not it fits."""
        return Accepted(in_units(pod_requests(pod)), _host_ports(pod))

    def add(self, uid: str, accepted: Accepted) -> None:
        self.pods[uid] = accepted
        for name, amount in accepted.requests.items():
            self.used[name] = self.used.get(name, 0) + amount

    def remove(self, uid: str) -> None:
        accepted = self.pods.pop(uid, None)
        if accepted is not None:
            for name, amount in accepted.requests.items():
                self.used[name] -= amount

    def _refusals(self, pod: Pod) -> Iterator[Refusal]:
        """Everything that speaks against the pod, in the order of the kubelet's own checks."""
        allocatable = self.node.status.allocatable
        capacity = value(allocatable.get("pods", 0))
        if len(self.pods) + 1 > capacity:
            yield _out_of("pods", 1, len(self.pods), capacity)
        for name, wanted in in_units(pod_requests(pod)).items():
            if name not in allocatable and "/" in name:
                continue  # a resource of the cluster, not of this node
            capacity = (milli_value if name == CPU else value)(allocatable.get(name, 0))
            used = self.used.get(name, 0)
            if wanted and wanted > capacity - used:
                yield _out_of(name, wanted, used, capacity)
        if not required_node_affinity(pod).matches(self.node.metadata.labels, self.node.name):
            yield _predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
        taken = {port for one in self.pods.values() for port in one.ports}
        if any(
            rest == other and (address == taken_at or _ANY_ADDRESS in (address, taken_at))
            for address, *rest in _host_ports(pod)
            for taken_at, *other in taken
        ):
            yield _predicate(
                "NodePorts", "node(s) didn't have free ports for the requested pod ports"
            )
        evicting = [taint for taint in self.node.spec.taints if taint.effect == "NoExecute"]
        if find_untolerated(evicting, pod.spec.tolerations):
            yield _predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate")


def _out_of(name: str, requested: int, used: int, capacity: int) -> Refusal:
    return Refusal(
        f"OutOf{name}",
        f"Node didn't have enough resource: {name}, requested: {requested}, used: {used}, "
        f"capacity: {capacity}",
    )


def _predicate(name: str, why: str) -> Refusal:
    return Refusal(name, f"Predicate {name} failed: {why}")


def _host_ports(pod: Pod) -> Ports:
    return frozenset(
        (port.host_ip or _ANY_ADDRESS, port.protocol or "TCP", port.host_port)
        for container in pod.spec.containers
        for port in container.ports
        if port.host_port
    )
