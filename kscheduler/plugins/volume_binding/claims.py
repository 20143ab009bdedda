"""A pod's claims: which have their volume, which get one together with the node, and what is wrong
with the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kscheduler.api.core import PersistentVolumeClaim, Pod, Volume
from kscheduler.api.storage import StorageClass
from kscheduler.api.volume_claims import (
    WAIT_FOR_FIRST_CONSUMER,
    claim_name,
    class_of_claim,
    is_fully_bound,
    ownership_problem,
)
from kscheduler.framework.listers import FollowedLister, Lister
from kscheduler.framework.status import Status, failed, rejected_for_good
from kscheduler.logs import quote
from kscheduler.plugins.volume_binding.assume_cache import AssumeCache

UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"


class Delayed(NamedTuple):
    """A claim that waits for its pod's node, with its class."""

    claim: PersistentVolumeClaim
    of_class: StorageClass


class PodClaims(NamedTuple):
    bound: tuple[PersistentVolumeClaim, ...]
    delayed: tuple[Delayed, ...]


class Claims(AssumeCache[PersistentVolumeClaim]):
    def __init__(
        self, lister: FollowedLister[PersistentVolumeClaim], classes: Lister[StorageClass]
    ) -> None:
        super().__init__(lister, "persistentvolumeclaims", "pvc-cache")
        self._classes = classes

    def of_pod(self, pod: Pod) -> PodClaims | Status | None:
        """None for a pod without claims; a Status if it cannot be placed yet, or not understood."""
        found: list[PersistentVolumeClaim] = []
        for name, volume in claimed(pod):
            claim = self._lister.get(f"{pod.namespace}/{name}")
            problem = _problem(pod, volume, name, claim)
            if claim is None or problem is not None:
                return rejected_for_good(problem or "")
            found.append(self.current(claim))
        return self._sorted_out(found) if found else None

    def _sorted_out(self, claims: list[PersistentVolumeClaim]) -> PodClaims | Status:
        bound, delayed, immediate = [], [], False
        for claim in claims:
            if is_fully_bound(claim):
                bound.append(claim)
                continue
            of_class = self._classes.get(class_of_claim(claim))
            if of_class is not None and of_class.volume_binding_mode is None:
                return failed(f"VolumeBindingMode not set for StorageClass {quote(of_class.name)}")
            if of_class is not None and _waits(claim, of_class):
                delayed.append(Delayed(claim, of_class))
            else:
                immediate = True
        if immediate:
            return rejected_for_good(UNBOUND_IMMEDIATE)
        return PodClaims(tuple(bound), tuple(delayed))

    def all_bound(self, pod: Pod) -> bool:
        """Whether nothing is left to do for the pod's volumes."""
        for name, _ in claimed(pod):
            claim = self.get(f"{pod.namespace}/{name}")
            if claim is None or not is_fully_bound(claim):
                return False
        return True


def claimed(pod: Pod) -> Iterator[tuple[str, Volume]]:
    """The volumes behind which there is a claim, each with the claim's name."""
    for volume in pod.spec.volumes:
        name = claim_name(pod.name, volume)
        if name is not None:
            yield name, volume


def _problem(
    pod: Pod, volume: Volume, name: str, claim: PersistentVolumeClaim | None
) -> str | None:
    ephemeral = volume.persistent_volume_claim is None
    if claim is None:
        missing = f"persistentvolumeclaim {quote(name)}"
        if ephemeral:
            return f"waiting for ephemeral volume controller to create the {missing}"
        return f"{missing} not found"
    if claim.status.phase == "Lost":
        return (
            f"persistentvolumeclaim {quote(name)} bound to non-existent "
            f"persistentvolume {quote(claim.spec.volume_name)}"
        )
    if claim.metadata.deletion_timestamp is not None:
        return f"persistentvolumeclaim {quote(name)} is being deleted"
    return ownership_problem(pod, claim) if ephemeral else None


def _waits(claim: PersistentVolumeClaim, of_class: StorageClass) -> bool:
    """A claim that names its volume waits for the volume controller, whatever its class says."""
    waits = of_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
    return waits and not claim.spec.volume_name
