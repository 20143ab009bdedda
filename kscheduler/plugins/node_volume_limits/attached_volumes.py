"""Attached volumes: how many of each CSI driver every row has, and how many more it may have.

A row is worked out again when its pods change, or an object that was read for it: a claim, a
volume, a storage class, a CSINode, an attachment. Between attempts that is few rows, so an attempt
costs what has changed since the last one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from kscheduler.api.core import PersistentVolume, PersistentVolumeClaim
from kscheduler.api.storage import CSINode, StorageClass, VolumeAttachment
from kscheduler.api.volume_claims import class_of_claim
from kscheduler.framework.listers import Listers
from kscheduler.framework.status import Mask
from kscheduler.plugins.node_volume_limits.volumes import PodVolumes, VolumeResolver, claims_of
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

BY_NODE = "va.spec.nodename"
NO_LIMIT = np.iinfo(np.int64).max

Numbers = NDArray[np.int64]  # [rows]
_K = TypeVar("_K")


class PodUse(msgspec.Struct):
    """Volumes of one pod on a node, and the objects that were read to find out."""

    pod: PodInfo
    volumes: PodVolumes
    # Kind and key of each.
    objects_read: tuple[tuple[type, str], ...]


class RowVolumes(msgspec.Struct):
    """Volumes attached to one node, as far as drivers count them."""

    node: str = ""
    has_csi_node: bool = False
    # By driver; one without an entry has no limit.
    limits: dict[str, int] = msgspec.field(default_factory=dict)
    installed: frozenset[str] = frozenset()
    # Volumes of pods, each with its driver; and the number by driver, attachments included.
    used: dict[str, str] = msgspec.field(default_factory=dict)
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    problem: str = ""
    # By uid, pods with volumes.
    uses: dict[str, PodUse] = msgspec.field(default_factory=dict)
    # Kind and key of each object that was read.
    objects_read: set[tuple[type, str]] = msgspec.field(default_factory=set)

    def is_used_by(self, pods: Iterable[PodInfo]) -> bool:
        """Whether the pods with volumes among these are the very ones that were counted."""
        users = [pod for pod in pods if pod.pod.spec.volumes]
        return users == [use.pod for use in self.uses.values()]

    def count(self, drivers: Iterable[str]) -> None:
        """One more volume for each time that a driver is named."""
        counts = self.counts
        for driver in drivers:
            counts[driver] = counts.get(driver, 0) + 1


class _OnChange:
    """A handler that calls back with every object that is new, changed or deleted."""

    def __init__(self, call: Callable[[Any], None]) -> None:
        self._call = call

    def on_add(self, item: Any, *, is_initial: bool) -> None:
        self._call(item)

    def on_update(self, old: Any, new: Any) -> None:
        self._call(old)
        self._call(new)

    def on_delete(self, item: Any, *, final_state_unknown: bool) -> None:
        self._call(item)


class DriverColumns:
    """One driver by row: how many more volumes it can attach, and whether it is installed."""

    __slots__ = ("installed", "room")

    def __init__(self, length: int) -> None:
        self.room: Numbers = np.full(length, NO_LIMIT, np.int64)
        self.installed: Mask = np.zeros(length, np.bool_)

    def put(self, row: int, name: str, volumes: RowVolumes) -> None:
        limit = volumes.limits.get(name)
        self.room[row] = NO_LIMIT if limit is None else limit - volumes.counts.get(name, 0)
        self.installed[row] = name in volumes.installed


class AttachedVolumes:
    def __init__(self, listers: Listers, resolver: VolumeResolver) -> None:
        self._resolver = resolver
        self._claims = listers.lister(PersistentVolumeClaim)
        self._volumes = listers.lister(PersistentVolume)
        self._csi_nodes = listers.lister(CSINode)
        self._attachments = listers.lister(VolumeAttachment)
        self._attachments.add_index(BY_NODE, lambda attachment: (attachment.spec.node_name,))
        self.rows: list[RowVolumes] = []
        self.has_csi_node: Mask = np.zeros(0, np.bool_)
        self.has_limits: Mask = np.zeros(0, np.bool_)
        # By row, why the volumes of its pods cannot be counted.
        self.problems: dict[int, str] = {}
        # Columns of the drivers that pods use; and the rows with each driver.
        self._drivers: dict[str, DriverColumns] = {}
        self._installed: defaultdict[str, set[int]] = defaultdict(set)
        # Rows for which an object was read, and rows with a volume.
        self._readers: defaultdict[tuple[type, str], set[int]] = defaultdict(set)
        self._users: defaultdict[str, set[int]] = defaultdict(set)
        # Objects that changed since they were read; and the place in the log of changed rows.
        self._changed: set[tuple[type, str]] = set()
        self._as_of = -1
        for kind in (PersistentVolumeClaim, PersistentVolume, StorageClass, CSINode):
            listers.lister(kind).add_handler(
                _OnChange(lambda item: self._mark_changed((type(item), item.key)))
            )
        # An attachment changes the row of its node, for which the CSINode was read.
        self._attachments.add_handler(
            _OnChange(lambda item: self._mark_changed((CSINode, item.spec.node_name)))
        )

    def _mark_changed(self, key: tuple[type, str]) -> None:
        if key in self._readers:
            self._changed.add(key)

    def driver(self, name: str) -> DriverColumns | None:
        """None if it is installed nowhere. Columns are made when a pod uses the driver: a CSINode
        may list thousands that no pod uses.
        """
        if name not in self._installed:
            return None
        columns = self._drivers.get(name)
        if columns is None:
            columns = self._drivers[name] = DriverColumns(len(self.rows))
            for row in self._installed[name]:
                columns.put(row, name, self.rows[row])
        return columns

    def users(self, volume: str) -> Iterable[int]:
        """Rows where a pod has this volume already."""
        return self._users.get(volume, ())

    def refresh(self, whole: Nodes) -> None:
        """Bring every row up to date with the snapshot; not for what-ifs."""
        log = whole.changed_rows
        assert log is not None, "a what-if has no past"
        moved = log.since(self._as_of)
        length = len(whole)
        if length != len(self.rows):
            # Rows that are gone are emptied first: their readers and users must not outlive them.
            for row in range(length, len(self.rows)):
                self._replace(row, RowVolumes())
            del self.rows[length:]
            self.rows.extend(RowVolumes() for _ in range(length - len(self.rows)))
            self.has_csi_node = _resized(self.has_csi_node, length, 0)
            self.has_limits = _resized(self.has_limits, length, 0)
            for columns in self._drivers.values():
                columns.room = _resized(columns.room, length, NO_LIMIT)
                columns.installed = _resized(columns.installed, length, 0)
        changed = set().union(*(self._readers.get(key, ()) for key in self._changed))
        for row in changed:
            self._refresh_row(row, whole, {})
        for row in (set(range(length)) if moved is None else moved) - changed:
            was, node = self.rows[row], whole.name_of(row)
            # Of a node without limits pods do not matter.
            if was.node == node and (not was.limits or was.is_used_by(whole.pods(row))):
                continue
            self._refresh_row(row, whole, was.uses)
        self._changed.clear()
        self._as_of = log.now

    def with_pods(self, row: int, pods: Sequence[PodInfo]) -> RowVolumes:
        """Volumes that would be attached to the row if these were its pods."""
        known = self.rows[row]
        return known if known.is_used_by(pods) else self._volumes_on(known.node, pods, known.uses)

    def _refresh_row(self, row: int, whole: Nodes, known: Mapping[str, PodUse]) -> None:
        now = RowVolumes()
        if whole.valid[row]:
            now = self._volumes_on(whole.name_of(row), whole.pods(row), known)
        self._replace(row, now)

    def _volumes_on(
        self, node: str, pods: Iterable[PodInfo], known: Mapping[str, PodUse]
    ) -> RowVolumes:
        """Worked out from scratch, but for pods of which what is `known` still holds."""
        found = RowVolumes(node)
        found.objects_read.add((CSINode, node))
        csi_node = self._csi_nodes.get(node)
        if csi_node is not None:
            drivers = csi_node.spec.drivers or ()
            found.has_csi_node = True
            found.installed = frozenset(driver.name for driver in drivers)
            found.limits = {
                driver.name: driver.allocatable.count
                for driver in drivers
                if driver.allocatable is not None and driver.allocatable.count is not None
            }
        # Without a limit the number does not matter.
        if not found.limits:
            return found
        for pod in pods:
            if not pod.pod.spec.volumes:
                continue
            use = known.get(pod.uid)
            if use is None or use.pod is not pod:
                use = self._use_of(pod)
            found.uses[pod.uid] = use
            found.objects_read.update(use.objects_read)
            found.used |= use.volumes.attachable
            if use.volumes.problem is not None and not found.problem:
                found.problem = use.volumes.problem.message
        found.count(found.used.values())
        # Volumes that are attached though no pod uses them, or not any more.
        attached = set()
        for attachment in self._attachments.by_index(BY_NODE, node):
            spec = attachment.spec
            name = spec.source.persistent_volume_name
            if not spec.attacher or name is None:
                continue
            found.objects_read.add((PersistentVolume, name))
            volume = self._volumes.get(name)
            if volume is not None and volume.spec.csi is not None:
                attached.add((f"{spec.attacher}/{volume.spec.csi.volume_handle}", spec.attacher))
        found.count(attacher for key, attacher in attached if key not in found.used)
        return found

    def _use_of(self, pod: PodInfo) -> PodUse:
        objects_read: list[tuple[type, str]] = []
        for claim in claims_of(pod.pod):
            objects_read.append((PersistentVolumeClaim, claim))
            stored = self._claims.get(claim)
            if stored is not None:
                objects_read.append((StorageClass, class_of_claim(stored)))
                objects_read.append((PersistentVolume, stored.spec.volume_name))
        volumes = self._resolver.of_pod(pod.pod, is_new=False, has_csi_node=True)
        return PodUse(pod, volumes, tuple(objects_read))

    def _replace(self, row: int, now: RowVolumes) -> None:
        was, self.rows[row] = self.rows[row], now
        _move_row(self._readers, row, was.objects_read, now.objects_read)
        _move_row(self._users, row, was.used.keys(), now.used.keys())
        _move_row(self._installed, row, was.installed, now.installed)
        for name in self._drivers.keys() & (was.installed | now.installed):
            if name in self._installed:
                self._drivers[name].put(row, name, now)
            else:
                del self._drivers[name]
        self.problems.pop(row, None)
        if now.problem:
            self.problems[row] = now.problem
        self.has_csi_node[row] = now.has_csi_node
        self.has_limits[row] = bool(now.limits)


def _move_row(
    rows_of: defaultdict[_K, set[int]], row: int, before: AbstractSet[_K], after: AbstractSet[_K]
) -> None:
    """Take the row from the sets it was in, and add it to those it is in now."""
    for key in before - after:
        rows_of[key].discard(row)
        if not rows_of[key]:
            del rows_of[key]
    for key in after - before:
        rows_of[key].add(row)


def _resized(column: NDArray[Any], length: int, fill: int) -> NDArray[Any]:
    resized = np.full(length, fill, column.dtype)
    kept = min(length, len(column))
    resized[:kept] = column[:kept]
    return resized
