"""Disks that pods mount without a claim, and that only one of them may write to.

A disk is known by its name; an image of a Ceph cluster has one name per monitor. Readers share a
disk, a writer shares it with nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
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


def disks_conflict(wanted: DiskUse, used: DiskUse) -> bool:
    return wanted.disk == used.disk and (wanted.writes or used.writes)


class Disks:
    """Which rows use which disks."""

    def __init__(self) -> None:
        # disk → row → uses, and how many of them write. Inner dicts are replaced, never changed,
        # so a copy may share them.
        self._rows: dict[tuple[str, ...], dict[int, tuple[int, int]]] = {}

    def copy(self) -> Disks:
        twin = Disks()
        twin._rows = self._rows.copy()
        return twin

    def add(self, use: DiskUse, row: int) -> None:
        self._count(use, row, 1)

    def remove(self, use: DiskUse, row: int) -> None:
        self._count(use, row, -1)

    def _count(self, use: DiskUse, row: int, by: int) -> None:
        rows = dict(self._rows.get(use.disk, {}))
        uses, writes = rows.pop(row, (0, 0))
        uses, writes = uses + by, writes + by * use.writes
        if uses:
            rows[row] = uses, writes
        if rows:
            self._rows[use.disk] = rows
        else:
            self._rows.pop(use.disk, None)

    def conflicting(self, wanted: DiskUse) -> list[int]:
        """The rows where the disk is used in a way that does not go with this one."""
        rows = self._rows.get(wanted.disk, {})
        return [row for row, (_, writes) in rows.items() if wanted.writes or writes]
