"""Pods that fit nowhere: what their status and their events say."""

from tests.e2e.api import until
from tests.e2e.cluster import scheduled_condition
from tests.kit.manifests import node_manifest, on_node, pod_manifest


async def test_condition_and_event_say_why(cluster):
    await cluster.create_nodes(
        node_manifest("n1", cpu="1"),
        node_manifest("n2", taints=[{"key": "only", "value": "gpu", "effect": "NoSchedule"}]),
    )
    await cluster.start_daemon()
    await cluster.create_pods(pod_manifest("p1", cpu="2"))

    message = await cluster.refusal_of("p1")
    assert message.startswith(
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."
    )
    condition = scheduled_condition(await cluster.pod("p1"))
    assert {name: condition[name] for name in ("status", "reason", "observedGeneration")} == {
        "status": "False",
        "reason": "Unschedulable",
        "observedGeneration": 1,
    }
    assert condition["lastTransitionTime"]
    (event,) = await cluster.events("p1", "FailedScheduling")
    assert {name: event[name] for name in ("type", "action", "note", "reportingController")} == {
        "type": "Warning",
        "action": "Scheduling",
        "note": message,
        "reportingController": "default-scheduler",
    }


async def test_without_any_node_the_pod_is_told_so(cluster):
    await cluster.start_daemon()
    await cluster.create_pods(pod_manifest("p1"))

    assert await cluster.refusal_of("p1") == "no nodes available to schedule pods"


async def test_a_later_attempt_brings_the_condition_up_to_date(cluster):
    await cluster.create_nodes(node_manifest("n1", cpu="1"))
    await cluster.start_daemon()
    await cluster.create_pods(pod_manifest("p1", cpu="2"))
    await cluster.becomes_refused("p1", "0/1 nodes are available: 1 Insufficient cpu.")
    since = scheduled_condition(await cluster.pod("p1"))["lastTransitionTime"]

    await cluster.create_nodes(node_manifest("n2", cpu="8", unschedulable=True))
    await cluster.api.patch("nodes", "n1", allocatable(cpu="1500m"), subresource="status")

    await cluster.becomes_refused(
        "p1", "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable."
    )
    assert scheduled_condition(await cluster.pod("p1"))["lastTransitionTime"] == since


async def test_binding_at_last_turns_the_condition_true(cluster):
    await cluster.create_nodes(node_manifest("n1", cpu="1"))
    await cluster.start_daemon()
    await cluster.create_pods(pod_manifest("p1", cpu="2"))
    await cluster.refusal_of("p1")

    await cluster.create_nodes(node_manifest("n2"))

    assert await cluster.node_of("p1") == "n2"

    async def told():
        return scheduled_condition(await cluster.pod("p1"))["status"] == "True"

    await until(told, "PodScheduled is True")


async def test_an_event_that_repeats_becomes_a_series(cluster):
    """Attempts with one outcome on one version of a pod are one event; the first attempt changes
    the pod.
    """
    await cluster.create_nodes(node_manifest("n1", cpu="1"), node_manifest("n2", cpu="8"))
    await cluster.start_daemon()
    await cluster.create_pods(pod_manifest("p1", cpu="2", **on_node("n1")))

    async def counts():
        events = await cluster.events("p1", "FailedScheduling")
        return sorted((event.get("series") or {}).get("count", 1) for event in events)

    await cluster.refusal_of("p1")
    # A later pod that is placed shows that the scheduler has seen how it changed the first one.
    await cluster.create_pods(pod_manifest("later", **on_node("n2")))
    await cluster.node_of("later")

    # Room is what the pod lacked, so it is tried again; but it may not use this one.
    for cpu, wanted in (("9", [1]), ("10", [1, 1]), ("11", [1, 2])):
        await becomes(counts, wanted)
        await cluster.api.patch("nodes", "n2", allocatable(cpu=cpu), subresource="status")


async def becomes(ask, wanted):
    async def is_so():
        return await ask() == wanted

    await until(is_so, f"it is {wanted}")


def allocatable(**room):
    return {"status": {"allocatable": room}}
