"""The claim tracker: which version of a claim counts, and whose devices are taken."""

import asyncio

import pytest
from msgspec.structs import replace

from kscheduler.api.core import Pod
from kscheduler.api.decode import convert
from kscheduler.api.meta import ObjectMeta
from kscheduler.api.resource import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimStatus,
)
from kscheduler.dra.allocated import AllocatedDevices
from kscheduler.dra.claims import ClaimTracker
from kscheduler.dra.features import AllocatorFeatures
from kscheduler.errors import KschedulerError, MissingError
from tests.plugins.topologies import make_pod
from tests.plugins.volumes import Informers

POOL = ("gpu.example.com", "n1")


def make_claim(name="c", version=1, *, uid=None, device=None, **metadata):
    """`device` it is allocated, if any."""
    about = {"namespace": "default", "name": name, "uid": uid or f"uid-{name}", **metadata}
    claim = convert({"metadata": {**about, "resourceVersion": str(version)}}, ResourceClaim)
    return claim if device is None else allocated(claim, device)


def allocation_of(device):
    result = DeviceRequestAllocationResult(request="r", driver=POOL[0], pool=POOL[1], device=device)
    return AllocationResult(devices=DeviceAllocationResult(results=(result,)))


def allocated(claim, device, version=None):
    metadata = claim.metadata
    if version is not None:
        metadata = replace(metadata, resource_version=str(version))
    status = ResourceClaimStatus(allocation=allocation_of(device))
    return replace(claim, metadata=metadata, status=status)


class Tracked:
    def __init__(self, *claims):
        self.informers = Informers(claims)
        self.devices = AllocatedDevices(AllocatorFeatures())
        self.tracker = ClaimTracker(self.informers.lister(ResourceClaim), self.devices)

    @property
    def taken(self):
        return sorted(self.devices.uses(POOL))


def test_devices_of_stored_claims_are_taken_until_the_claims_lose_them():
    on = Tracked(make_claim("a", device="gpu-0"), make_claim("b"))
    assert on.taken == ["gpu-0"]
    on.informers.put(make_claim("b", 2, device="gpu-1"))
    assert on.taken == ["gpu-0", "gpu-1"]
    on.informers.put(make_claim("a", 2))
    assert on.taken == ["gpu-1"]
    on.informers.remove(make_claim("b", 2, device="gpu-1"))
    assert on.taken == []


def test_devices_in_flight_are_taken_until_they_are_released():
    claim = make_claim()
    on = Tracked(claim)
    on.tracker.reserve(claim, allocation_of("gpu-0"))
    assert on.taken == ["gpu-0"]
    assert on.tracker.is_in_flight(claim.uid)
    on.tracker.release(claim.uid)
    assert on.taken == []
    assert len(on.tracker) == 0


def test_pods_that_wait_for_a_claim_are_named_when_it_is_given_up():
    claim, waiting = make_claim(), make_pod("waiting")
    on = Tracked(claim)
    on.tracker.reserve(claim, allocation_of("gpu-0"))
    on.tracker.await_allocation(claim.uid, waiting)
    assert list(on.tracker.release(claim.uid)) == [waiting]


def test_pods_that_wait_for_a_claim_are_left_to_the_event_when_it_is_written():
    claim = make_claim()
    on = Tracked(claim)
    on.tracker.reserve(claim, allocation_of("gpu-0"))
    on.tracker.await_allocation(claim.uid, make_pod("waiting"))
    on.tracker.written(allocated(claim, "gpu-0", version=3))
    assert list(on.tracker.release(claim.uid)) == []
    assert on.taken == ["gpu-0"]


def test_a_written_claim_counts_until_the_watch_is_as_far():
    claim = make_claim()
    on = Tracked(claim)
    written = allocated(claim, "gpu-0", version=3)
    on.tracker.written(written)
    assert on.tracker.get(claim.key) is written
    on.informers.put(make_claim(version=2))
    assert on.tracker.get(claim.key) is written
    assert on.taken == ["gpu-0"]
    stored = allocated(claim, "gpu-0", version=3)
    on.informers.put(stored)
    assert on.tracker.get(claim.key) is stored
    assert on.taken == ["gpu-0"]
    assert len(on.tracker) == 0


def test_a_claim_that_the_watch_knows_better_is_not_replaced():
    on = Tracked(make_claim(version=9, device="gpu-1"))
    message = r'ResourceClaim "default/c" is out of sync \(stored: 9, assume: 3\)'
    with pytest.raises(KschedulerError, match=message):
        on.tracker.written(make_claim(version=3, device="gpu-0"))
    assert on.taken == ["gpu-1"]


def test_a_written_claim_that_is_gone_is_not_kept():
    on = Tracked()
    with pytest.raises(MissingError, match='could not find ResourceClaim "default/c"'):
        on.tracker.written(make_claim(version=3, device="gpu-0"))
    assert on.taken == []
    assert len(on.tracker) == 0


def test_a_claim_deleted_in_flight_keeps_its_devices_until_the_attempt_ends():
    claim = make_claim()
    on = Tracked(claim)
    on.tracker.reserve(claim, allocation_of("gpu-0"))
    on.informers.remove(claim)
    assert on.taken == ["gpu-0"]
    on.tracker.release(claim.uid)
    assert on.taken == []


def test_a_claim_deleted_after_it_was_written_leaves_nothing():
    claim = make_claim()
    on = Tracked(claim)
    on.tracker.written(allocated(claim, "gpu-0", version=3))
    on.informers.remove(claim)
    assert on.taken == []
    assert len(on.tracker) == 0


def test_a_claim_of_the_same_name_starts_without_devices():
    on = Tracked(make_claim(device="gpu-0"))
    on.informers.put(make_claim(version=5, uid="another"))
    assert on.taken == []


def test_a_claim_that_got_allocated_elsewhere_is_not_taken_in_flight():
    claim = make_claim()
    on = Tracked(claim)
    on.informers.put(allocated(claim, "gpu-1", version=2))
    on.tracker.reserve(claim, allocation_of("gpu-0"))
    assert on.taken == ["gpu-1"]
    assert not on.tracker.is_in_flight(claim.uid)


def test_an_allocation_that_stays_the_same_is_no_change():
    on = Tracked(make_claim(device="gpu-0"))
    before = on.devices.changes.now
    on.informers.put(make_claim(version=2, device="gpu-0", labels={"a": "b"}))
    assert on.devices.changes.now == before


def owned_by(pod: Pod, **more):
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
    return [{**owner, "controller": True, **more}]


def test_the_special_claim_of_a_pod_is_found_by_its_owner():
    pod = make_pod("p").pod
    other = replace(pod, metadata=ObjectMeta(name="p", namespace="default", uid="another"))
    marked = {"resource.kubernetes.io/extended-resource-claim": "true"}
    special = make_claim("s", annotations=marked, ownerReferences=owned_by(pod))
    on = Tracked(
        make_claim("plain", ownerReferences=owned_by(pod)),
        make_claim("held", annotations=marked, ownerReferences=owned_by(pod, controller=False)),
        special,
    )
    assert on.tracker.special_claim_of(pod) is special
    assert on.tracker.special_claim_of(other) is None


async def test_waiting_for_a_claim_ends_when_the_watch_delivers_it():
    claim = make_claim()
    on = Tracked()
    waiting = asyncio.create_task(on.tracker.until_known(claim.key, 60))
    await asyncio.sleep(0)
    assert not waiting.done()
    on.informers.put(claim)
    assert await waiting
    assert await on.tracker.until_known(claim.key, 0)


async def test_waiting_for_a_claim_ends_in_time():
    on = Tracked()
    assert not await on.tracker.until_known("default/c", 0.001)
    on.informers.put(make_claim())
