"""Disks that pods mount without a claim, and that only one of them may write to.

A disk is known by its name; an image of a Ceph cluster has one name per monitor. Readers share a
disk, a writer shares it with nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kscheduler.api.core import PodSpec, Volume


class DiskUse(NamedTuple):
    disk: tuple[str, ...]
    writes: bool


def disk_uses(spec: PodSpec) -> tuple[DiskUse, ...]:
    return tuple([use for volume in spec.volumes for use in _uses(volume)])


def _uses(volume: Volume) -> Iterator[DiskUse]:
    if gce := volume.gce_persistent_disk:
        yield DiskUse(("gce", gce.pd_name), not gce.read_only)
    if ebs := volume.aws_elastic_block_store:
        # One of these is never shared, not even by readers.
        yield DiskUse(("ebs", ebs.volume_id), writes=True)
    if iscsi := volume.iscsi:
        yield DiskUse(("iscsi", iscsi.iqn), not iscsi.read_only)
    if rbd := volume.rbd:
        for monitor in rbd.monitors:
            yield DiskUse(("rbd", rbd.pool, rbd.image, monitor), not rbd.read_only)


def any_disks_conflict(wanted: Iterable[DiskUse], used: Iterable[DiskUse]) -> bool:
    """Whether one is used by both sides and written to by either; one pass over each side."""
    writes: dict[tuple[str, ...], bool] = {}
    for use in used:
        writes[use.disk] = use.writes or writes.get(use.disk, False)
    return any(use.disk in writes and (use.writes or writes[use.disk]) for use in wanted)


class Disks:
    """Rows by the disks that their pods use."""

    def __init__(self, base: Disks | None = None) -> None:
        """`base`: whose disks these are, but for what is added and removed here."""
        self._base = base
        # disk → row → uses, and how many of them write. Of a base's disks only those that were
        # changed here.
        self._rows: dict[tuple[str, ...], dict[int, tuple[int, int]]] = {}

    def what_if(self) -> Disks:
        """A copy that can be changed without changing these; good while these do not change."""
        return Disks(self)

    def add(self, use: DiskUse, row: int) -> None:
        self._count(use, row, 1)

    def remove(self, use: DiskUse, row: int) -> None:
        self._count(use, row, -1)

    def _count(self, use: DiskUse, row: int, by: int) -> None:
        rows = self._rows.get(use.disk)
        if rows is None:
            rows = self._rows[use.disk] = dict(self._find(use.disk))
        uses, writes = rows.pop(row, (0, 0))
        uses, writes = uses + by, writes + by * use.writes
        if uses:
            rows[row] = uses, writes
        elif not rows and self._base is None:
            del self._rows[use.disk]

    def conflicting(self, wanted: DiskUse) -> list[int]:
        """The rows where the disk is used in a way that does not go with this one."""
        rows = self._find(wanted.disk)
        return [row for row, (_, writes) in rows.items() if wanted.writes or writes]

    def _find(self, disk: tuple[str, ...]) -> Mapping[int, tuple[int, int]]:
        rows = self._rows.get(disk)
        if rows is not None:
            return rows
        return self._base._find(disk) if self._base is not None else {}
