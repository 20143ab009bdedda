"""Cluster events: changes that may make a rejected pod schedulable, and registrations for them.

Mirrors ClusterEvent and its constants in k8s.io/kube-scheduler/framework: names, bits and labels
are upstream's, because metrics and logs show them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import Enum, IntFlag
from typing import Any, Protocol

import msgspec

from kscheduler.api import resources
from kscheduler.api.resources import Resource


class Action(IntFlag):
    """Kinds of change, as bits; UPDATE is all of the updates, ALL is everything."""

    NONE = 0
    ADD = 1
    DELETE = 2
    UPDATE_NODE_ALLOCATABLE = 4
    UPDATE_NODE_LABEL = 8
    UPDATE_NODE_TAINT = 16
    UPDATE_NODE_CONDITION = 32
    UPDATE_NODE_ANNOTATION = 64
    UPDATE_NODE_DECLARED_FEATURE = 128
    UPDATE_NODE_PREEMPTION_POLICY = 256
    UPDATE_POD_LABEL = 512
    UPDATE_POD_SCALE_DOWN = 1024
    UPDATE_POD_SCALE_UP = 2048
    UPDATE_POD_TOLERATION = 4096
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 8192
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 16384
    ALL = 32767
    UPDATE = 32764

    @property
    def text(self) -> str:
        """`UpdateNodeLabel`; a mask that is neither one bit nor Update nor All has no text."""
        return _ACTION_TEXTS.get(int(self), "")


_ACTION_TEXTS = {
    int(action): "".join(part.capitalize() for part in (action.name or "").split("_"))
    for action in (*Action, Action.ALL, Action.UPDATE)
}

# Kinds by the names upstream uses in labels and registrations: `group/Kind`, or `Kind` for the core
# group. Pods and nodes have event handlers of their own.
POD = "Pod"
ASSIGNED_POD = "AssignedPod"
UNSCHEDULED_POD = "UnscheduledPod"
TARGET_POD = "TargetPod"
NODE = "Node"
PERSISTENT_VOLUME = "PersistentVolume"
PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
CSI_NODE = "storage.k8s.io/CSINode"
CSI_DRIVER = "storage.k8s.io/CSIDriver"
CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
STORAGE_CLASS = "storage.k8s.io/StorageClass"
VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
DEVICE_CLASS = "resource.k8s.io/DeviceClass"
DEVICE_TAINT_RULE = "resource.k8s.io/DeviceTaintRule"
POD_GROUP = "scheduling.k8s.io/PodGroup"
WILDCARD = "*"

POD_KINDS = (ASSIGNED_POD, UNSCHEDULED_POD, TARGET_POD)

# Kinds besides pods and nodes that have structs, and where they are found. A plugin names any other
# kind as `plural.version.group`, and gets plain mappings.
OTHER_KINDS: Mapping[str, Resource] = {
    PERSISTENT_VOLUME: resources.PERSISTENT_VOLUMES,
    PERSISTENT_VOLUME_CLAIM: resources.PERSISTENT_VOLUME_CLAIMS,
    CSI_NODE: resources.CSI_NODES,
    CSI_DRIVER: resources.CSI_DRIVERS,
    CSI_STORAGE_CAPACITY: resources.CSI_STORAGE_CAPACITIES,
    STORAGE_CLASS: resources.STORAGE_CLASSES,
    VOLUME_ATTACHMENT: resources.VOLUME_ATTACHMENTS,
    RESOURCE_CLAIM: resources.RESOURCE_CLAIMS,
    RESOURCE_SLICE: resources.RESOURCE_SLICES,
    DEVICE_CLASS: resources.DEVICE_CLASSES,
    DEVICE_TAINT_RULE: resources.DEVICE_TAINT_RULES,
}

# Kinds whose events wake the pods of a plugin that does not say which events could help; upstream
# leaves the others out.
WAKING_KINDS = (
    *POD_KINDS,
    NODE,
    *(
        kind
        for kind in OTHER_KINDS
        if kind not in (VOLUME_ATTACHMENT, RESOURCE_SLICE, DEVICE_TAINT_RULE)
    ),
)


class ClusterEvent(msgspec.Struct, frozen=True):
    """A change of objects of one kind; in a registration, a pattern of such changes."""

    resource: str
    action: Action
    custom_label: str = ""

    @property
    def label(self) -> str:
        """The name in metrics and logs: `NodeAdd`."""
        return self.custom_label or self.resource + self.action.text

    @property
    def is_wildcard(self) -> bool:
        """Whether it matches every event."""
        return self.resource == WILDCARD and self.action == Action.ALL

    def matches(self, incoming: ClusterEvent) -> bool:
        """Whether this registration wants the incoming event."""
        if self.is_wildcard:
            return True
        return (
            (
                self.resource in (incoming.resource, WILDCARD)
                or (self.resource == POD and incoming.resource in POD_KINDS)
            )
            and bool(self.action & incoming.action)
            and incoming.action <= self.action
        )


ANY_CHANGE = ClusterEvent(WILDCARD, Action.ALL)
UNSCHEDULABLE_TIMEOUT = ClusterEvent(WILDCARD, Action.ALL, "UnschedulableTimeout")
FORCE_ACTIVATE = ClusterEvent(WILDCARD, Action.ALL, "ForceActivate")

# Labels of queue moves that no cluster event causes.
SCHEDULE_ATTEMPT_FAILURE = "ScheduleAttemptFailure"
BACKOFF_COMPLETE = "BackoffComplete"
POP_FROM_BACKOFF_Q = "PopFromBackoffQ"
UNSCHEDULED_POD_ADD = "UnscheduledPodAdd"


class Hint(Enum):
    """A plugin's opinion whether an event could make the pod schedulable."""

    QUEUE = "Queue"
    SKIP = "QueueSkip"


class HintFunction(Protocol):
    """Called with the waiting pod (a PodInfo) and the object before and after the event.

    One of the two may be None. Raising counts as QUEUE, with the error logged.
    """

    def __call__(self, pod: Any, old: Any, new: Any, /) -> Hint: ...


class PreHintFunction(Protocol):
    """Called once per event, with the object before and after it: which pods could it help?

    Returns their keys, or None for any pod. Pods that are not named are not asked about.
    """

    def __call__(self, old: Any, new: Any, /) -> Collection[str] | None: ...


class EventWithHint(msgspec.Struct, frozen=True):
    """One registration of a plugin; without a hint every such event queues the pod."""

    event: ClusterEvent
    hint: HintFunction | Callable[[Any, Any, Any], Hint] | None = None
    pre_hint: PreHintFunction | Callable[[Any, Any], Collection[str] | None] | None = None
