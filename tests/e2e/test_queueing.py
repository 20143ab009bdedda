"""What wakes a pod that was refused: exactly the changes that may help it."""

import pytest

from tests.kit.manifests import HOSTNAME, near, node_manifest, on_node, pod_manifest, required

PARKED = 'scheduler_pending_pods{queue="unschedulable"}'


async def refused(cluster, waiting):
    """A scheduler, and a pod it has put aside."""
    daemon = await cluster.start_daemon()
    await cluster.create_pods(waiting)
    await cluster.refusal_of(waiting["metadata"]["name"])
    await daemon.shows(PARKED, 1)
    return daemon


async def test_a_new_node_wakes_pods(cluster):
    await cluster.create_nodes(node_manifest("n1", cpu="1"))
    await refused(cluster, pod_manifest("p1", cpu="2"))

    await cluster.create_nodes(node_manifest("n2", cpu="2"))

    assert await cluster.node_of("p1") == "n2"


TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("before", "waiting", "change"),
    [
        pytest.param(
            {"unschedulable": True}, {}, {"spec": {"unschedulable": False}}, id="uncordoned"
        ),
        pytest.param({"taints": [TAINT]}, {}, {"spec": {"taints": None}}, id="taint removed"),
        pytest.param(
            {},
            {"nodeSelector": {"disk": "ssd"}},
            {"metadata": {"labels": {"disk": "ssd"}}},
            id="label added",
        ),
    ],
)
async def test_a_changed_node_wakes_pods(cluster, before, waiting, change):
    await cluster.create_nodes(node_manifest("n1", **before))
    await refused(cluster, pod_manifest("p1", **waiting))

    await cluster.api.patch("nodes", "n1", change)

    assert await cluster.node_of("p1") == "n1"


async def test_more_room_on_a_node_wakes_pods(cluster):
    await cluster.create_nodes(node_manifest("n1", cpu="1"))
    await refused(cluster, pod_manifest("p1", cpu="2"))

    await cluster.api.patch(
        "nodes", "n1", {"status": {"allocatable": {"cpu": "2"}}}, subresource="status"
    )

    assert await cluster.node_of("p1") == "n1"


async def test_a_deleted_pod_makes_room(cluster):
    await cluster.create_nodes(node_manifest("n1", cpu="2"))
    await cluster.create_pods(pod_manifest("there", cpu="2", host_port=8080, nodeName="n1"))
    await refused(cluster, pod_manifest("p1", cpu="1", host_port=8080))

    await cluster.delete_pod("there")

    assert await cluster.node_of("p1") == "n1"


async def test_a_finished_pod_makes_room(cluster):
    await cluster.create_nodes(node_manifest("n1", cpu="2"))
    await cluster.create_pods(pod_manifest("job", cpu="2", nodeName="n1", restartPolicy="Never"))
    await cluster.mark("job", "Running")
    await refused(cluster, pod_manifest("p1", cpu="1"))

    await cluster.mark("job", "Succeeded")

    assert await cluster.node_of("p1") == "n1"


async def test_the_pod_one_waits_to_be_near_arrives(cluster):
    await cluster.create_nodes(node_manifest("n1"), node_manifest("n2"))
    await refused(cluster, pod_manifest("p1", pod_affinity=required(near({"app": "db"}, HOSTNAME))))

    await cluster.create_pods(pod_manifest("db", labels={"app": "db"}, **on_node("n2")))

    assert await cluster.nodes_of("db", "p1") == {"db": "n2", "p1": "n2"}


async def test_the_pod_that_keeps_one_off_goes(cluster):
    await cluster.create_nodes(node_manifest("n1"))
    await cluster.create_pods(pod_manifest("loud", labels={"app": "loud"}, nodeName="n1"))
    await refused(
        cluster, pod_manifest("p1", pod_anti_affinity=required(near({"app": "loud"}, HOSTNAME)))
    )

    await cluster.delete_pod("loud")

    assert await cluster.node_of("p1") == "n1"


async def test_the_label_of_a_running_pod_changes(cluster):
    await cluster.create_nodes(node_manifest("n1"))
    await cluster.create_pods(pod_manifest("db", labels={"app": "new-db"}, nodeName="n1"))
    await refused(cluster, pod_manifest("p1", pod_affinity=required(near({"app": "db"}, HOSTNAME))))

    await cluster.patch_pod("db", {"metadata": {"labels": {"app": "db"}}})

    assert await cluster.node_of("p1") == "n1"


async def test_a_toleration_added_to_the_pod_itself_helps(cluster):
    await cluster.create_nodes(node_manifest("n1", taints=[TAINT]))
    await refused(cluster, pod_manifest("p1"))

    added = [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}]
    await cluster.patch_pod("p1", {"spec": {"tolerations": added}})

    assert await cluster.node_of("p1") == "n1"


async def test_changes_that_cannot_help_wake_nobody(cluster):
    await cluster.create_nodes(node_manifest("n1", cpu="1"), node_manifest("n2", cpu="1"))
    daemon = await refused(cluster, pod_manifest("p1", cpu="2"))

    await cluster.change_node("n1", {"metadata": {"labels": {"colour": "blue"}}})
    await cluster.create_pods(pod_manifest("marker", **on_node("n1")))
    await cluster.node_of("marker")
    await daemon.shows('scheduler_cache_size{type="pods"}', 1)

    await daemon.shows(PARKED, 1)
    tried = 'scheduler_schedule_attempts_total{profile="default-scheduler",result="unschedulable"}'
    assert await daemon.metric(tried) == 1
