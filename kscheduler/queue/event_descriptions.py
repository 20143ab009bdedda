"""Cluster events in words: "NodeAdd" is "a node is added"."""

from __future__ import annotations

from collections.abc import Iterator

from kscheduler.framework.cluster_event import (
    ASSIGNED_POD,
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_GROUP,
    POD_KINDS,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
    STORAGE_CLASS,
    TARGET_POD,
    UNSCHEDULED_POD,
    VOLUME_ATTACHMENT,
    WILDCARD,
    Action,
    ClusterEvent,
)

_KINDS = {
    POD: "a pod",
    ASSIGNED_POD: "a pod on a node",
    UNSCHEDULED_POD: "another pending pod",
    TARGET_POD: "the pod itself",
    NODE: "a node",
    PERSISTENT_VOLUME: "a persistent volume",
    PERSISTENT_VOLUME_CLAIM: "a persistent volume claim",
    CSI_NODE: "a CSINode",
    CSI_DRIVER: "a CSIDriver",
    CSI_STORAGE_CAPACITY: "a CSIStorageCapacity",
    STORAGE_CLASS: "a storage class",
    VOLUME_ATTACHMENT: "a volume attachment",
    RESOURCE_CLAIM: "a resource claim",
    RESOURCE_SLICE: "a resource slice",
    DEVICE_CLASS: "a device class",
    DEVICE_TAINT_RULE: "a device taint rule",
    POD_GROUP: "a pod group",
    WILDCARD: "an object of any kind",
}

# Parts of an object, by its kind; of kinds that are not here only whole objects change.
_PART_OF = {
    NODE: "a node's {part}",
    TARGET_POD: "the pod's own {part}",
}

_NODE_PARTS = {
    Action.UPDATE_NODE_ALLOCATABLE: ("allocatable resources", "change"),
    Action.UPDATE_NODE_LABEL: ("labels", "change"),
    Action.UPDATE_NODE_TAINT: ("taints", "change"),
    Action.UPDATE_NODE_CONDITION: ("conditions", "change"),
    Action.UPDATE_NODE_ANNOTATION: ("annotations", "change"),
    Action.UPDATE_NODE_DECLARED_FEATURE: ("declared features", "change"),
    Action.UPDATE_NODE_PREEMPTION_POLICY: ("preemption policy", "changes"),
}
_POD_PARTS = {
    Action.UPDATE_POD_LABEL: ("labels", "change"),
    Action.UPDATE_POD_SCALE_DOWN: ("resource requests", "shrink"),
    Action.UPDATE_POD_SCALE_UP: ("resource requests", "grow"),
    Action.UPDATE_POD_TOLERATION: ("tolerations", "change"),
    Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED: ("scheduling gates", "are removed"),
    Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM: ("generated resource claims", "change"),
}
_PARTS = _NODE_PARTS | _POD_PARTS

# The event handlers report no such events: a pod that is created is queued, a waiting pod that is
# deleted is forgotten.
_NEVER_SENT = {
    (UNSCHEDULED_POD, Action.ADD),
    (TARGET_POD, Action.ADD),
    (TARGET_POD, Action.DELETE),
}


def single_events(registered: ClusterEvent) -> Iterator[ClusterEvent]:
    """The events that a registration stands for, one kind of change each.

    Upstream has a label for each of these, but none for most combinations of them. All kinds of
    updates together are one event.
    """
    resource, wanted = registered.resource, registered.action
    if registered.is_wildcard:
        yield registered
        return
    updates = [Action.UPDATE]
    if wanted & Action.UPDATE != Action.UPDATE:
        updates = [part for part in _parts_of(resource) if part & wanted]
    for action in (Action.ADD, Action.DELETE, *updates):
        if action & wanted and (resource, action) not in _NEVER_SENT:
            yield ClusterEvent(resource, action)


def description(event: ClusterEvent) -> str:
    """Event in words, as the end of a sentence; "the pod" is the one that waits."""
    resource, action = event.resource, event.action
    kind = _KINDS.get(resource) or f"an object of {resource}"
    if action in _PARTS:
        part, change = _PARTS[action]
        whose = _PART_OF.get(resource, f"the {{part}} of {kind}")
        return f"{whose.format(part=part)} {change}"
    if action == Action.ADD:
        return "a pod is placed on a node" if resource == ASSIGNED_POD else f"{kind} is added"
    if action == Action.DELETE:
        return f"{kind} is deleted"
    if action == Action.ALL:
        return f"{kind} is added, changed or deleted"
    return f"{kind} changes"


def _parts_of(resource: str) -> tuple[Action, ...]:
    if resource == NODE:
        return tuple(_NODE_PARTS)
    if resource in POD_KINDS or resource == POD:
        return tuple(_POD_PARTS)
    return tuple(_PARTS) if resource == WILDCARD else ()
