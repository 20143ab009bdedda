"""Cluster events of an update: the changes to a pod or a node that can matter to a waiting pod.

Mirrors pkg/scheduler/framework/events.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kscheduler.api.core import Node
from kscheduler.api.meta import Quantity
from kscheduler.api.quantity import QuantityError, nano_value
from kscheduler.framework.cluster_event import ASSIGNED_POD, NODE, Action, ClusterEvent
from kscheduler.state.pod_info import PodInfo


def pod_scheduling_properties_change(
    old: PodInfo, new: PodInfo, resource: str
) -> list[ClusterEvent]:
    """One event per kind of change, or a general update; a pod with a node is an AssignedPod."""
    kind = ASSIGNED_POD if new.node_name else resource
    changes = list(_pod_changes(old, new)) or [Action.UPDATE]
    return [ClusterEvent(kind, change) for change in changes]


def node_scheduling_properties_change(old: Node, new: Node) -> list[ClusterEvent]:
    """One event per kind of change; none if only heartbeats or images changed."""
    return [ClusterEvent(NODE, change) for change in _node_changes(old, new)]


def _pod_changes(old: PodInfo, new: PodInfo) -> Iterator[Action]:
    if old.labels != new.labels:
        yield Action.UPDATE_POD_LABEL
    if _some_greater(old.requests, new.requests):
        yield Action.UPDATE_POD_SCALE_DOWN
    if _some_greater(new.requests, old.requests):
        yield Action.UPDATE_POD_SCALE_UP
    before, after = old.pod, new.pod
    if before.spec.scheduling_gates and not after.spec.scheduling_gates:
        yield Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    # Tolerations can be added, but neither changed nor removed.
    if len(before.spec.tolerations) != len(after.spec.tolerations):
        yield Action.UPDATE_POD_TOLERATION
    if (
        before.status.resource_claim_statuses != after.status.resource_claim_statuses
        or before.status.extended_resource_claim_status
        != after.status.extended_resource_claim_status
    ):
        yield Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM


def _some_greater(requests: Mapping[str, int], than: Mapping[str, int]) -> bool:
    return any(name not in than or amount > than[name] for name, amount in requests.items())


def _node_changes(old: Node, new: Node) -> Iterator[Action]:
    if old.spec.unschedulable and not new.spec.unschedulable:
        yield Action.UPDATE_NODE_TAINT
    if not _same_amounts(old.status.allocatable, new.status.allocatable):
        yield Action.UPDATE_NODE_ALLOCATABLE
    if old.metadata.labels != new.metadata.labels:
        yield Action.UPDATE_NODE_LABEL
    if old.spec.taints != new.spec.taints:
        yield Action.UPDATE_NODE_TAINT
    if _conditions(old) != _conditions(new):
        yield Action.UPDATE_NODE_CONDITION
    if old.metadata.annotations != new.metadata.annotations:
        yield Action.UPDATE_NODE_ANNOTATION
    if old.spec.pod_preemption_policy != new.spec.pod_preemption_policy:
        yield Action.UPDATE_NODE_PREEMPTION_POLICY
    if old.status.declared_features != new.status.declared_features:
        yield Action.UPDATE_NODE_DECLARED_FEATURE


def _same_amounts(one: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> bool:
    if one == other:
        return True
    try:
        return _amounts(one) == _amounts(other)
    except QuantityError:
        return False


def _amounts(quantities: Mapping[str, Quantity]) -> dict[str, int]:
    return {name: nano_value(quantity) for name, quantity in quantities.items()}


def _conditions(node: Node) -> dict[str, str]:
    """Without their heartbeats."""
    return {condition.type: condition.status for condition in node.status.conditions}
