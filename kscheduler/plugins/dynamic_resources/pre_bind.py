"""Writes of the plugin: claims get their allocations and reservations, or lose them.

    bind        PreBind: each claim in turn is allocated and reserved, then binding conditions of
                its devices are waited for
    give_back   Unreserve: the reservation is taken back; an allocation stays, for the next attempt
    deallocate, delete    PostFilter: a claim that stands in the way

A claim that changed since we read it is read and written again, up to five times. Pods that share
a claim write it one after the other, each on top of the last answer, so that they do not make each
other read it again.

Mirrors bindClaim, PreBind and Unreserve of dynamicresources.go. Differs: the special claim counts
as known when the watch delivers it, where upstream looks once a second; the allocation in flight
ends when it is written, because the written claim then holds the devices; upstream's pods with a
shared claim write it at the same time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from weakref import WeakValueDictionary

from msgspec.structs import replace

from kscheduler import logs
from kscheduler.api.core import Pod, PodExtendedResourceClaimStatus
from kscheduler.api.resource import AllocationResult, ResourceClaim
from kscheduler.api.timestamps import format_time, parse_time
from kscheduler.dra.claims import ClaimTracker
from kscheduler.errors import ConflictError, KschedulerError, MissingError
from kscheduler.framework.added_by_devices import ClaimStatuses
from kscheduler.framework.handle import Handle
from kscheduler.gotext.strconv import quote
from kscheduler.plugins.dynamic_resources.claims import (
    FINALIZER,
    DeviceConditions,
    deallocated,
    device_conditions,
    is_reserved_for,
    reference_to,
    with_finalizer,
    without_finalizer,
)
from kscheduler.plugins.dynamic_resources.extended_resources import is_in_memory, to_create
from kscheduler.plugins.dynamic_resources.node_allocatable import clear_statuses, write_statuses
from kscheduler.plugins.dynamic_resources.state import PodClaims
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__)

TRIES = 5
PAUSE_SECONDS = 0.01
PAUSE_JITTER = 0.1
# How long binding waits for the watch to deliver a claim that we made.
KNOWN_SECONDS = 120.0
POLL_SECONDS = 5.0
# How often, and for how long, the API server is asked what became of a write.
SETTLE_PAUSE_SECONDS = 1.0
SETTLE_SECONDS = 60.0

SUCCESS, FAILURE, TIMEOUT, ERROR = "success", "failure", "timeout", "error"


class DeviceBindingError(KschedulerError):
    """Raised when a device reports that it cannot be made ready."""


class DeviceBindingTimeoutError(KschedulerError):
    """Raised when devices do not become ready in time."""


class ClaimWriter:
    """Writes claims of pods on their way to a node; `binding_timeout` is in seconds.

    `waits_for_devices`: allocations are dated, and binding conditions count.
    """

    def __init__(
        self,
        handle: Handle,
        tracker: ClaimTracker,
        *,
        accept_group: bool,
        waits_for_devices: bool,
        binding_timeout: float,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = handle.client
        self._handle = handle
        self._tracker = tracker
        self._accept_group = accept_group
        self._waits_for_devices = waits_for_devices
        self._binding_timeout = binding_timeout
        self._wall_clock = wall_clock
        # By the uid of the claim, for as long as somebody writes it or waits to.
        self._writing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def bind(
        self, state: PodClaims, pod: PodInfo, node: str, added: ClaimStatuses = ()
    ) -> None:
        """Allocate and reserve the claims, then wait for their devices; raises KschedulerError.

        `added`: what devices add to the pod's requests, for its status.
        """
        for index, claim in enumerate(state.claims):
            if not is_reserved_for(pod.pod, claim, accept_group=self._accept_group):
                state.claims[index] = await self._bind_claim(state, claim, pod.pod)
        if state.special is not None and state.special.uid in state.allocations:
            await self._bind_special(state, pod.pod, node)
        if added:
            await write_statuses(self._client, pod.pod, added)
        if self._waits_for_devices and any(any(device_conditions(one)) for one in state.all):
            await self._wait_for_devices(state, pod, node)

    async def _bind_claim(self, state: PodClaims, claim: ResourceClaim, pod: Pod) -> ResourceClaim:
        lock = self._writing.get(claim.uid)
        if lock is None:
            lock = self._writing[claim.uid] = asyncio.Lock()
        was_shared = lock.locked()
        async with lock:
            if was_shared:
                current = self._tracker.get(claim.key)
                if current is not None and current.uid == claim.uid:
                    claim = current
            written = await self._write(state, claim, state.allocations.get(claim.uid), pod)
            self._note_written(written)
        self._tracker.release(claim.uid)
        return written

    async def _bind_special(self, state: PodClaims, pod: Pod, node: str) -> None:
        assert state.special is not None
        allocation = state.allocations[state.special.uid]
        if is_in_memory(state.special):
            made_up = state.special.uid
            state.special = await self._create(state.special, pod, node)
            self._tracker.created(made_up, state.special)
            state.allocations[state.special.uid] = state.allocations.pop(made_up)
        state.special = claim = await self._write(state, state.special, allocation, pod)
        if not state.mappings:
            raise KschedulerError(
                "nil or empty request mappings, no update of pod "
                f"{pod.namespace}/{pod.name} ExtendedResourceClaimStatus"
            )
        named = PodExtendedResourceClaimStatus(
            request_mappings=state.mappings, resource_claim_name=claim.name
        )
        status = replace(pod.status, extended_resource_claim_status=named)
        try:
            await self._client.patch_pod_status(pod, status)
        except KschedulerError as error:
            what = f"update pod {pod.namespace}/{pod.name} ExtendedResourceClaimStatus"
            raise KschedulerError(f"{what}: {error}") from error
        if await self._tracker.until_known(claim.key, KNOWN_SECONDS):
            self._note_written(claim)
        else:
            what = "Claim not stored in assume cache after retries"
            log.v(5).info(what, claim=logs.ref(claim), err="context deadline exceeded")
        self._tracker.release(claim.uid)

    async def _create(self, claim: ResourceClaim, pod: Pod, node: str) -> ResourceClaim:
        created = self._handle.metrics.dynamic_resource_allocation_resourceclaim_creates_total
        refs = {"pod": logs.ref(pod), "node": node}
        log.v(5).info("create claim for extended resources", **refs)
        try:
            answer = await self._client.create_resource_claim(to_create(claim))
        except KschedulerError as error:
            created.labels("failure", "false", "", "Pod").inc()
            raise KschedulerError(
                f"create claim for extended resources {claim.namespace}/: {error}"
            ) from error
        created.labels("success", "false", "", "Pod").inc()
        log.v(5).info(
            "created claim for extended resources", **refs, resourceclaim=logs.ref(answer)
        )
        return answer

    async def _write(
        self,
        state: PodClaims,
        claim: ResourceClaim,
        allocation: AllocationResult | None,
        pod: Pod,
    ) -> ResourceClaim:
        """Write the allocation, if there is one, and the reservation for the pod."""

        async def write(latest: ResourceClaim) -> ResourceClaim:
            if latest.metadata.deletion_timestamp is not None:
                raise KschedulerError(f"claim {latest.key} got deleted in the meantime")
            what = "add reservation"
            if allocation is not None:
                what = "add allocation and reservation"
                if latest.status.allocation is not None:
                    raise KschedulerError(
                        f"claim {latest.key} got allocated elsewhere in the meantime"
                    )
                if FINALIZER not in latest.metadata.finalizers:
                    protected = with_finalizer(latest)
                    latest = await _worded(
                        f"add finalizer to claim {latest.key}",
                        self._client.update_resource_claim(protected),
                    )
            status = replace(
                latest.status,
                allocation=self._dated(latest, allocation or latest.status.allocation),
                reserved_for=(*latest.status.reserved_for, reference_to(pod)),
            )
            changed = replace(latest, status=status)
            state.unanswered = claim
            try:
                answer = await _worded(
                    f"{what} to claim {latest.key}",
                    self._client.update_resource_claim_status(changed),
                )
            except KschedulerError as error:
                if not error.unsettled:
                    state.unanswered = None
                raise
            state.unanswered = None
            return answer

        return await self._retry_on_conflict(claim, write)

    def _dated(
        self, claim: ResourceClaim, allocation: AllocationResult | None
    ) -> AllocationResult | None:
        if not self._waits_for_devices:
            return allocation
        if allocation is None:
            raise KschedulerError(f"claim {claim.key} got deallocated elsewhere in the meantime")
        if allocation.allocation_timestamp is not None:
            return allocation
        return replace(allocation, allocation_timestamp=format_time(self._wall_clock()))

    async def _retry_on_conflict(
        self,
        claim: ResourceClaim,
        write: Callable[[ResourceClaim], Awaitable[ResourceClaim]],
        read_again: str = "get updated claim {} after conflict",
    ) -> ResourceClaim:
        """Write the claim; if it has changed since, read it and try again."""
        for _ in range(TRIES - 1):
            try:
                return await write(claim)
            except ConflictError:
                jitter = 1 + PAUSE_JITTER * self._handle.rng.random()
                await asyncio.sleep(PAUSE_SECONDS * jitter)
                log.v(5).info("retrying update after conflict", claim=logs.ref(claim))
                claim = await _worded(
                    read_again.format(claim.key), self._client.get_resource_claim(claim)
                )
        return await write(claim)

    def _note_written(self, claim: ResourceClaim) -> None:
        """Devices of the claim are taken from now on, whether the watch knows of it or not."""
        values = {
            "claim": logs.ref(claim),
            "uid": claim.uid,
            "resourceVersion": claim.metadata.resource_version,
        }
        try:
            self._tracker.written(claim)
        except KschedulerError as error:
            log.v(5).info("Claim not stored in assume cache", err=str(error), **values)
        else:
            log.v(5).info("Claim stored in assume cache", **values)

    async def _wait_for_devices(self, state: PodClaims, pod: PodInfo, node: str) -> None:
        note = f"waiting for binding conditions for device on node {node}"
        reason = "BindingConditionsPending"
        self._handle.recorder.event(pod.pod, "Normal", reason, "Scheduling", note)
        started = self._handle.clock()
        outcome = ERROR
        try:
            await self._poll_devices(state, started + self._binding_timeout)
            outcome = SUCCESS
        except DeviceBindingError:
            outcome = FAILURE
            raise
        except DeviceBindingTimeoutError:
            outcome = TIMEOUT
            raise
        finally:
            self._observe(state, outcome, self._handle.clock() - started)
        if v := log.v(5):
            devices = "; ".join(str(one) for claim in state.all for one in device_conditions(claim))
            v.info("BindingConditions is met", pod=logs.ref(pod.pod), node=node, devices=devices)

    async def _poll_devices(self, state: PodClaims, deadline: float) -> None:
        """At once and then every five seconds: what the watch has delivered meanwhile counts."""
        while not self._are_ready(state):
            left = deadline - self._handle.clock()
            if left > 0:
                await asyncio.sleep(min(POLL_SECONDS, left))
            if self._handle.clock() >= deadline:
                raise DeviceBindingTimeoutError("device binding timeout: context deadline exceeded")

    def _are_ready(self, state: PodClaims) -> bool:
        for index, claim in enumerate(state.claims):
            state.claims[index] = self._tracker.require(claim.namespace, claim.name)
        if state.special is not None and not is_in_memory(state.special):
            special = state.special
            state.special = self._tracker.require(special.namespace, special.name)
        for claim in state.all:
            # One in memory was not needed: the node has the resources itself.
            if not is_in_memory(claim) and not is_ready(claim):
                if self.is_overdue(claim):
                    raise DeviceBindingTimeoutError(f"device binding timeout: claim={claim.name}")
                return False
        return True

    def is_overdue(self, claim: ResourceClaim) -> bool:
        """Whether devices that binding waits for have had all the time they may take."""
        allocation = claim.status.allocation
        if not self._waits_for_devices or allocation is None:
            return False
        if allocation.allocation_timestamp is None or not any(device_conditions(claim)):
            return False
        allocated_at = parse_time(allocation.allocation_timestamp)
        return allocated_at + self._binding_timeout < self._wall_clock()

    def _observe(self, state: PodClaims, outcome: str, seconds: float) -> None:
        metrics, profile = self._handle.metrics, self._handle.profile_name
        waited = metrics.dra_bindingconditions_wait_duration_seconds
        allocations = metrics.dra_bindingconditions_allocations_total
        for claim in state.all:
            if claim.status.allocation is not None:
                for result in claim.status.allocation.devices.results:
                    waited.labels(profile, result.driver, outcome).observe(seconds)
            for device in device_conditions(claim):
                allocations.labels(profile, device.result.driver, outcome).inc()

    async def give_back(self, state: PodClaims, pod: Pod, added: ClaimStatuses = ()) -> None:
        """Take back reservations, the special claim and what devices `added` to the pod's requests;
        failures are only logged.
        """
        if state.unanswered is not None:
            await self._settle(state, state.unanswered)
        for claim in state.claims:
            if claim.status.allocation is not None and is_reserved_for(
                pod, claim, accept_group=False
            ):
                log.v(5).info("unreserve", resourceclaim=logs.ref(claim), pod=logs.ref(pod))
                try:
                    await self._client.unreserve_resource_claim(claim, pod)
                except KschedulerError as error:
                    log.error(error, "unreserve", resourceclaim=logs.ref(claim))
        special = state.special
        if special is not None and not is_in_memory(special):
            what = "delete extended resource backed by DRA"
            log.v(5).info(what, resourceclaim=logs.ref(special), pod=logs.ref(pod))
            try:
                await self.delete(special)
            except KschedulerError as error:
                log.error(error, "delete", resourceclaim=logs.ref(special))
        if added and pod.status.node_allocatable_resource_claim_statuses:
            await clear_statuses(self._client, pod)

    async def _settle(self, state: PodClaims, unanswered: ResourceClaim) -> None:
        """Find out whether a write took effect whose answer we do not have.

        Until then the claim stays in flight, lest its devices be given to another.
        """
        deadline = self._handle.clock() + SETTLE_SECONDS
        while self._handle.clock() < deadline:
            try:
                latest = await self._client.get_resource_claim(unanswered)
            except MissingError:
                break
            except KschedulerError:
                await asyncio.sleep(SETTLE_PAUSE_SECONDS)
            else:
                self._note_written(latest)
                state.claims = [latest if one.uid == latest.uid else one for one in state.claims]
                break
        self._handle.activate(self._tracker.release(unanswered.uid))

    def has_to_give_back(self, state: PodClaims, pod: Pod) -> bool:
        """Whether anything of the pod is written, or may be, that `give_back` would undo."""
        special = state.special
        return (
            state.unanswered is not None
            or (special is not None and not is_in_memory(special))
            or any(
                claim.status.allocation is not None
                and is_reserved_for(pod, claim, accept_group=False)
                for claim in state.claims
            )
        )

    async def deallocate(self, claim: ResourceClaim, pod: Pod) -> None:
        """Take the devices from a claim that nobody else uses."""
        refs = {"pod": logs.ref(pod), "resourceclaim": logs.ref(claim)}
        log.v(5).info("Deallocation of ResourceClaim", **refs)
        await self._client.update_resource_claim_status(deallocated(claim))

    async def delete(self, claim: ResourceClaim) -> None:
        """Delete a claim, without the finalizer that would keep it."""

        async def write(latest: ResourceClaim) -> ResourceClaim:
            return await _worded(
                f"update resourceclaim {latest.key}",
                self._client.update_resource_claim(without_finalizer(latest)),
            )

        claim = await self._retry_on_conflict(claim, write, "get resourceclaim {}")
        log.v(5).info("Delete", resourceclaim=logs.ref(claim))
        with suppress(MissingError):
            await self._client.delete_resource_claim(claim)


def is_ready(claim: ResourceClaim) -> bool:
    """Whether all devices of the claim are ready; raises DeviceBindingError if one cannot be."""
    if claim.status.allocation is None:
        return False
    for device in device_conditions(claim):
        if device.failed:
            raise _failure(claim, device)
        if device.pending:
            return False
    return True


def _failure(claim: ResourceClaim, device: DeviceConditions) -> DeviceBindingError:
    reason, message = device.failure
    return DeviceBindingError(
        f"device binding failed: claim={claim.name}, reason={reason}, message={quote(message)}"
    )


async def _worded(what: str, call: Awaitable[ResourceClaim]) -> ResourceClaim:
    """The call's answer; an error says what was attempted, and is of the same kind."""
    try:
        return await call
    except KschedulerError as error:
        kind = ConflictError if isinstance(error, ConflictError) else KschedulerError
        worded = kind(f"{what}: {error}")
        worded.unsettled = error.unsettled
        raise worded from error
