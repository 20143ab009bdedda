"""A checker of claims that finds nothing must be known to find something."""

import copy

import pytest

from tests.kit.claim_checker import EXTENDED, claim_violations
from tests.kit.devices import DRIVER, claim_manifest, device, request, slice_manifest, using
from tests.kit.manifests import node_manifest, pod_manifest

NODES = [node_manifest("n1"), node_manifest("n2")]
ON_N1 = {
    "nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    ]
}
SHARED = device("gpu-9", allowMultipleAllocations=True, capacity={"memory": {"value": "10Gi"}})
HALVES = [
    device(
        f"half-{n}",
        consumesCounters=[{"counterSet": "whole", "counters": {"cores": {"value": "4"}}}],
    )
    for n in range(3)
]
COUNTERS = [{"name": "whole", "counters": {"cores": {"value": "8"}}}]
SLICES = [
    slice_manifest("n1", devices=[device("gpu-0"), device("gpu-1"), SHARED]),
    slice_manifest("n1-halves", node="n1", devices=HALVES, sharedCounters=COUNTERS),
]


def result(name="gpu-0", pool="n1", request="r", **fields):
    return {"request": request, "driver": DRIVER, "pool": pool, "device": name, **fields}


def share(identity, amount):
    return result("gpu-9", shareID=identity, consumedCapacity={"memory": amount})


def claim(name, *results, users=(), asks=(), allocated=True, **metadata):
    made = claim_manifest(name, *(asks or (request(count=len(results)),)))
    made["metadata"] |= {"namespace": "default", **metadata}
    reserved = [{"resource": "pods", "name": user, "uid": f"uid-{user}"} for user in users]
    made["status"] = {"reservedFor": reserved}
    if allocated:
        found = {"devices": {"results": list(results)}, "nodeSelector": ON_N1}
        made["status"]["allocation"] = found
    return made


def pod(name, *claims, node="n1", **status):
    made = pod_manifest(name, namespace="default", nodeName=node, **using(*claims))
    made["metadata"]["uid"] = f"uid-{name}"
    return {**made, "status": status}


FINE = [
    pytest.param([claim("a", result()), claim("b", result("gpu-1"))], [], id="two devices"),
    pytest.param([claim("a", result(), users=["p"])], [pod("p", "a")], id="a user"),
    pytest.param(
        [claim("a", result(), users=["p", "q"])], [pod("p", "a"), pod("q", "a")], id="two users"
    ),
    pytest.param([claim("a", share("s1", "4Gi")), claim("b", share("s2", "6Gi"))], [], id="shares"),
    pytest.param(
        [claim("a", result()), claim("b", result(adminAccess=True))], [], id="an administrator"
    ),
    pytest.param(
        [claim("a", result("half-0", "n1-halves"), result("half-2", "n1-halves"))], [], id="halves"
    ),
    pytest.param([claim("a", asks=[request()], allocated=False)], [], id="not allocated"),
]


@pytest.mark.parametrize(("claims", "pods"), FINE)
def test_what_may_be_is_not_told(claims, pods):
    assert claim_violations(claims, SLICES, pods, NODES) == []


ALTERNATIVES = {
    "name": "r",
    "firstAvailable": [{"name": name, "deviceClassName": "gpu", "count": 1} for name in "xy"],
}
WRONG = [
    pytest.param(
        [claim("a", result()), claim("b", result())],
        [],
        "belongs to default/a, default/b",
        id="one device for two",
    ),
    pytest.param([claim("a", result(), result())], [], "belongs to", id="twice in one claim"),
    pytest.param([claim("a", result("gpu-7"))], [], "which no slice has", id="no such device"),
    pytest.param(
        [claim("a", share("s1", "4Gi")), claim("b", share("s2", "7Gi"))],
        [],
        "of memory of device",
        id="more than there is",
    ),
    pytest.param(
        [claim("a", share("s1", "1Gi")), claim("b", share("s1", "1Gi"))],
        [],
        "cannot be told apart",
        id="one share for two",
    ),
    pytest.param(
        [claim("a", *(result(f"half-{n}", "n1-halves") for n in range(3)))],
        [],
        "12.0 are drawn on counter",
        id="three halves",
    ),
    pytest.param([claim("a", result(), asks=[request(count=2)])], [], "asks for {2}", id="few"),
    pytest.param([claim("a", asks=[request()])], [], "has nothing for r", id="none"),
    pytest.param(
        [claim("a", result(), result("gpu-1", request="s"), asks=[request()])],
        [],
        "does not ask for what it has: s",
        id="unasked for",
    ),
    pytest.param(
        [claim("a", result(request="r/x"), result("gpu-1", request="r/y"), asks=[ALTERNATIVES])],
        [],
        "asks for {1} by r",
        id="both alternatives",
    ),
    pytest.param([claim("a", result(), users=["p"])], [], "p, which is gone", id="user gone"),
    pytest.param(
        [claim("a", result(), users=["p"])],
        [pod("p", "a", phase="Succeeded")],
        "which is gone",
        id="user finished",
    ),
    pytest.param(
        [claim("a", result(), users=["p"])], [pod("p")], "which does not use it", id="no user"
    ),
    pytest.param(
        [claim("a", asks=[request()], users=["p"], allocated=False)],
        [pod("p", "a", node="")],
        "reserved and not allocated",
        id="reserved only",
    ),
    pytest.param(
        [claim("a", result())], [pod("p", "a")], "runs without its claim", id="not reserved"
    ),
    pytest.param([], [pod("p", "a")], "runs without its claim", id="claim gone"),
    pytest.param(
        [claim("a", result(), users=["p"])],
        [pod("p", "a", node="n2")],
        "where the devices of a are not",
        id="elsewhere",
    ),
    pytest.param(
        [claim("a", result(), annotations={EXTENDED: "true"}, ownerReferences=[{"uid": "uid-p"}])],
        [pod("p")],
        "was made for a pod that does not use it",
        id="left over",
    ),
]


@pytest.mark.parametrize(("claims", "pods", "told"), WRONG)
def test_what_may_not_be_is_told(claims, pods, told):
    (problem,) = claim_violations(claims, SLICES, pods, NODES)
    assert told in problem


def test_a_device_may_have_been_withdrawn_since():
    newer = copy.deepcopy(SLICES[0])
    newer["spec"]["devices"].pop(0)
    newer["spec"]["pool"]["generation"] = 2
    held = [claim("a", result())]
    assert len(claim_violations(held, [newer], [], NODES)) == 1
    assert claim_violations(held, [newer], [], NODES, withdrawn=SLICES) == []
