"""A service outside has a say: which nodes, which is best, who goes, and the binding itself."""

import pytest

from tests.e2e.api import path
from tests.integration.extender import only, running_extender, victims
from tests.kit.manifests import node_manifest, on_node, pod_manifest


@pytest.fixture
async def extender():
    async with running_extender() as extender:
        yield extender


def configured(cluster, *extenders):
    return cluster.config("extenders", f"extenders: {[*extenders]}\n".replace("True", "true"))


async def test_it_sees_the_cluster_as_the_server_does(cluster, extender):
    await cluster.create_nodes(node_manifest("n1"), node_manifest("n2"))
    extender.answers["filter"] = only("n2", n1="too loud")
    await cluster.start_daemon(configured(cluster, extender.config("filter")))
    await cluster.create_pods(pod_manifest("p1", cpu="1"))

    assert await cluster.node_of("p1") == "n2"
    (question,) = extender.asked("filter")
    stored = {one["metadata"]["name"]: one for one in await cluster.api.list("nodes")}
    for one in stored.values():
        one.pop("kind", None)
        one.pop("apiVersion", None)
    seen = {one["metadata"]["name"]: one for one in question["Nodes"]["items"]}
    assert seen == stored
    now = await cluster.pod("p1")
    assert question["Pod"]["metadata"]["uid"] == now["metadata"]["uid"]
    assert question["Pod"]["spec"] == {k: v for k, v in now["spec"].items() if k != "nodeName"}


async def test_its_reasons_are_told_until_it_changes_its_mind(cluster, extender):
    await cluster.create_nodes(node_manifest("n1"))
    extender.answers["filter"] = only(n1="100% full")
    config = extender.config("filter", nodeCacheCapable=True)
    await cluster.start_daemon(configured(cluster, config))
    await cluster.create_pods(pod_manifest("p1", cpu="1"))
    await cluster.becomes_refused("p1", "0/1 nodes are available: 1 100% full. preemption: ")
    # Notes are formats, upstream as here.
    (event, *_) = await cluster.events("p1", "FailedScheduling")
    assert "1 100%!f(MISSING)ull." in event["note"]

    del extender.answers["filter"]
    await cluster.create_nodes(node_manifest("n2"))
    await cluster.node_of("p1")


async def test_it_ranks_nodes_and_chooses_victims(cluster, extender, priorities):
    await cluster.create_nodes(*(node_manifest(name, cpu="2") for name in ("n1", "n2")))
    extender.answers["prioritize"] = lambda _: [{"Host": "n2", "Score": 10}]
    extender.answers["preempt"] = lambda question: {
        "NodeNameToMetaVictims": {"n2": victims(question)["n2"]}
    }
    config = extender.config("prioritize", "preempt", weight=100)
    await cluster.start_daemon(configured(cluster, config))
    low = {**priorities["low"], "terminationGracePeriodSeconds": 0}
    await cluster.create_pods(pod_manifest("first", cpu="2", **low))
    assert await cluster.node_of("first") == "n2"
    await cluster.create_pods(pod_manifest("second", cpu="2", **low, **on_node("n1")))
    await cluster.node_of("second")

    await cluster.create_pods(pod_manifest("vip", cpu="2", **priorities["high"]))
    assert await cluster.node_of("vip") == "n2"
    (question,) = extender.asked("preempt")
    assert {
        name: [one["metadata"]["name"] for one in of_node["Pods"]]
        for name, of_node in question["NodeNameToVictims"].items()
    } == {"n1": ["second"], "n2": ["first"]}


async def test_it_binds(cluster, extender):
    await cluster.create_nodes(node_manifest("n1"))

    async def bind(question):
        target = {"apiVersion": "v1", "kind": "Node", "name": question["Node"]}
        await cluster.api.send(
            "POST",
            path("pods", question["PodNamespace"], question["PodName"], "binding"),
            {"metadata": {"name": question["PodName"]}, "target": target},
        )
        return {"Error": ""}

    extender.answers["bind"] = bind
    await cluster.start_daemon(configured(cluster, extender.config("bind")))
    await cluster.create_pods(pod_manifest("p1", cpu="1"))

    assert await cluster.node_of("p1") == "n1"
    (event,) = await cluster.events("p1", "Scheduled")
    assert event["note"] == f"Successfully assigned {cluster.namespace}/p1 to n1"
    assert len(extender.asked("bind")) == 1
