"""The attach/detach controller: a VolumeAttachment for each CSI volume that pods use on a node.

Mirrors pkg/controller/volume/attachdetach; attachments succeed at once. Attachments that were
created by others are left alone.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import NamedTuple, TypeVar

from kscheduler.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from kscheduler.api.decode import decoder_for
from kscheduler.api.storage import CSIDriver
from kscheduler.api.volume_claims import claim_name, is_fully_bound
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.resources import BY_NAME
from kscheduler.sandbox.store import Key, Object

ATTACHMENTS = BY_NAME["volumeattachments.storage.k8s.io"]
_CLAIMS, _VOLUMES = BY_NAME["persistentvolumeclaims"], BY_NAME["persistentvolumes"]
_DRIVERS = BY_NAME["csidrivers.storage.k8s.io"]
_K = TypeVar("_K")
_FINISHED = ("Succeeded", "Failed")
_decode_claim = decoder_for(PersistentVolumeClaim)
_decode_volume = decoder_for(PersistentVolume)
_decode_driver = decoder_for(CSIDriver)


class _Use(NamedTuple):
    """The claims a pod uses on the node it is bound to."""

    node: str
    claims: tuple[Key, ...]


class AttachDetachController:
    """Keeps each node's attachments equal to the volumes of its pods."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._uses: dict[Key, _Use] = {}  # by pod; the two indexes below are derived from it
        self._pods_on: defaultdict[str, set[Key]] = defaultdict(set)
        self._pods_using: defaultdict[Key, set[Key]] = defaultdict(set)
        self._attached: defaultdict[str, set[str]] = defaultdict(set)  # names by node, ours only

    def pods_using(self, claim: Key) -> Collection[Key]:
        """Pods on nodes that use a claim."""
        return tuple(self._pods_using.get(claim, ()))

    def sync_pod(self, key: Key, pod: Pod | None) -> None:
        """Take in the present state of a pod, None when it is gone, and sync its node."""
        before, after = self._uses.pop(key, None), None
        if pod is not None and pod.spec.node_name and pod.status.phase not in _FINISHED:
            names = [claim_name(pod.name, volume) for volume in pod.spec.volumes]
            claims = tuple([(pod.namespace, name) for name in names if name])
            after = _Use(pod.spec.node_name, claims)
        if before is not None:
            _discard(self._pods_on, before.node, key)
            for claim in before.claims:
                _discard(self._pods_using, claim, key)
        if after is not None:
            self._uses[key] = after
            self._pods_on[after.node].add(key)
            for claim in after.claims:
                self._pods_using[claim].add(key)
        for node in {use.node for use in (before, after) if use is not None}:
            self._sync_node(node)

    def _sync_node(self, node: str) -> None:
        """Attach to a node what its pods use, and detach the rest."""
        wanted = {}
        for spec in self._desired_attachments(node):
            # The external attacher derives names from the same three parts.
            identity = spec["source"]["persistentVolumeName"] + spec["attacher"] + spec["nodeName"]
            wanted[f"csi-{hashlib.sha256(identity.encode()).hexdigest()}"] = spec
        collection = self._registry.collection(ATTACHMENTS)
        for name in self._attached.pop(node, set()) - wanted.keys():
            if collection.get(("", name)) is not None:
                collection.remove(("", name))
        for name, spec in wanted.items():
            self._attached[node].add(name)
            if collection.get(("", name)) is None:
                self._registry.create(ATTACHMENTS, "", {"metadata": {"name": name}, "spec": spec})
                item = self._registry.get(ATTACHMENTS, "", name).decode()
                item["status"] = {"attached": True}
                self._registry.replace(ATTACHMENTS, ("", name), item)

    def _desired_attachments(self, node: str) -> Iterator[Object]:
        """Specs of the attachments for all bound CSI volumes of the pods on a node."""
        for key in sorted(self._pods_on.get(node, ())):
            for claim_key in self._uses[key].claims:
                stored = self._registry.collection(_CLAIMS).get(claim_key)
                claim = None if stored is None else _decode_claim(stored.body)
                if claim is None or not is_fully_bound(claim):
                    continue
                stored = self._registry.collection(_VOLUMES).get(("", claim.spec.volume_name))
                volume = None if stored is None else _decode_volume(stored.body)
                source = None if volume is None else volume.spec.csi
                if volume is None or source is None:
                    continue
                driver = self._registry.collection(_DRIVERS).get(("", source.driver))
                if driver is not None and _decode_driver(driver.body).spec.attach_required is False:
                    continue  # the driver has nothing to attach, and says so
                yield {
                    "attacher": source.driver,
                    "nodeName": node,
                    "source": {"persistentVolumeName": volume.name},
                }


def _discard(sets: dict[_K, set[Key]], key: _K, member: Key) -> None:
    sets[key].discard(member)
    if not sets[key]:
        del sets[key]
