"""The embedded cluster answers as a real API server does about claims, slices and classes."""

import pytest

from tests.e2e.identity import becomes_allowed
from tests.e2e.pair import MERGE, STRATEGIC
from tests.kit.manifests import pod_manifest

GROUP = "apis/resource.k8s.io/v1"
CLAIMS = f"{GROUP}/namespaces/{{name}}/resourceclaims"
TEMPLATES = f"{GROUP}/namespaces/{{name}}/resourceclaimtemplates"
SLICES, CLASSES, RULES = (
    f"{GROUP}/{plural}" for plural in ("resourceslices", "deviceclasses", "devicetaintrules")
)
PODS = "{ns}/pods"
DRIVER = "gpu.example.com"


def selector(expression):
    return {"cel": {"expression": expression}}


def request(name="r", **exactly):
    return {"name": name, "exactly": {"deviceClassName": "gpu", **exactly}}


def claim(name="c", *requests, **devices):
    asked = list(requests) or [request()]
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": asked, **devices}}}


def config(driver=DRIVER, parameters=None, **more):
    return {"opaque": {"driver": driver, "parameters": parameters or {"a": 1}}, **more}


def alternatives(*some):
    return {"name": "r", "firstAvailable": list(some)}


SUB = {"name": "s", "deviceClassName": "gpu"}
INVALID_CLAIMS = {
    "no way to ask": claim("c", {"name": "r"}),
    "two ways to ask": claim("c", {**request(), "firstAvailable": [SUB]}),
    "a bad name of a request": claim("c", request("Not_A_Name")),
    "a request without a name": claim("c", request("")),
    "a request with dots": claim("c", request("a.b")),
    "twice the same request": claim("c", request(), request()),
    "too many requests": claim("c", *(request(f"r{i}") for i in range(33))),
    "no class": claim("c", request(deviceClassName="")),
    "a bad class": claim("c", request(deviceClassName="A_B")),
    "an unknown mode": claim("c", request(allocationMode="Some")),
    "a count for all": claim("c", request(allocationMode="All", count=2)),
    "a negative count": claim("c", request(count=-1)),
    "too many alternatives": claim(
        "c", alternatives(*({**SUB, "name": f"s{i}"} for i in range(9)))
    ),
    "twice the same alternative": claim("c", alternatives(SUB, SUB)),
    "an alternative without a class": claim("c", alternatives({"name": "s"})),
    "a selector of nothing": claim("c", request(selectors=[{}])),
    "a selector of an unknown field": claim("c", request(selectors=[selector("device.name")])),
    "a selector that is no condition": claim("c", request(selectors=[selector("device.driver")])),
    "a selector that is too long": claim(
        "c", request(selectors=[selector(f"true || {'x' * 10240}")])
    ),
    "too many selectors": claim("c", request(selectors=[selector("true")] * 33)),
    "a toleration with a bad operator": claim(
        "c", request(tolerations=[{"key": "k", "operator": "Odd"}])
    ),
    "a toleration of any value": claim(
        "c", request(tolerations=[{"key": "k", "operator": "Exists", "value": "v"}])
    ),
    "a toleration with a bad key": claim(
        "c", request(tolerations=[{"key": "a b", "operator": "Exists"}])
    ),
    "a toleration with a bad effect": claim(
        "c", request(tolerations=[{"key": "k", "operator": "Exists", "effect": "Odd"}])
    ),
    "a constraint about nothing": claim("c", constraints=[{"requests": ["r"]}]),
    "a constraint on a short name": claim("c", constraints=[{"matchAttribute": "model"}]),
    "a constraint on a bad name": claim("c", constraints=[{"matchAttribute": "a_b/c-d"}]),
    "a constraint on an unknown request": claim(
        "c", constraints=[{"requests": ["other"], "matchAttribute": f"{DRIVER}/model"}]
    ),
    "a constraint on too deep a request": claim(
        "c", constraints=[{"requests": ["a/b/c"], "distinctAttribute": f"{DRIVER}/model"}]
    ),
    "a constraint on one request twice": claim(
        "c", constraints=[{"requests": ["r", "r"], "matchAttribute": f"{DRIVER}/model"}]
    ),
    "configuration without content": claim("c", config=[{"requests": ["r"]}]),
    "configuration for no driver": claim("c", config=[config("")]),
    "configuration for a bad driver": claim("c", config=[config("a_b")]),
    "configuration for a long driver": claim("c", config=[config("x" * 64)]),
    "configuration for another request": claim("c", config=[config(requests=["other"])]),
    "too large a configuration": claim("c", config=[config(parameters={"a": "x" * 10240})]),
    "configuration that is no object": claim("c", config=[config(parameters=[1])]),
    "configuration that is missing": claim("c", config=[{"opaque": {"driver": DRIVER}}]),
    "admin access": claim("c", request(adminAccess=True)),
    "a bad name": claim("Not_A_Name"),
}


def device(name="d", **fields):
    return {"name": name, **fields}


def slice_of(*devices, name="s", **spec):
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    content = {"devices": list(devices)} if devices else {}
    whole = {"driver": DRIVER, "pool": pool, "nodeName": "n1", **content, **spec}
    given = {field: value for field, value in whole.items() if value is not None}
    return {"metadata": {"name": name}, "spec": given}


def capacity(value="10", **policy):
    return {"memory": {"value": value, **({"requestPolicy": policy} if policy else {})}}


def shared(value="10", **policy):
    return slice_of(device(allowMultipleAllocations=True, capacity=capacity(value, **policy)))


TAINT = {"key": "k", "effect": "NoSchedule"}
COUNTERS = {"name": "cs", "counters": {"a": {"value": "1"}}}
CONSUMED = {"counterSet": "cs", "counters": {"a": {"value": "1"}}}
EVERYWHERE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Exists"}]}]}
INVALID_SLICES = {
    "no driver": slice_of(driver=""),
    "a bad driver": slice_of(driver="a_b"),
    "a long driver": slice_of(driver="x" * 64),
    "no pool": slice_of(pool=None),
    "a bad pool": slice_of(pool={"name": "A_B", "generation": -1, "resourceSliceCount": 0}),
    "no place": slice_of(nodeName=None),
    "two places": slice_of(allNodes=True),
    "an empty place": slice_of(nodeName=""),
    "a bad node": slice_of(nodeName="A_B"),
    "nowhere": slice_of(nodeName=None, allNodes=False),
    "two terms": slice_of(
        nodeName=None,
        nodeSelector={"nodeSelectorTerms": EVERYWHERE["nodeSelectorTerms"] * 2},
    ),
    "no term": slice_of(nodeName=None, nodeSelector={"nodeSelectorTerms": []}),
    "devices and counters": slice_of(device(), sharedCounters=[COUNTERS]),
    "too many devices": slice_of(*(device(f"d{i}") for i in range(129))),
    "too many tainted devices": slice_of(*(device(f"d{i}", taints=[TAINT]) for i in range(65))),
    "one device twice": slice_of(device(), device()),
    "a bad device": slice_of(device("A_B")),
    "an attribute of no value": slice_of(device(attributes={"a": {}})),
    "an attribute of two values": slice_of(device(attributes={"a": {"int": 1, "string": "x"}})),
    "a long attribute": slice_of(device(attributes={"a": {"string": "x" * 65}})),
    "a bad version": slice_of(device(attributes={"a": {"version": "1.2"}})),
    "a bad name of an attribute": slice_of(device(attributes={"a-b": {"int": 1}})),
    "a bad domain of an attribute": slice_of(device(attributes={"a_b/c": {"int": 1}})),
    "no domain of an attribute": slice_of(device(attributes={"/c": {"int": 1}})),
    "no name of an attribute": slice_of(device(attributes={"a/": {"int": 1}})),
    "a long name of an attribute": slice_of(device(attributes={"x" * 33: {"int": 1}})),
    "too many attributes": slice_of(device(attributes={f"a{i}": {"int": i} for i in range(33)})),
    "a policy for one user": slice_of(device(capacity=capacity(default="1", validValues=["1"]))),
    "two policies": shared(default="1", validValues=["1"], validRange={"min": "1"}),
    "values without a default": shared(validValues=["1"]),
    "values without the default": shared(default="3", validValues=["1", "2"]),
    "values out of order": shared(default="1", validValues=["2", "1"]),
    "a value twice": shared(default="1", validValues=["1", "1"]),
    "too large a value": shared(default="1", validValues=["1", "11"]),
    "a range without a default": shared(validRange={"min": "1"}),
    "a range without a minimum": shared(default="1", validRange={"max": "2"}),
    "too large a minimum": shared(default="11", validRange={"min": "11"}),
    "too large a maximum": shared(default="5", validRange={"min": "1", "max": "11"}),
    "a range upside down": shared(default="3", validRange={"min": "4", "max": "2"}),
    "a default off the steps": shared(default="2", validRange={"min": "1", "step": "2"}),
    "a step of nothing": shared(default="1", validRange={"min": "1", "step": "0"}),
    "too large a step": shared(default="1", validRange={"min": "1", "step": "10"}),
    "a taint without a key": slice_of(device(taints=[{"effect": "NoSchedule"}])),
    "a taint without an effect": slice_of(device(taints=[{"key": "k"}])),
    "a taint with a bad effect": slice_of(device(taints=[{"key": "k", "effect": "Odd"}])),
    "a taint with a bad value": slice_of(device(taints=[{**TAINT, "value": "a b"}])),
    "too many taints": slice_of(device(taints=[TAINT] * 17)),
    "consumption of no set": slice_of(
        device(consumesCounters=[{"counters": {"a": {"value": "1"}}}])
    ),
    "consumption of nothing": slice_of(device(consumesCounters=[{"counterSet": "cs"}])),
    "consumption of a set twice": slice_of(device(consumesCounters=[CONSUMED, CONSUMED])),
    "consumption of three sets": slice_of(
        device(consumesCounters=[{**CONSUMED, "counterSet": f"cs{i}"} for i in range(3)])
    ),
    "counters without a name": slice_of(sharedCounters=[{"counters": {"a": {"value": "1"}}}]),
    "counters that are none": slice_of(sharedCounters=[{"name": "cs"}]),
    "a bad counter": slice_of(sharedCounters=[{"name": "cs", "counters": {"A_B": {"value": "1"}}}]),
    "counters twice": slice_of(sharedCounters=[COUNTERS, COUNTERS]),
    "too many sets of counters": slice_of(
        sharedCounters=[{**COUNTERS, "name": f"cs{i}"} for i in range(9)]
    ),
    "too many counters": slice_of(
        sharedCounters=[{"name": "cs", "counters": {f"c{i}": {"value": "1"} for i in range(33)}}]
    ),
    "a device that says where it is": slice_of(device(allNodes=True)),
    "a device that should say where it is": slice_of(
        device(), nodeName=None, perDeviceNodeSelection=True
    ),
    "a device in two places": slice_of(
        device(allNodes=True, nodeName="n1"), nodeName=None, perDeviceNodeSelection=True
    ),
    "a device nowhere": slice_of(
        device(allNodes=False, nodeName=""), nodeName=None, perDeviceNodeSelection=True
    ),
    "conditions without failures": slice_of(device(bindingConditions=["a"])),
    "failures without conditions": slice_of(device(bindingFailureConditions=["a"])),
    "conditions that overlap": slice_of(
        device(bindingConditions=["a", "a"], bindingFailureConditions=["a"])
    ),
    "too many conditions": slice_of(
        device(bindingConditions=list("abcde"), bindingFailureConditions=["f"])
    ),
    "a bad condition": slice_of(device(bindingConditions=["a b"], bindingFailureConditions=["f"])),
}
INVALID_CLASSES = {
    "a bad name": {"metadata": {"name": "A_B"}, "spec": {}},
    "a bad selector": {"metadata": {"name": "k"}, "spec": {"selectors": [selector("1 + 1")]}},
    "a bad resource": {"metadata": {"name": "k"}, "spec": {"extendedResourceName": "cpu"}},
    "a bad resource with a domain": {
        "metadata": {"name": "k"},
        "spec": {"extendedResourceName": "kubernetes.io/gpu"},
    },
    "configuration for no driver": {"metadata": {"name": "k"}, "spec": {"config": [config("")]}},
    "too many configurations": {"metadata": {"name": "k"}, "spec": {"config": [config()] * 33}},
}
INVALID_RULES = {
    "no taint": {"metadata": {"name": "r"}, "spec": {}},
    "a bad effect": {"metadata": {"name": "r"}, "spec": {"taint": {"key": "k", "effect": "Odd"}}},
    "a bad driver": {
        "metadata": {"name": "r"},
        "spec": {"taint": TAINT, "deviceSelector": {"driver": "a_b", "pool": "", "device": "A"}},
    },
}
VALID_SLICES = {
    "quantities": slice_of(
        device(capacity={"memory": {"value": "1024Mi"}, "x": {"value": "1500m"}})
    ),
    "taints": slice_of(device(taints=[TAINT])),
    "counters": slice_of(sharedCounters=[{"name": "cs", "counters": {"a": {"value": "2000m"}}}]),
    "a shared device": shared("4Ki", default="1024", validRange={"min": "1024", "step": "1024"}),
}
POD_CLAIM = {"name": "a", "resourceClaimName": "c"}
INVALID_PODS = {
    "a claim without a name": pod_manifest("p", resourceClaims=[{"resourceClaimName": "c"}]),
    "a claim with a bad name": pod_manifest("p", resourceClaims=[{**POD_CLAIM, "name": "A_B"}]),
    "one name twice": pod_manifest("p", resourceClaims=[POD_CLAIM, POD_CLAIM]),
    "a claim from nowhere": pod_manifest("p", resourceClaims=[{"name": "a"}]),
    "a claim from two places": pod_manifest(
        "p", resourceClaims=[{**POD_CLAIM, "resourceClaimTemplateName": "t"}]
    ),
    "a bad claim": pod_manifest("p", resourceClaims=[{**POD_CLAIM, "resourceClaimName": "A_B"}]),
}


def using(*uses, claims=(POD_CLAIM,)):
    pod = pod_manifest("p", resourceClaims=list(claims))
    pod["spec"]["containers"][0]["resources"] = {"claims": list(uses)}
    return pod


INVALID_PODS |= {
    "use of an unknown claim": using({"name": "b"}),
    "use of a claim where there is none": using({"name": "b"}, claims=()),
    "use of no claim": using({"request": "r"}),
    "use of a claim twice": using({"name": "a"}, {"name": "a"}),
    "use of a request twice": using({"name": "a", "request": "r"}, {"name": "a", "request": "r"}),
    "use of a part and the whole": using({"name": "a", "request": "r"}, {"name": "a"}),
    "use of the whole and a part": using({"name": "a"}, {"name": "a", "request": "r"}),
    "use of a bad request": using({"name": "a", "request": "A_B"}),
}


@pytest.mark.parametrize(
    ("where", "bodies"),
    [
        pytest.param(CLAIMS, INVALID_CLAIMS, id="claims"),
        pytest.param(SLICES, INVALID_SLICES, id="slices"),
        pytest.param(SLICES, VALID_SLICES, id="slices that are valid"),
        pytest.param(CLASSES, INVALID_CLASSES, id="classes"),
        pytest.param(RULES, INVALID_RULES, id="taint rules"),
        pytest.param(PODS, INVALID_PODS, id="pods"),
    ],
)
async def test_about_new_objects(pair, where, bodies):
    for body in bodies.values():
        await pair.agree("POST", where, body, dryRun="All")


async def test_about_templates(pair):
    for body in INVALID_CLAIMS.values():
        template = {"metadata": {"name": "t"}, "spec": {"spec": body["spec"]}}
        await pair.agree("POST", TEMPLATES, template, dryRun="All")
    spec = {"metadata": {"labels": {"a": "b"}}, "spec": claim()["spec"]}
    await pair.agree("POST", TEMPLATES, {"metadata": {"name": "t"}, "spec": spec})
    await pair.agree("PATCH", f"{TEMPLATES}/t", {"metadata": {"labels": {"a": "c"}}}, MERGE)


def result(**fields):
    return {"request": "r", "driver": DRIVER, "pool": "n1", "device": "gpu-0", **fields}


def allocated(*results, **fields):
    """A status with an allocation, as a patch."""
    return {"status": {"allocation": {"devices": {"results": list(results)}, **fields}}}


def consumer(name, uid=None):
    return {"resource": "pods", "name": name, "uid": uid or name}


def reserved(*consumers):
    return {"status": {"reservedFor": list(consumers)}}


INVALID_STATUSES = {
    "a reservation of nothing": reserved(consumer("p1")),
    "a result for another request": allocated(result(request="other")),
    "a result of no driver": allocated(result(driver="")),
    "a result of a bad driver": allocated(result(driver="a_b")),
    "a result of no pool": allocated(result(pool="")),
    "a result of a bad pool": allocated(result(pool="a_b//c")),
    "a result of a bad device": allocated(result(device="A_B")),
    "a result with a bad share": allocated(result(shareID="0000")),
    "a result with half of its conditions": allocated(result(bindingConditions=["a"])),
    "a result with admin access": allocated(result(adminAccess=True)),
    "too many results": allocated(*(result(device=f"gpu-{i}") for i in range(33))),
    "a selector without terms": allocated(result(), nodeSelector={"nodeSelectorTerms": []}),
    "configuration from nowhere": {
        "status": {"allocation": {"devices": {"results": [result()], "config": [config()]}}}
    },
    "configuration from elsewhere": {
        "status": {
            "allocation": {"devices": {"config": [config(source="FromOdd", requests=["r"])]}}
        }
    },
    "a status of a device that is not allocated": {
        "status": {"devices": [{"driver": DRIVER, "pool": "n1", "device": "gpu-0"}]}
    },
}


async def test_about_the_status_of_claims(pair):
    await pair.agree("POST", CLAIMS, claim())
    status = f"{CLAIMS}/c/status"
    for body in INVALID_STATUSES.values():
        await pair.agree("PATCH", status, body, STRATEGIC)
    everything = result(
        consumedCapacity={"memory": "1024Mi"},
        shareID="a671734a-e8e5-11e4-8fde-42010af09327",
        tolerations=[{"key": "k"}],
        bindingConditions=["ready"],
        bindingFailureConditions=["failed"],
    )
    await pair.agree("PATCH", status, allocated(everything, nodeSelector=EVERYWHERE), STRATEGIC)
    await pair.agree("PATCH", status, allocated(result(device="gpu-1")), STRATEGIC)
    await pair.agree("PATCH", status, reserved(consumer("p1")), STRATEGIC)
    await pair.agree("PATCH", status, reserved(consumer("p2"), consumer("p3")), STRATEGIC)
    await pair.agree("PATCH", status, reserved({"name": "p4", "uid": "p4"}), STRATEGIC)
    many = reserved(*(consumer(f"more-{i}") for i in range(254)))
    await pair.agree("PATCH", status, many, STRATEGIC)
    foreign = {**reserved(consumer("p4")), "metadata": {"uid": "another"}}
    await pair.agree("PATCH", status, foreign, STRATEGIC)
    stale = {**reserved(consumer("p4")), "metadata": {"resourceVersion": "1"}}
    await pair.agree("PATCH", status, stale, STRATEGIC)
    gone = {"metadata": {"uid": "another"}, **reserved({"$patch": "delete", "uid": "p2"})}
    await pair.agree("PATCH", status, gone, STRATEGIC)
    elsewhere = {"metadata": {"finalizers": ["example.com/x"]}, "spec": claim("c", request("q"))}
    await pair.agree("PATCH", status, elsewhere, STRATEGIC)
    twice = {"status": {"reservedFor": [consumer("p1"), consumer("p1")]}}
    await pair.agree("PATCH", status, twice, MERGE)
    deleted = reserved({"$patch": "delete", "uid": "p2"}, {"$patch": "delete", "uid": "nobody"})
    await pair.agree("PATCH", status, deleted, STRATEGIC)
    await pair.agree("PATCH", status, {"status": {"allocation": None}}, STRATEGIC)
    await pair.agree("PATCH", status, {"status": {"reservedFor": None}}, MERGE)
    device = {"driver": DRIVER, "pool": "n1", "device": "gpu-0", "shareID": everything["shareID"]}
    ready = {
        "type": "ready",
        "status": "True",
        "reason": "Ready",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    for conditions in ([{"type": "a b"}], [ready, ready], [{**ready, "reason": "1"}], [ready]):
        told = {"status": {"devices": [{**device, "conditions": conditions}]}}
        await pair.agree("PATCH", status, told, STRATEGIC)
    await pair.agree("PATCH", status, {"status": {"allocation": None}}, STRATEGIC)
    await pair.agree("GET", f"{CLAIMS}/c")


async def test_about_claims_that_go_away(pair):
    finalizer = "resource.kubernetes.io/delete-protection"
    await pair.agree("POST", CLAIMS, claim())
    await pair.agree("PATCH", f"{CLAIMS}/c", {"spec": claim("c", request("q"))["spec"]}, MERGE)
    await pair.agree("PATCH", f"{CLAIMS}/c", {"metadata": {"finalizers": [finalizer]}}, MERGE)
    await pair.agree("PATCH", f"{CLAIMS}/c/status", allocated(result()), STRATEGIC)
    await pair.agree("PATCH", f"{CLAIMS}/c/status", reserved(consumer("p1")), STRATEGIC)
    await pair.agree("DELETE", f"{CLAIMS}/c")
    await pair.agree("PATCH", f"{CLAIMS}/c/status", reserved(consumer("p2")), STRATEGIC)
    nobody = reserved({"$patch": "delete", "uid": "p1"})
    await pair.agree("PATCH", f"{CLAIMS}/c/status", nobody, STRATEGIC)
    await pair.agree("PATCH", f"{CLAIMS}/c/status", {"status": {"allocation": None}}, STRATEGIC)
    await pair.agree("PATCH", f"{CLAIMS}/c", {"metadata": {"finalizers": None}}, MERGE)
    await pair.agree("GET", f"{CLAIMS}/c")


async def test_about_slices_that_change(pair):
    name = f"{pair.namespace}-slice"
    try:
        await pair.agree("POST", SLICES, slice_of(device(), name=name))
        for change in (
            {"driver": "other.example.com"},
            {"nodeName": "n2"},
            {"pool": {"name": "q"}},
            {"pool": {"generation": 2}, "devices": [device("e", taints=[TAINT])]},
        ):
            await pair.agree("PATCH", f"{SLICES}/{name}", {"spec": change}, MERGE)
    finally:
        await pair.agree("DELETE", f"{SLICES}/{name}")


async def test_about_taint_rules_that_change(pair):
    name = f"{pair.namespace}-rule"
    body = {"metadata": {"name": name}, "spec": {"taint": TAINT}}
    try:
        await pair.agree("POST", RULES, body)
        effect = {"spec": {"taint": {"effect": "NoExecute"}}}
        await pair.agree("PATCH", f"{RULES}/{name}", effect, MERGE)
        told = {"status": {"conditions": [{"type": "EvictionInProgress", "status": "Odd"}]}}
        await pair.agree("PATCH", f"{RULES}/{name}/status", told, STRATEGIC)
    finally:
        await pair.agree("DELETE", f"{RULES}/{name}")


async def test_about_pods_with_claims(pair):
    pod = pod_manifest("p", resourceClaims=[{"name": "a", "resourceClaimTemplateName": "t"}])
    pod["spec"]["containers"][0]["resources"] = {
        "requests": {"example.com/gpu": "1"},
        "limits": {"example.com/gpu": "1"},
    }
    await pair.agree("POST", PODS, pod)
    status = f"{PODS}/p/status"
    mapping = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"}
    mapping["containerName"] = pod["spec"]["containers"][0]["name"]
    for statuses in (
        [{"name": "b", "resourceClaimName": "c"}],
        [{"name": "a", "resourceClaimName": "A_B"}],
        [{"name": "a", "resourceClaimName": "p-a-x"}],
        [{"name": "a"}],
    ):
        told = {"status": {"resourceClaimStatuses": statuses}}
        await pair.agree("PATCH", status, told, STRATEGIC)
    for extended in (
        {"resourceClaimName": "x"},
        {"requestMappings": [mapping]},
        {"requestMappings": [{**mapping, "containerName": "other"}], "resourceClaimName": "x"},
        {"requestMappings": [{**mapping, "resourceName": "other"}], "resourceClaimName": "x"},
        {"requestMappings": [{**mapping, "requestName": "A_B"}], "resourceClaimName": "A_B"},
        {"requestMappings": [mapping, mapping], "resourceClaimName": "x"},
        {"requestMappings": [mapping], "resourceClaimName": "x"},
    ):
        told = {"status": {"extendedResourceClaimStatus": extended}}
        await pair.agree("PATCH", status, told, STRATEGIC)
    # A status without it, as a kubelet writes that has not heard of it yet, leaves it there.
    await pair.agree("PATCH", status, {"status": {"phase": "Running"}}, STRATEGIC)


async def test_about_who_may_allocate(pair):
    """Writing the status of a claim is one right, allocating and reserving it another."""
    user, names = f"{pair.namespace}-writer", ("writer", "binder", "driver")
    rules = {
        "writer": (["resourceclaims", "resourceclaims/status"], ["get", "patch", "update"]),
        "binder": (["resourceclaims/binding"], ["patch"]),
        "driver": (["resourceclaims/driver"], ["arbitrary-node:patch"]),
    }
    await pair.agree("POST", CLAIMS, claim())
    status = f"{CLAIMS}/c/status"
    told = {"status": {"devices": [{"driver": DRIVER, "pool": "n1", "device": "gpu-0"}]}}
    try:
        for name in names:
            await grant(pair, user, name, *rules[name])
            same = {"status": {"reservedFor": []}}
            for body in (same, allocated(result()), reserved(consumer("p1")), told):
                await pair.agree("PATCH", status, body, STRATEGIC, user=user)
    finally:
        for name in names:
            for resource in ("clusterrolebindings", "clusterroles"):
                for api in pair.apis.values():
                    await api.delete(resource, f"{user}-{name}")


async def grant(pair, user, name, resources, verbs):
    """A right for a user on both servers; returns when both go by it."""
    rule = {"apiGroups": ["resource.k8s.io"], "resources": resources, "verbs": verbs}
    role = {"metadata": {"name": f"{user}-{name}"}, "rules": [rule]}
    binding = {
        "metadata": {"name": f"{user}-{name}"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": f"{user}-{name}",
        },
        "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
    }
    resource, _, subresource = resources[-1].partition("/")
    asked = {"resource": resource, "subresource": subresource, "verb": verbs[-1]}
    for api in pair.apis.values():
        await api.create("clusterroles", role)
        await api.create("clusterrolebindings", binding)
        attributes = {"group": "resource.k8s.io", **asked}
        await becomes_allowed(api, {"user": user, "resourceAttributes": attributes})
