"""One task that plays everybody who deals with volumes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from kscheduler.api.core import PersistentVolumeClaim, Pod
from kscheduler.api.decode import decoder_for
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.resources import PODS, STORAGE_CLASSES
from kscheduler.sandbox.status import StatusError
from kscheduler.sandbox.storage.attachments import Attachments
from kscheduler.sandbox.storage.claims import CLAIMS, VOLUMES, Claims
from kscheduler.sandbox.storage.ephemeral import make_claims, remove_claims
from kscheduler.sandbox.store import Change, Key, Object, Stored

PROVISIONER = "sandbox.kscheduler.io"
_BATCH = 200  # objects handled before others get a turn
_decode_pod = decoder_for(Pod)
_decode_claim = decoder_for(PersistentVolumeClaim)


class Storage:
    """All claims and volumes in the store, whoever created them."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._claims = Claims(registry)
        self._attachments = Attachments(registry)
        # Objects to look at, in order, each once.
        self._volumes_changed: dict[Key, None] = {}
        self._claims_changed: dict[Key, None] = {}
        self._pods_changed: dict[Key, None] = {}
        # Something came that claims without a volume may wait for.
        self._hope = False
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Play until cancelled."""
        stops = self._listen()
        try:
            while True:
                if not self._settle():
                    await self._wake.wait()
                    self._wake.clear()
                await asyncio.sleep(0)
        finally:
            for stop in stops:
                stop()

    def _settle(self) -> bool:
        """Looks at some of what changed; False if there was nothing."""
        for _ in range(_BATCH):
            if self._volumes_changed:
                claim = self._claims.look_at_volume(_first(self._volumes_changed))
                if claim is not None:
                    self._claims_changed[claim] = None
            elif self._hope:
                self._hope = False
                self._claims_changed |= dict.fromkeys(sorted(self._claims.waiting))
            elif self._claims_changed:
                self._look_at_claim(_first(self._claims_changed))
            elif self._pods_changed:
                self._look_at_pod(_first(self._pods_changed))
            else:
                return False
        return True

    def _look_at_claim(self, key: Key) -> None:
        self._claims.look_at_claim(key)
        self._pods_changed |= dict.fromkeys(self._attachments.users_of(key))

    def _look_at_pod(self, key: Key) -> None:
        stored = self._registry.collection(PODS).get(key)
        if stored is None:
            self._attachments.look_at_pod(key, None)
            return
        pod = _decode_pod(stored.body)
        # A claim that cannot be made is waited for by the pod, as it would be anywhere.
        with suppress(StatusError):
            make_claims(self._registry, pod, stored.decode())
        self._attachments.look_at_pod(key, pod)

    def _listen(self) -> list[Callable[[], None]]:
        listeners = (
            (VOLUMES, self._volume_changed),
            (CLAIMS, self._claim_changed),
            (PODS, self._pod_changed),
            (STORAGE_CLASSES, self._class_changed),
        )
        stops = []
        for resource, listener in listeners:
            collection = self._registry.collection(resource)
            stops.append(collection.listen(listener))
            for stored in collection:
                listener(Change("ADDED", stored, None))
        return stops

    def _volume_changed(self, change: Change) -> None:
        """A volume may be what a claim waits for; without it, a claim may be lost."""
        self._volumes_changed[change.stored.key] = None
        if change.type == "ADDED":
            self._hope = True
        if change.type == "DELETED":
            reference = change.stored.decode()["spec"].get("claimRef") or {}
            self._claims_changed[reference.get("namespace", ""), reference.get("name", "")] = None
        self._wake.set()

    def _claim_changed(self, change: Change) -> None:
        self._claims_changed[change.stored.key] = None
        volume = _decode_claim(change.stored.body).spec.volume_name
        if change.type == "DELETED" and volume:
            self._volumes_changed["", volume] = None
        self._wake.set()

    def _pod_changed(self, change: Change) -> None:
        if not _uses_claims(change.stored):
            return
        if change.type == "DELETED":
            remove_claims(self._registry, _decode_pod(change.stored.body))
        self._pods_changed[change.stored.key] = None
        self._wake.set()

    def _class_changed(self, change: Change) -> None:
        self._hope = True
        self._wake.set()


def _first(changed: dict[Key, None]) -> Key:
    key = next(iter(changed))
    del changed[key]
    return key


def _uses_claims(pod: Stored) -> bool:
    """Without decoding each of thousands of pods that do not."""
    return b'"persistentVolumeClaim"' in pod.body or b'"ephemeral"' in pod.body


def default_class(name: str = "standard") -> Object:
    """A class for claims that name none: volumes are made when a node is selected."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": name,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": PROVISIONER,
        "volumeBindingMode": "WaitForFirstConsumer",
    }
