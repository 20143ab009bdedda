"""Refusals for want of devices: which request of which claim, and how many devices there are."""

import json

import pytest

from kscheduler.api.decode import decoder_for
from kscheduler.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from tests.kit.devices import (
    allocation,
    claim_manifest,
    class_manifest,
    device,
    request,
    slice_manifest,
    using,
)
from tests.kit.objects import make_node, make_pod

DECODERS = {
    kind.__name__: decoder_for(kind) for kind in (DeviceClass, ResourceClaim, ResourceSlice)
}
RED = 'device.attributes["gpu.example.com"].colour == "red"'


def asking(name="r", count=1, **fields):
    """A request with the defaults that an API server fills in."""
    return request(name, allocationMode="ExactCount", count=count, **fields)


def objects(*manifests):
    found = []
    for number, manifest in enumerate(manifests):
        kind, metadata = manifest["kind"], manifest["metadata"]
        if kind == "ResourceClaim":
            metadata = {"namespace": "default", **metadata}
        metadata = {"uid": f"uid-{number}", "resourceVersion": "1", **metadata}
        found.append(DECODERS[kind](json.dumps({**manifest, "metadata": metadata}).encode()))
    return found


def told(decider, nodes, *manifests, pod=None):
    pod = make_pod("p", **using("c")) if pod is None else pod
    found = decider(
        [make_node(name) for name in nodes], objects=objects(class_manifest(), *manifests)
    ).decide(pod)
    (rejection,) = found.last.rejections
    assert rejection.reason == "cannot allocate all claims"
    return {one.text: one.count for one in rejection.details}


def test_devices_in_use_are_told_from_those_that_match(decider):
    used = claim_manifest("used", asking())
    used["status"] = {"allocation": allocation("b")}
    claim = claim_manifest("c", asking(count=3))
    slices = slice_manifest("a", devices=2), slice_manifest("b", devices=2)
    asked = "resource claim default/c, request r: 3 of class gpu"
    assert told(decider, "abc", *slices, used, claim) == {
        f"{asked}; 2 match, 2 free": 1,
        f"{asked}; 2 match, 1 free": 1,
        f"{asked}; none matches": 1,
    }


def test_only_the_request_that_lacks_devices_is_named(decider):
    red = [{"cel": {"expression": RED}}]
    claim = claim_manifest("c", asking("any"), asking("red", selectors=red))
    blue = {"colour": {"string": "blue"}}
    slices = slice_manifest("a", devices=[device(f"gpu-{n}", attributes=blue) for n in range(4)])
    assert told(decider, "a", slices, claim) == {
        "resource claim default/c, request red: 1 of class gpu; none matches": 1
    }


def test_requests_that_compete_are_told(decider):
    claim = claim_manifest("c", asking("one"), asking("other"))
    assert told(decider, "a", slice_manifest("a", devices=1), claim) == {
        "devices for every request, but not for all of them together": 1
    }


def test_alternatives_and_all_devices(decider):
    several = {
        "name": "r",
        "firstAvailable": [
            {"name": "two", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2},
            {"name": "three", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 3},
        ],
    }
    claim = claim_manifest("c", several)
    assert told(decider, "a", slice_manifest("a", devices=1), claim) == {
        "resource claim default/c, request r: the first available of 2, such as 2 of class gpu; "
        "1 match, 1 free": 1
    }
    every = claim_manifest("c", request(allocationMode="All"))
    assert told(decider, "a", every) == {
        "resource claim default/c, request r: all devices of class gpu; none matches": 1
    }


def test_extended_resources_are_named_as_such(decider):
    gpu = class_manifest(extendedResourceName="example.com/gpu")
    pod = make_pod("p", requests={"example.com/gpu": "2"})
    found = decider([make_node("a")], objects=objects(gpu, slice_manifest("a", devices=1))).decide(
        pod
    )
    (detail,) = found.last.rejections[0].details
    assert detail.text == (
        "extended resources, request container-0-request-0: 2 of class gpu; 1 match, 1 free"
    )


@pytest.mark.parametrize("looks", [3, 20])
def test_what_is_told_is_bounded(decider, looks):
    claim = claim_manifest("c", asking(count=30))
    names = [f"n{number}" for number in range(looks)]
    slices = [slice_manifest(name, devices=1 + number) for number, name in enumerate(names)]
    assert len(told(decider, names, *slices, claim)) == min(looks, 8)
