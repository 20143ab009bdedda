"""Schedulers with the same nodes: what each counts of the other, what gives way, who is told."""

from collections import defaultdict
from pathlib import Path

import pytest

from tests.e2e.api import until
from tests.e2e.fixtures import REAL, profile_named, real_kube_scheduler
from tests.integration import labelled_plugins
from tests.kit.manifests import node_manifest, pod_manifest

OURS, THEIRS = "kscheduler", "kube-scheduler"
GATE = f"--plugin={Path(labelled_plugins.__file__)}:Gate"
GATED = """
profiles:
- schedulerName: kscheduler
  plugins: {permit: {enabled: [{name: Gate}]}}
"""
REFUSED = {"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: no cpu"}


async def bind(cluster, name, node):
    """What a rival does."""
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}}
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    where = f"api/v1/namespaces/{cluster.namespace}/pods/{name}/binding"
    await cluster.api.send("POST", where, {**body, "target": target})


async def refuse(cluster, name):
    """What a kubelet does that has no room for the pod."""
    await cluster.api.patch("pods", name, {"status": REFUSED}, cluster.namespace, "status")


async def becomes_held(cluster, name, node):
    """A pod that waits for permission says where it is headed."""

    async def announced():
        return (await cluster.pod(name))["status"].get("nominatedNodeName") == node

    await until(announced, f"pod {name} is headed for {node}")


async def test_a_pod_of_another_scheduler_is_counted_as_soon_as_it_has_a_node(cluster):
    await cluster.create_nodes(node_manifest("n1"))
    await cluster.create_pods(pod_manifest("before", nodeName="n1"))
    daemon = await cluster.start_daemon(cluster.config(OURS, profile_named(OURS)))
    await cluster.create_pods(pod_manifest("theirs", schedulerName="another"))
    await cluster.create_pods(pod_manifest("ours", schedulerName=OURS))
    await cluster.node_of("ours")

    await bind(cluster, "theirs", "n1")

    await daemon.shows('kscheduler_foreign_binds_total{kind="other-pod"}', 1)
    assert await daemon.metric('kscheduler_foreign_binds_total{kind="own-pod"}') is None


async def test_a_pod_whose_room_is_taken_while_it_is_held_goes_elsewhere(cluster):
    await cluster.create_nodes(node_manifest("n1", cpu="4"))
    daemon = await cluster.start_daemon(cluster.config(OURS, GATED), GATE)
    cluster.expected_errors += ["another scheduler has placed pods there"]
    await cluster.create_pods(pod_manifest("held", cpu="3", schedulerName=OURS))
    await becomes_held(cluster, "held", "n1")
    await cluster.create_pods(pod_manifest("theirs", cpu="2", schedulerName="another"))

    await bind(cluster, "theirs", "n1")
    await daemon.shows('kscheduler_conflicts_total{kind="node-overcommitted"}', 1)
    await cluster.create_nodes(node_manifest("n2", cpu="4"))
    allowing = {"labels": {"others": "allow"}, "schedulerName": OURS}
    await cluster.create_pods(pod_manifest("allows", **allowing))

    await daemon.shows('kscheduler_conflicts_total{kind="node-taken"}', 1)
    (event,) = await cluster.events("held", "FailedScheduling")
    assert event["note"] == (
        'node "n1" has too little left (cpu): another scheduler has placed pods there since it was '
        "chosen"
    )
    await becomes_held(cluster, "held", "n2")
    await cluster.create_pods(pod_manifest("allows-again", **allowing))
    assert await cluster.node_of("held") == "n2"


async def test_the_owner_of_a_refused_pod_is_told(cluster):
    await cluster.create_nodes(node_manifest("n1"))
    daemon = await cluster.start_daemon(cluster.config(OURS, profile_named(OURS)))
    labels = {"matchLabels": {"app": "web"}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod_manifest()["spec"]}
    body = {"metadata": {"name": "web"}, "spec": {"selector": labels, "template": template}}
    owner = await cluster.api.create("replicasets", body, cluster.namespace)
    owned = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web",
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    for number in range(3):
        pod = pod_manifest(f"web-{number}", schedulerName=OURS)
        pod["metadata"]["ownerReferences"] = [owned]
        await cluster.create_pods(pod)
        await cluster.node_of(f"web-{number}")
        await refuse(cluster, f"web-{number}")

    await daemon.shows('kscheduler_refused_pods_total{reason="OutOfcpu"}', 3)
    (event,) = await cluster.events("web", "PodRefused")
    assert event["note"] == f"Node n1 refused pod {cluster.namespace}/web-0: OutOfcpu: no cpu"
    assert event["regarding"]["kind"] == "ReplicaSet"
    assert event["reportingController"] == OURS


@pytest.mark.parametrize("cluster", [REAL], indirect=True)
async def test_kube_scheduler_and_kscheduler_fill_nodes_to_the_last_cpu(cluster, control_plane):
    """Six nodes of four CPUs and 24 pods at once. The test is kubelets, which refuse what came too
    late, and controllers, which make it anew: in the end all run, and everything was counted.
    """
    await cluster.create_nodes(*(node_manifest(f"n{number}", cpu="4") for number in range(6)))
    daemon = await cluster.start_daemon(cluster.config(OURS, profile_named(OURS)))
    cluster.expected_errors += ["context canceled", "another scheduler has placed pods there"]
    config = cluster.config(THEIRS, profile_named(THEIRS), control_plane / f"{THEIRS}.kubeconfig")
    await cluster.start_daemon(config, program=real_kube_scheduler())
    made = 0

    async def make(scheduler):
        nonlocal made
        made += 1
        pod = pod_manifest(f"{scheduler}-{made}", cpu="1", schedulerName=scheduler)
        await cluster.create_pods(pod)

    for _ in range(12):
        await make(THEIRS)
        await make(OURS)
    admitted, refused = defaultdict(set), defaultdict(list)

    async def all_run():
        pods = await cluster.api.list("pods", cluster.namespace)
        # A kubelet hears of pods in the order of their last changes, which are their bindings.
        for pod in sorted(pods, key=lambda one: int(one["metadata"]["resourceVersion"])):
            name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
            if not node or pod["status"]["phase"] != "Pending":
                continue
            if len(admitted[node]) < 4:
                admitted[node].add(name)
                await cluster.mark(name, "Running")
            else:
                refused[pod["spec"]["schedulerName"]].append(name)
                await refuse(cluster, name)
                await make(pod["spec"]["schedulerName"])
        return sum(map(len, admitted.values())) == 24

    await until(all_run, "all pods run")
    theirs = 12 + len(refused[THEIRS])
    await daemon.shows('kscheduler_foreign_binds_total{kind="other-pod"}', theirs)
    await daemon.shows('kscheduler_refused_pods_total{reason="OutOfcpu"}', len(refused[OURS]))
    await daemon.shows('scheduler_cache_size{type="assumed_pods"}', 0)
