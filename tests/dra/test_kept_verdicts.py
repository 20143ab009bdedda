"""Verdicts that are kept and refreshed are those that a new allocator gives.

Clusters are those of recordings. Claims take devices and give them back; slices, classes, rules and
nodes change. After each step all that was asked before is asked again, of the allocator that has
seen everything and of one that sees only what is left.
"""

import json
import time
from copy import deepcopy
from itertools import islice
from random import Random

import msgspec
import pytest

from kscheduler.api.core import Node
from kscheduler.api.resource import ResourceClaim
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.dra.allocated import AllocatedDevices
from kscheduler.dra.allocator import Allocator
from kscheduler.dra.errors import AllocationError
from kscheduler.dra.features import AllocatorFeatures
from kscheduler.state.cache import Cache
from tests.parity.run import VECTORS, lines
from tests.parity.vector_api import RecordedObjects, stable_text

FAMILIES = (
    "draconstraints",
    "draconsume",
    "dragates",
    "drapartition",
    "drapools",
    "drataints",
)
CHANGING = ("ResourceSlice", "DeviceClass", "DeviceTaintRule", "Node")
STEPS = 40
ASKED = 6


class Known:
    """An allocator and the cluster that it knows."""

    def __init__(self, items, features, allocations):
        self.objects = RecordedObjects(items)
        self.allocated = AllocatedDevices(features)
        for uid, allocation in allocations.items():
            self.allocated.add(uid, allocation)
        self.allocator = Allocator(self.objects, self.allocated, features, time.monotonic)
        self.cache = Cache()
        for node in self.objects.lister(Node).items():
            self.cache.add_node(node)

    def answers(self, claims):
        """By claim and node the verdict, and what would be allocated there."""
        found = {}
        nodes = self.cache.snapshot()
        for claim in claims:
            shape = self.allocator.shape_of([claim])
            verdicts = self.allocator.verdicts(shape, [claim], nodes, None, None)
            for position in nodes.order.tolist():
                node = nodes.node(position)
                found[claim.name, node.name] = (
                    bool(verdicts.cannot_allocate[position]),
                    bool(verdicts.invalid_pools[position]),
                    verdicts.errors.get(position),
                    int(verdicts.scores[position]),
                    told(self.allocated_on(node, claim)),
                )
        return found

    def allocated_on(self, node, claim):
        """An allocation, or the text of a refusal."""
        shape = self.allocator.shape_of([claim])
        try:
            return self.allocator.allocate(shape, [claim], node)[0]
        except AllocationError as error:
            return str(error)


def told(answer):
    """Identities of shares are different every time."""
    if isinstance(answer, str):
        return answer
    return stable_text(json.loads(msgspec.json.encode(answer)))


class Walk:
    """One cluster and what happens to it, by chance."""

    def __init__(self, scenario):
        self.chance = Random(scenario["name"])
        gates = FeatureGates.defaults().apply(scenario.get("features") or {})
        self.features = AllocatorFeatures.from_gates(gates)
        self.items = {
            (one["kind"], one["metadata"]["name"]): one
            for one in scenario["objects"]
            if one["kind"] in CHANGING
        }
        claims = [one for one in scenario["objects"] if one["kind"] == "ResourceClaim"]
        self.claims = list(RecordedObjects(claims).lister(ResourceClaim).items())
        self.allocations = {}
        self.hold_once(one for one in self.claims if one.status.allocation)
        self.waiting = [one for one in self.claims if one.status.allocation is None]
        self.removed = []
        self.version = 1_000_000
        self.kept = Known(self.items.values(), self.features, self.allocations)

    def hold_once(self, claims):
        """A device that two claims hold is free when one lets it go: that is history, no state."""
        held = set()
        for claim in claims:
            results = claim.status.allocation.devices.results
            devices = {(one.driver, one.pool, one.device) for one in results}
            if not devices & held:
                held |= devices
                self.allocations[claim.uid] = claim.status.allocation

    def step(self):
        acts = (self.take, self.take, self.give_back, self.change_slice, self.remove_slice)
        acts += (self.restore, self.taint, self.change_class, self.relabel)
        self.chance.choice(acts)()

    def take(self):
        free = [one for one in self.waiting if one.uid not in self.allocations]
        if free:
            claim = self.chance.choice(free)
            node = self.chance.choice(list(self.kept.objects.lister(Node).items()))
            allocation = self.kept.allocated_on(node, claim)
            if not isinstance(allocation, str):
                self.allocations[claim.uid] = allocation
                self.kept.allocated.add(claim.uid, allocation)

    def give_back(self):
        if self.allocations:
            uid = self.chance.choice(list(self.allocations))
            del self.allocations[uid]
            self.kept.allocated.remove(uid)

    def change_slice(self):
        item = self.some("ResourceSlice")
        devices = item["spec"].get("devices") or []
        if devices and self.chance.random() < 0.7:
            device = self.chance.choice(devices)
            if self.chance.random() < 0.3:
                devices.remove(device)
            else:
                device.setdefault("attributes", {})["model"] = {"string": self.chance.choice("AB")}
        else:
            item["spec"]["pool"]["generation"] = self.chance.randint(1, 3)
        self.put(item)

    def remove_slice(self):
        item = self.some("ResourceSlice")
        if len([kind for kind, _ in self.items if kind == "ResourceSlice"]) > 1:
            self.removed.append(item)
            del self.items["ResourceSlice", item["metadata"]["name"]]
            self.kept.objects.remove(item)

    def restore(self):
        if self.removed:
            self.put(self.removed.pop())

    def taint(self):
        about = self.some("ResourceSlice")["spec"]
        selector = {"driver": about["driver"], "pool": about["pool"]["name"]}
        if about.get("devices") and self.chance.random() < 0.7:
            selector["device"] = self.chance.choice(about["devices"])["name"]
        taint = {"key": "example.com/hot", "effect": self.chance.choice(["NoSchedule", "None"])}
        metadata = {"name": f"rule-{self.chance.randint(0, 3)}", "uid": "r"}
        spec = {"deviceSelector": selector, "taint": taint}
        self.put({"kind": "DeviceTaintRule", "metadata": metadata, "spec": spec})

    def change_class(self):
        item = self.some("DeviceClass")
        others = [{"cel": {"expression": "true"}}, {"cel": {"expression": 'device.driver != ""'}}]
        item["spec"]["selectors"] = self.chance.sample(others, 1)
        self.put(item)

    def relabel(self):
        item = self.some("Node")
        labels = item["metadata"]["labels"]
        key = self.chance.choice(sorted(labels))
        labels[key] = self.chance.choice(["a", "b", labels[key]])
        self.put(item)
        node = self.kept.objects.lister(Node).get(item["metadata"]["name"])
        self.kept.cache.update_node(node)

    def some(self, kind):
        """A copy, to be changed."""
        return deepcopy(
            self.chance.choice([one for key, one in self.items.items() if key[0] == kind])
        )

    def put(self, item):
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        self.items[item["kind"], item["metadata"]["name"]] = item
        self.kept.objects.put(item)

    def new(self):
        return Known(self.items.values(), self.features, self.allocations)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_what_was_kept_is_what_a_new_allocator_says(family):
    path = next(VECTORS.glob(f"{family}.jsonl.*"))
    for line in islice(lines(path), 0, None, 10):
        walk = Walk(line["scenario"])
        asked = walk.waiting[:ASKED]
        for _ in range(STEPS):
            walk.step()
            assert walk.kept.answers(asked) == walk.new().answers(asked)
