"""Pods with devices. The test plays the drivers and the claim controller."""

import asyncio
import json
import random

import pytest

from tests.e2e.api import until
from tests.e2e.cluster import scheduled_condition
from tests.e2e.devices import Devices
from tests.e2e.doorkeeper import doorkeeper
from tests.kit.devices import DRIVER, claim_manifest, device, request, using
from tests.kit.manifests import node_manifest, on_node, pod_manifest

GPU = "example.com/gpu"
READY, BROKEN = "example.com/ready", "example.com/broken"
PREPARED = {"bindingConditions": [READY], "bindingFailureConditions": [BROKEN]}
SHORT = """
profiles:
- pluginConfig:
  - name: DynamicResources
    args: {bindingTimeout: 6s}
"""
# What a daemon says of a pod whose devices were not made ready, or that is gone when it is bound.
NOT_READY = "DynamicResources"
GONE = "not found"


@pytest.fixture
async def devices(cluster):
    """Two nodes with two devices each; whatever a test does, the claims must be in order then."""
    devices = Devices(cluster)
    await cluster.create_nodes(node_manifest("n1"), node_manifest("n2"))
    await devices.create_class()
    for node in ("n1", "n2"):
        await devices.publish(node, devices=2)
    yield devices
    await cluster.end_daemons()
    await devices.clear()


async def test_a_claim_from_a_template_gets_a_device_of_the_pods_node(cluster, devices):
    await cluster.start_daemon()
    template = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}
    await cluster.create_pods(pod_manifest("p", **template))
    pod = (await cluster.pod("p"))["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["uid"], "controller": True}
    await devices.create_claim("p-gpu-abcde", ownerReferences=[owner])
    # Nobody has told the pod of its claim yet.
    assert scheduled_condition(await cluster.pod("p")).get("status") != "True"
    told = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu-abcde"}]}
    await cluster.api.patch("pods", "p", {"status": told}, cluster.namespace, "status")

    node = await cluster.node_of("p")
    assert await devices.devices_of("p-gpu-abcde") == [f"{node}/gpu-0"]
    await devices.check()


async def test_opaque_parameters_need_not_be_written_as_go_writes_them(cluster, devices):
    """A server keeps white space and `<` of what it was sent, and shows something else in JSON."""
    await cluster.start_daemon()
    opaque = {"driver": DRIVER, "parameters": {"limit": "<5"}}
    claim = claim_manifest("c", request(), config=[{"opaque": opaque}])
    assert b'{"limit": "<5"}' in json.dumps(claim).encode()
    await cluster.api.create("resourceclaims", claim, cluster.namespace)
    await cluster.create_pods(pod_manifest("p1", **using("c")), pod_manifest("p2", **using("c")))
    nodes = await cluster.nodes_of("p1", "p2")
    assert len(set(nodes.values())) == 1
    config = (await devices.allocation("c"))["devices"]["config"]
    assert [one["opaque"]["parameters"] for one in config] == [{"limit": "<5"}]


async def test_pods_that_share_a_claim_share_its_node(cluster, devices):
    await cluster.start_daemon()
    await devices.create_claim("c")
    await cluster.create_pods(*(pod_manifest(f"p{n}", **using("c")) for n in range(3)))

    assert len(set((await cluster.nodes_of("p0", "p1", "p2")).values())) == 1
    users = (await devices.claim("c"))["status"]["reservedFor"]
    assert {user["name"] for user in users} == {"p0", "p1", "p2"}
    await devices.check()


async def test_devices_that_are_all_taken_make_a_pod_wait_until_one_is_free(cluster, devices):
    await cluster.start_daemon()
    names = [f"p{n}" for n in range(5)]
    for name in names:
        await devices.create_claim(name)
        await cluster.create_pods(pod_manifest(name, **using(name)))
        if name != names[-1]:
            await cluster.node_of(name)
    assert "cannot allocate all claims" in await cluster.refusal_of("p4")
    await devices.check()

    freed = await devices.devices_of("p1")
    await cluster.delete_pod("p1")
    await devices.release("p1", "p1")
    await cluster.node_of("p4")
    assert await devices.devices_of("p4") == freed
    await devices.check()


async def test_a_claim_that_nobody_uses_is_deallocated_for_a_pod_that_needs_another_node(
    cluster, devices
):
    await cluster.start_daemon()
    await devices.create_claim("c")
    await cluster.create_pods(pod_manifest("first", **using("c"), **on_node("n1")))
    assert await cluster.node_of("first") == "n1"
    await cluster.delete_pod("first")
    claim = await devices.claim("c")
    claim["status"].pop("reservedFor")
    where = f"apis/resource.k8s.io/v1/namespaces/{cluster.namespace}/resourceclaims/c/status"
    await cluster.api.send("PUT", where, claim)

    await cluster.create_pods(pod_manifest("second", **using("c"), **on_node("n2")))
    assert await cluster.node_of("second") == "n2"
    assert await devices.devices_of("c") == ["n2/gpu-0"]
    await devices.check()


async def test_a_tainted_device_is_given_only_to_claims_that_tolerate_it(cluster, devices):
    await devices.taint("broken", {"driver": DRIVER, "pool": "n1"}, "example.com/hot")
    await devices.taint("slow", {"driver": DRIVER, "device": "gpu-0"}, "example.com/slow")
    await cluster.start_daemon()
    slow = {"key": "example.com/slow", "operator": "Exists"}
    await devices.create_claim("plain")
    await devices.create_claim("tolerant", request(tolerations=[slow]))
    for name in ("plain", "tolerant"):
        await cluster.create_pods(pod_manifest(name, **using(name)))
        await cluster.node_of(name)
    assert await devices.devices_of("plain") == ["n2/gpu-1"]
    assert await devices.devices_of("tolerant") == ["n2/gpu-0"]

    await devices.create_claim("late")
    await cluster.create_pods(pod_manifest("late", **using("late")))
    assert "cannot allocate all claims" in await cluster.refusal_of("late")
    await cluster.api.delete("devicetaintrules", "broken")
    assert await cluster.node_of("late") == "n1"
    assert await devices.devices_of("late") == ["n1/gpu-1"]
    await devices.check()


async def test_an_extended_resource_is_served_by_the_devices_of_a_class(cluster, devices):
    await devices.create_class("by-resource", extendedResourceName=GPU)
    await cluster.start_daemon()
    wanted = {"requests": {GPU: "2"}, "limits": {GPU: "2"}}
    containers = [{"name": "c", "image": "example.com/app:1", "resources": wanted}]
    await cluster.create_pods(*(pod_manifest(f"p{n}", containers=containers) for n in range(3)))

    async def two_are_bound():
        bound = [p for p in await cluster.api.list("pods", cluster.namespace) if on(p)]
        return bound if len(bound) == 2 else None

    bound = await until(two_are_bound, "two pods have two devices each")
    assert {on(pod) for pod in bound} == {"n1", "n2"}
    for pod in bound:
        status = (await cluster.pod(pod["metadata"]["name"]))["status"]
        mapped = status["extendedResourceClaimStatus"]
        assert mapped["requestMappings"][0]["resourceName"] == GPU
        assert len(await devices.devices_of(mapped["resourceClaimName"])) == 2
    (waiting,) = {"p0", "p1", "p2"} - {pod["metadata"]["name"] for pod in bound}
    await cluster.refusal_of(waiting)
    assert len(await devices.claims()) == 2
    await devices.check()


def on(pod):
    return pod["spec"].get("nodeName")


async def test_a_pod_is_bound_when_its_device_is_ready(cluster, devices):
    await devices.publish("n1", devices=[device("slow", **PREPARED)])
    await devices.publish("n2", devices=[])
    await cluster.start_daemon()
    await devices.create_claim("c")
    await cluster.create_pods(pod_manifest("p", **using("c")))
    assert await devices.devices_of("c") == ["n1/slow"]
    (event,) = await cluster.events("p", "BindingConditionsPending")
    assert event["note"] == "waiting for binding conditions for device on node n1"
    assert on(await cluster.pod("p")) is None

    await devices.report("c", READY)
    assert await cluster.node_of("p") == "n1"
    await devices.check()


async def test_a_pod_gets_another_device_when_one_cannot_be_made_ready(cluster, devices):
    await devices.publish("n1", devices=[device("slow", **PREPARED)])
    await devices.publish("n2", devices=[])
    cluster.expected_errors.append(NOT_READY)
    await cluster.start_daemon()
    await devices.create_claim("c")
    await cluster.create_pods(pod_manifest("p", **using("c")))
    await devices.allocation("c")
    await devices.publish("n1", devices=[])
    await devices.publish("n2", devices=1)

    await devices.report("c", BROKEN)
    assert await cluster.node_of("p") == "n2"
    assert await devices.devices_of("c") == ["n2/gpu-0"]
    await devices.check()


async def test_a_pod_gets_another_device_when_one_is_not_ready_in_time(cluster, devices):
    await devices.publish("n1", devices=[device("slow", **PREPARED)])
    await devices.publish("n2", devices=[])
    cluster.expected_errors.append(NOT_READY)
    await cluster.start_daemon(cluster.config("short", SHORT))
    await devices.create_claim("c")
    await cluster.create_pods(pod_manifest("p", **using("c")))
    await devices.allocation("c")
    await devices.publish("n1", devices=[])
    await devices.publish("n2", devices=1)

    assert await cluster.node_of("p") == "n2"
    assert await devices.devices_of("c") == ["n2/gpu-0"]
    await devices.check()


async def test_an_allocation_outlives_the_daemon_that_was_killed_before_it_bound_the_pod(
    cluster, devices
):
    await devices.create_claim("c")
    async with doorkeeper(cluster.kubeconfig, "POST", "/binding") as (keeper, past_the_door):
        first = await cluster.start_daemon(f"--kubeconfig={past_the_door}")
        await cluster.create_pods(pod_manifest("p", **using("c")))
        await until(keeper.seen, "the pod is about to be bound")
        await first.kill()
    taken = await devices.devices_of("c")
    assert on(await cluster.pod("p")) is None

    await cluster.start_daemon()
    assert await cluster.node_of("p") == taken[0].partition("/")[0]
    assert await devices.devices_of("c") == taken
    others = [f"other{n}" for n in range(3)]
    for name in others:
        await devices.create_claim(name)
        await cluster.create_pods(pod_manifest(name, **using(name)))
    await cluster.nodes_of(*others)
    await devices.check()


async def test_a_special_claim_does_not_outlive_the_daemon_that_was_killed(cluster, devices):
    """The next one makes another, which gets devices although the first had all there are."""
    await devices.create_class("by-resource", extendedResourceName=GPU)
    await devices.publish("n2", devices=[])
    wanted = {"requests": {GPU: "2"}, "limits": {GPU: "2"}}
    containers = [{"name": "c", "image": "example.com/app:1", "resources": wanted}]
    async with doorkeeper(cluster.kubeconfig, "POST", "/binding") as (keeper, past_the_door):
        first = await cluster.start_daemon(f"--kubeconfig={past_the_door}")
        await cluster.create_pods(pod_manifest("p", containers=containers))
        await until(keeper.seen, "the pod is about to be bound")
        await first.kill()
    assert len(await devices.claims()) == 1

    await cluster.start_daemon()
    await cluster.node_of("p")
    assert len(await devices.claims()) == 1
    await devices.check()


PODS = 60
NODES = 6
ROUNDS = 40


async def test_a_driver_that_changes_its_slices_under_load_gets_no_device_used_twice(
    cluster, devices
):
    """Slices get newer generations, other devices and other names while pods come and go."""
    chance = random.Random(7)
    nodes = [f"n{n}" for n in range(3, 3 + NODES)]
    await cluster.create_nodes(*map(node_manifest, nodes))
    for node in nodes:
        await devices.publish(node, devices=4)
    cluster.expected_errors.append(GONE)
    await cluster.start_daemon()

    async def come_and_go():
        for number in range(PODS):
            name = f"p{number:02d}"
            await devices.create_claim(name, request(count=chance.randint(1, 3)))
            await cluster.create_pods(pod_manifest(name, **using(name)))
            if number % 3 == 2:
                gone = f"p{number - 2:02d}"
                await cluster.delete_pod(gone)
                await devices.release(gone, gone)

    async def republish():
        for generation in range(2, 2 + ROUNDS):
            there = [device(f"gpu-{n}") for n in range(5) if chance.random() < 0.8]
            node = chance.choice(nodes)
            await devices.publish(node, devices=there, generation=generation)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(come_and_go())
        tasks.create_task(republish())
    for node in nodes:
        await devices.publish(node, devices=5, generation=100)
    await until(lambda: all_are_decided(cluster), "every pod is bound or refused")
    await devices.check()
    pods = await cluster.api.list("pods", cluster.namespace)
    assert sum(on(pod) is not None for pod in pods) >= NODES


async def all_are_decided(cluster):
    pods = await cluster.api.list("pods", cluster.namespace)
    return all(on(pod) or scheduled_condition(pod).get("status") == "False" for pod in pods)
