"""Simulated kubelets: what becomes of pods that are bound."""

import asyncio

import pytest

from kscheduler.sandbox import Kubelets, NodeShape
from tests.kit.manifests import pod_manifest
from tests.kit.polling import until
from tests.sandbox.rest import PODS, new_node

LEASES = "leases.coordination.k8s.io"


@pytest.fixture
async def kubelets(server):
    played = Kubelets(server.registry, start_seconds=0.01, stop_seconds=0.01, renew_seconds=0.05)
    task = asyncio.create_task(played.run())
    yield played
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def asking(name, cpu, **spec):
    requests = {"requests": {"cpu": cpu}}
    return pod_manifest(
        name, containers=[{"name": "c", "image": "app:1", "resources": requests}], **spec
    )


def phase(objects, name):
    return objects.get("pods", name)["status"]["phase"]


def test_nodes_are_ready_labelled_and_spread_over_zones(server):
    names = Kubelets(server.registry).add_nodes(4, NodeShape(cpu="2", labels={"pool": "a"}))
    nodes = server.objects.list("nodes")
    assert names == [node["metadata"]["name"] for node in nodes]
    assert nodes[0]["status"]["allocatable"]["cpu"] == "2"
    labels = [node["metadata"]["labels"] for node in nodes]
    zones = [one["topology.kubernetes.io/zone"] for one in labels]
    assert zones == ["sandbox-a", "sandbox-b", "sandbox-c", "sandbox-a"]
    assert labels[0]["pool"] == "a"
    assert labels[0]["kubernetes.io/hostname"] == names[0]
    ready = [c for c in nodes[0]["status"]["conditions"] if c["type"] == "Ready"]
    assert ready[0]["status"] == "True"


async def test_a_bound_pod_runs_with_all_a_kubelet_reports(server, kubelets, objects):
    (node,) = kubelets.add_nodes(1)
    objects.create(asking("p", "1"))
    objects.bind("p", node)
    await until(lambda: phase(objects, "p") == "Running")
    pod = objects.get("pods", "p")
    state = pod["status"]
    conditions = {one["type"]: one["status"] for one in state["conditions"]}
    assert conditions == {
        "PodScheduled": "True",
        "PodReadyToStartContainers": "True",
        "Initialized": "True",
        "Ready": "True",
        "ContainersReady": "True",
    }
    assert state["startTime"]
    assert state["podIP"].startswith("10.")
    assert state["podIPs"] == [{"ip": state["podIP"]}]
    assert state["hostIP"].startswith("172.")
    (container,) = state["containerStatuses"]
    assert (container["ready"], container["name"]) == (True, "c")
    assert "running" in container["state"]
    assert state["qosClass"] == "Burstable"


async def test_what_happens_is_seen_by_watchers(rest, kubelets, objects):
    (node,) = kubelets.add_nodes(1)
    async with rest.watch(PODS) as events:
        objects.create(asking("p", "1"))
        objects.bind("p", node)
        await until(lambda: phase(objects, "p") == "Running")
        await rest.delete(f"{PODS}/p")
        kinds = [kind for kind, _ in await events.names(6)]
    assert kinds == ["ADDED", "MODIFIED", "MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]


async def test_a_deleted_pod_ends(kubelets, objects):
    (node,) = kubelets.add_nodes(1)
    objects.create(asking("p", "1"))
    objects.bind("p", node)
    await until(lambda: phase(objects, "p") == "Running")
    objects.delete("pods", "p")
    await until(lambda: objects.find("pods", "p") is None)


@pytest.mark.parametrize(
    ("pod", "reason", "message"),
    [
        pytest.param(
            asking("late", "3"),
            "OutOfcpu",
            "Pod was rejected: Node didn't have enough resource: cpu, requested: 3000, "
            "used: 2000, capacity: 4000",
            id="too little cpu",
        ),
        pytest.param(
            asking("late", "1", nodeSelector={"disk": "ssd"}),
            "NodeAffinity",
            "Pod was rejected: Predicate NodeAffinity failed: "
            "node(s) didn't match Pod's node affinity/selector",
            id="another kind of node",
        ),
        pytest.param(
            pod_manifest(
                "late",
                containers=[
                    {"name": "c", "image": "i", "ports": [{"containerPort": 1, "hostPort": 80}]}
                ],
            ),
            "NodePorts",
            "Pod was rejected: Predicate NodePorts failed: "
            "node(s) didn't have free ports for the requested pod ports",
            id="a taken port",
        ),
    ],
)
async def test_a_pod_that_does_not_fit_fails(kubelets, objects, pod, reason, message):
    objects.create(new_node("n"))
    first = asking("first", "2")
    first["spec"]["containers"][0]["ports"] = [{"containerPort": 1, "hostPort": 80}]
    for manifest in (first, pod):
        objects.create(manifest)
        objects.bind(manifest["metadata"]["name"], "n")
    await until(lambda: phase(objects, "late") == "Failed")
    state = objects.get("pods", "late")["status"]
    assert (state["reason"], state["message"]) == (reason, message)
    await until(lambda: phase(objects, "first") == "Running")
    (event,) = objects.list("events")
    assert (event["type"], event["reason"]) == ("Warning", reason)


async def test_room_is_free_again_when_a_pod_is_gone(kubelets, objects):
    (node,) = kubelets.add_nodes(1, NodeShape(cpu="1"))
    for name in ("a", "b"):
        objects.create(asking(name, "1"))
        objects.bind(name, node)
        await until(lambda name=name: phase(objects, name) == "Running")
        objects.delete("pods", name)
        await until(lambda name=name: objects.find("pods", name) is None)


async def test_a_node_holds_only_so_many_pods(kubelets, objects):
    (node,) = kubelets.add_nodes(1, NodeShape(pods="1"))
    for name in ("a", "b"):
        objects.create(pod_manifest(name))
        objects.bind(name, node)
    await until(lambda: phase(objects, "b") == "Failed")
    assert objects.get("pods", "b")["status"]["reason"] == "OutOfpods"


async def test_a_pod_waits_for_a_node_that_does_not_exist_yet(kubelets, objects):
    objects.create(pod_manifest("p", nodeName="later"))
    objects.create(new_node("later"))
    await until(lambda: phase(objects, "p") == "Running")


async def test_pods_on_a_paused_node_stay_as_they_are_until_it_resumes(kubelets, objects):
    dead, alive = kubelets.add_nodes(2)
    kubelets.pause(dead)
    for name, node in (("a", dead), ("b", alive)):
        objects.create(pod_manifest(name))
        objects.bind(name, node)
    await until(lambda: phase(objects, "b") == "Running")
    assert phase(objects, "a") == "Pending"
    kubelets.resume(dead)
    await until(lambda: phase(objects, "a") == "Running")


async def test_leases_are_renewed(kubelets, objects):
    (node,) = kubelets.add_nodes(1)
    first = await until(lambda: objects.find(LEASES, node, "kube-node-lease"))
    assert first["spec"]["holderIdentity"] == node
    assert first["metadata"]["ownerReferences"][0]["name"] == node
    await until(
        lambda: (
            objects.get(LEASES, node, "kube-node-lease")["spec"]["renewTime"]
            > first["spec"]["renewTime"]
        )
    )
    objects.delete("nodes", node)
    assert objects.find(LEASES, node, "kube-node-lease") is None


async def test_pods_that_ran_before_are_counted(server, objects):
    objects.create(new_node("n"))
    objects.create(asking("old", "3", nodeName="n"))
    objects.update(
        "pods", "old", lambda pod: pod["status"].update(phase="Running"), subresource="status"
    )
    played = Kubelets(server.registry, start_seconds=0)
    task = asyncio.create_task(played.run())
    objects.create(asking("new", "2", nodeName="n"))
    await until(lambda: phase(objects, "new") == "Failed")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_thousand_nodes_run_five_thousand_pods(kubelets, objects):
    names = kubelets.add_nodes(1000)
    for number in range(5000):
        objects.create(asking(f"p{number}", "100m"))
        objects.bind(f"p{number}", names[number % 1000])
        if number % 500 == 0:
            await asyncio.sleep(0)
    running = {"field_selector": "status.phase=Running"}
    await until(lambda: objects.count("pods", **running) == 5000, seconds=120)
