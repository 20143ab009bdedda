"""Claims for devices are written back with all that the server told of them."""

import json

import pytest
from msgspec.structs import replace

from kscheduler.api.resource import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
)
from kscheduler.client.bodies import (
    new_resource_claim_body,
    resource_claim_body,
    resource_claim_status_body,
    unreserve_patch,
)
from kscheduler.client.informers.decoding import WRITTEN_BACK, retaining_json, shape_of

FINALIZER = "resource.kubernetes.io/delete-protection"
WHO = {"kind": "ResourceClaim", "apiVersion": "resource.k8s.io/v1"}
METADATA = {"name": "c", "namespace": "ns", "uid": "u", "resourceVersion": "3"}
SPEC = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
ALLOCATION = {
    "devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "gpu-0"}]},
    "ofTomorrow": {"x": 1},
}
DEVICES = [{"driver": "d", "pool": "p", "device": "gpu-0", "data": {"any": ["thing"]}}]
POD = ResourceClaimConsumerReference(resource="pods", name="p", uid="u-p")
RESULT = DeviceRequestAllocationResult(request="r", driver="d", pool="p", device="gpu-1")


def followed(status=None, **metadata):
    told = {"metadata": {**METADATA, **metadata}, "spec": SPEC}
    shape = retaining_json(shape_of(ResourceClaim, "ResourceClaim"), WRITTEN_BACK[ResourceClaim])
    return shape.decode(json.dumps(told if status is None else {**told, "status": status}).encode())


def with_status(claim, **changes):
    return replace(claim, status=replace(claim.status, **changes))


def test_a_finalizer_is_added_to_all_that_the_claim_has():
    claim = followed({"reservedFor": []}, managedFields=[{"manager": "m"}], labels={"a": "b"})
    claim = replace(claim, metadata=replace(claim.metadata, finalizers=(FINALIZER,)))
    assert json.loads(resource_claim_body(claim)) == {
        **WHO,
        "metadata": {
            **METADATA,
            "managedFields": [{"manager": "m"}],
            "labels": {"a": "b"},
            "finalizers": [FINALIZER],
        },
        "spec": SPEC,
        "status": {"reservedFor": []},
    }


def test_the_last_finalizer_is_removed_with_its_list():
    claim = followed({}, finalizers=[FINALIZER])
    claim = replace(claim, metadata=replace(claim.metadata, finalizers=()))
    assert json.loads(resource_claim_body(claim))["metadata"] == METADATA


def test_an_allocation_is_written_with_its_time_and_the_reservation():
    allocation = AllocationResult(
        devices=DeviceAllocationResult(results=(RESULT,)), allocation_timestamp="now"
    )
    claim = with_status(followed(), allocation=allocation, reserved_for=(POD,))
    assert json.loads(resource_claim_status_body(claim)) == {
        **WHO,
        "metadata": METADATA,
        "spec": SPEC,
        "status": {
            "allocation": {
                "devices": {
                    "results": [{"request": "r", "driver": "d", "pool": "p", "device": "gpu-1"}]
                },
                "allocationTimestamp": "now",
            },
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "u-p"}],
        },
    }


def test_an_allocation_without_devices_says_so():
    claim = with_status(followed(), allocation=AllocationResult())
    body = json.loads(resource_claim_status_body(claim))
    assert body["status"] == {"allocation": {"devices": {}}}


def test_an_allocation_that_the_claim_had_is_written_as_it_came():
    claim = followed({"allocation": ALLOCATION, "devices": DEVICES})
    assert claim.status.allocation is not None
    dated = replace(claim.status.allocation, allocation_timestamp="now")
    body = json.loads(resource_claim_status_body(with_status(claim, allocation=dated)))
    assert body["status"] == {
        "allocation": {**ALLOCATION, "allocationTimestamp": "now"},
        "devices": DEVICES,
    }


def test_a_claim_that_is_deallocated_has_an_empty_status():
    claim = followed({"allocation": ALLOCATION, "devices": DEVICES, "reservedFor": []})
    body = json.loads(resource_claim_status_body(replace(claim, status=ResourceClaimStatus())))
    assert body["status"] == {}


def test_a_new_claim_has_an_empty_status():
    claim = replace(followed(), whole=b"")
    assert json.loads(new_resource_claim_body(claim)) == {
        **WHO,
        "metadata": METADATA,
        "spec": SPEC,
        "status": {},
    }


def test_a_reservation_is_taken_back_by_its_uid():
    assert json.loads(unreserve_patch(followed(), "u-p")) == {
        "metadata": {"uid": "u"},
        "status": {"reservedFor": [{"$patch": "delete", "uid": "u-p"}]},
    }


def test_a_claim_without_its_json_cannot_be_written_back():
    with pytest.raises(AssertionError, match="was decoded without its JSON"):
        resource_claim_body(replace(followed(), whole=b""))
