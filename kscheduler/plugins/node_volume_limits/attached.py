"""How many volumes of each driver every row has, and how many it may have.

Rows are looked at again when their pods change, or an object that was looked at: a claim, a volume,
an attachment, what drivers say about the node. Between attempts that is few of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.core import PersistentVolume, PersistentVolumeClaim
from kscheduler.api.storage import CSINode, StorageClass, VolumeAttachment
from kscheduler.api.volume_claims import class_of_claim
from kscheduler.framework.listers import Listers
from kscheduler.framework.status import Mask
from kscheduler.plugins.node_volume_limits.volumes import PodVolumes, Resolver, claims_of
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

BY_NODE = "va.spec.nodename"
NO_LIMIT = np.iinfo(np.int64).max

Numbers = NDArray[np.int64]  # [rows]
_K = TypeVar("_K")


@dataclass(slots=True)
class PodUse:
    """What one pod that is there uses, and the names of what was looked at to find out."""

    pod: PodInfo
    volumes: PodVolumes
    seen: tuple[tuple[type, str], ...]


@dataclass(slots=True)
class RowVolumes:
    """What is attached to one node, as far as drivers count it."""

    node: str = ""
    has_csi_node: bool = False
    limits: dict[str, int] = field(default_factory=dict)
    installed: frozenset[str] = frozenset()
    # Volumes of pods, with their drivers; and how many there are, attachments included.
    used: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    problem: str = ""
    # By uid, pods with volumes.
    uses: dict[str, PodUse] = field(default_factory=dict)
    # Names of what was looked at.
    seen: set[tuple[type, str]] = field(default_factory=set)

    def is_used_by(self, pods: Iterable[PodInfo]) -> bool:
        """Whether of these pods just those have volumes that had when this was found out."""
        users = [pod for pod in pods if pod.pod.spec.volumes]
        return users == [use.pod for use in self.uses.values()]

    def count(self, drivers: Iterable[str]) -> None:
        """One more volume for each time that a driver is named."""
        counts = self.counts
        for driver in drivers:
            counts[driver] = counts.get(driver, 0) + 1


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
    """One driver, row by row: how many more volumes it can attach, and whether it is there."""

    __slots__ = ("installed", "room")

    def __init__(self, length: int) -> None:
        self.room: Numbers = np.full(length, NO_LIMIT, np.int64)
        self.installed: Mask = np.zeros(length, np.bool_)

    def put(self, row: int, name: str, volumes: RowVolumes) -> None:
        limit = volumes.limits.get(name)
        self.room[row] = NO_LIMIT if limit is None else limit - volumes.counts.get(name, 0)
        self.installed[row] = name in volumes.installed


class Attached:
    def __init__(self, listers: Listers, resolver: Resolver) -> None:
        self._resolver = resolver
        self._claims = listers.lister(PersistentVolumeClaim)
        self._volumes = listers.lister(PersistentVolume)
        self._csi_nodes = listers.lister(CSINode)
        self._attachments = listers.lister(VolumeAttachment)
        self._attachments.add_index(BY_NODE, lambda attachment: (attachment.spec.node_name,))
        self.rows: list[RowVolumes] = []
        self.has_csi_node: Mask = np.zeros(0, np.bool_)
        self.has_limits: Mask = np.zeros(0, np.bool_)
        self.problems: dict[int, str] = {}
        # Columns of the drivers that were asked for; and which rows have which driver.
        self._drivers: dict[str, DriverColumns] = {}
        self._installed: defaultdict[str, set[int]] = defaultdict(set)
        # Who looked at an object, and who has a volume.
        self._readers: defaultdict[tuple[type, str], set[int]] = defaultdict(set)
        self._users: defaultdict[str, set[int]] = defaultdict(set)
        # What changed of what was looked at; and how far the log of rows was read, before it began.
        self._changed: set[tuple[type, str]] = set()
        self._as_of = -1
        for kind in (PersistentVolumeClaim, PersistentVolume, StorageClass, CSINode):
            listers.lister(kind).add_handler(_Notes(self._note_object))
        self._attachments.add_handler(_Notes(self._note_attachment))

    def _note_object(self, item: Any) -> None:
        self._note((type(item), item.key))

    def _note_attachment(self, item: VolumeAttachment) -> None:
        self._note((CSINode, item.spec.node_name))

    def _note(self, key: tuple[type, str]) -> None:
        if key in self._readers:
            self._changed.add(key)

    def driver(self, name: str) -> DriverColumns | None:
        """None if it is on no row. Columns are made when a pod asks for them: a CSINode may list
        thousands of drivers that no pod uses.
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
        """The rows where a pod has this volume already."""
        return self._users.get(volume, ())

    def refresh(self, whole: Nodes) -> None:
        """Brings every row up to date with the nodes that are there; not for what-ifs."""
        log = whole.changed_rows
        assert log is not None, "a what-if has no past"
        moved = log.since(self._as_of)
        if len(whole) != len(self.rows):
            self._resize(len(whole))
        changed = set().union(*(self._readers.get(key, ()) for key in self._changed))
        for row in changed:
            self._look_again(row, whole, {})
        for row in (set(range(len(whole))) if moved is None else moved) - changed:
            if not self._is_as_it_was(row, whole):
                self._look_again(row, whole, self.rows[row].uses)
        self._changed.clear()
        self._as_of = log.now

    def _resize(self, length: int) -> None:
        for row in range(length, len(self.rows)):
            self._replace(row, RowVolumes())
        del self.rows[length:]
        self.rows.extend(RowVolumes() for _ in range(length - len(self.rows)))
        self.has_csi_node = _resized(self.has_csi_node, length, 0)
        self.has_limits = _resized(self.has_limits, length, 0)
        for columns in self._drivers.values():
            columns.room = _resized(columns.room, length, NO_LIMIT)
            columns.installed = _resized(columns.installed, length, 0)

    def _is_as_it_was(self, row: int, whole: Nodes) -> bool:
        """Whether it is the same node, and the same pods have volumes there."""
        was = self.rows[row]
        if was.node != whole.name_of(row) or not was.limits:
            return was.node == whole.name_of(row)
        return was.is_used_by(whole.pods(row))

    def with_pods(self, row: int, pods: Sequence[PodInfo]) -> RowVolumes:
        """What would be attached there if these pods were."""
        known = self.rows[row]
        return known if known.is_used_by(pods) else self._look(known.node, pods, known.uses)

    def _look_again(self, row: int, whole: Nodes, known: Mapping[str, PodUse]) -> None:
        now = RowVolumes()
        if whole.valid[row]:
            now = self._look(whole.name_of(row), whole.pods(row), known)
        self._replace(row, now)

    def _look(self, node: str, pods: Iterable[PodInfo], known: Mapping[str, PodUse]) -> RowVolumes:
        """The truth about one node with these pods; what is `known` of some still holds."""
        found = RowVolumes(node)
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
            self._add_pods(found, pods, known)
            found.count(found.used.values())
            self._add_attachments(found, node)
        return found

    def _add_pods(
        self, found: RowVolumes, pods: Iterable[PodInfo], known: Mapping[str, PodUse]
    ) -> None:
        for pod in pods:
            if not pod.pod.spec.volumes:
                continue
            use = known.get(pod.uid)
            if use is None or use.pod is not pod:
                use = self._use_of(pod)
            found.uses[pod.uid] = use
            found.seen.update(use.seen)
            found.used |= use.volumes.attachable
            if use.volumes.problem is not None and not found.problem:
                found.problem = use.volumes.problem.message

    def _use_of(self, pod: PodInfo) -> PodUse:
        seen: list[tuple[type, str]] = []
        for claim in claims_of(pod.pod):
            seen.append((PersistentVolumeClaim, claim))
            stored = self._claims.get(claim)
            if stored is not None:
                seen.append((StorageClass, class_of_claim(stored)))
                seen.append((PersistentVolume, stored.spec.volume_name))
        volumes = self._resolver.of_pod(pod.pod, is_new=False, has_csi_node=True)
        return PodUse(pod, volumes, tuple(seen))

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
        found.count(attacher for key, attacher in attached if key not in found.used)

    def _replace(self, row: int, now: RowVolumes) -> None:
        was, self.rows[row] = self.rows[row], now
        _follow(self._readers, row, was.seen, now.seen)
        _follow(self._users, row, was.used.keys(), now.used.keys())
        _follow(self._installed, row, was.installed, now.installed)
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


def _follow(
    rows_of: defaultdict[_K, set[int]], row: int, before: AbstractSet[_K], after: AbstractSet[_K]
) -> None:
    """Enters the row where it belongs now, and nowhere else."""
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
