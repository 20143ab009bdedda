"""Nodes with devices, and an allocator over them.

    cluster = Inventory(make_slice("n1", devices=2))
    cluster.picks(make_claim("c", request(count=2)))      [["gpu-0", "gpu-1"]]

Objects are spelled as in manifests, by `tests.kit.devices`; what the API server fills in is filled
in here.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from kscheduler.api.core import Node
from kscheduler.api.decode import convert
from kscheduler.api.meta import ApiObject
from kscheduler.api.resource import (
    AllocationResult,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from kscheduler.dra.allocated import AllocatedDevices
from kscheduler.dra.allocator import Allocator
from kscheduler.dra.errors import AllocationError
from kscheduler.dra.features import AllocatorFeatures
from tests.kit.clusters import cache_of
from tests.kit.devices import Json, claim_manifest, class_manifest, slice_manifest
from tests.kit.objects import make_node
from tests.plugins.volumes import Informers


def make_slice(name: str = "n1", **fields: Any) -> ResourceSlice:
    return convert(slice_manifest(name, **fields), ResourceSlice)


def make_class(name: str = "gpu", *expressions: str, **spec: Any) -> DeviceClass:
    return convert(class_manifest(name, *expressions, **spec), DeviceClass)


def make_claim(name: str = "c", *requests: Json, **devices: Any) -> ResourceClaim:
    manifest = claim_manifest(name, *requests, **devices)
    manifest["metadata"] |= {"namespace": "default", "uid": f"uid-{name}"}
    for one in manifest["spec"]["devices"]["requests"]:
        for asked in one.get("firstAvailable") or [one["exactly"]]:
            asked.setdefault("allocationMode", "ExactCount")
            if asked["allocationMode"] == "ExactCount":
                asked.setdefault("count", 1)
    return convert(manifest, ResourceClaim)


def first_available(name: str, *subrequests: Json) -> Json:
    """A request with these subrequests, which are requests by the kit."""
    of = [{"name": one["name"], **one["exactly"]} for one in subrequests]
    return {"name": name, "firstAvailable": of}


def make_rule(name: str, taint: Json, **selector: str) -> DeviceTaintRule:
    manifest = {"metadata": {"name": name}, "spec": {"deviceSelector": selector, "taint": taint}}
    return convert(manifest, DeviceTaintRule)


class Clock:
    """Time that passes only when it is told to; `step` is what a look at it takes."""

    def __init__(self) -> None:
        self.now = 0.0
        self.step = 0.0

    def __call__(self) -> float:
        self.now += self.step
        return self.now


class Inventory:
    """A cluster with devices; the class `gpu` is there unless another one is given."""

    def __init__(
        self, *objects: ApiObject, nodes: Sequence[str | Node] = ("n1",), **features: bool
    ) -> None:
        self._version = 0
        self.informers = Informers(objects)
        if not any(isinstance(one, DeviceClass) for one in objects):
            self.informers.put(make_class())
        self.features = AllocatorFeatures(**features)
        self.allocated = AllocatedDevices(self.features)
        self.clock = Clock()
        self.cache = cache_of([make_node(one) if isinstance(one, str) else one for one in nodes])
        self.allocator = self.new_allocator()

    def new_allocator(self) -> Allocator:
        return Allocator(self.informers, self.allocated, self.features, self.clock)

    @property
    def nodes(self):
        return self.cache.snapshot()

    def put(self, *objects: ApiObject) -> None:
        """Adds objects, or new versions of those that are there."""
        for one in objects:
            self._version += 1
            metadata = replace(one.metadata, resource_version=str(self._version))
            self.informers.put(replace(one, metadata=metadata))

    def node(self, name: str) -> Node:
        nodes = self.nodes
        return nodes.node(nodes.row_of(name))

    def allocate(self, *claims: ResourceClaim, on: str = "n1") -> list[AllocationResult]:
        shape = self.allocator.shape_of(claims)
        return self.allocator.allocate(shape, claims, self.node(on))

    def picks(self, *claims: ResourceClaim, on: str = "n1") -> list[list[str]]:
        """Names of the devices by claim."""
        return [
            [one.device for one in result.devices.results]
            for result in self.allocate(*claims, on=on)
        ]

    def take(self, *claims: ResourceClaim, on: str = "n1") -> list[list[str]]:
        """Allocates for good."""
        results = self.allocate(*claims, on=on)
        for claim, result in zip(claims, results, strict=True):
            self.allocated.add(claim.uid, result)
        return [[one.device for one in result.devices.results] for result in results]

    def verdicts(self, *claims: ResourceClaim, allocator: Allocator | None = None) -> list[Any]:
        """By row: a score if the claims fit there, or the text why they do not."""
        allocator = allocator or self.allocator
        shape = allocator.shape_of(claims)
        found = allocator.verdicts(shape, claims, self.nodes, None, None)
        answers: list[Any] = found.scores.tolist()
        for row in range(len(answers)):
            if found.cannot_allocate[row]:
                answers[row] = "cannot allocate all claims"
            if found.invalid_pools[row]:
                answers[row] = "invalid resource pools were encountered"
        return [found.errors.get(row, answer) for row, answer in enumerate(answers)]

    def refusal(self, *claims: ResourceClaim, on: str = "n1") -> str:
        """The text of an allocation that must fail; the verdict says the same."""
        with pytest.raises(AllocationError) as raised:
            self.allocate(*claims, on=on)
        text = str(raised.value)
        assert self.verdicts(*claims)[self.nodes.row_of(on)] == text
        return text
