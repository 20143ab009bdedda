"""NodeVolumeLimits: no more volumes on a node than its drivers can attach.

Mirrors pkg/scheduler/framework/plugins/nodevolumelimits. Differs: of several drivers that are
missing on a node the first the pod names is told, where upstream leaves that to chance.
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
from kscheduler.framework.status import SKIP, Code, Mask, Rejection, Status, unschedulable
from kscheduler.plugins.helper import signers
from kscheduler.plugins.node_volume_limits.attached import Attached, RowVolumes
from kscheduler.plugins.node_volume_limits.volumes import (
    Attachable,
    PodVolumes,
    Resolver,
    claims_of,
    inline_driver,
    may_be_attached,
)
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.occupancy import Occupancy
from kscheduler.state.pod_info import PodInfo

TOO_MANY = "node(s) exceed max volume count"


class NewVolumes(NamedTuple):
    """What the pod would bring to a node, with a CSINode and without; and who is there now.

    Without it is None where every node has one.
    """

    registered: PodVolumes
    unregistered: PodVolumes | None
    there: Occupancy


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
        self._resolver = Resolver(handle.listers)
        self._attached = Attached(handle.listers, self._resolver)
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
        # Nodes may be a what-if; counted is what is there, and differences are looked at.
        there = self._handle.snapshot()
        self._attached.refresh(there)
        of_pod, unregistered = self._resolver.of_pod, None
        if np.count_nonzero(self._attached.has_csi_node) < there.total:
            unregistered = of_pod(pod.pod, is_new=True, has_csi_node=False)
        registered = of_pod(pod.pod, is_new=True, has_csi_node=True)
        return NewVolumes(registered, unregistered, there.occupancy)

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Iterator[Rejection]:
        new, mask = cycle.get(NewVolumes) or self._new_volumes(pod), nodes.valid
        if new.unregistered is not None:
            mask = _at(nodes, self._attached.has_csi_node)
            yield from self._without_limits(new.unregistered, nodes.valid & ~mask, nodes)
        mask = yield from self._without_limits(new.registered, mask, nodes)
        if new.registered.problem is None and new.registered.attachable:
            yield from self._count(new.registered.attachable, mask, nodes, new.there)

    def _without_limits(
        self, new: PodVolumes, mask: Mask, nodes: Nodes
    ) -> Generator[Rejection, None, Mask]:
        """What is wrong whatever is attached already; returns who is left."""
        if new.problem is not None:
            yield Rejection(mask, new.problem.code, new.problem.message)
            return mask
        for driver in dict.fromkeys(new.attachable.values()):
            if self._is_needed(driver):
                columns = self._attached.driver(driver)
                missing = mask if columns is None else mask & ~_at(nodes, columns.installed)
                yield unschedulable(missing, f"{driver} CSI driver is not installed on the node")
                mask = mask & ~missing
        return mask

    def _is_needed(self, name: str) -> bool:
        """Whether pods must not go where this driver is not."""
        if not self._needs_driver:
            return False
        driver = self._drivers.get(name)
        return driver is not None and bool(driver.spec.prevent_pod_scheduling_if_missing)

    def _count(
        self, new: Attachable, mask: Mask, nodes: Nodes, there: Occupancy
    ) -> Iterator[Rejection]:
        too_many = _at(nodes, self._too_many(new))
        problems = self._problems(nodes)
        if nodes.occupancy is not there:
            mask = mask & _at(nodes, self._attached.has_limits)
            too_many = too_many.copy()
            for position in _supposed(mask, nodes, there):
                found = self._attached.with_pods(int(nodes.rows[position]), nodes.pods(position))
                too_many[position] = _exceeds(new, found)
                problems[position] = found.problem
        for problem in dict.fromkeys(filter(None, problems.values())):
            failing = np.zeros(len(nodes), np.bool_)
            failing[[position for position, text in problems.items() if text == problem]] = True
            yield Rejection(failing & mask, Code.ERROR, problem)
            mask = mask & ~failing
        if too_many.any():
            yield unschedulable(too_many & mask, TOO_MANY)

    def _problems(self, nodes: Nodes) -> dict[int, str]:
        """By position, what is wrong with volumes of pods that are there."""
        known = self._attached.problems
        if not known:
            return {}
        rows = enumerate(nodes.rows.tolist())
        return {position: known[row] for position, row in rows if row in known}

    def _too_many(self, new: Attachable) -> Mask:
        """Of all rows, those where what is there and what comes is more than the limit."""
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
    """Of a column over all rows, the part for these nodes."""
    return column if nodes.whole is nodes else column.take(nodes.rows)


def _supposed(mask: Mask, nodes: Nodes, there: Occupancy) -> Iterator[int]:
    """Positions in a what-if whose pods are not those that are there."""
    supposed = nodes.occupancy
    for position in np.flatnonzero(mask).tolist():
        row = int(nodes.rows[position])
        if supposed.pods(row) is not there.pods(row):
            yield position


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
