"""Nodes and pods with valid defaults; say only what the test is about.

    make_node("n1", labels={"zone": "a"}, taints=[{"key": "gpu", "effect": "NoSchedule"}])
    make_pod("p", requests={"cpu": "1"}, tolerations=[{"key": "gpu", "operator": "Exists"}])

Fields of the spec without a keyword of their own are spelled as in a manifest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from kscheduler.api.core import (
    Container,
    Node,
    NodeSpec,
    NodeStatus,
    Pod,
    PodSpec,
    ResourceRequirements,
)
from kscheduler.api.decode import without_nulls
from kscheduler.api.meta import EMPTY, ObjectMeta
from kscheduler.suggestions import nearest

Texts = Mapping[str, str]
ROOM = {"cpu": "4", "memory": "16Gi", "pods": "110"}


def make_node(
    name: str,
    *,
    labels: Texts = EMPTY,
    annotations: Texts = EMPTY,
    allocatable: Texts = EMPTY,
    unschedulable: bool = False,
    **spec: Any,
) -> Node:
    """A node called `name` that has four CPUs, 16 GiB and room for 110 pods.

    `allocatable` adds to these, or changes them. `spec` are further fields of the node's spec, as
    in a manifest: `taints=[{"key": "gpu", "effect": "NoSchedule"}]`.
    """
    room = {**ROOM, **allocatable}
    return Node(
        metadata=ObjectMeta(name=name, uid=name, labels=labels, annotations=annotations),
        spec=_with(NodeSpec(unschedulable=unschedulable), spec),
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
    **spec: Any,
) -> Pod:
    """A pod of one container that asks for `requests`; on a node, if one is named.

    `spec` are further fields of the pod's spec, as in a manifest: `tolerations`, `affinity`,
    `nodeSelector`, `topologySpreadConstraints`, `volumes`, `schedulingGates`, …; `containers` take
    the place of the one.
    """
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"uid-of-{name}",
            labels=labels,
            annotations=annotations,
        ),
        spec=_with(
            PodSpec(
                scheduler_name=scheduler,
                priority=priority,
                node_name=node,
                containers=(Container("c", resources=ResourceRequirements(requests=requests)),),
            ),
            spec,
        ),
    )


S = TypeVar("S", PodSpec, NodeSpec)


def _with(spec: S, fields: Mapping[str, Any]) -> S:
    """The spec with these of its fields, by their names in a manifest; TypeError for others."""
    if not fields:
        return spec
    names = {field.encode_name: field.name for field in structs.fields(type(spec))}
    for name in fields:
        if name not in names:
            near = nearest(name, names)
            hint = f"; did you mean {near}?" if near else ""
            raise TypeError(f"{type(spec).__name__} has no field {name}{hint}")
    given = msgspec.convert(without_nulls(fields), type(spec))
    return structs.replace(spec, **{names[name]: getattr(given, names[name]) for name in fields})
