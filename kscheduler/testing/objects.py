"""Nodes and pods with valid defaults; say only what the test is about."""

from __future__ import annotations

from collections.abc import Mapping

from kscheduler.api.core import (
    Container,
    Node,
    NodeSpec,
    NodeStatus,
    Pod,
    PodSpec,
    ResourceRequirements,
)
from kscheduler.api.meta import EMPTY, ObjectMeta

Texts = Mapping[str, str]
ROOM = {"cpu": "4", "memory": "16Gi", "pods": "110"}


def make_node(
    name: str,
    *,
    labels: Texts = EMPTY,
    annotations: Texts = EMPTY,
    allocatable: Texts = EMPTY,
    unschedulable: bool = False,
) -> Node:
    """`allocatable` adds to, or changes, four CPUs, 16 GiB and 110 pods."""
    room = {**ROOM, **allocatable}
    return Node(
        metadata=ObjectMeta(name=name, uid=name, labels=labels, annotations=annotations),
        spec=NodeSpec(unschedulable=unschedulable),
        status=NodeStatus(allocatable=room),
    )


def make_pod(
    name: str,
    *,
    namespace: str = "default",
    labels: Texts = EMPTY,
    annotations: Texts = EMPTY,
    requests: Texts = EMPTY,
    priority: int = 0,
    node: str = "",
    scheduler: str = "default-scheduler",
) -> Pod:
    """A pod of one container; on a node, if one is named."""
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"uid-of-{name}",
            labels=labels,
            annotations=annotations,
        ),
        spec=PodSpec(
            scheduler_name=scheduler,
            priority=priority,
            node_name=node,
            containers=(Container(name="c", resources=ResourceRequirements(requests=requests)),),
        ),
    )
