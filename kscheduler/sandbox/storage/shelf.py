"""Volumes, found by whom they are kept for and by their class."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from kscheduler.api.core import PersistentVolume, PersistentVolumeClaim
from kscheduler.api.volume_claims import class_of_claim, class_of_volume, is_meant_for
from kscheduler.sandbox.store import Key


class Shelf:
    def __init__(self) -> None:
        self._volumes: dict[str, PersistentVolume] = {}
        self._kept: defaultdict[Key, set[str]] = defaultdict(set)
        self._free: defaultdict[str, set[str]] = defaultdict(set)

    def put(self, volume: PersistentVolume) -> None:
        self.remove(volume.name)
        self._volumes[volume.name] = volume
        reference = volume.spec.claim_ref
        if reference is None:
            self._free[class_of_volume(volume)].add(volume.name)
        else:
            self._kept[reference.namespace, reference.name].add(volume.name)

    def remove(self, name: str) -> None:
        volume = self._volumes.pop(name, None)
        if volume is None:
            return
        reference = volume.spec.claim_ref
        if reference is None:
            self._free[class_of_volume(volume)].discard(name)
        else:
            self._kept[reference.namespace, reference.name].discard(name)

    def kept_for(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        names = sorted(self._kept.get((claim.namespace, claim.name), ()))
        volumes = (self._volumes[name] for name in names)
        return next((volume for volume in volumes if is_meant_for(volume, claim)), None)

    def free(self, claim: PersistentVolumeClaim) -> Iterator[PersistentVolume]:
        """Kept for nobody, and of the claim's class."""
        for name in sorted(self._free.get(class_of_claim(claim), ())):
            yield self._volumes[name]
