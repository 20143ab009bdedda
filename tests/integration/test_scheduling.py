"""Pods and nodes come, change and go; the scheduler follows."""

import asyncio

from aiohttp import web

from kscheduler.sandbox import ApiServer
from tests.integration.cluster import Cluster, pod
from tests.kit.checker import binding_violations, violations
from tests.kit.manifests import node_manifest
from tests.kit.polling import until

DEFAULT = "default-scheduler"
GATED = {"schedulingGates": [{"name": "example.com/one"}, {"name": "example.com/two"}]}


async def test_only_pods_that_name_the_scheduler_are_bound(cluster):
    cluster.create(node_manifest("n1"))
    cluster.create(
        pod("before"), pod("foreign", schedulerName="another"), pod("placed", nodeName="n1")
    )
    async with cluster.scheduler():
        cluster.create(pod("later"), pod("foreign-later", schedulerName="another"))
        await until(lambda: cluster.place("before") and cluster.events("later"))
    assert sorted(cluster.waiting()) == ["foreign", "foreign-later"]
    assert (
        binding_violations(
            cluster.sent,
            [one for one in cluster.pods() if one["metadata"]["name"] != "placed"],
            [DEFAULT],
        )
        == []
    )
    assert cluster.events("later") == [("Scheduled", "Successfully assigned default/later to n1")]


async def test_each_profile_places_its_own_pods_by_its_own_rules(cluster):
    cluster.create(node_manifest("n1"), node_manifest("n2"), pod("base", cpu="1", nodeName="n1"))
    packing = {"scoringStrategy": {"type": "MostAllocated"}}
    profiles = [
        {"schedulerName": "spread"},
        {
            "schedulerName": "pack",
            "pluginConfig": [{"name": "NodeResourcesFit", "args": packing}],
            "plugins": {"score": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}},
        },
    ]
    async with cluster.scheduler(profiles=profiles):
        cluster.create(pod("p1", schedulerName="spread"))
        await until(lambda: cluster.place("p1"))
        cluster.create(pod("p2", schedulerName="pack"), pod("p3"))
        await until(lambda: cluster.place("p2"))
        await until(lambda: cluster.events("p1") and cluster.events("p2"))
    assert cluster.places() == {"base": "n1", "p1": "n2", "p2": "n1", "p3": None}
    told = cluster.api.objects.list("events")
    assert {one["involvedObject"]["name"]: one["reportingComponent"] for one in told} == {
        "p1": "spread",
        "p2": "pack",
    }


async def test_gated_pod_waits_for_the_last_gate(cluster):
    cluster.create(node_manifest("n1"))
    async with cluster.scheduler() as running:
        cluster.create(pod("gated", **GATED), pod("plain"))
        await until(lambda: cluster.place("plain"))
        cluster.api.objects.update(
            "pods", "gated", lambda one: one["spec"]["schedulingGates"].pop()
        )
        queue = running.daemon.scheduler.queue
        await until(lambda: len(queue.get("default/gated").pod.pod.spec.scheduling_gates) == 1)
        assert cluster.place("gated") is None
        cluster.api.objects.update("pods", "gated", lambda one: one["spec"].pop("schedulingGates"))
        await until(lambda: cluster.place("gated") == "n1")


async def test_new_node_wakes_the_pods_it_could_hold(cluster):
    cluster.create(node_manifest("small", cpu="1"))
    async with cluster.scheduler():
        cluster.create(pod("large", cpu="3"), pod("huge", cpu="30"))
        await until(lambda: cluster.complaint("large") and cluster.complaint("huge"))
        cluster.create(node_manifest("large", cpu="4"))
        await until(lambda: cluster.place("large") == "large")
    assert cluster.place("huge") is None
    assert "Insufficient cpu" in cluster.complaint("huge")


async def test_cordoned_node_takes_nobody_until_it_is_uncordoned(cluster):
    cluster.create(node_manifest("n1", unschedulable=True))
    async with cluster.scheduler():
        cluster.create(pod("p1"))
        await until(lambda: "1 node(s) were unschedulable" in cluster.complaint("p1"))
        cluster.api.objects.update("nodes", "n1", lambda one: one["spec"].pop("unschedulable"))
        await until(lambda: cluster.place("p1") == "n1")


async def test_deleted_node_takes_nobody(cluster):
    cluster.create(node_manifest("gone"), node_manifest("stays", cpu="1"))
    async with cluster.scheduler() as running:
        cluster.api.objects.delete("nodes", "gone")
        nodes = running.daemon.scheduler.informers.nodes
        await until(lambda: len(nodes) == 1)
        cluster.create(pod("p1", cpu="500m"), pod("p2", cpu="2"))
        await until(lambda: cluster.place("p1") and cluster.complaint("p2"))
    assert cluster.places() == {"p1": "stays", "p2": None}
    assert cluster.complaint("p2").startswith("0/1 nodes are available: 1 Insufficient cpu.")


async def test_pod_deleted_while_pending_is_forgotten(cluster):
    cluster.create(node_manifest("n1", cpu="1"))
    async with cluster.scheduler() as running:
        cluster.create(pod("p1", cpu="3"))
        await until(lambda: cluster.complaint("p1"))
        cluster.api.objects.delete("pods", "p1")
        queue = running.daemon.scheduler.queue
        await until(lambda: not queue.pending().pods)
        cluster.create(node_manifest("n2", cpu="4"), pod("p2", cpu="3"))
        await until(lambda: cluster.place("p2") == "n2")
    assert not [sent for sent in cluster.sent if sent.path.endswith("/p1/binding")]


async def test_pod_that_goes_makes_room_for_one_that_waits(cluster):
    cluster.create(node_manifest("n1", cpu="1"), pod("old", cpu="1", nodeName="n1"))
    async with cluster.scheduler():
        cluster.create(pod("new", cpu="1"))
        await until(lambda: cluster.complaint("new"))
        cluster.api.objects.delete("pods", "old", grace_period_seconds=0)
        await until(lambda: cluster.place("new") == "n1")


async def test_namespace_that_is_deleted_takes_its_pods_along_and_nothing_else(cluster):
    cluster.create(node_manifest("n1", cpu="1"))
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    async with cluster.scheduler() as running:
        cluster.create(pod("placed", namespace="team"), pod("pending", cpu="3", namespace="team"))
        await until(lambda: cluster.place("placed", "team"))
        queue = running.daemon.scheduler.queue
        await until(lambda: queue.get("team/pending"))
        cluster.api.objects.delete("namespaces", "team")
        cluster.api.objects.delete("pods", "placed", "team", grace_period_seconds=0)
        await until(lambda: not queue.pending().pods and not cluster.pods())
        cluster.create(pod("p1", cpu="1"))
        await until(lambda: cluster.place("p1"))


async def test_successor_goes_on_where_a_killed_scheduler_stopped(cluster):
    names = [f"p{number}" for number in range(200)]
    cluster.create(*(node_manifest(f"n{number}", cpu="3") for number in range(10)))
    cluster.create(*(pod(name) for name in names))
    some_bound, gone = asyncio.Event(), asyncio.Event()

    async def hold_back_after_50(request):
        if request.path.endswith("/binding") and cluster.bindings >= 50:
            some_bound.set()
            await gone.wait()
            request.transport.close()
            return web.Response(status=499)
        return None

    cluster.api.interceptors.append(hold_back_after_50)
    async with cluster.scheduler():
        await some_bound.wait()
    gone.set()
    cluster.api.interceptors.clear()
    assert cluster.waiting()
    async with cluster.scheduler():
        await until(lambda: not cluster.waiting())
    assert violations(cluster.nodes(), cluster.pods()) == []
    assert binding_violations(cluster.sent, cluster.pods(), [DEFAULT]) == []


async def test_server_without_streamed_lists_and_events_api_is_served_as_well(tmp_path):
    async with ApiServer(streams_lists=False) as api:
        cluster = Cluster(api, tmp_path)
        cluster.create(node_manifest("n1"), pod("p1"))
        async with cluster.scheduler():
            cluster.create(pod("p2"))
            await until(lambda: not cluster.waiting())
