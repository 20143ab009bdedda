"""Nodes whose kubelet went silent are tainted, and their pods evicted."""

import asyncio
import time

import pytest

from kscheduler.sandbox import ControllerManager, Kubelets
from kscheduler.sandbox.kubelets.kubelet import KUBELET_ANNOTATION
from tests.kit.manifests import pod_manifest
from tests.kit.polling import until
from tests.sandbox.controllers.workloads import Cluster

UNREACHABLE = "node.kubernetes.io/unreachable"


@pytest.fixture
async def cluster(server):
    """Kubelets that renew their leases often, and a controller that soon loses patience."""
    kubelets = Kubelets(
        server.registry, start_seconds=0.001, stop_seconds=0.001, renew_seconds=0.05
    )
    kubelets.add_nodes(2)
    manager = ControllerManager(server.registry, node_grace_seconds=2.0, node_gone_seconds=0.01)
    tasks = [asyncio.create_task(work) for work in (kubelets.run(), manager.run())]
    yield Cluster(server, kubelets, manager)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def ready(objects, node="node-0"):
    conditions = objects.get("nodes", node)["status"]["conditions"]
    return next(one["status"] for one in conditions if one["type"] == "Ready")


def taints(objects, node="node-0"):
    found = objects.get("nodes", node)["spec"].get("taints") or ()
    return {(one["key"], one["effect"]) for one in found}


async def test_a_silent_node_is_tainted_and_loses_its_pods(cluster):
    objects = cluster.objects
    short = {
        "key": UNREACHABLE,
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 0,
    }
    objects.create(pod_manifest("short", nodeName="node-0", tolerations=[short]))
    objects.create(pod_manifest("usual", nodeName="node-0"))
    await until(lambda: all(pod["status"]["phase"] == "Running" for pod in objects.list("pods")))
    objects.update(
        "nodes",
        "node-0",
        lambda node: node["metadata"].update(annotations={KUBELET_ANNOTATION: "stopped"}),
    )
    await until(lambda: ready(objects) == "Unknown")
    await until(
        lambda: taints(objects) == {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")}
    )
    await until(lambda: "deletionTimestamp" in objects.get("pods", "short")["metadata"])
    usual = objects.get("pods", "usual")
    assert "deletionTimestamp" not in usual["metadata"]  # it bears that for five minutes
    is_ready = next(one for one in usual["status"]["conditions"] if one["type"] == "Ready")
    assert (is_ready["status"], is_ready["reason"]) == ("False", "NodeNotReady")
    assert ready(objects, "node-1") == "True"
    # The kubelet comes back: the node is ready, and what was to end ends.
    objects.update("nodes", "node-0", lambda node: node["metadata"].update(annotations={}))
    await until(lambda: ready(objects) == "True" and taints(objects) == set())
    await until(lambda: objects.find("pods", "short") is None)

    def usual_is_ready():
        conditions = objects.get("pods", "usual")["status"]["conditions"]
        return next(one["status"] for one in conditions if one["type"] == "Ready") == "True"

    await until(usual_is_ready)


async def test_a_cordoned_node_and_one_under_pressure_are_tainted(cluster):
    objects = cluster.objects
    objects.update("nodes", "node-0", lambda node: node["spec"].update(unschedulable=True))
    unschedulable = ("node.kubernetes.io/unschedulable", "NoSchedule")
    await until(lambda: taints(objects) == {unschedulable})

    def press(node):
        for one in node["status"]["conditions"]:
            if one["type"] == "DiskPressure":
                one["status"] = "True"

    objects.update("nodes", "node-0", press, subresource="status")
    pressure = ("node.kubernetes.io/disk-pressure", "NoSchedule")
    await until(lambda: taints(objects) == {unschedulable, pressure})
    objects.update("nodes", "node-0", lambda node: node["spec"].update(unschedulable=False))
    await until(lambda: taints(objects) == {pressure})


async def test_a_taint_that_is_not_tolerated_evicts_at_once(cluster):
    objects = cluster.objects
    objects.create(pod_manifest("p", nodeName="node-0"))
    await until(lambda: objects.get("pods", "p")["status"]["phase"] == "Running")
    taint = {"key": "repair", "effect": "NoExecute"}
    objects.update("nodes", "node-0", lambda node: node["spec"].update(taints=[taint]))
    await until(lambda: objects.find("pods", "p") is None)
    reasons = {event["reason"] for event in objects.list("events")}
    assert "TaintManagerEviction" in reasons


async def test_pods_of_a_node_that_is_gone_go(cluster):
    objects = cluster.objects
    objects.create(pod_manifest("p", nodeName="node-0"))
    await until(lambda: objects.get("pods", "p")["status"]["phase"] == "Running")
    objects.delete("nodes", "node-0")
    await until(lambda: objects.find("pods", "p") is None)


async def test_nodes_are_alive_again_after_the_process_stood_still(cluster):
    objects = cluster.objects
    await until(lambda: objects.count("leases.coordination.k8s.io", "kube-node-lease") == 2)
    # As after Ctrl-Z and fg: longer than the grace period, for kubelets and controllers alike.
    time.sleep(2.5)  # noqa: ASYNC251 - that is what it is about
    # Long enough for the controller to look at them.
    for _ in range(20):
        await asyncio.sleep(0.01)
    await until(lambda: ready(objects) == ready(objects, "node-1") == "True")
    await until(lambda: not taints(objects) and not taints(objects, "node-1"))
