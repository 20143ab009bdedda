"""core/v1 Node: what it offers, what it refuses, and what it has already pulled."""

from collections.abc import Mapping

from msgspec import field

from kscheduler.api.meta import EMPTY, ApiObject, ApiStruct, Quantity


class Taint(ApiStruct):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodePodPreemptionPolicy(ApiStruct):
    disable_resize_preemption: tuple[str, ...] = ()


class NodeSpec(ApiStruct):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    pod_preemption_policy: NodePodPreemptionPolicy | None = None


class NodeCondition(ApiStruct):
    """Only what wakes pods when it changes; heartbeats and messages are not kept."""

    type: str = ""
    status: str = ""


class ContainerImage(ApiStruct):
    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeStatus(ApiStruct):
    allocatable: Mapping[str, Quantity] = EMPTY
    capacity: Mapping[str, Quantity] = EMPTY
    conditions: tuple[NodeCondition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(ApiObject):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
    # Its JSON as the server sent it, if whoever follows nodes keeps that; never a field of that.
    whole: bytes = field(name="-", default=b"")
