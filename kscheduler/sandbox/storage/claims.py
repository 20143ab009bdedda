"""Claims and volumes find each other; volumes whose claim is gone are released."""

from __future__ import annotations

from collections.abc import Iterator

from kscheduler.api import quantity
from kscheduler.api.core import PersistentVolume, PersistentVolumeClaim
from kscheduler.api.decode import decoder_for
from kscheduler.api.labels import compile_selector
from kscheduler.api.storage import StorageClass
from kscheduler.api.volume_claims import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    NO_PROVISIONER,
    SELECTED_NODE,
    STORAGE,
    WAIT_FOR_FIRST_CONSUMER,
    class_of_claim,
    is_fully_bound,
    is_meant_for,
    requested_storage,
)
from kscheduler.sandbox.metadata import now
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.resources import BY_NAME, STORAGE_CLASSES
from kscheduler.sandbox.storage.provisioning import Provisioning
from kscheduler.sandbox.storage.shelf import Shelf
from kscheduler.sandbox.store import Key, Object, Stored

CLAIMS, VOLUMES = BY_NAME["persistentvolumeclaims"], BY_NAME["persistentvolumes"]
_claim = decoder_for(PersistentVolumeClaim)
_volume = decoder_for(PersistentVolume)
_class = decoder_for(StorageClass)


class Claims:
    """Every volume that changed is to be looked at before the claims that may want it."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._shelf = Shelf()
        self._provisioning = Provisioning(registry)
        # Claims that have no volume yet.
        self.waiting: set[Key] = set()

    def look_at_claim(self, key: Key) -> None:
        stored = self._registry.collection(CLAIMS).get(key)
        self.waiting.discard(key)
        if stored is None:
            return
        claim = _claim(stored.body)
        if is_fully_bound(claim):
            self._check_bound(stored, claim)
        elif claim.metadata.deletion_timestamp is None:
            volume = self._volume_for(claim)
            if volume is None:
                self.waiting.add(key)
            else:
                self._bind(volume, stored, claim)

    def look_at_volume(self, key: Key) -> Key | None:
        """Gives it the phase it should have; the claim to look at next, if there is one."""
        stored = self._registry.collection(VOLUMES).get(key)
        if stored is None:
            self._shelf.remove(key[1])
            return None
        volume = _volume(stored.body)
        self._shelf.put(volume)
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            self._enter_phase(stored, "Available")
            return None if reference is None else (reference.namespace, reference.name)
        claim_key = reference.namespace, reference.name
        claim = self._registry.collection(CLAIMS).get(claim_key)
        if claim is not None and _claim(claim.body).uid == reference.uid:
            return claim_key
        self._release(stored)
        return None

    def _check_bound(self, stored: Stored, claim: PersistentVolumeClaim) -> None:
        there = self._registry.collection(VOLUMES).get(("", claim.spec.volume_name))
        phase = "Lost" if there is None else "Bound"
        if claim.status.phase != phase:
            item = stored.decode()
            item["status"]["phase"] = phase
            self._registry.replace(CLAIMS, stored.key, item)

    def _volume_for(self, claim: PersistentVolumeClaim) -> Stored | None:
        """The one it names or that is kept for it, else one that will do, else a new one."""
        volumes = self._registry.collection(VOLUMES)
        if claim.spec.volume_name:
            named = volumes.get(("", claim.spec.volume_name))
            return named if named is not None and _is_free(_volume(named.body), claim) else None
        kept, of_class = self._shelf.kept_for(claim), self._class_of(claim)
        if kept is not None:
            return volumes.get(("", kept.name))
        if self._must_wait(claim, of_class):
            return None
        fitting = [volume for volume in self._shelf.free(claim) if _fits(volume, claim)]
        if fitting:
            return volumes.get(("", min(fitting, key=_size).name))
        if of_class is None or of_class.provisioner in ("", NO_PROVISIONER):
            return None
        return self._provisioning.make(claim, of_class)

    def _class_of(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        stored = self._registry.collection(STORAGE_CLASSES).get(("", class_of_claim(claim)))
        return None if stored is None else _class(stored.body)

    def _must_wait(self, claim: PersistentVolumeClaim, of_class: StorageClass | None) -> bool:
        """Whether a scheduler has to say first where the volume is wanted."""
        waits = of_class is not None and of_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
        return waits and SELECTED_NODE not in claim.metadata.annotations

    def _bind(self, volume: Stored, stored: Stored, claim: PersistentVolumeClaim) -> None:
        of_volume = volume.decode()
        spec = of_volume["spec"]
        if not (spec.get("claimRef") or {}).get("uid"):
            if "claimRef" not in spec:
                _annotate(of_volume, BOUND_BY_CONTROLLER)
            spec["claimRef"] = reference_to(claim)
        _set_phase(of_volume, "Bound")
        self._registry.replace(VOLUMES, volume.key, of_volume)
        of_claim = stored.decode()
        if not claim.spec.volume_name:
            of_claim["spec"]["volumeName"] = volume.key[1]
            _annotate(of_claim, BOUND_BY_CONTROLLER)
        _annotate(of_claim, BIND_COMPLETED)
        of_claim["status"] = {
            "phase": "Bound",
            "accessModes": spec["accessModes"],
            "capacity": spec["capacity"],
        }
        self._registry.replace(CLAIMS, stored.key, of_claim)

    def _enter_phase(self, stored: Stored, phase: str) -> None:
        item = stored.decode()
        if item["status"].get("phase") != phase:
            _set_phase(item, phase)
            self._registry.replace(VOLUMES, stored.key, item)

    def _release(self, stored: Stored) -> None:
        item = stored.decode()
        if item["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
            self._registry.collection(VOLUMES).remove(stored.key)
        else:
            self._enter_phase(stored, "Released")


def reference_to(claim: PersistentVolumeClaim) -> Object:
    return {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": claim.uid,
        "resourceVersion": claim.metadata.resource_version,
    }


def _is_free(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return volume.spec.claim_ref is None or is_meant_for(volume, claim)


def _size(volume: PersistentVolume) -> int:
    return quantity.nano_value(volume.spec.capacity[STORAGE])


def _fits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return not any(_misfits(volume, claim))


def _misfits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> Iterator[bool]:
    yield volume.metadata.deletion_timestamp is not None
    yield volume.spec.volume_mode != claim.spec.volume_mode
    yield not set(claim.spec.access_modes) <= set(volume.spec.access_modes)
    yield quantity.compare(volume.spec.capacity.get(STORAGE, 0), requested_storage(claim)) < 0
    selector = claim.spec.selector
    yield selector is not None and not compile_selector(selector).matches(volume.metadata.labels)


def _annotate(item: Object, name: str) -> None:
    item["metadata"].setdefault("annotations", {})[name] = "yes"


def _set_phase(volume: Object, phase: str) -> None:
    state = volume.setdefault("status", {})
    if state.get("phase") != phase:
        state |= {"phase": phase, "lastPhaseTransitionTime": now()}
