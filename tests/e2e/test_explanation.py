"""The scheduler explains itself to kubectl, through the API server and directly."""

import asyncio

import pytest
import yaml

from tests.e2e.api import until
from tests.e2e.devices import Devices
from tests.e2e.explanation import (
    API_SERVICE,
    GROUP,
    Kubectl,
    aggregated,
    available,
    granted,
    serving_flags,
)
from tests.kit.devices import class_manifest, slice_manifest, template_manifest, using
from tests.kit.manifests import node_manifest, pod_manifest


@pytest.fixture
def kubectl(cluster, tmp_path):
    return Kubectl(cluster.server / "kubeconfig", tmp_path / "home")


@pytest.fixture
async def explained(cluster, tmp_path):
    """A scheduler whose API is aggregated, one pod that it has placed and one that waits."""
    await cluster.create_nodes(*(node_manifest(f"n{number}", cpu="4") for number in range(3)))
    daemon = await cluster.start_daemon(*serving_flags(tmp_path))
    async with aggregated(cluster, daemon):
        await cluster.create_pods(pod_manifest("fits", cpu="1"), pod_manifest("big", cpu="100"))
        await cluster.node_of("fits")
        await cluster.refusal_of("big")
        yield daemon


async def test_decisions_are_listed_shown_and_watched(cluster, explained, kubectl):
    space = ("-n", cluster.namespace)
    table = await kubectl("get", "decisions", "-A")
    assert {"fits", "big"} <= {line.split()[1] for line in table.splitlines()}
    assert "Insufficient cpu" in table
    fits = await kubectl.read("get", "decision", "fits", *space)
    assert (fits["outcome"], fits["node"]) == ("Scheduled", await cluster.node_of("fits"))
    assert fits["last"]["nodes"] == {
        "total": 3,
        "evaluated": 3,
        "feasible": 3,
        "notEvaluated": 0,
    }
    selected = await kubectl(
        "get", "decisions", *space, "--field-selector=outcome=Unschedulable", "-o", "name"
    )
    assert selected.split() == [f"decision.{GROUP}/big"]
    code, _, error = await kubectl.attempt("get", "decision", "nobody", *space)
    assert code == 1
    assert "NotFound" in error


async def shown(lines, name):
    """The next line of a watch about this object."""
    while line := (await lines.readline()).decode():
        if line.split()[0] == name:
            return line
    raise AssertionError(f"the watch ended before {name}")


async def test_a_watch_shows_new_decisions(cluster, explained, kubectl):
    async with (
        kubectl.watching("decisions", "-n", cluster.namespace) as lines,
        asyncio.timeout(60),
    ):
        assert "Insufficient cpu" in await shown(lines, "big")
        await cluster.create_pods(pod_manifest("later", cpu="1"))
        assert "Scheduled" in await shown(lines, "later")


async def test_a_watch_shows_pods_that_begin_to_wait(cluster, explained, kubectl):
    async with (
        kubectl.watching("pendingpods", "-n", cluster.namespace) as lines,
        asyncio.timeout(60),
    ):
        await shown(lines, "big")
        await cluster.create_pods(pod_manifest("bigger", cpu="200"))
        while "NodeResourcesFit" not in await shown(lines, "bigger"):
            pass


async def test_pending_pods_and_the_scheduler_itself(cluster, explained, kubectl):
    space = ("-n", cluster.namespace)
    table = await kubectl("get", "pendingpods", *space)
    (row,) = table.splitlines()[1:]
    assert row.split()[0] == "big"
    pending = await kubectl.read("get", "pendingpod", "big", *space)
    assert pending["queue"]
    (status,) = (await kubectl.read("get", "schedulerstatuses"))["items"]
    assert status["leader"]


REVIEW = {
    "apiVersion": "kscheduler.dev/v1alpha1",
    "kind": "PlacementReview",
    "spec": {"pods": [pod_manifest("imagined", cpu="3")]},
}


async def test_a_review_is_answered(cluster, explained, kubectl):
    out = await kubectl("create", "-n", cluster.namespace, "-f", "-", "-o", "yaml", given=REVIEW)
    status = yaml.safe_load(out)["status"]
    assert status["fits"] == 1


async def test_a_review_knows_the_priority_classes_of_the_cluster(cluster, explained, kubectl):
    name = f"urgent-{cluster.namespace}"
    await cluster.api.create("priorityclasses", {"metadata": {"name": name}, "value": 1000})
    try:
        pod = pod_manifest("imagined", cpu="4", priorityClassName=name)
        spec = {"pods": [pod], "allowPreemption": True}
        given = {**REVIEW, "spec": spec}
        out = await kubectl("create", "-n", cluster.namespace, "-f", "-", "-o", "yaml", given=given)
        assert name not in yaml.safe_load(out)["status"].get("message", "")
    finally:
        await cluster.api.delete("priorityclasses", name)


async def test_a_review_makes_claims_from_templates(cluster, explained, kubectl):
    """Of three devices one is in use, so two of three pods get one, each by a claim of its own."""
    devices = Devices(cluster)
    try:
        await cluster.api.create("deviceclasses", class_manifest())
        await cluster.api.create("resourceslices", slice_manifest("n1", devices=3))
        await devices.create_claim("used")
        await cluster.create_pods(pod_manifest("user", **using("used")))
        await cluster.node_of("user")
        template = template_manifest("one-device")
        await cluster.api.create("resourceclaimtemplates", template, cluster.namespace)
        claims = [{"name": "device", "resourceClaimTemplateName": "one-device"}]
        spec = {"pods": [pod_manifest("imagined", resourceClaims=claims)], "replicas": 3}
        given = {**REVIEW, "spec": spec}
        out = await kubectl("create", "-n", cluster.namespace, "-f", "-", "-o", "yaml", given=given)
        status = yaml.safe_load(out)["status"]
        assert [one.get("node", "") for one in status["placements"]] == ["n1", "n1", ""]
    finally:
        await devices.clear()


async def test_explain_tells_of_the_fields(cluster, explained, kubectl):
    told = await kubectl("explain", "decisions")
    assert "GROUP:      kscheduler.dev" in told
    assert "VERSION:    v1alpha1" in told
    assert "outcome" in told


async def test_why_and_what_if_are_answered_through_the_api_server(cluster, explained, kubectl):
    space = ("-n", cluster.namespace, "--aggregated")
    told = await kubectl("why", "fits", *space)
    assert f"it is on {await cluster.node_of('fits')}" in told
    code, told, error = await kubectl.attempt("why", "big", *space)
    assert (code, error) == (1, "")
    assert "cpu" in told
    imagined = pod_manifest("imagined", cpu="3")
    told = await kubectl("whatif", "-f", "-", *space, given=imagined)
    assert "fit" in told


async def test_a_scheduler_that_is_away_takes_nothing_else_with_it(cluster, explained, kubectl):
    await explained.kill()
    code, _, error = await kubectl.attempt("get", "decisions", "-A")
    assert code == 1
    assert "the server is currently unable to handle the request" in error
    await available(cluster, "False")
    assert "n0" in await kubectl("get", "nodes", "--request-timeout=30s")
    assert API_SERVICE in await kubectl("get", "apiservices")


DECISIONS = {
    "apiGroups": [GROUP],
    "resources": ["decisions", "pendingpods"],
    "verbs": ["list", "get", "watch"],
}
PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
NODES = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}


async def test_what_is_shown_follows_from_rights(cluster, explained, kubectl):
    """No rights, those of a namespace, nodes as well, everything."""
    cluster.expected_errors += ["forbidden"]
    space = ("-n", cluster.namespace)
    get = ("get", "decision", "big", *space)
    code, _, error = await kubectl.attempt(*get, user="nobody")
    assert code == 1
    assert f'cannot get resource "decisions" in API group "{GROUP}"' in error

    async with granted(cluster, "asker", DECISIONS, namespace=cluster.namespace):
        code, _, error = await kubectl.attempt(*get, user="asker")
        assert code == 1
        assert "pods" in error
    async with granted(cluster, "tenant", PODS, DECISIONS, namespace=cluster.namespace):
        seen = await kubectl.read(*get, user="tenant")
        assert seen["partial"]
        assert sum(one["count"] for one in seen["last"]["rejections"]) == 3
        assert not any(one.get("nodes") for one in seen["last"]["rejections"])
        fits = await kubectl.read("get", "decision", "fits", *space, user="tenant")
        # Its own node is in the pod's spec, too.
        shown = {one["node"] for one in fits["last"]["scores"]["nodes"]}
        assert shown <= {await cluster.node_of("fits")}
        assert not fits["last"]["scores"].get("runnerUp")
        code, _, error = await kubectl.attempt("get", "decisions", "-A", user="tenant")
        assert code == 1
        assert "at the cluster scope" in error
        async with granted(cluster, "tenant", NODES):

            async def whole():
                seen = await kubectl.read(*get, user="tenant")
                return None if seen.get("partial") else seen

            # A refusal is remembered for ten seconds.
            seen = await until(whole, "the view is whole")
            (rejected,) = seen["last"]["rejections"]
            assert sorted(rejected["nodes"]) == ["n0", "n1", "n2"]
    async with granted(cluster, "reader", DECISIONS, PODS, NODES):
        seen = await kubectl.read("get", "decisions", "-A", user="reader")
        assert {"big", "fits"} <= {one["metadata"]["name"] for one in seen["items"]}
