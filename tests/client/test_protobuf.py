"""Claims whose opaque parameters are stored otherwise than JSON shows them.

A real API server refuses such a claim's own JSON, sent back with a finalizer: `spec: Invalid value:
null: field is immutable`. kube-scheduler speaks protobuf, and never notices.
"""

import json

import pytest
from msgspec.structs import replace

from kscheduler.api.resource import ResourceClaim, ResourceClaimConsumerReference
from kscheduler.client.errors import Invalid
from kscheduler.client.informers.decoding import WRITTEN_BACK, retaining_json, shape_of
from kscheduler.client.protobuf import (
    NotProtobufError,
    claim_with_finalizers,
    claim_with_reservations,
)
from tests.client.scripted import Reply, failing

# What kube-apiserver answers for a claim with the parameters `{"a": 1}`, but for managed fields.
METADATA = (
    b'\n\x02c0\x12\x00\x1a\x07default"\x00*\x02u02\x032108\x00B\x08\x08\xfb\xc0\xf5\xd7\x06\x10\x00'
)
SPEC = (
    b"\n=\n\x18\n\x01r\x12\x13\n\x03gpu\x1a\nExactCount \x01"
    b'\x1a!\x12\x1f\n\x1d\n\x0fgpu.example.com\x12\n\n\x08{"a": 1}'
)
TYPE = b"\n#\n\x12resource.k8s.io/v1\x12\rResourceClaim"
REST = b'\x1a\x00"\x00'
FINALIZER = "resource.kubernetes.io/delete-protection"
PATH = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c0"
ALLOCATION = {
    "devices": {"config": [{"opaque": {"driver": "gpu.example.com", "parameters": {"a": 1}}}]}
}


def sized(number: int, value: bytes) -> bytes:
    assert len(value) < 256
    size = bytes([len(value)]) if len(value) < 128 else bytes([len(value) & 127 | 128, 1])
    return bytes([number << 3 | 2]) + size + value


def stored(metadata: bytes = METADATA, status: bytes = b"") -> bytes:
    whole = sized(1, metadata) + sized(2, SPEC) + sized(3, status)
    return b"k8s\0" + TYPE + sized(2, whole) + REST


def claim(version="210", status=None, parameters=True):
    opaque = {"driver": "gpu.example.com", "parameters": {"a": 1}}
    devices = {"requests": [], "config": [{"opaque": opaque}] if parameters else []}
    about = {"name": "c0", "namespace": "default", "uid": "u0", "resourceVersion": version}
    told = {"metadata": about, "spec": {"devices": devices}, "status": status or {}}
    shape = retaining_json(shape_of(ResourceClaim, "ResourceClaim"), WRITTEN_BACK[ResourceClaim])
    return shape.decode(json.dumps(told).encode())


def protected(**fields):
    made = claim(**fields)
    return replace(made, metadata=replace(made.metadata, finalizers=(FINALIZER,)))


def reserved():
    made = claim(status={"allocation": ALLOCATION})
    user = ResourceClaimConsumerReference(resource="pods", name="p", uid="u-p")
    return replace(made, status=replace(made.status, reserved_for=(user,)))


def test_finalizers_are_added_and_nothing_else_is_touched():
    version = sized(6, b"210")
    rest = METADATA.replace(version, b"")
    changed = rest + version + bytes([14 << 3 | 2, len(FINALIZER)]) + FINALIZER.encode()
    written = claim_with_finalizers(stored(), protected())
    fields = sized(2, SPEC) + sized(3, b"") + sized(1, changed)
    assert written == b"k8s\0" + TYPE + REST + sized(2, fields)


def test_the_version_is_the_one_that_we_have_seen():
    newer = stored(METADATA.replace(b"210", b"211"))
    assert claim_with_finalizers(newer, protected()) == claim_with_finalizers(stored(), protected())


def test_reservations_are_replaced_and_the_allocation_kept():
    allocation = sized(1, b"any bytes")
    before = sized(2, sized(3, b"pods") + sized(4, b"other"))
    written = claim_with_reservations(stored(status=before + allocation), reserved())
    user = sized(1, b"") + sized(3, b"pods") + sized(4, b"p") + sized(5, b"u-p")
    assert sized(3, allocation + sized(2, user)) in written
    assert b"other" not in written


@pytest.mark.parametrize("answer", [b"{}", b"k8s\0\xff", b"k8s\0\x0f", b"k8s\0\x0a"])
def test_what_is_no_protobuf_is_not_written(answer):
    with pytest.raises(NotProtobufError):
        claim_with_finalizers(answer, protected())


async def test_a_claim_that_is_refused_as_json_is_written_as_protobuf(server, client):
    answer = {"metadata": {"name": "c0", "resourceVersion": "211"}}
    server.on("PUT", PATH, failing(422, "Invalid"), Reply(200, answer))
    server.on("GET", PATH, Reply(200, stored()))
    written = await client.update_resource_claim(protected())
    assert written.metadata.resource_version == "211"
    _, asked, sent = server.requests
    assert asked.headers["Accept"] == "application/vnd.kubernetes.protobuf"
    assert sent.headers["Content-Type"] == "application/vnd.kubernetes.protobuf"
    assert sent.headers["Accept"] == "application/json, */*"
    assert sent.body == claim_with_finalizers(stored(), protected())


async def test_a_reservation_of_an_allocated_claim_is_written_so_as_well(server, client):
    server.on("PUT", f"{PATH}/status", failing(422, "Invalid"), Reply(200, {"metadata": {}}))
    server.on("GET", PATH, Reply(200, stored()))
    await client.update_resource_claim_status(reserved())
    assert server.requests[2].body == claim_with_reservations(stored(), reserved())


async def test_a_server_without_protobuf_has_the_last_word(server, client):
    server.on("PUT", PATH, failing(422, "Invalid"))
    server.on("GET", PATH, Reply(200, {"kind": "ResourceClaim"}))
    with pytest.raises(Invalid):
        await client.update_resource_claim(protected())


async def test_a_claim_without_parameters_is_not_tried_again(server, client):
    server.on("PUT", PATH, failing(422, "Invalid"))
    with pytest.raises(Invalid):
        await client.update_resource_claim(protected(parameters=False))
    assert len(server.requests) == 1


async def test_a_new_allocation_that_is_refused_is_not_tried_again(server, client):
    server.on("PUT", f"{PATH}/status", failing(422, "Invalid"))
    made = claim()
    allocated = replace(made, status=reserved().status)
    with pytest.raises(Invalid):
        await client.update_resource_claim_status(allocated)
    assert len(server.requests) == 1
