"""The claim tracker: claims as the next decision must see them.

Three versions of a claim can exist at once, and each keeps its devices from being given away:

    stored     as the watch has delivered it
    written    as the API server answered our write; counts until the watch is as far
    in flight  an allocation that is decided and not written yet, by the claim's uid

    reserve ──► in flight ── write answered ──► written ── the watch delivers it ──► stored
                   │
                   └── given up ──► nothing

Mirrors the claim tracker of dra_manager.go and the assume cache behind it. Differs: a claim whose
allocation was written stays so even if the attempt fails afterwards, where upstream falls back to
the stored version and, until the watch delivers the new one, takes the devices for free; pods that
were refused because a claim was in flight are named when it is given up, as no event will tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from kscheduler import logs
from kscheduler.api.core import Pod
from kscheduler.api.resource import AllocationResult, ResourceClaim
from kscheduler.errors import KschedulerError, MissingError
from kscheduler.framework.listers import FollowedLister
from kscheduler.gotext.strconv import quote

if TYPE_CHECKING:
    from kscheduler.dra.allocated import AllocatedDevices
    from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__)

EXTENDED_RESOURCE_CLAIM = "resource.kubernetes.io/extended-resource-claim"

_SPECIAL_CLAIM_OF_POD = "claim for extended resources, by the pod's uid"


class InFlight(msgspec.Struct, frozen=True):
    """An allocation that is being written, and the pods that wait for it."""

    claim: ResourceClaim
    allocation: AllocationResult
    waiting: dict[str, PodInfo] = msgspec.field(default_factory=dict)


class ClaimTracker:
    """Keeps `allocated` up to date: every allocation that is stored, written or in flight."""

    def __init__(self, lister: FollowedLister[ResourceClaim], allocated: AllocatedDevices) -> None:
        self._lister = lister
        self._allocated = allocated
        # By key, while newer than what is stored.
        self._written: dict[str, ResourceClaim] = {}
        # By the uid of the claim.
        self._in_flight: dict[str, InFlight] = {}
        self._counted: dict[str, AllocationResult] = {}
        # By key, for claims that we made and the watch has not delivered yet.
        self._arrivals: dict[str, asyncio.Future[None]] = {}
        lister.add_index(_SPECIAL_CLAIM_OF_POD, _special_claim_of)
        lister.add_handler(self)

    def __len__(self) -> int:
        """The number of claims that are in flight, or written and not delivered yet."""
        return len(self._in_flight) + len(self._written)

    def get(self, key: str) -> ResourceClaim | None:
        stored = self._lister.get(key)
        return None if stored is None else self._written.get(key, stored)

    def require(self, namespace: str, name: str) -> ResourceClaim:
        """The claim; raises MissingError."""
        key = f"{namespace}/{name}"
        found = self.get(key)
        if found is None:
            raise MissingError(f"could not find ResourceClaim {quote(key)}")
        return found

    def special_claim_of(self, pod: Pod) -> ResourceClaim | None:
        """The claim that an earlier attempt made for the pod's extended resources."""
        found = self._lister.by_index(_SPECIAL_CLAIM_OF_POD, (pod.namespace, pod.name, pod.uid))
        return self.get(found[0].key) if found else None

    def is_in_flight(self, uid: str) -> bool:
        return uid in self._in_flight

    def await_allocation(self, uid: str, pod: PodInfo) -> None:
        """Remembers a pod that was refused because this claim is in flight."""
        self._in_flight[uid].waiting[pod.uid] = pod

    def reserve(self, claim: ResourceClaim, allocation: AllocationResult) -> None:
        """Takes the devices; nothing happens to a claim that got allocated meanwhile, which the
        write will find out.
        """
        uid = claim.uid
        current = self.get(claim.key)
        if current is not None and current.uid == uid and current.status.allocation is not None:
            return
        self._in_flight[uid] = InFlight(claim, allocation)
        self._count(uid, allocation)
        if v := log.v(5):
            version = claim.metadata.resource_version
            v.info("Added in-flight claim", claim=logs.ref(claim), uid=uid, version=version)

    def created(self, uid: str, claim: ResourceClaim) -> None:
        """The claim that is in flight under a made-up uid exists now, under its own."""
        in_flight = self._in_flight.pop(uid)
        self._count(uid, None)
        self._in_flight[claim.uid] = replace(in_flight, claim=claim)
        self._count(claim.uid, in_flight.allocation)

    def release(self, uid: str) -> Collection[PodInfo]:
        """Ends the flight of a claim: devices that were not written are free again.

        Returns the pods that waited for this, if the claim was given up.
        """
        in_flight = self._in_flight.pop(uid, None)
        if in_flight is None:
            return ()
        if v := log.v(5):
            claim = in_flight.claim
            version = claim.metadata.resource_version
            v.info("Removed in-flight claim", claim=logs.ref(claim), uid=uid, version=version)
        current = self.get(in_flight.claim.key)
        if current is not None and current.uid == uid:
            self._recount(current)
        elif self._counted.pop(uid, None) is not None:
            self._allocated.remove(uid, gave_up=True)
        return () if uid in self._counted else in_flight.waiting.values()

    def written(self, claim: ResourceClaim) -> None:
        """Notes the API server's answer to a write; raises KschedulerError if the watch is ahead
        of it, or does not know the claim.
        """
        key, version = claim.key, claim.metadata.resource_version
        stored = self._lister.get(key)
        if stored is None:
            raise MissingError(f"could not find ResourceClaim {quote(key)}")
        if stored.metadata.resource_version != version:
            if _is_newer(stored, claim):
                raise KschedulerError(
                    f"ResourceClaim {quote(key)} is out of sync "
                    f"(stored: {stored.metadata.resource_version}, assume: {version})"
                )
            self._written[key] = claim
            self._recount(claim)

    async def until_known(self, key: str, seconds: float) -> bool:
        """Whether the watch delivers the claim within that time; at once if it has already."""
        if self._lister.get(key) is not None:
            return True
        arrival = self._arrivals[key] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                await arrival
        except TimeoutError:
            return False
        finally:
            del self._arrivals[key]
        return True

    def on_add(self, item: ResourceClaim, *, is_initial: bool) -> None:
        self._expire(item)
        self._recount(self._written.get(item.key, item))
        arrival = self._arrivals.get(item.key)
        if arrival is not None and not arrival.done():
            arrival.set_result(None)

    def on_update(self, old: ResourceClaim, new: ResourceClaim) -> None:
        if old.uid != new.uid:
            self._forget(old)
        self._expire(new)
        self._recount(self._written.get(new.key, new))

    def on_delete(self, item: ResourceClaim, *, final_state_unknown: bool) -> None:
        self._forget(item)

    def _forget(self, claim: ResourceClaim) -> None:
        written = self._written.pop(claim.key, None)
        for uid in {claim.uid, claim.uid if written is None else written.uid}:
            in_flight = self._in_flight.get(uid)
            self._count(uid, None if in_flight is None else in_flight.allocation)

    def _expire(self, stored: ResourceClaim) -> None:
        written = self._written.get(stored.key)
        if written is not None and not _is_newer(written, stored):
            del self._written[stored.key]

    def _recount(self, current: ResourceClaim) -> None:
        allocation = current.status.allocation
        if allocation is None and current.uid in self._in_flight:
            allocation = self._in_flight[current.uid].allocation
        self._count(current.uid, allocation)

    def _count(self, uid: str, allocation: AllocationResult | None) -> None:
        known = self._counted.get(uid)
        if allocation is None:
            if known is not None:
                del self._counted[uid]
                self._allocated.remove(uid)
        elif known is None or known != allocation:
            self._counted[uid] = allocation
            self._allocated.add(uid, allocation)


def _is_newer(one: ResourceClaim, other: ResourceClaim) -> bool:
    """By version; if those are no numbers, whatever differs is newer."""
    version, than = one.metadata.resource_version, other.metadata.resource_version
    if version.isdecimal() and than.isdecimal():
        return int(version) > int(than)
    return version != than


def _special_claim_of(claim: ResourceClaim) -> Iterator[tuple[str, str, str]]:
    if claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) == "true":
        for owner in claim.metadata.owner_references:
            if owner.controller:
                yield claim.namespace, owner.name, owner.uid
