"""How many volumes of each driver every row has, and how many it may have.

Rows are looked at again when their pods change, or an object that was looked at: a claim, a volume,
an attachment, what drivers say about the node. Between attempts that is few of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.core import PersistentVolume, PersistentVolumeClaim
from kscheduler.api.storage import CSINode, StorageClass, VolumeAttachment
from kscheduler.framework.listers import Listers
from kscheduler.framework.verdict import Mask
from kscheduler.plugins.node_volume_limits.volumes import Resolver, claims_of
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.row_log import RowLog

BY_NODE = "va.spec.nodename"
NO_LIMIT = np.iinfo(np.int64).max

Numbers = NDArray[np.int64]  # [rows]


@dataclass(slots=True)
class RowVolumes:
    """What is attached to one node, as far as drivers count it."""

    has_csi_node: bool = False
    limits: dict[str, int] = field(default_factory=dict)
    installed: frozenset[str] = frozenset()
    # Volumes of pods, with their drivers; and how many there are, attachments included.
    used: dict[str, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    problem: str = ""
    # Names of what was looked at.
    seen: set[tuple[type, str]] = field(default_factory=set)


class _Notes:
    """Writes down which objects of a kind have changed."""

    def __init__(self, note: Callable[[Any], None]) -> None:
        self._note = note

    def on_add(self, item: Any, *, is_initial: bool) -> None:
        self._note(item)

    def on_update(self, old: Any, new: Any) -> None:
        self._note(old)
        self._note(new)

    def on_delete(self, item: Any, *, final_state_unknown: bool) -> None:
        self._note(item)


class DriverColumns:
    """One driver, row by row."""

    __slots__ = ("counts", "installed", "limits")

    def __init__(self, length: int) -> None:
        self.counts: Numbers = np.zeros(length, np.int64)
        self.limits: Numbers = np.full(length, NO_LIMIT, np.int64)
        self.installed: Mask = np.zeros(length, np.bool_)

    def resize(self, length: int) -> None:
        self.counts = _resized(self.counts, length, 0)
        self.limits = _resized(self.limits, length, NO_LIMIT)
        self.installed = _resized(self.installed, length, 0)


class Attached:
    def __init__(self, listers: Listers, resolver: Resolver) -> None:
        self._resolver = resolver
        self._claims = listers.lister(PersistentVolumeClaim)
        self._volumes = listers.lister(PersistentVolume)
        self._csi_nodes = listers.lister(CSINode)
        self._attachments = listers.lister(VolumeAttachment)
        self._attachments.add_index(BY_NODE, lambda attachment: (attachment.spec.node_name,))
        # None: everything has to be looked at.
        self._changed: set[tuple[type, str]] | None = None
        self._log: RowLog | None = None
        self._as_of = 0
        self._forget(0)
        for kind in (PersistentVolumeClaim, PersistentVolume, CSINode):
            listers.lister(kind).add_handler(_Notes(self._note_object))
        listers.lister(StorageClass).add_handler(_Notes(self._note_class))
        self._attachments.add_handler(_Notes(self._note_attachment))

    def _forget(self, length: int) -> None:
        self.rows: list[RowVolumes] = [RowVolumes() for _ in range(length)]
        self.has_csi_node: Mask = np.zeros(length, np.bool_)
        self.has_limits: Mask = np.zeros(length, np.bool_)
        self.problems: dict[int, str] = {}
        self._drivers: dict[str, DriverColumns] = {}
        # Who looked at an object, and who has a volume.
        self._readers: defaultdict[tuple[type, str], set[int]] = defaultdict(set)
        self._users: defaultdict[str, set[int]] = defaultdict(set)

    def _note_object(self, item: Any) -> None:
        if self._changed is not None:
            self._changed.add((type(item), item.key))

    def _note_attachment(self, item: VolumeAttachment) -> None:
        if self._changed is not None:
            self._changed.add((CSINode, item.spec.node_name))

    def _note_class(self, item: StorageClass) -> None:
        self._changed = None

    def driver(self, name: str) -> DriverColumns:
        return self._drivers.get(name) or DriverColumns(len(self.rows))

    def users(self, volume: str) -> Iterable[int]:
        """The rows where a pod has this volume already."""
        return self._users.get(volume, ())

    def refresh(self, whole: Nodes) -> None:
        """Brings every row up to date with the nodes that are there; not for what-ifs."""
        log = whole.changed_rows
        assert log is not None, "a what-if has no past"
        dirty = self._dirty_rows(log)
        if dirty is None:
            self._forget(len(whole))
            dirty = range(len(whole))
        elif len(whole) != len(self.rows):
            self._resize(len(whole))
        for row in dirty:
            if row < len(self.rows):
                self._look_again(row, whole)
        self._changed = set()
        self._log, self._as_of = log, log.now

    def _dirty_rows(self, log: RowLog) -> Iterable[int] | None:
        """None where that is not known, or would be all of them."""
        if self._changed is None or log is not self._log:
            return None
        rows = log.since(self._as_of)
        if rows is None:
            return None
        for key in self._changed:
            rows |= self._readers.get(key, set())
        return rows

    def _resize(self, length: int) -> None:
        for row in range(length, len(self.rows)):
            self._take_out(row)
        del self.rows[length:]
        self.rows.extend(RowVolumes() for _ in range(length - len(self.rows)))
        self.has_csi_node = _resized(self.has_csi_node, length, 0)
        self.has_limits = _resized(self.has_limits, length, 0)
        for columns in self._drivers.values():
            columns.resize(length)

    def _look_again(self, row: int, whole: Nodes) -> None:
        self._take_out(row)
        if whole.valid[row]:
            self._put_in(row, self.look(whole.name_of(row), whole.pods(row)))

    def look(self, node: str, pods: Iterable[PodInfo]) -> RowVolumes:
        """The truth about one node with these pods, from scratch."""
        found = RowVolumes()
        found.seen.add((CSINode, node))
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
        # Without a limit nobody asks how many there are.
        if found.limits:
            self._add_pods(found, pods)
            found.counts.update(found.used.values())
            self._add_attachments(found, node)
        return found

    def _add_pods(self, found: RowVolumes, pods: Iterable[PodInfo]) -> None:
        for pod in pods:
            if not pod.pod.spec.volumes:
                continue
            for claim in claims_of(pod.pod):
                found.seen.add((PersistentVolumeClaim, claim))
                stored = self._claims.get(claim)
                if stored is not None and stored.spec.volume_name:
                    found.seen.add((PersistentVolume, stored.spec.volume_name))
            volumes = self._resolver.of_pod(pod.pod, is_new=False, has_csi_node=True)
            found.used |= volumes.attachable
            if volumes.problem is not None and not found.problem:
                found.problem = volumes.problem.message

    def _add_attachments(self, found: RowVolumes, node: str) -> None:
        attached = set()
        for attachment in self._attachments.by_index(BY_NODE, node):
            spec = attachment.spec
            name = spec.source.persistent_volume_name
            if not spec.attacher or name is None:
                continue
            found.seen.add((PersistentVolume, name))
            volume = self._volumes.get(name)
            if volume is not None and volume.spec.csi is not None:
                attached.add((f"{spec.attacher}/{volume.spec.csi.volume_handle}", spec.attacher))
        found.counts.update(attacher for key, attacher in attached if key not in found.used)

    def _take_out(self, row: int) -> None:
        was = self.rows[row]
        for key in was.seen:
            self._readers[key].discard(row)
            if not self._readers[key]:
                del self._readers[key]
        for volume in was.used:
            self._users[volume].discard(row)
            if not self._users[volume]:
                del self._users[volume]
        for name in {*was.counts, *was.limits, *was.installed}:
            columns = self._drivers[name]
            columns.counts[row] = 0
            columns.limits[row] = NO_LIMIT
            columns.installed[row] = False
        self.problems.pop(row, None)
        self.has_csi_node[row] = self.has_limits[row] = False
        self.rows[row] = RowVolumes()

    def _put_in(self, row: int, now: RowVolumes) -> None:
        self.rows[row] = now
        for key in now.seen:
            self._readers[key].add(row)
        for volume in now.used:
            self._users[volume].add(row)
        for name, count in now.counts.items():
            self._columns(name).counts[row] = count
        for name, limit in now.limits.items():
            self._columns(name).limits[row] = limit
        for name in now.installed:
            self._columns(name).installed[row] = True
        if now.problem:
            self.problems[row] = now.problem
        self.has_csi_node[row] = now.has_csi_node
        self.has_limits[row] = bool(now.limits)

    def _columns(self, name: str) -> DriverColumns:
        found = self._drivers.get(name)
        if found is None:
            found = self._drivers[name] = DriverColumns(len(self.rows))
        return found


def _resized(column: NDArray[Any], length: int, fill: int) -> NDArray[Any]:
    resized = np.full(length, fill, column.dtype)
    kept = min(length, len(column))
    resized[:kept] = column[:kept]
    return resized
