"""Pods that make room for more important ones."""

import pytest

from tests.e2e.api import until
from tests.kit.manifests import node_manifest, on_node, pod_manifest

PARKED = 'scheduler_pending_pods{queue="unschedulable"}'
TRIED = 'scheduler_schedule_attempts_total{profile="default-scheduler",result="unschedulable"}'
NO_HELP = (
    "0/1 nodes are available: 1 Insufficient cpu. preemption: "
    "0/1 nodes are available: 1 No preemption victims found for incoming pod."
)


async def run(cluster, *pods):
    """Pods that a kubelet runs where they were put."""
    await cluster.create_pods(*pods)
    for one in pods:
        await cluster.node_of(one["metadata"]["name"])
        await cluster.mark(one["metadata"]["name"], "Running")


async def being_deleted(cluster, name):
    """A victim that has to go, once its preemptor is held back no longer: what happens before the
    scheduler has seen its victim go does not wake it.
    """

    async def marked():
        found = await cluster.api.find("pods", name, cluster.namespace)
        return found if found and "deletionTimestamp" in found["metadata"] else None

    victim = await until(marked, f"pod {name} is being deleted")
    await cluster.known("pods", victim)
    return victim


async def nomination(cluster, name):
    async def nominated():
        return (await cluster.pod(name))["status"].get("nominatedNodeName")

    return await until(nominated, f"{name} is promised a node")


async def leaving(cluster):
    """Who has to go, of those who are still there."""
    pods = await cluster.api.list("pods", cluster.namespace)
    return {p["metadata"]["name"] for p in pods if "deletionTimestamp" in p["metadata"]}


async def evictions(cluster, *expected, preemptor):
    """Who was told to go, once for each time, when all have been told that are expected to be and
    the preemptor has been placed.
    """
    for name in expected:
        await cluster.events(name, "Preempted")
    await cluster.events(preemptor, "Scheduled")
    events = await cluster.api.list("events", cluster.namespace)
    return sorted(
        event["regarding"]["name"]
        for event in events
        if event["reason"] == "Preempted"
        for _ in range((event.get("series") or {}).get("count", 1))
    )


async def test_a_less_important_pod_makes_room(cluster, priorities):
    await cluster.create_nodes(node_manifest("n1", cpu="2"))
    await cluster.start_daemon()
    await run(cluster, pod_manifest("victim", cpu="2", **priorities["low"]))
    await cluster.create_pods(pod_manifest("vip", cpu="2", **priorities["high"]))

    await being_deleted(cluster, "victim")
    uid = (await cluster.pod("vip"))["metadata"]["uid"]
    (event,) = await cluster.events("victim", "Preempted")
    assert (event["action"], event["note"]) == ("Preempting", f"Preempted by pod {uid} on node n1")
    assert await nomination(cluster, "vip") == "n1"
    await cluster.delete_pod("victim")
    assert await cluster.node_of("vip") == "n1"


async def test_a_victim_is_told_why_by_its_disruption_condition(cluster, priorities):
    await cluster.create_nodes(node_manifest("n1", cpu="2"))
    await cluster.start_daemon()
    await run(cluster, pod_manifest("victim", cpu="2", **priorities["low"]))
    await cluster.create_pods(pod_manifest("vip", cpu="2", **priorities["high"]))

    victim = await being_deleted(cluster, "victim")
    (target,) = [c for c in victim["status"]["conditions"] if c["type"] == "DisruptionTarget"]
    assert {name: target[name] for name in ("status", "reason", "message")} == {
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "default-scheduler: preempting to accommodate a higher priority pod",
    }


async def test_pods_that_the_cluster_needs_push_out_all_others(cluster, priorities):
    await cluster.create_nodes(node_manifest("n1", cpu="2"), node_manifest("n2", cpu="2"))
    await cluster.start_daemon()
    await run(
        cluster,
        pod_manifest("low", cpu="2", **priorities["low"], **on_node("n1")),
        pod_manifest("high", cpu="2", **priorities["high"], **on_node("n2")),
    )
    for name, victim, place in (("first", "low", "n1"), ("second", "high", "n2")):
        await cluster.create_pods(
            pod_manifest(name, cpu="2", priorityClassName="system-cluster-critical")
        )
        await being_deleted(cluster, victim)
        await cluster.delete_pod(victim)
        assert await cluster.node_of(name) == place


async def test_equals_are_left_alone(cluster, priorities):
    await cluster.create_nodes(node_manifest("n1", cpu="2"))
    await cluster.start_daemon()
    await run(cluster, pod_manifest("there", cpu="2", **priorities["high"]))
    await cluster.create_pods(pod_manifest("p1", cpu="2", **priorities["high"]))

    assert await cluster.refusal_of("p1") == NO_HELP
    assert await leaving(cluster) == set()


async def test_who_must_not_preempt_waits(cluster, priorities):
    await cluster.create_nodes(node_manifest("n1", cpu="2"))
    await cluster.start_daemon()
    await run(cluster, pod_manifest("there", cpu="2", **priorities["low"]))
    await cluster.create_pods(pod_manifest("p1", cpu="2", **priorities["polite"]))

    assert await cluster.refusal_of("p1") == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: "
        "not eligible due to preemptionPolicy=Never."
    )
    assert await leaving(cluster) == set()


async def guard(cluster, labels):
    """A budget that allows no disruption."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": labels}}
    body = {"metadata": {"name": "guard"}, "spec": spec}
    made = await cluster.api.create("poddisruptionbudgets", body, cluster.namespace)
    await cluster.known("poddisruptionbudgets", made)


async def test_budgets_turn_the_choice(cluster, priorities):
    """Both would do; one is under a budget that allows no disruption, though less important."""
    await cluster.create_nodes(node_manifest("n1", cpu="2"), node_manifest("n2", cpu="2"))
    await cluster.start_daemon()
    guarded = {"app": "guarded"}
    await guard(cluster, guarded)
    await run(
        cluster,
        pod_manifest("guarded", cpu="2", labels=guarded, **priorities["low"], **on_node("n1")),
        pod_manifest("victim", cpu="2", **priorities["middle"], **on_node("n2")),
    )
    await cluster.create_pods(pod_manifest("vip", cpu="2", **priorities["high"]))

    await being_deleted(cluster, "victim")
    await cluster.delete_pod("victim")
    assert await cluster.node_of("vip") == "n2"
    assert await leaving(cluster) == set()


async def test_a_budget_is_broken_when_nothing_else_helps(cluster, priorities):
    await cluster.create_nodes(node_manifest("n1", cpu="2"), node_manifest("n2", cpu="2"))
    await cluster.start_daemon()
    guarded = {"app": "guarded"}
    await guard(cluster, guarded)
    await run(
        cluster,
        pod_manifest("guarded", cpu="2", labels=guarded, **priorities["low"], **on_node("n1")),
        pod_manifest("equal", cpu="2", **priorities["high"], **on_node("n2")),
    )
    await cluster.create_pods(pod_manifest("vip", cpu="2", **priorities["high"]))

    await being_deleted(cluster, "guarded")
    await cluster.delete_pod("guarded")
    assert await cluster.node_of("vip") == "n1"
    assert await evictions(cluster, "guarded", preemptor="vip") == ["guarded"]


async def test_only_as_many_go_as_must(cluster, priorities):
    """Of those who could, the least important; who was there first stays."""
    await cluster.create_nodes(node_manifest("n1", cpu="3"))
    await cluster.start_daemon()
    await run(
        cluster,
        pod_manifest("first", cpu="1", **priorities["low"]),
        pod_manifest("middle", cpu="1", **priorities["middle"]),
        pod_manifest("last", cpu="1", **priorities["low"]),
    )
    # Importance among equals is told by start time, to the second.
    for name, second in (("first", 1), ("middle", 2), ("last", 3)):
        since = {"status": {"startTime": f"2026-01-01T00:00:0{second}Z"}}
        await cluster.api.patch("pods", name, since, cluster.namespace, "status")
    await cluster.create_pods(pod_manifest("vip", cpu="1", **priorities["high"]))

    await being_deleted(cluster, "last")
    await cluster.delete_pod("last")
    assert await cluster.node_of("vip") == "n1"
    assert await evictions(cluster, "last", preemptor="vip") == ["last"]


async def test_no_victim_is_evicted_twice_nor_another_in_its_stead(cluster, priorities):
    """The victim takes its time to go. Meanwhile its preemptor is tried again and again."""
    mine = {"pool": "mine"}
    await cluster.create_nodes(
        node_manifest("n1", cpu="2", labels=mine),
        node_manifest("n2", cpu="2", labels=mine),
        node_manifest("other", cpu="4"),
    )
    daemon = await cluster.start_daemon()
    await run(
        cluster,
        pod_manifest("victim", cpu="2", **priorities["low"], **on_node("n1")),
        pod_manifest("spared", cpu="2", **priorities["middle"], **on_node("n2")),
    )
    await cluster.create_pods(pod_manifest("vip", cpu="2", nodeSelector=mine, **priorities["high"]))
    await being_deleted(cluster, "victim")
    assert await nomination(cluster, "vip") == "n1"
    # Room is what the pod lacks, so it is tried again; but it may not use this one.
    for cpu in ("5", "6", "7"):
        await daemon.shows(PARKED, 1)
        before = await daemon.metric(TRIED)
        await cluster.api.patch(
            "nodes", "other", {"status": {"allocatable": {"cpu": cpu}}}, subresource="status"
        )
        await until(lambda before=before: more(daemon, TRIED, before), "vip is tried again")

    await daemon.shows(PARKED, 1)
    assert await leaving(cluster) == {"victim"}
    await cluster.delete_pod("victim")
    assert await cluster.node_of("vip") == "n1"
    assert await evictions(cluster, "victim", preemptor="vip") == ["victim"]


async def more(daemon, line, before):
    return (await daemon.metric(line) or 0) > before


async def test_nobody_else_goes_when_another_node_became_free_meanwhile(cluster, priorities):
    await cluster.create_nodes(node_manifest("n1", cpu="2"), node_manifest("n2", cpu="2"))
    await cluster.start_daemon()
    await run(
        cluster,
        pod_manifest("victim", cpu="2", **priorities["low"], **on_node("n1")),
        pod_manifest("spared", cpu="2", **priorities["middle"], **on_node("n2")),
    )
    await cluster.create_pods(pod_manifest("vip", cpu="2", **priorities["high"]))
    await being_deleted(cluster, "victim")

    await cluster.create_nodes(node_manifest("n3", cpu="2"))
    assert await cluster.node_of("vip") == "n3"
    await cluster.create_pods(pod_manifest("next", cpu="2", **priorities["high"], **on_node("n1")))
    await cluster.refusal_of("next")
    await cluster.delete_pod("victim")
    assert await cluster.node_of("next") == "n1"
    assert await evictions(cluster, "victim", preemptor="next") == ["victim"]


async def test_a_node_that_became_free_before_the_attempt_spares_everybody(cluster, priorities):
    """Three wait for the daemon: two fit into the room there is."""
    await cluster.create_nodes(node_manifest("n1", cpu="2"), node_manifest("n2", cpu="4"))
    first = await cluster.start_daemon()
    await run(cluster, pod_manifest("there", cpu="2", **priorities["low"], **on_node("n1")))
    await run(cluster, pod_manifest("leaves", cpu="4", **priorities["low"], **on_node("n2")))
    await first.kill()
    await cluster.create_pods(
        *(pod_manifest(f"vip{n}", cpu="2", **priorities["high"]) for n in (1, 2))
    )
    await cluster.delete_pod("leaves")
    await cluster.start_daemon()

    assert await cluster.nodes_of("vip1", "vip2") == {"vip1": "n2", "vip2": "n2"}
    assert await leaving(cluster) == set()
    assert await evictions(cluster, preemptor="vip2") == []


async def test_the_room_that_was_made_is_kept_for_whom_it_was_made(cluster, priorities):
    """A less important pod would fit beside the victim and, later, into its place."""
    await cluster.create_nodes(node_manifest("n1", cpu="4"))
    await cluster.start_daemon()
    await run(cluster, pod_manifest("victim", cpu="3", **priorities["low"]))
    await cluster.create_pods(pod_manifest("vip", cpu="4", **priorities["high"]))
    await being_deleted(cluster, "victim")
    assert await nomination(cluster, "vip") == "n1"

    await cluster.create_pods(pod_manifest("thief", cpu="1", **priorities["middle"]))
    await cluster.becomes_refused("thief", "0/1 nodes are available: 1 Insufficient cpu.")
    await cluster.delete_pod("victim")

    assert await cluster.node_of("vip") == "n1"
    assert "nodeName" not in (await cluster.pod("thief"))["spec"]


async def test_a_promise_outlives_the_daemon_that_made_it(cluster, priorities):
    """The next one keeps others off the node, and evicts nobody a second time."""
    await cluster.create_nodes(node_manifest("n1", cpu="4"))
    first = await cluster.start_daemon()
    await run(cluster, pod_manifest("victim", cpu="3", **priorities["low"]))
    await cluster.create_pods(pod_manifest("vip", cpu="4", **priorities["high"]))
    await being_deleted(cluster, "victim")
    assert await nomination(cluster, "vip") == "n1"
    await cluster.events("victim", "Preempted")
    await first.kill()
    await cluster.create_pods(pod_manifest("thief", cpu="1", **priorities["middle"]))
    await cluster.start_daemon()

    await cluster.becomes_refused("thief", "0/1 nodes are available: 1 Insufficient cpu.")
    assert await nomination(cluster, "vip") == "n1"
    await cluster.delete_pod("victim")
    assert await cluster.node_of("vip") == "n1"
    assert await evictions(cluster, "victim", preemptor="vip") == ["victim"]


@pytest.fixture
async def promised(cluster):
    """A gated pod that somebody else, an autoscaler say, has promised node n1 by its status."""
    await cluster.create_nodes(node_manifest("n1", cpu="4"), node_manifest("n2", cpu="8"))
    daemon = await cluster.start_daemon()
    await cluster.create_pods(pod_manifest("load", cpu="1", nodeName="n1"))
    await cluster.create_pods(
        pod_manifest("p1", cpu="2", schedulingGates=[{"name": "example.com/wait"}])
    )
    promise = {"status": {"nominatedNodeName": "n1"}}
    await cluster.api.patch("pods", "p1", promise, cluster.namespace, "status")
    await daemon.shows('scheduler_pending_pods{queue="gated"}', 1)


async def open_gate(cluster, name):
    gates = [{"$patch": "delete", "name": "example.com/wait"}]
    await cluster.patch_pod(name, {"spec": {"schedulingGates": gates}})


@pytest.mark.usefixtures("promised")
async def test_a_promise_made_by_others_is_honoured(cluster):
    """By its own taste the pod would go to the emptier node."""
    await open_gate(cluster, "p1")

    assert await cluster.node_of("p1") == "n1"


@pytest.mark.usefixtures("promised")
async def test_a_promise_made_by_others_that_cannot_be_kept_holds_nobody_up(cluster):
    await cluster.change_node("n1", {"spec": {"unschedulable": True}})
    await cluster.create_pods(pod_manifest("marker", **on_node("n1")))
    await cluster.refusal_of("marker")
    await open_gate(cluster, "p1")

    assert await cluster.node_of("p1") == "n2"
