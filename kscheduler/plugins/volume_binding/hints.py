"""What has to happen for a pod that its volumes kept from being placed."""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler.api import quantity
from kscheduler.api.core import PersistentVolumeClaim
from kscheduler.api.storage import CSIDriver, CSINode, CSIStorageCapacity, StorageClass
from kscheduler.api.volume_claims import MIGRATED_PLUGINS
from kscheduler.framework.cluster_event import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
    Action,
    ClusterEvent,
    EventWithHint,
    Hint,
)
from kscheduler.plugins.volume_binding.capacity import limit_of
from kscheduler.plugins.volume_binding.claims import claimed
from kscheduler.state.pod_info import PodInfo


def events() -> Sequence[EventWithHint]:
    changed = Action.ADD | Action.UPDATE
    labelled = Action.ADD | Action.UPDATE_NODE_LABEL
    return [
        EventWithHint(ClusterEvent(STORAGE_CLASS, changed), class_changed),
        EventWithHint(ClusterEvent(PERSISTENT_VOLUME_CLAIM, changed), claim_changed),
        EventWithHint(ClusterEvent(PERSISTENT_VOLUME, changed)),
        EventWithHint(ClusterEvent(NODE, labelled)),
        EventWithHint(ClusterEvent(CSI_NODE, changed), csi_node_changed),
        EventWithHint(ClusterEvent(CSI_DRIVER, Action.UPDATE), driver_changed),
        EventWithHint(ClusterEvent(CSI_STORAGE_CAPACITY, changed), capacity_changed),
    ]


def class_changed(pod: PodInfo, old: StorageClass | None, new: StorageClass) -> Hint:
    return (
        Hint.QUEUE if old is None or old.allowed_topologies != new.allowed_topologies else Hint.SKIP
    )


def claim_changed(
    pod: PodInfo, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim
) -> Hint:
    mine = pod.namespace == new.namespace
    return (
        Hint.QUEUE if mine and any(name == new.name for name, _ in claimed(pod.pod)) else Hint.SKIP
    )


def csi_node_changed(pod: PodInfo, old: CSINode | None, new: CSINode) -> Hint:
    return (
        Hint.QUEUE if old is None or _migrated_plugins(old) != _migrated_plugins(new) else Hint.SKIP
    )


def driver_changed(pod: PodInfo, old: CSIDriver, new: CSIDriver) -> Hint:
    """Upstream looks at volumes without a claim only, whose capacity nobody checks."""
    checks_no_more = bool(old.spec.storage_capacity) and not new.spec.storage_capacity
    volumes = pod.pod.spec.volumes
    used = any(volume.csi is not None and volume.csi.driver == new.name for volume in volumes)
    return Hint.QUEUE if used and checks_no_more else Hint.SKIP


def capacity_changed(pod: PodInfo, old: CSIStorageCapacity | None, new: CSIStorageCapacity) -> Hint:
    if old is None:
        return Hint.QUEUE
    before, after = limit_of(old), limit_of(new)
    if after is None:
        return Hint.SKIP
    return (
        Hint.QUEUE
        if before is None or quantity.value(after) > quantity.value(before)
        else Hint.SKIP
    )


def _migrated_plugins(node: CSINode) -> str:
    return node.metadata.annotations.get(MIGRATED_PLUGINS, "")
