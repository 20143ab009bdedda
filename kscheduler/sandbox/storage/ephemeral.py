"""Claims that come and go with a pod: one per ephemeral volume."""

from __future__ import annotations

from kscheduler.api.core import Pod
from kscheduler.api.volume_claims import claim_name
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.resources import BY_NAME
from kscheduler.sandbox.store import Object

_CLAIMS = BY_NAME["persistentvolumeclaims"]


def make_claims(registry: Registry, pod: Pod, item: Object) -> None:
    """Those that are missing; a claim of that name that is somebody else's stays as it is."""
    if pod.metadata.deletion_timestamp is not None:
        return
    for volume, written in zip(pod.spec.volumes, item["spec"].get("volumes") or (), strict=True):
        name = claim_name(pod.name, volume)
        key = pod.namespace, name or ""
        if volume.ephemeral is not None and registry.collection(_CLAIMS).get(key) is None:
            registry.create(_CLAIMS, pod.namespace, _claim(pod, key[1], written["ephemeral"]))


def _claim(pod: Pod, name: str, source: Object) -> Object:
    template = source.get("volumeClaimTemplate") or {}
    about = template.get("metadata") or {}
    owner = {
        **{"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid},
        **{"controller": True, "blockOwnerDeletion": True},
    }
    metadata = {part: about[part] for part in ("labels", "annotations") if part in about}
    return {
        "metadata": {**metadata, "name": name, "ownerReferences": [owner]},
        "spec": template.get("spec") or {},
    }


def remove_claims(registry: Registry, pod: Pod) -> None:
    """Those made for a pod that is gone."""
    collection = registry.collection(_CLAIMS)
    for volume in pod.spec.volumes:
        stored = collection.get((pod.namespace, claim_name(pod.name, volume) or ""))
        if stored is not None and volume.ephemeral is not None:
            owners = stored.decode()["metadata"].get("ownerReferences") or ()
            if any(owner["uid"] == pod.uid for owner in owners):
                collection.remove(stored.key)
