"""NodeVolumeLimits: no more volumes on a node than its drivers can attach.

Mirrors pkg/scheduler/framework/plugins/nodevolumelimits. Differs: of several drivers that are
missing on a node the first the pod names is reported, where upstream leaves that to chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kscheduler.api.core import PersistentVolumeClaim
from kscheduler.api.csi_translation import TranslationError, inline_handle, migration_of
from kscheduler.api.requests import is_resize_deferred
from kscheduler.api.resources import (
    CSI_DRIVERS,
    CSI_NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
)
from kscheduler.api.storage import CSIDriver, CSINode, VolumeAttachment
from kscheduler.framework.cluster_event import (
    ASSIGNED_POD,
    CSI_NODE,
    PERSISTENT_VOLUME_CLAIM,
    VOLUME_ATTACHMENT,
    Action,
    ClusterEvent,
    EventWithHint,
    Hint,
)
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.declaration import plugin
from kscheduler.framework.handle import Handle
from kscheduler.framework.in_tree import MAX_DETAILS, Shortfall
from kscheduler.framework.status import SKIP, Code, Mask, Rejection, Status, unschedulable
from kscheduler.plugins.helper import signers
from kscheduler.plugins.node_volume_limits.attached_volumes import AttachedVolumes, RowVolumes
from kscheduler.plugins.node_volume_limits.volumes import (
    Attachable,
    PodVolumes,
    VolumeResolver,
    claims_of,
    inline_driver,
    may_be_attached,
)
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.occupancy import Occupancy
from kscheduler.state.pod_info import PodInfo

TOO_MANY = "node(s) exceed max volume count"


class NewVolumes(NamedTuple):
    """Volumes of the pod on nodes with a CSINode and on nodes without."""

    with_csi_node: PodVolumes
    # None where every node has one.
    without_csi_node: PodVolumes | None
    # Pods on nodes when the attached volumes were counted.
    counted: Occupancy


@plugin(
    reads=(
        CSI_NODES,
        CSI_DRIVERS,
        PERSISTENT_VOLUMES,
        PERSISTENT_VOLUME_CLAIMS,
        STORAGE_CLASSES,
        VOLUME_ATTACHMENTS,
    )
)
class NodeVolumeLimits:
    name = "NodeVolumeLimits"

    def __init__(self, args: None, handle: Handle) -> None:
        self._handle = handle
        self._drivers = handle.listers.lister(CSIDriver)
        self._resolver = VolumeResolver(handle.listers)
        self._attached = AttachedVolumes(handle.listers, self._resolver)
        self._needs_driver = handle.gates.enabled("VolumeLimitScaling")
        self._passes_resizes = handle.gates.enabled("InPlacePodVerticalScalingSchedulerPreemption")

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        if not pod.pod.spec.volumes or not may_be_attached(pod.pod):
            return SKIP
        if self._passes_resizes and is_resize_deferred(pod.pod):
            return SKIP
        cycle.put(self._new_volumes(pod))
        return None

    def _new_volumes(self, pod: PodInfo) -> NewVolumes:
        # Nodes may be a what-if: volumes are counted as of the snapshot, and Filter looks at the
        # nodes that differ from it.
        snapshot = self._handle.snapshot()
        self._attached.refresh(snapshot)
        of_pod, without_csi_node = self._resolver.of_pod, None
        if np.count_nonzero(self._attached.has_csi_node) < snapshot.total:
            without_csi_node = of_pod(pod.pod, is_new=True, has_csi_node=False)
        with_csi_node = of_pod(pod.pod, is_new=True, has_csi_node=True)
        return NewVolumes(with_csi_node, without_csi_node, snapshot.occupancy)

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Iterator[Rejection]:
        new, mask = cycle.get(NewVolumes) or self._new_volumes(pod), nodes.valid
        if new.without_csi_node is not None:
            mask = _at(nodes, self._attached.has_csi_node)
            yield from self._check_drivers(new.without_csi_node, nodes.valid & ~mask, nodes)
        mask = yield from self._check_drivers(new.with_csi_node, mask, nodes)
        if new.with_csi_node.problem is None and new.with_csi_node.attachable:
            yield from self._check_limits(new.with_csi_node.attachable, mask, nodes, new.counted)

    def describe_rejected(
        self, cycle: CycleState, pod: PodInfo, nodes: Nodes, reason: str
    ) -> Iterator[Shortfall]:
        """Of the nodes with the least room for the driver that is short, the one with most."""
        new = cycle.get(NewVolumes)
        if reason != TOO_MANY or new is None or new.with_csi_node.problem is not None:
            return
        asked = Counter(new.with_csi_node.attachable.values())
        for driver, count in asked.most_common(MAX_DETAILS):
            columns = self._attached.driver(driver)
            if columns is None:
                continue
            room = columns.room.take(nodes.rows)
            short = np.flatnonzero(room < count)
            if len(short):
                most = int(short[int(room[short].argmax())])
                yield Shortfall(f"volumes of {driver}", count, max(int(room[most]), 0), most)
                return

    def _check_drivers(
        self, new: PodVolumes, mask: Mask, nodes: Nodes
    ) -> Generator[Rejection, None, Mask]:
        """Rejections whatever is attached already; returns the mask of nodes that are left."""
        if new.problem is not None:
            yield Rejection(mask, new.problem.code, new.problem.message)
            return mask
        if not self._needs_driver:
            return mask
        for name in dict.fromkeys(new.attachable.values()):
            driver = self._drivers.get(name)
            if driver is not None and driver.spec.prevent_pod_scheduling_if_missing:
                columns = self._attached.driver(name)
                missing = mask if columns is None else mask & ~_at(nodes, columns.installed)
                yield unschedulable(missing, f"{name} CSI driver is not installed on the node")
                mask = mask & ~missing
        return mask

    def _check_limits(
        self, new: Attachable, mask: Mask, nodes: Nodes, counted: Occupancy
    ) -> Iterator[Rejection]:
        too_many = _at(nodes, self._too_many(new))
        # By position among these nodes, why volumes of the pods there cannot be counted.
        problems: dict[int, str] = {}
        if self._attached.problems:
            known = self._attached.problems
            rows = enumerate(nodes.rows.tolist())
            problems = {position: known[row] for position, row in rows if row in known}
        if nodes.occupancy is not counted:
            # In a what-if nodes with other pods are counted again, one by one.
            mask = mask & _at(nodes, self._attached.has_limits)
            too_many = too_many.copy()
            for position in np.flatnonzero(mask).tolist():
                row = int(nodes.rows[position])
                if nodes.occupancy.pods(row) is counted.pods(row):
                    continue
                found = self._attached.with_pods(row, nodes.pods(position))
                too_many[position] = _exceeds(new, found)
                problems[position] = found.problem
        for problem in dict.fromkeys(filter(None, problems.values())):
            failing = np.zeros(len(nodes), np.bool_)
            failing[[position for position, text in problems.items() if text == problem]] = True
            yield Rejection(failing & mask, Code.ERROR, problem)
            mask = mask & ~failing
        if too_many.any():
            yield unschedulable(too_many & mask, TOO_MANY)

    def _too_many(self, new: Attachable) -> Mask:
        """By row of the whole table, whether attached and new volumes are more than the limit.

        Costs one comparison per driver, and a look at each row where one of the very volumes is
        attached already.
        """
        attached = self._attached
        too_many: Mask | None = None
        by_driver: dict[str, list[str]] = {}
        for volume, driver in new.items():
            by_driver.setdefault(driver, []).append(volume)
        for driver, volumes in by_driver.items():
            columns = attached.driver(driver)
            if columns is None:
                continue
            count = len(volumes)
            full = columns.room < count
            there: dict[int, int] = {}
            for volume in volumes:
                for row in attached.users(volume):
                    there[row] = there.get(row, 0) + 1
            for row, known in there.items():
                full[row] = known < count and columns.room[row] < count - known
            too_many = full if too_many is None else too_many | full
        return np.zeros(len(attached.rows), np.bool_) if too_many is None else too_many

    def events_to_register(self) -> Sequence[EventWithHint]:
        return [
            EventWithHint(ClusterEvent(CSI_NODE, Action.ADD)),
            EventWithHint(ClusterEvent(CSI_NODE, Action.UPDATE), _limits_changed),
            EventWithHint(ClusterEvent(ASSIGNED_POD, Action.DELETE), _pod_deleted),
            EventWithHint(ClusterEvent(PERSISTENT_VOLUME_CLAIM, Action.ADD), _claim_added),
            EventWithHint(ClusterEvent(VOLUME_ATTACHMENT, Action.DELETE), _detached),
        ]

    def sign(self, pod: PodInfo) -> Mapping[str, object] | Status:
        return signers.volumes(pod)


def _at(nodes: Nodes, column: Mask) -> Mask:
    """The part of a column over all rows that is for these nodes."""
    return column if nodes.whole is nodes else column.take(nodes.rows)


def _exceeds(new: Attachable, there: RowVolumes) -> bool:
    brought = Counter(driver for volume, driver in new.items() if volume not in there.used)
    return any(
        driver in there.limits and there.counts.get(driver, 0) + count > there.limits[driver]
        for driver, count in brought.items()
    )


def _limits_changed(pod: PodInfo, old: CSINode, new: CSINode) -> Hint:
    before = _counts(old)
    grew = any(count > before.get(driver, 0) for driver, count in _counts(new).items())
    return Hint.QUEUE if grew else Hint.SKIP


def _counts(node: CSINode) -> dict[str, int]:
    return {
        driver.name: (driver.allocatable.count or 0) if driver.allocatable is not None else 0
        for driver in node.spec.drivers or ()
    }


def _pod_deleted(pod: PodInfo, old: PodInfo, new: None) -> Hint:
    was_somewhere = bool(old.node_name or old.pod.status.nominated_node_name)
    return Hint.QUEUE if was_somewhere and may_be_attached(old.pod) else Hint.SKIP


def _claim_added(pod: PodInfo, old: None, new: PersistentVolumeClaim) -> Hint:
    return Hint.QUEUE if new.key in claims_of(pod.pod) else Hint.SKIP


def _detached(pod: PodInfo, old: VolumeAttachment, new: None) -> Hint:
    for volume in pod.pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            return Hint.QUEUE
        migration = migration_of(volume)
        try:
            if migration is not None:
                inline_handle(volume, migration)
        except TranslationError:
            return Hint.QUEUE
        if inline_driver(volume) == old.spec.attacher:
            return Hint.QUEUE
    return Hint.SKIP
