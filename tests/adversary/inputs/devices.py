"""Devices and claims for them: searches that could try everything, rules, slices, classes."""

from collections.abc import Sequence

from tests.adversary.inputs.table import Ask, Json, Scene, named, pod, row
from tests.bench.workloads import IMAGE

RESOURCE_API = "resource.k8s.io/v1"
# Who publishes devices; claims beside them any tenant may create.
DRIVER = "device driver"
CLASSES = "device administrator"
# What an API server admits at most.
REQUESTS_PER_CLAIM = 32
ALTERNATIVES_PER_REQUEST = 8
DEVICES_PER_SLICE = 128
PARTITIONS_PER_SLICE = 64
BYTES_PER_EXPRESSION = 10 * 1024


def device_class(name: str, *expressions: str, **spec: str) -> Json:
    selectors = [{"cel": {"expression": one}} for one in expressions]
    spec_of = {"selectors": selectors, **spec} if selectors else spec
    return named("DeviceClass", name, api=RESOURCE_API, namespace="", spec=spec_of)


def of_driver(ask: Ask) -> Json:
    return device_class(ask.tag, f'device.driver == "{driver(ask)}"')


def driver(ask: Ask) -> str:
    return f"{ask.tag}.example.com"


def resource_slice(ask: Ask, name: str, devices: Sequence[Json], **spec: object) -> Json:
    """Of a pool of its own on the first node, unless told otherwise."""
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    where = {"nodeName": ask.nodes[0]} if "allNodes" not in spec else {}
    about = {"driver": driver(ask), "pool": pool, **where, "devices": list(devices), **spec}
    return named("ResourceSlice", name, api=RESOURCE_API, namespace="", spec=about)


def devices(count: int, **fields: object) -> list[Json]:
    return [{"name": f"d{i:05d}", **fields} for i in range(count)]


def claim(ask: Ask, *requests: Json, name: str = "", **devices: object) -> Json:
    spec = {"devices": {"requests": list(requests), **devices}}
    return named("ResourceClaim", name or ask.tag, api=RESOURCE_API, spec=spec)


def request(ask: Ask, name: str = "r", **fields: object) -> Json:
    return {"name": name, "exactly": {"deviceClassName": ask.tag, **fields}}


def user(ask: Ask, *claims: str) -> Json:
    names = claims or (ask.tag,)
    return pod(ask.tag, resourceClaims=[{"name": one, "resourceClaimName": one} for one in names])


def selectors(*expressions: str) -> list[Json]:
    return [{"cel": {"expression": one}} for one in expressions]


@row(
    "device-too-few",
    "the search for devices: one more is wanted than there are, and any subset could be tried",
    size=31,
    small=12,
    by=DRIVER,
)
def too_few(ask: Ask) -> Scene:
    before = [
        of_driver(ask),
        *(resource_slice(ask, name, devices(1)) for name in ask.names()),
        claim(ask, request(ask, count=ask.size + 1)),
    ]
    return Scene(before, [user(ask)])


@row(
    "device-alternatives",
    "the search for devices: alternatives by the dozen, and a constraint that none of them meets",
    size=REQUESTS_PER_CLAIM,
    small=8,
    by=DRIVER,
)
def alternatives(ask: Ask) -> Scene:
    """Every device has a value of its own for what must be the same for all."""
    different = [
        {"name": f"d{i:03d}", "attributes": {"serial": {"string": f"{ask.tag}-{i}"}}}
        for i in range(DEVICES_PER_SLICE)
    ]
    requests = [
        {
            "name": f"r{i}",
            "firstAvailable": [
                {"name": f"a{j}", "deviceClassName": ask.tag}
                for j in range(ALTERNATIVES_PER_REQUEST)
            ],
        }
        for i in range(ask.size)
    ]
    same = {"matchAttribute": f"{driver(ask)}/serial"}
    slices = [resource_slice(ask, ask.tag, different, allNodes=True)]
    return Scene([of_driver(ask), *slices, claim(ask, *requests, constraints=[same])], [user(ask)])


@row(
    "device-counters",
    "the search for devices: partitions of which any 31 fit into what they share, of 32 wanted",
    size=PARTITIONS_PER_SLICE,
    small=40,
    by=DRIVER,
)
def counters(ask: Ask) -> Scene:
    part = {"counterSet": "whole", "counters": {"cores": {"value": "1"}}}
    shared = [{"name": "whole", "counters": {"cores": {"value": "31"}}}]
    pool = {"name": ask.tag, "generation": 1, "resourceSliceCount": 2}
    before = [
        of_driver(ask),
        resource_slice(ask, f"{ask.tag}-counters", (), pool=pool, sharedCounters=shared),
        resource_slice(ask, ask.tag, devices(ask.size, consumesCounters=[part]), pool=pool),
        claim(ask, request(ask, count=32)),
    ]
    del before[1]["spec"]["devices"]
    return Scene(before, [user(ask)])


@row(
    "device-selector-terms",
    "expressions: one that asks for hundreds of attributes, none of which a device has",
    size=220,
    small=60,
    by=DRIVER,
)
def selector_terms(ask: Ask) -> Scene:
    terms = (f'"k{i:05d}" in device.attributes["a"]' for i in range(ask.size))
    wants = request(ask, selectors=selectors(" || ".join(terms)))
    slices = [resource_slice(ask, name, devices(DEVICES_PER_SLICE)) for name in ask.names(2)]
    return Scene([of_driver(ask), *slices, claim(ask, wants)], [user(ask)])


@row(
    "device-selectors",
    "expressions: as many and as long as a claim may have, each of them different",
    size=120,
    small=16,
    by=DRIVER,
)
def long_selectors(ask: Ask) -> Scene:
    """The size is their number, at most eight per request; all of them are true."""
    filler = f'device.driver == "{driver(ask)}" || "{"x" * (BYTES_PER_EXPRESSION - 200)}" == "%d"'
    expressions = [filler % i for i in range(ask.size)]
    requests = [
        request(ask, f"r{i}", selectors=selectors(*expressions[i : i + 8]))
        for i in range(0, ask.size, 8)
    ]
    slices = [resource_slice(ask, ask.tag, devices(DEVICES_PER_SLICE))]
    return Scene([of_driver(ask), *slices, claim(ask, *requests)], [user(ask)])


@row(
    "device-attributes",
    "expressions: hundreds of devices, each unlike all others in all its attributes",
    size=2000,
    small=100,
    by=DRIVER,
)
def attributes(ask: Ask) -> Scene:
    made = [
        {
            "name": f"d{i:05d}",
            "attributes": {f"k{j:02d}": {"string": f"{ask.tag}-{i}-{j}"} for j in range(24)},
            "capacity": {f"c{j}": {"value": f"{i + 1}Mi"} for j in range(8)},
        }
        for i in range(ask.size)
    ]
    parts = [made[i : i + DEVICES_PER_SLICE] for i in range(0, len(made), DEVICES_PER_SLICE)]
    slices = [resource_slice(ask, f"{ask.tag}-{n}", part) for n, part in enumerate(parts)]
    never = f'device.attributes["{driver(ask)}"].k07 == "no" || device.driver == ""'
    wants = request(ask, selectors=selectors(never))
    return Scene([of_driver(ask), *slices, claim(ask, wants)], [user(ask)])


@row(
    "device-pool-of-slices",
    "pools: one that consists of thousands of slices, and is for all nodes",
    size=3000,
    small=150,
    by=DRIVER,
)
def pool_of_slices(ask: Ask) -> Scene:
    pool = {"name": ask.tag, "generation": 1, "resourceSliceCount": ask.size}
    slices = [
        resource_slice(ask, name, [{"name": name}], pool=pool, allNodes=True)
        for name in ask.names()
    ]
    wants = request(ask, selectors=selectors("false"))
    return Scene([of_driver(ask), *slices, claim(ask, wants)], [user(ask)])


@row(
    "device-pool-generations",
    "pools: one that a driver publishes anew all the time and never cleans up after",
    size=2000,
    small=150,
    by=DRIVER,
)
def pool_generations(ask: Ask) -> Scene:
    slices = [
        resource_slice(
            ask,
            name,
            devices(4),
            pool={"name": ask.tag, "generation": i + 1, "resourceSliceCount": 1},
        )
        for i, name in enumerate(ask.names())
    ]
    wants = request(ask, count=5)
    return Scene([of_driver(ask), *slices, claim(ask, wants)], [user(ask)])


@row(
    "device-taint-rules",
    "device taints: thousands of rules, each for a device that does not exist",
    size=3000,
    small=150,
    by=CLASSES,
)
def taint_rules(ask: Ask) -> Scene:
    rules = [
        named(
            "DeviceTaintRule",
            name,
            api=RESOURCE_API,
            namespace="",
            spec={
                "deviceSelector": {"driver": driver(ask), "pool": ask.tag, "device": name},
                "taint": {"key": f"{ask.tag}.example.com/broken", "effect": "NoSchedule"},
            },
        )
        for name in ask.names()
    ]
    slices = [resource_slice(ask, ask.tag, devices(DEVICES_PER_SLICE))]
    wants = request(ask, count=REQUESTS_PER_CLAIM)
    return Scene([of_driver(ask), *slices, *rules, claim(ask, wants)], [user(ask)])


@row(
    "device-classes-by-resource",
    "extended resources: hundreds of classes, and a pod that asks for each by its resource",
    size=400,
    small=30,
    by=CLASSES,
)
def classes_by_resource(ask: Ask) -> Scene:
    classes = [
        device_class(name, f'device.driver == "{name}"', extendedResourceName=key)
        for name, key in zip(ask.names(), ask.label_keys(), strict=True)
    ]
    amounts = dict.fromkeys(ask.label_keys(), "1")
    container = {"resources": {"requests": amounts, "limits": amounts}}
    return Scene(classes, [pod(ask.tag, container=container)])


@row(
    "device-classes-by-container",
    "extended resources: one class, and a pod whose containers ask for a device each",
    size=500,
    small=30,
    by=CLASSES,
)
def classes_by_container(ask: Ask) -> Scene:
    key = f"{ask.tag}.example.com/gpu"
    amounts = {"requests": {key: "1"}, "limits": {key: "1"}}
    listed = [{"name": name, "image": IMAGE, "resources": amounts} for name in ask.names()]
    of_key = device_class(ask.tag, f'device.driver == "{driver(ask)}"', extendedResourceName=key)
    slices = [resource_slice(ask, ask.tag, devices(DEVICES_PER_SLICE))]
    return Scene([of_key, *slices], [pod(ask.tag, containers=listed)])


@row(
    "device-claims-of-a-pod",
    "the search for devices: a pod with hundreds of claims, of which the last cannot be served",
    size=500,
    small=30,
    by=DRIVER,
)
def claims_of_a_pod(ask: Ask) -> Scene:
    parts = range(0, ask.size, DEVICES_PER_SLICE)
    slices = [resource_slice(ask, f"{ask.tag}-{i}", devices(DEVICES_PER_SLICE)) for i in parts]
    *most, last = ask.names()
    claims = [claim(ask, request(ask), name=name) for name in most]
    never = claim(ask, request(ask, selectors=selectors("false")), name=last)
    return Scene([of_driver(ask), *slices, *claims, never], [user(ask, *most, last)])


@row(
    "device-claims-allocated",
    "devices in use: thousands of claims that hold a device each, of a driver that is gone",
    size=3000,
    small=200,
    by=DRIVER,
)
def allocated_claims(ask: Ask) -> Scene:
    """A server takes a status only afterwards; without one they are merely many claims."""
    claims = [claim(ask, request(ask), name=name) for name in ask.names()]
    for one in claims:
        device = {"request": "r", "driver": driver(ask), "pool": ask.tag, "device": "d"}
        results = [device | {"device": one["metadata"]["name"]}]
        one["status"] = {"allocation": {"devices": {"results": results}}}
    return Scene(claims)


@row(
    "device-configuration",
    "allocations: as much configuration as a claim may have, for devices that it gets",
    size=32,
    small=8,
    by=DRIVER,
)
def configuration(ask: Ask) -> Scene:
    opaque = {"driver": driver(ask), "parameters": {"text": "x" * 9000}}
    config = [{"requests": ["r"], "opaque": opaque}] * ask.size
    slices = [resource_slice(ask, name, devices(1)) for name in ask.names(1)]
    return Scene([of_driver(ask), *slices, claim(ask, request(ask), config=config)], [user(ask)])
