"""Assume caches: volumes and claims as they will be once what was decided has been written.

A decision changes an object here first, so that the next one sees it changed. The change holds
until the API server reports a newer version than the one it was made from, which then counts. Older
versions change nothing.

    stored ── assume ──► assumed ── restore, a newer version, or deletion ──► stored

Mirrors AssumeCache of pkg/scheduler/util/assumecache and the PV and PVC caches of the plugin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

from kscheduler import logs
from kscheduler.api.core import PersistentVolume, PersistentVolumeClaim
from kscheduler.api.meta import ApiObject
from kscheduler.api.volume_claims import class_of_volume, is_meant_for
from kscheduler.errors import KschedulerError, MissingError
from kscheduler.framework.listers import FollowedLister
from kscheduler.gotext.strconv import quote
from kscheduler.plugins.volume_binding.volume_traits import VolumeTraits, traits_of
from kscheduler.plugins.volume_binding.volumes_by_size import VolumesBySize

T = TypeVar("T", bound=ApiObject)

AVAILABLE = "Available"

FREE_OF_CLASS, PREBOUND_TO = "free volumes of a class", "volumes prebound to a claim"


class OutOfSyncError(KschedulerError):
    """Raised for a change that was made from another version than the stored one."""


class Awaited:
    """Objects that somebody waits for to change: a change wakes those who wait for its object, and
    costs nothing where nobody does.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}

    @contextmanager
    def listening(self, news: asyncio.Event, keys: Iterable[str]) -> Iterator[None]:
        """`news` is set when one of these objects changes."""
        keys = set(keys)
        for key in keys:
            self._waiting.setdefault(key, set()).add(news)
        try:
            yield
        finally:
            for key in keys:
                waiting = self._waiting[key]
                waiting.discard(news)
                if not waiting:
                    del self._waiting[key]

    def changed(self, key: str) -> None:
        for news in self._waiting.get(key, ()):
            news.set()


class AssumeCache(Generic[T]):
    """`log_name` stands as "logger" in its log lines, `plural` in its errors."""

    def __init__(self, lister: FollowedLister[T], plural: str, log_name: str) -> None:
        self._lister = lister
        self._plural = plural
        self._log = logs.logger(__name__, log_name)
        self._assumed: dict[str, T] = {}
        self.awaited = Awaited()
        lister.add_handler(self)

    def __len__(self) -> int:
        """The number of assumed objects."""
        return len(self._assumed)

    def get(self, key: str) -> T | None:
        stored = self._lister.get(key)
        return None if stored is None else self.current(stored)

    def by_index(self, name: str, value: Hashable) -> list[T]:
        """Objects found as they are stored, given as they are assumed."""
        stored = self._lister.by_index(name, value)
        return [self.current(one) for one in stored] if self._assumed else list(stored)

    def current(self, stored: T) -> T:
        """The object as assumed, if it is."""
        assumed = self._assumed.get(stored.key)
        return stored if assumed is None or _is_newer(stored, assumed) else assumed

    def get_api_obj(self, key: str) -> T | None:
        """The object as the API server reported it, whatever is assumed."""
        return self._lister.get(key)

    def require_api_obj(self, key: str) -> T:
        """The object as the API server reported it; raises MissingError."""
        found = self._lister.get(key)
        if found is None:
            raise MissingError(f"{self._plural} {quote(key)} not found")
        return found

    def assume(self, changed: T) -> None:
        key = changed.key
        stored = self.require_api_obj(key)
        version, assumed = _version(stored), _version(changed)
        if version != assumed:
            raise OutOfSyncError(
                f"{quote(key)} is out of sync (stored: {version}, assume: {assumed})"
            )
        self._assumed[key] = changed
        if v := self._log.v(4):
            v.info("Assumed object", key=key, version=assumed)

    def restore(self, changed: T) -> None:
        """Forget a change of this version; one made from another version stays."""
        assumed = self._assumed.get(changed.key)
        if assumed is not None and _version(assumed) == _version(changed):
            del self._assumed[changed.key]
            if v := self._log.v(4):
                v.info("Restored object", key=changed.key, version=_version(changed))

    def on_add(self, item: T, *, is_initial: bool) -> None:
        self._expire(item)
        self.awaited.changed(item.key)

    def on_update(self, old: T, new: T) -> None:
        self._expire(new)
        self.awaited.changed(new.key)

    def on_delete(self, item: T, *, final_state_unknown: bool) -> None:
        self._assumed.pop(item.key, None)
        self.awaited.changed(item.key)

    def _expire(self, stored: T) -> None:
        if not self._assumed:
            return
        assumed = self._assumed.get(stored.key)
        if assumed is not None and _is_newer(stored, assumed):
            del self._assumed[stored.key]
            if v := self._log.v(4):
                versions = {"newVersion": _version(stored), "version": _version(assumed)}
                v.info("assumed object expired", key=stored.key, **versions)


def _version(item: ApiObject) -> str:
    return item.metadata.resource_version


def _is_newer(one: ApiObject, other: ApiObject) -> bool:
    """By version; if those are no numbers, whatever differs is newer."""
    version, than = _version(one), _version(other)
    if version.isdecimal() and than.isdecimal():
        return int(version) > int(than)
    return version != than


PVCAssumeCache = AssumeCache[PersistentVolumeClaim]


class PVAssumeCache(AssumeCache[PersistentVolume]):
    """Volumes, with the free ones of each class in order of size and with compiled traits.

    Free are volumes as they are stored: which of them are assumed to be bound changes with every
    decision, and is taken out by whoever searches (`assumed`).
    """

    def __init__(self, lister: FollowedLister[PersistentVolume]) -> None:
        # By name, each with the version it was compiled from.
        self._traits: dict[str, tuple[str, VolumeTraits]] = {}
        self._free: dict[str, VolumesBySize] = {}
        lister.add_index(FREE_OF_CLASS, _free_of_class)
        lister.add_index(PREBOUND_TO, _prebound_to)
        super().__init__(lister, "persistentvolumes", "pv-cache")

    def traits(self, volume: PersistentVolume) -> VolumeTraits:
        version = volume.metadata.resource_version
        known = self._traits.get(volume.name)
        if known is None or known[0] != version:
            known = self._traits[volume.name] = version, traits_of(volume)
        return known[1]

    def free(self, of_class: str) -> VolumesBySize:
        """Stored volumes of the class that no claim has.

        Ordered anew when a volume has come, or half of them are gone; taking one costs nothing.
        """
        known = self._free.get(of_class)
        if known is None or 2 * known.removed > len(known):
            volumes = self._lister.by_index(FREE_OF_CLASS, of_class)
            traits = [self.traits(volume) for volume in volumes]
            known = self._free[of_class] = VolumesBySize(volumes, traits)
        return known

    @property
    def assumed(self) -> Iterator[str]:
        """Names of volumes that are assumed to be bound."""
        return iter(self._assumed)

    def assumed_by_claim(self) -> Mapping[str, Sequence[PersistentVolume]]:
        """Volumes that are assumed to be bound, by the key of the claim."""
        by_claim: dict[str, list[PersistentVolume]] = {}
        for volume in self._assumed.values():
            for claim in _prebound_to(volume):
                by_claim.setdefault(claim, []).append(volume)
        return by_claim

    def prebound_to(
        self,
        claim: PersistentVolumeClaim,
        of_class: str,
        assumed: Mapping[str, Sequence[PersistentVolume]],
    ) -> Iterator[PersistentVolume]:
        """Volumes of the class that name this claim, or are assumed to; one may come twice.

        `assumed`: see `assumed_by_claim`.
        """
        stored = self._lister.by_index(PREBOUND_TO, claim.key)
        for volume in (*stored, *assumed.get(claim.key, ())):
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
            self._free.pop(of_class, None)

    def on_update(self, old: PersistentVolume, new: PersistentVolume) -> None:
        super().on_update(old, new)
        before, after = list(_free_of_class(old)), list(_free_of_class(new))
        same_labels = old.metadata.labels == new.metadata.labels
        if before == after and old.spec == new.spec and same_labels:
            for of_class in after:
                if of_class in self._free:
                    self._free[of_class].replace(new)
            return
        self._remove_from_free(old)
        for of_class in after:
            self._free.pop(of_class, None)

    def on_delete(self, item: PersistentVolume, *, final_state_unknown: bool) -> None:
        super().on_delete(item, final_state_unknown=final_state_unknown)
        self._traits.pop(item.name, None)
        self._remove_from_free(item)

    def _remove_from_free(self, volume: PersistentVolume) -> None:
        for free in self._free.values():
            free.remove(volume.name)


def _free_of_class(volume: PersistentVolume) -> Iterator[str]:
    if (
        volume.spec.claim_ref is None
        and volume.status.phase == AVAILABLE
        and volume.metadata.deletion_timestamp is None
    ):
        yield class_of_volume(volume)


def _prebound_to(volume: PersistentVolume) -> Iterator[str]:
    reference = volume.spec.claim_ref
    if reference is not None and volume.metadata.deletion_timestamp is None:
        yield f"{reference.namespace}/{reference.name}"
