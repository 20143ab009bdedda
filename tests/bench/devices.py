"""The devices that benchmarks place pods by, shaped like upstream's scheduler_perf.

An inventory is what the driver of a node publishes, and which devices the first, second, … claim on
that node gets: clusters that are in use from the start have claims with such allocations.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tests.bench.workloads import IMAGE, NAMESPACE, REQUESTS, Json, pod

API_VERSION = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"
CLASS = "gpu"
TEMPLATE = "gpu-template"
# What a pod calls its claim, and a claim its only request.
CLAIM, REQUEST = "resource", "req-0"
EXTENDED_RESOURCE = "example.com/gpu"
IMPLICIT_RESOURCE = "deviceclass.resource.kubernetes.io"
PCI_ROOT = "resource.kubernetes.io/pciRoot"
PCI_ROOTS = 2
SELECTOR = (
    f'device.attributes["{DRIVER}"].driverVersion.major() >= 1 && '
    f'device.capacity["{DRIVER}"].memory.isGreaterThan(quantity("1Mi"))'
)
SEED = 1
# What a class asks of devices that it lets several claims have.
MULTIPLE = " && device.allowMultipleAllocations == true"

Slices = Callable[[str], list[Json]]


@dataclass(frozen=True)
class Inventory:
    # By the name of the node.
    slices: Slices
    # The results of the claims that fit on a node, without driver and pool, one list per claim.
    results: tuple[tuple[Json, ...], ...]

    def allocation(self, node: str, number: int) -> Json:
        """Of the claim of this number on a node."""
        place = {"request": REQUEST, "driver": DRIVER, "pool": node}
        results = [{**place, **result} for result in self.results[number]]
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        return {
            "devices": {"results": results},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        }

    def allocations(self, nodes: list[str], count: int) -> Iterator[Json]:
        """Of claims that came to the nodes at random, the same ones each time."""
        places = [node for node in nodes for _ in self.results]
        Random(SEED).shuffle(places)
        claims = dict.fromkeys(nodes, 0)
        for node in places[:count]:
            yield self.allocation(node, claims[node])
            claims[node] += 1


def slice_of(node: str, part: str = "", of: int = 1, **content: Any) -> Json:
    """One of the slices of a node's pool."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}{part}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": of},
            **content,
        },
    }


def card(number: int, model: str = "B60", memory: str = "24480Mi") -> Json:
    """A device with as many attributes as real drivers publish."""
    root = number % PCI_ROOTS
    texts = {
        "driver": "xe",
        "family": "Arc Pro B-Series",
        "health": "Healthy",
        "model": model,
        "pciAddress": f"0000:{number:02d}:00.0",
        "pciId": "0xe211",
        "pciRoot": f"{root:02d}",
        "type": "gpu",
        "resource.kubernetes.io/pciBusID": f"0000:{number:02d}:00.0",
        PCI_ROOT: f"pci0000:{root:02d}",
    }
    attributes: Json = {name: {"string": text} for name, text in texts.items()}
    attributes |= {"driverVersion": {"version": "1.2.3"}, "sriov": {"bool": True}}
    capacity = {"memory": {"value": memory}, "millicores": {"value": "1k"}}
    return {"name": f"device-{number}", "attributes": attributes, "capacity": capacity}


def cards(count: int) -> Inventory:
    """Devices that are all alike but for where they are plugged in."""
    devices = [card(number) for number in range(count)]
    results = tuple(({"device": device["name"]},) for device in devices)
    return Inventory(lambda node: [slice_of(node, devices=devices)], results)


def matched(count: int) -> Inventory:
    """The same, of which a claim takes all on one PCI root."""
    results = tuple(
        tuple(
            {"request": f"req-{position}", "device": f"device-{number}"}
            for position, number in enumerate(range(root, count, PCI_ROOTS))
        )
        for root in range(PCI_ROOTS)
    )
    return replace(cards(count), results=results)


def two_models(count: int) -> Inventory:
    """Devices of two models in turn."""
    models = (("B60", "24480Mi"), ("B50", "16Gi"))
    devices = [card(number, *models[number % 2]) for number in range(count)]
    results = tuple(({"device": device["name"]},) for device in devices)
    return Inventory(lambda node: [slice_of(node, devices=devices)], results)


def consuming(number: int, **sets: Json) -> Json:
    consumed = [
        {
            "counterSet": name.replace("_", "-"),
            "counters": {counter: {"value": value} for counter, value in counters.items()},
        }
        for name, counters in sets.items()
    ]
    return {"name": f"device-{number}", "consumesCounters": consumed}


def counted(devices: list[Json], sets: dict[str, Json], taken: tuple[int, ...]) -> Inventory:
    """Devices that share counters; one claim takes these and with them the node."""
    counters = [
        {"name": name, "counters": {counter: {"value": value} for counter, value in some.items()}}
        for name, some in sets.items()
    ]

    def slices(node: str) -> list[Json]:
        return [
            slice_of(node, "-counters", 2, sharedCounters=counters),
            slice_of(node, "-devices", 2, devices=devices),
        ]

    return Inventory(slices, (tuple({"device": f"device-{number}"} for number in taken),))


def halves() -> Inventory:
    """Two devices that take half of the node's counters each."""
    devices = [
        consuming(1, counter_set={"counter1": "1", "counter2": "1"}),
        consuming(2, counter_set={"counter3": "1", "counter4": "1"}),
    ]
    return counted(devices, {"counter-set": {f"counter{n}": "1" for n in range(1, 5)}}, (1, 2))


def one_too_large() -> Inventory:
    """Eight devices of which seven have room together, but none with the first among them."""
    devices = [
        consuming(
            number, cpu={f"cpu{number}": "1"}, memory={"mem": "20Gi" if number == 1 else "10Gi"}
        )
        for number in range(1, 9)
    ]
    sets = {"cpu": {f"cpu{number}": "1" for number in range(1, 9)}, "memory": {"mem": "70Gi"}}
    return counted(devices, sets, tuple(range(2, 9)))


def shareable() -> Inventory:
    """Four devices with room for four claims each; a claim takes a share of two of them."""
    policy = {"default": "1M", "validRange": {"min": "1M", "step": "8"}}
    devices = [
        {
            "name": f"device-{number}",
            "allowMultipleAllocations": True,
            "attributes": {"index": {"int": number}},
            "capacity": {"bandwidth": {"requestPolicy": policy, "value": "10G"}},
        }
        for number in range(4)
    ]
    shares = tuple(
        tuple(
            {
                "device": f"device-{number}",
                "shareID": f"00000000-0000-4000-8000-{share:012d}",
                "consumedCapacity": {"bandwidth": "2500M"},
            }
            for number in pair
        )
        for share, pair in enumerate([(0, 1)] * 4 + [(2, 3)] * 4)
    )
    return Inventory(lambda node: [slice_of(node, devices=devices)], shares)


def device_class(name: str = CLASS, *, condition: str = "", **spec: Any) -> Json:
    expression = f'device.driver == "{DRIVER}"{condition}'
    return {
        "apiVersion": API_VERSION,
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}], **spec},
    }


def _request(name: str, **wanted: Any) -> Json:
    """With what a server would fill in."""
    mode = {"deviceClassName": CLASS, "allocationMode": "ExactCount"}
    return {"name": name, "exactly": {**mode, **wanted}}


def exactly(count: int = 1, **more: Any) -> Json:
    """The spec of a claim with one request."""
    return {"devices": {"requests": [_request(REQUEST, count=count, **more)]}}


def matching(requests: int) -> Json:
    """The spec of a claim whose devices are on one PCI root."""
    wanted = [_request(f"req-{number}", count=1) for number in range(requests)]
    return {"devices": {"requests": wanted, "constraints": [{"matchAttribute": PCI_ROOT}]}}


def distinct_shares() -> Json:
    """The spec of a claim for a share of two devices."""
    spec = exactly(2, capacity={"requests": {"bandwidth": "2500M"}})
    constraint = {"requests": [REQUEST], "distinctAttribute": f"{DRIVER}/index"}
    spec["devices"]["constraints"] = [constraint]
    return spec


def claim(name: str, spec: Json, **metadata: Any) -> Json:
    return {
        "apiVersion": API_VERSION,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": NAMESPACE, **metadata},
        "spec": spec,
    }


def generated_claim(pod: str, uid: str, spec: Json) -> Json:
    """As the claim controller makes it from a template, but with a name that is known before."""
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    annotations = {"resource.kubernetes.io/pod-claim-name": CLAIM}
    return claim(f"{pod}-{CLAIM}", spec, ownerReferences=[owner], annotations=annotations)


def with_claim(name: str, **source: str) -> Json:
    """A pod whose claim comes from there."""
    resources = {"requests": REQUESTS, "limits": REQUESTS, "claims": [{"name": CLAIM}]}
    container = {"name": "pause", "image": IMAGE, "resources": resources}
    return pod(name, containers=[container], resourceClaims=[{"name": CLAIM, **source}])


def with_extended_resource(name: str, resource: str) -> Json:
    amounts = {**REQUESTS, resource: "1"}
    resources = {"requests": amounts, "limits": amounts}
    return pod(name, containers=[{"name": "pause", "image": IMAGE, "resources": resources}])
