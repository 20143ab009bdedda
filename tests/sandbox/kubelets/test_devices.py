"""The devices of example nodes: valid objects, and no more capacity than there is."""

from collections import Counter

import pytest

from kscheduler.api.quantity import value
from kscheduler.sandbox import ApiServer, example_device_classes, example_resource_slices

SLICES = "resourceslices.resource.k8s.io"


@pytest.fixture
def objects():
    return ApiServer().objects


@pytest.mark.parametrize("gpus", [1, 8])
@pytest.mark.parametrize(("index", "model"), [(0, "lynx"), (1, "tiger")])
def test_slices_are_accepted_and_complete(objects, gpus, index, model):
    for manifest in (*example_device_classes(), *example_resource_slices("n", index, gpus)):
        objects.create(manifest)
    slices = [one["spec"] for one in objects.list(SLICES, field_selector="spec.nodeName=n")]
    assert {one["pool"]["resourceSliceCount"] for one in slices} == {len(slices)}
    devices = [device for one in slices for device in one.get("devices", ())]
    kinds = Counter(device["attributes"]["type"]["string"] for device in devices)
    assert kinds["gpu"] == gpus
    assert {device["attributes"]["model"]["string"] for device in devices} == {model}


def test_partitions_of_a_profile_use_up_a_whole_gpu():
    shared, content = (one["spec"] for one in example_resource_slices("n", 1, 2))
    available = {one["name"]: one["counters"] for one in shared["sharedCounters"]}
    for profile, parts in (("whole", 1), ("half", 2), ("quarter", 4)):
        devices = [
            device
            for device in content["devices"]
            if device["attributes"]["profile"]["string"] == profile
        ]
        assert len(devices) == 2 * parts
        used = Counter()
        for device in devices:
            (consumed,) = device["consumesCounters"]
            for name, counter in consumed["counters"].items():
                used[consumed["counterSet"], name] += value(counter["value"])
        for counter_set, counters in available.items():
            for name, counter in counters.items():
                assert used[counter_set, name] == value(counter["value"])
