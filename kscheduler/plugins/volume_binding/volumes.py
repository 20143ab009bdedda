"""PersistentVolumes: which are free, which are kept for whom, and what each of them offers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kscheduler.api.core import PersistentVolume, PersistentVolumeClaim
from kscheduler.api.volume_claims import class_of_volume, is_meant_for
from kscheduler.framework.listers import FollowedLister
from kscheduler.plugins.volume_binding.assume_cache import AssumeCache
from kscheduler.plugins.volume_binding.offer import Offer, offer_of
from kscheduler.plugins.volume_binding.shelf import Shelf

AVAILABLE = "Available"

FREE_OF_CLASS, KEPT_FOR = "free volumes of a class", "volumes kept for a claim"


class Volumes(AssumeCache[PersistentVolume]):
    def __init__(self, lister: FollowedLister[PersistentVolume]) -> None:
        # By name, each with the version it was made from.
        self._offers: dict[str, tuple[str, Offer]] = {}
        self._shelves: dict[str, Shelf] = {}
        lister.add_index(FREE_OF_CLASS, _free_of_class)
        lister.add_index(KEPT_FOR, _kept_for)
        super().__init__(lister, "persistentvolumes", "pv-cache")

    def offer(self, volume: PersistentVolume) -> Offer:
        version = volume.metadata.resource_version
        known = self._offers.get(volume.name)
        if known is None or known[0] != version:
            known = self._offers[volume.name] = version, offer_of(volume)
        return known[1]

    def free(self, of_class: str) -> Shelf:
        """The volumes that nobody has, as the server tells it; see `assumed` for the rest."""
        shelf = self._shelves.get(of_class)
        if shelf is None or 2 * shelf.lost > len(shelf):
            volumes = self._lister.by_index(FREE_OF_CLASS, of_class)
            offers = [self.offer(volume) for volume in volumes]
            shelf = self._shelves[of_class] = Shelf(volumes, offers)
        return shelf

    @property
    def assumed(self) -> Iterator[str]:
        """Names of volumes that were given away and not yet written."""
        return iter(self._assumed)

    def assumed_by_claim(self) -> Mapping[str, Sequence[PersistentVolume]]:
        """The same volumes by the claim they were given to."""
        by_claim: dict[str, list[PersistentVolume]] = {}
        for volume in self._assumed.values():
            for claim in _kept_for(volume):
                by_claim.setdefault(claim, []).append(volume)
        return by_claim

    def kept_for(
        self,
        claim: PersistentVolumeClaim,
        of_class: str,
        assumed: Mapping[str, Sequence[PersistentVolume]],
    ) -> Iterator[PersistentVolume]:
        """The volumes of the class that are meant for this claim, or assumed to be; one may come
        twice. `assumed`: see `assumed_by_claim`.
        """
        told = self._lister.by_index(KEPT_FOR, claim.key)
        for volume in (*told, *assumed.get(claim.key, ())):
            current = self.get(volume.name)
            if (
                current is not None
                and is_meant_for(current, claim)
                and class_of_volume(current) == of_class
            ):
                yield current

    def on_add(self, item: PersistentVolume, *, is_initial: bool) -> None:
        super().on_add(item, is_initial=is_initial)
        for of_class in _free_of_class(item):
            self._shelves.pop(of_class, None)

    def on_update(self, old: PersistentVolume, new: PersistentVolume) -> None:
        super().on_update(old, new)
        before, after = list(_free_of_class(old)), list(_free_of_class(new))
        if before == after and old.spec == new.spec and _labels(old) == _labels(new):
            for of_class in after:
                if of_class in self._shelves:
                    self._shelves[of_class].renew(new)
            return
        self._lose(old)
        for of_class in after:
            self._shelves.pop(of_class, None)

    def on_delete(self, item: PersistentVolume, *, final_state_unknown: bool) -> None:
        super().on_delete(item, final_state_unknown=final_state_unknown)
        self._offers.pop(item.name, None)
        self._lose(item)

    def _lose(self, volume: PersistentVolume) -> None:
        for shelf in self._shelves.values():
            shelf.lose(volume.name)


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


def _labels(volume: PersistentVolume) -> object:
    return volume.metadata.labels
