"""The volume controllers: one task for persistent volumes, ephemeral volumes and attachments.

Mirrors the controllers below pkg/controller/volume, and plays every provisioner there is a class
for. Changes are queued by key, each key once, and handled in an order that matters: volumes before
the claims that may want them, claims before the pods that use them.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from kscheduler.api.core import PersistentVolumeClaim, Pod
from kscheduler.api.decode import decoder_for
from kscheduler.api.volume_claims import claim_name
from kscheduler.rest.status import StatusError
from kscheduler.sandbox.controllers.attach_detach import AttachDetachController
from kscheduler.sandbox.controllers.controller import listening
from kscheduler.sandbox.controllers.persistent_volumes import (
    CLAIMS,
    VOLUMES,
    PersistentVolumeController,
)
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.resources import PODS, STORAGE_CLASSES
from kscheduler.sandbox.store import Change, Key, Object

PROVISIONER = "sandbox.kscheduler.io"
_BATCH = 200  # objects handled before other tasks run
_decode_pod = decoder_for(Pod)
_decode_claim = decoder_for(PersistentVolumeClaim)


class VolumeControllers:
    """Controllers of all claims and volumes in the store, created by any client."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._persistent_volumes = PersistentVolumeController(registry)
        self._attach_detach = AttachDetachController(registry)
        # Keys to reconcile, in order of arrival, each once: dicts serve as ordered sets.
        self._volumes_changed: dict[Key, None] = {}
        self._claims_changed: dict[Key, None] = {}
        self._pods_changed: dict[Key, None] = {}
        # A volume or class was added that pending claims may be waiting for.
        self._retry_pending_claims = False
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled: reconcile what exists and then every change."""
        listeners = (
            (VOLUMES, self._volume_changed),
            (CLAIMS, self._claim_changed),
            (PODS, self._pod_changed),
            (STORAGE_CLASSES, self._class_changed),
        )
        with listening(self._registry, listeners):
            while True:
                if not self._reconcile_batch():
                    await self._wake.wait()
                    self._wake.clear()
                await asyncio.sleep(0)

    def _reconcile_batch(self) -> bool:
        """Reconcile up to `_BATCH` objects; False if there was nothing to do at the end.

        Volumes come before claims, so that a claim finds the index of volumes up to date, and
        claims before pods, so that a pod's node is synced once its claims are bound.
        """
        for _ in range(_BATCH):
            if self._volumes_changed:
                claim = self._persistent_volumes.sync_volume(_pop_first(self._volumes_changed))
                if claim is not None:
                    self._claims_changed[claim] = None
            elif self._retry_pending_claims:
                self._retry_pending_claims = False
                self._claims_changed |= dict.fromkeys(sorted(self._persistent_volumes.pending))
            elif self._claims_changed:
                key = _pop_first(self._claims_changed)
                self._persistent_volumes.sync_claim(key)
                self._pods_changed |= dict.fromkeys(self._attach_detach.pods_using(key))
            elif self._pods_changed:
                key = _pop_first(self._pods_changed)
                stored = self._registry.collection(PODS).get(key)
                pod = None if stored is None else _decode_pod(stored.body)
                if stored is not None and pod is not None:
                    # A claim that is refused (by validation, say) leaves the pod waiting, as in
                    # any cluster.
                    with suppress(StatusError):
                        create_ephemeral_claims(self._registry, pod, stored.decode())
                self._attach_detach.sync_pod(key, pod)
            else:
                return False
        return True

    def _volume_changed(self, change: Change) -> None:
        """A new volume may be what a claim waits for; without a volume, its claim is lost."""
        self._volumes_changed[change.stored.key] = None
        if change.type == "ADDED":
            self._retry_pending_claims = True
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
        # A search in the bytes, so that thousands of pods without claims are never decoded.
        body = change.stored.body
        if b'"persistentVolumeClaim"' not in body and b'"ephemeral"' not in body:
            return
        if change.type == "DELETED":
            delete_ephemeral_claims(self._registry, _decode_pod(body))
        self._pods_changed[change.stored.key] = None
        self._wake.set()

    def _class_changed(self, change: Change) -> None:
        self._retry_pending_claims = True
        self._wake.set()


def _pop_first(changed: dict[Key, None]) -> Key:
    key = next(iter(changed))
    del changed[key]
    return key


def create_ephemeral_claims(registry: Registry, pod: Pod, item: Object) -> None:
    """Create the claims of a pod's ephemeral volumes (pkg/controller/volume/ephemeral).

    `item` is the pod as stored, because a claim template is copied without being decoded. A claim
    of that name that is not the pod's own is left alone.
    """
    if pod.metadata.deletion_timestamp is not None:
        return
    for volume, written in zip(pod.spec.volumes, item["spec"].get("volumes") or (), strict=True):
        name = claim_name(pod.name, volume) or ""
        if volume.ephemeral is None:
            continue
        if registry.collection(CLAIMS).get((pod.namespace, name)) is not None:
            continue
        template = written["ephemeral"].get("volumeClaimTemplate") or {}
        about = template.get("metadata") or {}
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": pod.name,
            "uid": pod.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
        metadata = {part: about[part] for part in ("labels", "annotations") if part in about}
        claim = {
            "metadata": {**metadata, "name": name, "ownerReferences": [owner]},
            "spec": template.get("spec") or {},
        }
        registry.create(CLAIMS, pod.namespace, claim)


def delete_ephemeral_claims(registry: Registry, pod: Pod) -> None:
    """Delete the claims owned by a pod that is gone, as garbage collection would."""
    collection = registry.collection(CLAIMS)
    for volume in pod.spec.volumes:
        stored = collection.get((pod.namespace, claim_name(pod.name, volume) or ""))
        if stored is not None and volume.ephemeral is not None:
            owners = stored.decode()["metadata"].get("ownerReferences") or ()
            if any(owner["uid"] == pod.uid for owner in owners):
                collection.remove(stored.key)


def default_storage_class(name: str = "standard") -> Object:
    """A default class: volumes are provisioned when a scheduler has selected a node."""
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
