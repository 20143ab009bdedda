"""PersistentVolumes: which are free, which are kept for whom, and what each of them offers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kscheduler.api import quantity
from kscheduler.api.core import PersistentVolume, PersistentVolumeClaim
from kscheduler.api.csi_translation import TranslationError, migration_of, translated
from kscheduler.api.volume_claims import STORAGE, class_of_volume, is_meant_for
from kscheduler.framework.listers import Lister
from kscheduler.plugins.volume_binding.assume_cache import AssumeCache
from kscheduler.plugins.volume_binding.reach import Reach, reach_of

AVAILABLE = "Available"
FILESYSTEM = "Filesystem"

FREE_OF_CLASS, KEPT_FOR = "free volumes of a class", "volumes kept for a claim"


class Offer(NamedTuple):
    """What a volume is, as far as claims ask; whom it is bound to is not part of it."""

    size_nanos: int
    mode: str
    attributes_class: str
    access_modes: frozenset[str]
    reach: Reach | None
    # The plugin it came from, the name of which nodes list once they use its driver instead; the
    # demands of that driver; and what is wrong with them.
    migrated_from: str = ""
    migrated_reach: Reach | None = None
    migration_problem: str = ""

    @property
    def size_bytes(self) -> int:
        return quantity.whole(self.size_nanos)


class Volumes(AssumeCache[PersistentVolume]):
    def __init__(self, lister: Lister[PersistentVolume]) -> None:
        # By name, each with the version it was made from.
        self._offers: dict[str, tuple[str, Offer]] = {}
        lister.add_index(FREE_OF_CLASS, _free_of_class)
        lister.add_index(KEPT_FOR, _kept_for)
        super().__init__(lister, "persistentvolumes")

    def candidates(self, claim: PersistentVolumeClaim, of_class: str) -> Iterator[PersistentVolume]:
        """The volumes of the class that nobody else has: those kept for the claim come first."""
        free = self.by_index(FREE_OF_CLASS, of_class)
        for volume in (*self.by_index(KEPT_FOR, claim.key), *free):
            if is_meant_for(volume, claim) and class_of_volume(volume) == of_class:
                yield volume
        for volume in free:
            if volume.spec.claim_ref is None:
                yield volume

    def offer(self, volume: PersistentVolume) -> Offer:
        version = volume.metadata.resource_version
        known = self._offers.get(volume.name)
        if known is None or known[0] != version:
            known = self._offers[volume.name] = version, _offer(volume)
        return known[1]

    def on_delete(self, item: PersistentVolume, *, final_state_unknown: bool) -> None:
        super().on_delete(item, final_state_unknown=final_state_unknown)
        self._offers.pop(item.name, None)


def _free_of_class(volume: PersistentVolume) -> Iterator[str]:
    if (
        volume.spec.claim_ref is None
        and volume.status.phase == AVAILABLE
        and volume.metadata.deletion_timestamp is None
    ):
        yield class_of_volume(volume)


def _kept_for(volume: PersistentVolume) -> Iterator[str]:
    reference = volume.spec.claim_ref
    if reference is not None and volume.metadata.deletion_timestamp is None:
        yield f"{reference.namespace}/{reference.name}"


def _offer(volume: PersistentVolume) -> Offer:
    spec = volume.spec
    offer = Offer(
        size_nanos=quantity.nano_value(spec.capacity.get(STORAGE, 0)),
        mode=spec.volume_mode or FILESYSTEM,
        attributes_class=spec.volume_attributes_class_name or "",
        access_modes=frozenset(spec.access_modes),
        reach=reach_of(volume),
    )
    migration = migration_of(volume)
    if migration is None:
        return offer
    try:
        moved = translated(volume, migration)
    except TranslationError as error:
        return offer._replace(migrated_from=migration.plugin, migration_problem=str(error))
    return offer._replace(migrated_from=migration.plugin, migrated_reach=reach_of(moved))
