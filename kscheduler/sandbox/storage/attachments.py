"""Volumes of drivers are attached to the nodes of the pods that use them."""

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
_claim = decoder_for(PersistentVolumeClaim)
_volume = decoder_for(PersistentVolume)
_driver = decoder_for(CSIDriver)


class _Use(NamedTuple):
    node: str
    claims: tuple[Key, ...]


class Attachments:
    """Knows the pods on nodes that use claims; whatever was attached otherwise is left alone."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._uses: dict[Key, _Use] = {}
        self._pods_on: defaultdict[str, set[Key]] = defaultdict(set)
        self._made: defaultdict[str, set[str]] = defaultdict(set)
        self._users: defaultdict[Key, set[Key]] = defaultdict(set)

    def users_of(self, claim: Key) -> Collection[Key]:
        """Pods on nodes that use a claim."""
        return tuple(self._users.get(claim, ()))

    def look_at_pod(self, key: Key, pod: Pod | None) -> None:
        """None: it is gone."""
        before, after = self._uses.pop(key, None), _use_of(pod)
        if before is not None:
            _discard(self._pods_on, before.node, key)
            for claim in before.claims:
                _discard(self._users, claim, key)
        if after is not None:
            self._uses[key] = after
            self._pods_on[after.node].add(key)
            for claim in after.claims:
                self._users[claim].add(key)
        for node in {use.node for use in (before, after) if use is not None}:
            self._settle(node)

    def _settle(self, node: str) -> None:
        """Attaches to a node what its pods use, and nothing else."""
        wanted = {_name(spec): spec for spec in self._wanted(node)}
        collection = self._registry.collection(ATTACHMENTS)
        for name in self._made.pop(node, set()) - wanted.keys():
            if collection.get(("", name)) is not None:
                collection.remove(("", name))
        for name, spec in wanted.items():
            self._made[node].add(name)
            if collection.get(("", name)) is None:
                self._registry.create(ATTACHMENTS, "", {"metadata": {"name": name}, "spec": spec})
                item = self._registry.get(ATTACHMENTS, "", name).decode()
                item["status"] = {"attached": True}
                self._registry.replace(ATTACHMENTS, ("", name), item)

    def _wanted(self, node: str) -> Iterator[Object]:
        for key in sorted(self._pods_on.get(node, ())):
            for claim in self._uses[key].claims:
                volume = self._volume_of(claim)
                source = volume.spec.csi if volume is not None else None
                if volume is not None and source is not None and self._is_attached(source.driver):
                    yield {
                        "attacher": source.driver,
                        "nodeName": node,
                        "source": {"persistentVolumeName": volume.name},
                    }

    def _volume_of(self, key: Key) -> PersistentVolume | None:
        stored = self._registry.collection(_CLAIMS).get(key)
        claim = None if stored is None else _claim(stored.body)
        if claim is None or not is_fully_bound(claim):
            return None
        there = self._registry.collection(_VOLUMES).get(("", claim.spec.volume_name))
        return None if there is None else _volume(there.body)

    def _is_attached(self, driver: str) -> bool:
        """Some drivers have nothing to attach, and say so."""
        stored = self._registry.collection(_DRIVERS).get(("", driver))
        return stored is None or _driver(stored.body).spec.attach_required is not False


def _use_of(pod: Pod | None) -> _Use | None:
    if pod is None or not pod.spec.node_name or pod.status.phase in _FINISHED:
        return None
    names = [claim_name(pod.name, volume) for volume in pod.spec.volumes]
    return _Use(pod.spec.node_name, tuple([(pod.namespace, name) for name in names if name]))


def _name(spec: Object) -> str:
    identity = spec["source"]["persistentVolumeName"] + spec["attacher"] + spec["nodeName"]
    return f"csi-{hashlib.sha256(identity.encode()).hexdigest()}"


def _discard(sets: dict[_K, set[Key]], key: _K, member: Key) -> None:
    sets[key].discard(member)
    if not sets[key]:
        del sets[key]
