"""From a pending pod to a bound one, and what is told on the way."""

from kscheduler.version import KUBERNETES_VERSION
from tests.e2e.cluster import scheduled_condition
from tests.kit.manifests import node_manifest, pod_manifest


async def test_a_pod_is_bound_and_its_event_says_where(cluster):
    await cluster.create_nodes(node_manifest("n1"))
    await cluster.start_daemon()
    await cluster.create_pods(pod_manifest("p1", cpu="1"))

    assert await cluster.node_of("p1") == "n1"
    bound = await cluster.pod("p1")
    assert scheduled_condition(bound)["status"] == "True"
    (event,) = await cluster.events("p1", "Scheduled")
    told = {name: event[name] for name in ("type", "action", "note", "reportingController")}
    assert told == {
        "type": "Normal",
        "action": "Binding",
        "note": f"Successfully assigned {cluster.namespace}/p1 to n1",
        "reportingController": "default-scheduler",
    }
    assert event["reportingInstance"].startswith("default-scheduler-")
    assert event["regarding"]["uid"] == bound["metadata"]["uid"]


async def test_pods_that_waited_for_a_scheduler_are_bound_by_the_first_one(cluster):
    names = [f"p{number}" for number in range(5)]
    await cluster.create_nodes(node_manifest("n1"), node_manifest("n2"))
    await cluster.create_pods(*(pod_manifest(name, cpu="1") for name in names))
    await cluster.start_daemon()

    placed = await cluster.nodes_of(*names)
    assert set(placed.values()) == {"n1", "n2"}


async def test_the_watch_confirms_what_was_assumed(cluster):
    await cluster.create_nodes(node_manifest("n1"))
    daemon = await cluster.start_daemon()
    await cluster.create_pods(pod_manifest("p1"), pod_manifest("p2"))

    await cluster.nodes_of("p1", "p2")
    await daemon.shows('scheduler_cache_size{type="pods"}', 2)
    await daemon.shows('scheduler_cache_size{type="assumed_pods"}', 0)
    await daemon.shows('scheduler_pending_pods{queue="active"}', 0)


async def test_a_pod_bound_by_somebody_else_counts_where_it_is(cluster):
    await cluster.create_nodes(node_manifest("n1", cpu="2"), node_manifest("n2", cpu="2"))
    await cluster.start_daemon()
    await cluster.create_pods(pod_manifest("foreign", cpu="2", nodeName="n1"))
    await cluster.create_pods(pod_manifest("p1", cpu="2"))

    assert await cluster.node_of("p1") == "n2"


async def test_pods_of_an_unknown_scheduler_are_left_alone(cluster):
    await cluster.create_nodes(node_manifest("n1"))
    daemon = await cluster.start_daemon()
    await cluster.create_pods(
        pod_manifest("other", schedulerName="somebody-else"), pod_manifest("p1")
    )

    await cluster.node_of("p1")
    await daemon.shows('scheduler_cache_size{type="pods"}', 1)
    other = await cluster.pod("other")
    assert "nodeName" not in other["spec"]
    assert scheduled_condition(other) == {}


async def test_the_server_counts_as_the_release_it_stands_in_for(cluster):
    """Both servers are of the minor release whose scheduler we are."""
    served = await cluster.api.send("GET", "version")
    ours = KUBERNETES_VERSION.removeprefix("v").split(".")
    assert [served["major"], served["minor"]] == ours[:2]
