"""From a decision to bound volumes: assumed at once, written later, then waited for.

The scheduler only says which volume is for which claim, and for which node a volume is to be made;
the volume controller and the drivers do the rest. Nothing that was written is taken back: when an
attempt fails later, the next one finds it and goes on from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from kscheduler import logs
from kscheduler.api.core import ObjectReference, PersistentVolume, PersistentVolumeClaim
from kscheduler.api.volume_claims import BOUND_BY_CONTROLLER, SELECTED_NODE, is_meant_for
from kscheduler.errors import KschedulerError
from kscheduler.framework.handle import ApiCalls
from kscheduler.plugins.volume_binding.claims import Claims
from kscheduler.plugins.volume_binding.findings import Choice
from kscheduler.plugins.volume_binding.volumes import Volumes
from kscheduler.plugins.volume_binding.waiting import Progress
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__, "PreBind.VolumeBinding")

POLL_SECONDS = 1.0


class BindingTimeoutError(KschedulerError):
    """Raised when the volumes are not bound in time."""


@dataclass(slots=True)
class Binding:
    """A claim and the volume for it, as assumed or, once that is done, as written."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume
    is_written: bool = False


@dataclass(slots=True)
class Provisioning:
    """A claim that names the node its volume is to be made for."""

    claim: PersistentVolumeClaim
    is_written: bool = False


@dataclass(slots=True)
class Reservation:
    bindings: list[Binding]
    provisionings: list[Provisioning]


class Reservations:
    """`clock` tells seconds; binding is given up after `timeout_seconds`."""

    def __init__(
        self,
        volumes: Volumes,
        claims: Claims,
        client: ApiCalls,
        progress: Progress,
        clock: Callable[[], float],
        timeout_seconds: float,
    ) -> None:
        self._volumes = volumes
        self._claims = claims
        self._client = client
        self._progress = progress
        self._clock = clock
        self._timeout_seconds = timeout_seconds

    def assume(self, choice: Choice, node: str) -> Reservation:
        """Later decisions see the volumes as taken; raises KschedulerError, then none are."""
        made = Reservation([], [])
        try:
            for claim, volume in choice.bindings:
                bound = bound_to(volume, claim)
                if bound is not volume:
                    self._volumes.assume(bound)
                made.bindings.append(Binding(claim, bound))
            for claim in choice.provisions:
                provided = provided_on(node, claim)
                self._claims.assume(provided)
                made.provisionings.append(Provisioning(provided))
        except KschedulerError:
            self.revert(made)
            raise
        return made

    def revert(self, reservation: Reservation) -> None:
        """What was written stays assumed until the server tells it."""
        for binding in reservation.bindings:
            if not binding.is_written:
                self._volumes.restore(binding.volume)
        for provisioning in reservation.provisionings:
            if not provisioning.is_written:
                self._claims.restore(provisioning.claim)

    async def bind(self, pod: PodInfo, node: str, reservation: Reservation) -> None:
        """Write, and wait until everything is bound; raises KschedulerError."""
        await self._write(pod, reservation)
        try:
            await self._wait(pod, node, reservation)
        except KschedulerError as error:
            raise KschedulerError(f"binding volumes: {error}") from error

    async def _write(self, pod: PodInfo, reservation: Reservation) -> None:
        for binding in reservation.bindings:
            binding.volume = await self._client.update_volume(binding.volume)
            binding.is_written = True
            log.v(2).info(
                "Updated PersistentVolume with claim. Waiting for binding to complete",
                pod=logs.ref(pod.pod),
                PV=logs.ref(binding.volume),
                PVC=logs.ref(binding.claim),
            )
        for provisioning in reservation.provisionings:
            provisioning.claim = await self._client.update_claim(provisioning.claim)
            provisioning.is_written = True

    async def _wait(self, pod: PodInfo, node: str, reservation: Reservation) -> None:
        bindings = [(one.claim, one.volume) for one in reservation.bindings]
        provisioned = [one.claim for one in reservation.provisionings]
        deadline = self._clock() + self._timeout_seconds
        while True:
            left = deadline - self._clock()
            await asyncio.sleep(max(0.0, min(POLL_SECONDS, left)))
            if self._clock() >= deadline:
                raise BindingTimeoutError("context deadline exceeded")
            if self._progress.is_complete(pod, node, bindings, provisioned):
                log.v(2).info("All PVCs for pod are bound", pod=logs.ref(pod.pod))
                return


def bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """The volume as it is to be written; itself if it says all that already."""
    reference, changed = volume.spec.claim_ref, volume
    if reference is None or (reference.name, reference.namespace, reference.uid) != (
        claim.name,
        claim.namespace,
        claim.uid,
    ):
        changed = replace(changed, spec=replace(volume.spec, claim_ref=_reference_to(claim)))
    annotations = volume.metadata.annotations
    if not is_meant_for(volume, claim) and BOUND_BY_CONTROLLER not in annotations:
        metadata = replace(volume.metadata, annotations={**annotations, BOUND_BY_CONTROLLER: "yes"})
        changed = replace(changed, metadata=metadata)
    return changed


def provided_on(node: str, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    """The claim with the node for which its volume is to be made."""
    annotations = {**claim.metadata.annotations, SELECTED_NODE: node}
    return replace(claim, metadata=replace(claim.metadata, annotations=annotations))


def _reference_to(claim: PersistentVolumeClaim) -> ObjectReference:
    return ObjectReference(
        kind="PersistentVolumeClaim",
        api_version="v1",
        namespace=claim.namespace,
        name=claim.name,
        uid=claim.uid,
        resource_version=claim.metadata.resource_version,
    )
