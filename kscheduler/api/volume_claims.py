"""Claims, and what they say about the volumes that pods want.

Mirrors component-helpers/storage: volume and ephemeral. Differs: nothing.
"""

from __future__ import annotations

from kscheduler.api.core import PersistentVolume, PersistentVolumeClaim, Pod, Volume
from kscheduler.api.meta import Quantity

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BETA_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"

NO_PROVISIONER = "kubernetes.io/no-provisioner"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
STORAGE = "storage"


def claim_name(pod_name: str, volume: Volume) -> str | None:
    """The name of the claim behind a pod's volume; None if there is none."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    if volume.ephemeral is not None:
        return f"{pod_name}-{volume.name}"
    return None


def ownership_problem(pod: Pod, claim: PersistentVolumeClaim) -> str | None:
    """Why a claim of the right name is not the one made for the pod's ephemeral volume."""
    controller = claim.metadata.controller
    if claim.namespace == pod.namespace and controller and controller.uid == pod.uid:
        return None
    return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"


def class_of_claim(claim: PersistentVolumeClaim) -> str:
    """ "" where no class is asked for."""
    beta = claim.metadata.annotations.get(BETA_STORAGE_CLASS)
    return (claim.spec.storage_class_name or "") if beta is None else beta


def class_of_volume(volume: PersistentVolume) -> str:
    beta = volume.metadata.annotations.get(BETA_STORAGE_CLASS)
    return volume.spec.storage_class_name if beta is None else beta


def requested_storage(claim: PersistentVolumeClaim) -> Quantity:
    return claim.spec.resources.requests.get(STORAGE, 0)


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether the volume controller has done its part, too."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def is_meant_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume is bound to this very claim, or kept for a claim of its name."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and reference.name == claim.name
        and reference.namespace == claim.namespace
        and reference.uid in ("", claim.uid)
    )
