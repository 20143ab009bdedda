"""The embedded cluster answers as a real API server does: the same requests to both, compared."""

import asyncio
import itertools
import json

import pytest

from tests.controlplane.plane import ADMIN
from tests.e2e.api import path, until
from tests.e2e.fixtures import REAL, SANDBOX
from tests.e2e.pair import JSON_PATCH, MERGE, STRATEGIC, essence
from tests.kit.manifests import ZONE, node_manifest, pod_manifest

PROBES = itertools.count()
PODS, EVENTS = "{ns}/pods", "apis/events.k8s.io/v1/namespaces/{name}/events"
LEASES = "apis/coordination.k8s.io/v1/namespaces/{name}/leases"


def binding(name, target, **about):
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **about},
        "target": {"kind": "Node", "name": target},
    }


async def test_about_nodes(pair):
    await pair.agree("POST", "api/v1/nodes", node_manifest("n1"))
    await pair.agree("POST", "api/v1/nodes", node_manifest("n1"))
    await pair.agree("POST", "api/v1/nodes", node_manifest("Not_A_Name"))
    await pair.agree("PATCH", "api/v1/nodes/n1", {"spec": {"unschedulable": True}}, STRATEGIC)
    taints = [{"key": "k", "effect": "NoSchedule"}]
    await pair.agree("PATCH", "api/v1/nodes/n1", {"spec": {"taints": taints}}, STRATEGIC)
    await pair.agree("PATCH", "api/v1/nodes/n1", {"spec": {"taints": None}}, STRATEGIC)
    more = {"status": {"allocatable": {"cpu": "7"}}}
    await pair.agree("PATCH", "api/v1/nodes/n1", more, STRATEGIC)
    await pair.agree("PATCH", "api/v1/nodes/n1/status", more, STRATEGIC)
    await pair.agree("GET", "api/v1/nodes", fieldSelector="metadata.name=n1")
    await pair.agree("DELETE", "api/v1/nodes/none")
    await pair.agree("DELETE", "api/v1/nodes/n1")


async def test_about_pods(pair):
    await pair.agree("POST", PODS, pod_manifest("p1", cpu="1", labels={"a": "b"}))
    await pair.agree("POST", PODS, pod_manifest("p1"))
    await pair.agree("POST", PODS, {"metadata": {"name": "empty"}, "spec": {"containers": []}})
    await pair.agree("POST", PODS, {"metadata": {"name": "nothing"}})
    await pair.agree("POST", PODS, pod_manifest("p2", priorityClassName="none"))
    await pair.agree("POST", PODS, pod_manifest("p2", priority=7))
    await pair.agree("POST", "api/v1/namespaces/nowhere/pods", pod_manifest("p1"))
    await pair.agree("PATCH", f"{PODS}/p1", {"spec": {"nodeName": "n1"}}, STRATEGIC)
    tolerates = {"spec": {"tolerations": [{"key": "q", "operator": "Exists"}]}}
    await pair.agree("PATCH", f"{PODS}/p1", tolerates, STRATEGIC)
    await pair.agree("DELETE", f"{PODS}/p1", {"preconditions": {"uid": "another"}})
    await pair.agree("DELETE", f"{PODS}/p1")
    await pair.agree("GET", f"{PODS}/p1")


async def test_about_gates(pair):
    gates = [{"name": "example.com/a"}, {"name": "example.com/b"}]
    await pair.agree("POST", PODS, pod_manifest("p1", schedulingGates=gates, nodeName="n1"))
    await pair.agree("POST", PODS, pod_manifest("p1", schedulingGates=[*gates, gates[0]]))
    await pair.agree("POST", PODS, pod_manifest("p1", schedulingGates=gates))
    await pair.agree("POST", f"{PODS}/p1/binding", binding("p1", "n1"))
    added = {"spec": {"schedulingGates": [{"name": "example.com/c"}]}}
    await pair.agree("PATCH", f"{PODS}/p1", added, STRATEGIC)
    removed = {"spec": {"schedulingGates": [{"$patch": "delete", "name": "example.com/a"}]}}
    await pair.agree("PATCH", f"{PODS}/p1", removed, STRATEGIC)
    await pair.agree("PATCH", f"{PODS}/p1", {"spec": {"nodeSelector": {"x": "y"}}}, STRATEGIC)
    await pair.agree("PATCH", f"{PODS}/p1", {"spec": {"schedulingGates": None}}, MERGE)
    await pair.agree("PATCH", f"{PODS}/p1", {"spec": {"nodeSelector": {"z": "y"}}}, STRATEGIC)


async def test_about_bindings(pair):
    await pair.agree("POST", "api/v1/nodes", node_manifest("n1", labels={ZONE: "a"}))
    await until(lambda: bound_pods_get_labels_of(pair, "n1"), "both know the node")
    for name in ("p1", "p2"):
        await pair.agree("POST", PODS, pod_manifest(name))
    await pair.agree("POST", f"{PODS}/p1/binding", binding("p1", "n1", uid="another"))
    await pair.agree("POST", f"{PODS}/p1/binding", binding("p1", ""))
    await pair.agree("POST", f"{PODS}/none/binding", binding("none", "n1"))
    await pair.agree("POST", f"{PODS}/p1/binding", binding("p1", "n1"))
    await pair.agree("POST", f"{PODS}/p1/binding", binding("p1", "n1"))
    await pair.agree("POST", f"{PODS}/p1/binding", binding("p1", "n2"))
    await pair.agree("GET", f"{PODS}/p1")
    await pair.agree("POST", "{ns}/bindings", binding("p2", "a-node-that-does-not-exist"))
    await pair.agree("GET", f"{PODS}/p2")
    await pair.agree("DELETE", f"{PODS}/p1")
    await pair.agree("GET", f"{PODS}/p1")
    await pair.agree("DELETE", f"{PODS}/p1", {"gracePeriodSeconds": 0})
    await pair.agree("GET", f"{PODS}/p1")


async def bound_pods_get_labels_of(pair, name):
    """Of a node that it has not heard of yet, a server cannot hand them on."""
    probe = f"probe-{next(PROBES)}"
    for api in pair.apis.values():
        await api.create("pods", pod_manifest(probe), pair.namespace)
        await api.send("POST", path("pods", pair.namespace, probe, "binding"), binding(probe, name))
        if ZONE not in (await api.get("pods", probe, pair.namespace))["metadata"]["labels"]:
            return False
    return True


async def test_about_status(pair):
    await pair.agree("POST", PODS, pod_manifest("p1"))
    status = f"{PODS}/p1/status"
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "m",
        "lastProbeTime": None,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await pair.agree("PATCH", status, {"status": {"conditions": [condition]}}, STRATEGIC)
    order = {"$setElementOrder/conditions": [{"type": "PodScheduled"}]}
    change = {**order, "conditions": [{"type": "PodScheduled", "message": "another"}]}
    await pair.agree("PATCH", status, {"status": change}, STRATEGIC)
    disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    await pair.agree("PATCH", status, {"status": {"conditions": [disrupted]}}, STRATEGIC)
    await pair.agree("PATCH", status, {"status": {"nominatedNodeName": "n1"}}, STRATEGIC)
    await pair.agree("PATCH", status, {"status": {"nominatedNodeName": None}}, STRATEGIC)
    elsewhere = {"spec": {"nodeName": "n1"}, "metadata": {"labels": {"a": "b"}}}
    await pair.agree("PATCH", status, elsewhere, STRATEGIC)
    stale = {"metadata": {"resourceVersion": "1"}, "status": {"nominatedNodeName": "n1"}}
    await pair.agree("PATCH", status, stale, STRATEGIC)
    await pair.agree("PATCH", f"{PODS}/none/status", {"status": {"phase": "Running"}}, STRATEGIC)
    await pair.agree("PATCH", f"{PODS}/p1", {"status": {"phase": "Running"}}, STRATEGIC)


def event(pair, name, **more):
    regarding = {"kind": "Pod", "namespace": pair.namespace, "name": "p1", "apiVersion": "v1"}
    return {
        "metadata": {"name": name, "namespace": pair.namespace},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-host",
        "action": "Binding",
        "reason": "Scheduled",
        "regarding": regarding,
        "note": "Successfully assigned",
        "type": "Normal",
        **more,
    }


async def test_about_events(pair):
    await pair.agree("POST", EVENTS, event(pair, "e1"))
    await pair.agree("GET", "{ns}/events/e1")
    await pair.agree("POST", EVENTS, event(pair, "e2", note="x" * 1025))
    await pair.agree("POST", EVENTS, event(pair, "e2", action=""))
    await pair.agree("POST", EVENTS, event(pair, "e2", type="Odd"))
    await pair.agree("POST", EVENTS, event(pair, "e2", eventTime=None))
    await pair.agree("POST", EVENTS, event(pair, "e2", reason="x" * 129))
    series = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:05.000000Z"}}
    await pair.agree("PATCH", f"{EVENTS}/e1", series, STRATEGIC)
    await pair.agree("PATCH", f"{EVENTS}/e1", {"series": {"count": 1}}, STRATEGIC)
    await pair.agree("PATCH", f"{EVENTS}/e1", {"note": "another"}, STRATEGIC)
    older = {
        "metadata": {"name": "c1"},
        "involvedObject": {"kind": "Pod", "namespace": pair.namespace, "name": "p1"},
        "reason": "LeaderElection",
        "message": "became leader",
        "type": "Normal",
        "count": 1,
        "source": {"component": "default-scheduler"},
    }
    await pair.agree("POST", "{ns}/events", older)
    await pair.agree("PATCH", "{ns}/events/c1", {"count": 2, "message": "again"}, STRATEGIC)
    await pair.agree("GET", f"{EVENTS}/c1")
    await pair.agree("GET", EVENTS, fieldSelector="regarding.name=p1")
    await pair.agree("GET", "{ns}/events", fieldSelector="reason=Scheduled")


async def test_about_leases(pair):
    spec = {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.000000Z",
        "leaseTransitions": 0,
    }
    lease = {"metadata": {"name": "l1"}, "spec": spec}
    await pair.agree("POST", LEASES, lease)
    await pair.agree("POST", LEASES, lease)
    await pair.agree("POST", LEASES, {**lease, "spec": {**spec, "leaseDurationSeconds": 0}})
    stale = {"metadata": {"name": "l1", "resourceVersion": "1"}, "spec": spec}
    await pair.agree("PUT", f"{LEASES}/l1", stale)
    await pair.agree("PUT", f"{LEASES}/other", lease)
    await pair.agree("PUT", f"{LEASES}/l1", {**lease, "spec": {**spec, "holderIdentity": ""}})
    replaced = [{"op": "replace", "path": "/spec/holderIdentity", "value": "b"}]
    await pair.agree("PATCH", f"{LEASES}/l1", replaced, JSON_PATCH)
    await pair.agree("GET", f"{LEASES}/l1")
    await pair.agree("GET", f"{LEASES}/none")


async def test_about_lists(pair):
    for name in ("p1", "p2", "p3"):
        await pair.agree("POST", PODS, pod_manifest(name, labels={"app": name}))
    for query in (
        {"fieldSelector": "spec.nodeName=n1"},
        {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"},
        {"fieldSelector": "spec.colour=red"},
        {"labelSelector": "app in (p1,p2),!other"},
        {"labelSelector": "app in p1"},
        {"limit": "2"},
        {"limit": "2", "resourceVersion": "0"},
        {"resourceVersion": "999999999"},
        {"resourceVersionMatch": "Exact"},
        {"resourceVersion": "0", "resourceVersionMatch": "Exact"},
    ):
        await pair.agree("GET", PODS, **query)


INITIAL = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}


@pytest.mark.parametrize(
    "query",
    [
        pytest.param({}, id="from nothing"),
        pytest.param({"resourceVersion": "0"}, id="from any state"),
        pytest.param({"resourceVersion": "0", "allowWatchBookmarks": "true"}, id="with bookmarks"),
        pytest.param({**INITIAL, "allowWatchBookmarks": "true"}, id="a streamed list"),
        pytest.param(INITIAL, id="a streamed list without its end"),
        pytest.param(
            {**INITIAL, "allowWatchBookmarks": "true", "resourceVersion": "999999999"},
            id="a streamed list from the future",
        ),
        pytest.param({"sendInitialEvents": "true"}, id="a streamed list without a match"),
        pytest.param({"resourceVersionMatch": "NotOlderThan"}, id="a match without a list"),
        pytest.param({"fieldSelector": "spec.colour=red"}, id="an unknown field"),
    ],
)
async def test_about_watches(pair, query):
    for name in ("p1", "p2"):
        await pair.agree("POST", PODS, pod_manifest(name))
    seen = {}
    watched = {**query, "watch": "true", "timeoutSeconds": "2"}
    asked = (api.exchange("GET", pair.path(PODS), query=watched) for api in pair.apis.values())
    for server, (code, text) in zip(pair.apis, await asyncio.gather(*asked), strict=True):
        events = [essence(json.loads(line)) for line in text.splitlines()]
        seen[server] = code, [event for event in events if not is_by_the_way(event)]
    assert seen[SANDBOX] == seen[REAL]


def is_by_the_way(event):
    """A bookmark that ends nothing, which every watch gets now and then."""
    is_bookmark = event.get("type") == "BOOKMARK"
    return is_bookmark and "annotations" not in event["object"].get("metadata", {})


async def test_about_a_namespace_that_goes_away(pair):
    await pair.agree("POST", PODS, pod_manifest("p1"))
    await pair.agree("POST", EVENTS, event(pair, "e1"))
    for api in pair.apis.values():
        kept = {"metadata": {"finalizers": ["example.com/x"]}}
        await api.patch("pods", "p1", kept, pair.namespace)
    await pair.agree("DELETE", "api/v1/namespaces/{name}")
    await pair.agree("POST", PODS, pod_manifest("p2"))
    await pair.agree("POST", f"{PODS}/p1/binding", binding("p1", "n1"))
    await pair.agree("POST", LEASES, {"metadata": {"name": "l1"}, "spec": {}})
    for api in pair.apis.values():
        await api.patch("pods", "p1", {"metadata": {"finalizers": None}}, pair.namespace)


async def test_about_what_is_not_there(pair):
    for where in ("bogus", "api/v1/bogus", "api/v9/pods", "apis/apps/v1/bogus", "apis/bogus/v1"):
        await pair.agree("GET", where)
    for where in ("healthz", "livez", "readyz"):
        await pair.agree("GET", where)


async def test_about_who_may(pair):
    asked = {"verb": "list", "resource": "pods"}
    access = "apis/authorization.k8s.io/v1/subjectaccessreviews"
    for user in ("system:kube-scheduler", "nobody"):
        spec = {"user": user, "resourceAttributes": asked}
        await pair.agree("POST", access, {"spec": spec})
    await pair.agree(
        "POST", "apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "bogus"}}
    )
    for api in pair.apis.values():
        code, text = await api.exchange(
            "POST",
            "apis/authentication.k8s.io/v1/tokenreviews",
            {"spec": {"token": api.token}},
        )
        user = json.loads(text)["status"]["user"]
        assert (code, user["username"]) == (201, f"kubernetes-{ADMIN}")
