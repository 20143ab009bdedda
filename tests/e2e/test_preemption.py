"""Pods that make room for more important ones."""

import pytest

from tests.e2e.api import eventually
from tests.e2e.objects import node, on_node, pod


@pytest.fixture
async def classes(cluster):
    """Priorities by short name."""
    kinds = {
        "low": {"value": 10},
        "high": {"value": 1000},
        "polite": {"value": 1000, "preemptionPolicy": "Never"},
    }
    for name, kind in kinds.items():
        body = {"metadata": {"name": f"{cluster.namespace}-{name}"}, **kind}
        await cluster.api.create("priorityclasses", body)
    yield {name: {"priorityClassName": f"{cluster.namespace}-{name}"} for name in kinds}
    for name in kinds:
        await cluster.api.delete("priorityclasses", f"{cluster.namespace}-{name}")


async def run(cluster, *pods):
    """Pods that a kubelet runs where they were put."""
    await cluster.create_pods(*pods)
    for one in pods:
        await cluster.node_of(one["metadata"]["name"])
        await cluster.mark(one["metadata"]["name"], "Running")


async def being_deleted(cluster, name):
    async def marked():
        found = await cluster.api.find("pods", name, cluster.namespace)
        return found if found and "deletionTimestamp" in found["metadata"] else None

    return await eventually(marked, f"pod {name} is being deleted")


async def test_a_less_important_pod_makes_room(cluster, classes):
    await cluster.create_nodes(node("n1", cpu="2"))
    await cluster.start_daemon()
    await run(cluster, pod("victim", cpu="2", **classes["low"]))
    await cluster.create_pods(pod("vip", cpu="2", **classes["high"]))

    victim = await being_deleted(cluster, "victim")
    vip = await cluster.pod("vip")
    (target,) = [c for c in victim["status"]["conditions"] if c["type"] == "DisruptionTarget"]
    assert (target["status"], target["reason"]) == ("True", "PreemptionByScheduler")
    assert target["message"] == "default-scheduler: preempting to accommodate a higher priority pod"
    (event,) = await cluster.events("victim", "Preempted")
    uid = vip["metadata"]["uid"]
    assert (event["action"], event["note"]) == ("Preempting", f"Preempted by pod {uid} on node n1")

    async def nominated():
        return (await cluster.pod("vip"))["status"].get("nominatedNodeName")

    assert await eventually(nominated, "vip is promised a node") == "n1"
    await cluster.delete_pod("victim")
    assert await cluster.node_of("vip") == "n1"


async def test_equals_are_left_alone(cluster, classes):
    await cluster.create_nodes(node("n1", cpu="2"))
    await cluster.start_daemon()
    await run(cluster, pod("there", cpu="2", **classes["high"]))
    await cluster.create_pods(pod("p1", cpu="2", **classes["high"]))

    assert await cluster.refusal_of("p1") == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: "
        "0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )
    assert "deletionTimestamp" not in (await cluster.pod("there"))["metadata"]


async def test_who_must_not_preempt_waits(cluster, classes):
    await cluster.create_nodes(node("n1", cpu="2"))
    await cluster.start_daemon()
    await run(cluster, pod("there", cpu="2", **classes["low"]))
    await cluster.create_pods(pod("p1", cpu="2", **classes["polite"]))

    assert await cluster.refusal_of("p1") == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: "
        "not eligible due to preemptionPolicy=Never."
    )
    assert "deletionTimestamp" not in (await cluster.pod("there"))["metadata"]


async def test_budgets_turn_the_choice(cluster, classes):
    """Both would do; one is under a budget that allows no disruption."""
    await cluster.create_nodes(node("n1", cpu="2"), node("n2", cpu="2"))
    await cluster.start_daemon()
    guarded = {"app": "guarded"}
    await run(
        cluster,
        pod("guarded", cpu="2", labels=guarded, **classes["low"], **on_node("n1")),
        pod("victim", cpu="2", **classes["low"], **on_node("n2")),
    )
    budget = {"minAvailable": 1, "selector": {"matchLabels": guarded}}
    body = {"metadata": {"name": "one"}, "spec": budget}
    await cluster.api.create("poddisruptionbudgets", body, cluster.namespace)
    await cluster.create_pods(pod("vip", cpu="2", **classes["high"]))

    await being_deleted(cluster, "victim")
    await cluster.delete_pod("victim")
    assert await cluster.node_of("vip") == "n2"
    assert "deletionTimestamp" not in (await cluster.pod("guarded"))["metadata"]
