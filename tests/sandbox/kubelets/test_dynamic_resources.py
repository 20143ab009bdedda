"""Kubelets start a pod with claims when the claims are there for it, and not before."""

import asyncio

import pytest

from kscheduler.sandbox import Kubelets
from tests.kit.devices import allocation, claim_manifest, consumer
from tests.kit.manifests import pod_manifest
from tests.kit.polling import until

CLAIMS = "resourceclaims.resource.k8s.io"


@pytest.fixture
async def node(server):
    """A node with a kubelet that looks again at once."""
    kubelets = Kubelets(server.registry, start_seconds=0, prepare_seconds=0.01)
    task = asyncio.create_task(kubelets.run())
    (name,) = kubelets.add_nodes(1)
    yield name
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()


def reserve(objects, claim, *pods, node="n"):
    reserved = [consumer(objects.get("pods", pod)) for pod in pods]
    status = {"allocation": allocation(node), "reservedFor": reserved}
    objects.update(CLAIMS, claim, lambda item: item.update(status=status), subresource="status")


def phase(objects, name="p"):
    return objects.get("pods", name)["status"]["phase"]


async def complaint(objects):
    """What kubelets have to say about pods, when they have said something."""
    await until(lambda: objects.count("events"))
    (event,) = objects.list("events")
    assert event["reason"] == "FailedPrepareDynamicResources"
    return event["message"].removeprefix("Failed to prepare dynamic resources: ")


async def test_a_pod_without_its_claim_waits_until_it_is_reserved(objects, node):
    claim = objects.create(claim_manifest("c"))
    pod = objects.create(
        pod_manifest("p", resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}])
    )
    objects.bind("p", node)
    assert await complaint(objects) == (
        f"prepare dynamic resources: pod p ({pod['metadata']['uid']}) is not allowed to use "
        f"ResourceClaim c ({claim['metadata']['uid']})"
    )
    assert phase(objects) == "Pending"
    reserve(objects, "c", "p", node=node)
    await until(lambda: phase(objects) == "Running")
    assert objects.count("events") == 1


async def test_a_reservation_for_another_pod_does_not_count(objects, node):
    objects.create(claim_manifest("c"))
    for name in ("p", "other"):
        claims = [{"name": "gpu", "resourceClaimName": "c"}]
        objects.create(pod_manifest(name, resourceClaims=claims))
    reserve(objects, "c", "other", node=node)
    objects.bind("p", node)
    assert "is not allowed to use ResourceClaim c" in await complaint(objects)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        pytest.param(
            {"resourceClaimName": "none"},
            'fetch ResourceClaim none: resourceclaims.resource.k8s.io "none" not found',
            id="a claim that is not there",
        ),
        pytest.param(
            {"resourceClaimTemplateName": "t"},
            'pod "default/p": ResourceClaim not created yet',
            id="a template without a claim",
        ),
    ],
)
async def test_a_pod_whose_claim_is_missing_waits(objects, node, source, why):
    objects.create(pod_manifest("p", resourceClaims=[{"name": "gpu", **source}]))
    objects.bind("p", node)
    assert await complaint(objects) == f"prepare dynamic resources: {why}"


async def test_the_claim_behind_an_extended_resource_counts_too(objects, node):
    resource = "example.com/gpu"
    resources = {"requests": {resource: "1"}, "limits": {resource: "1"}}
    container = {"name": "c", "image": "i", "resources": resources}
    objects.create(pod_manifest("p", containers=[container]))
    objects.create(claim_manifest("c"))
    mapping = {"containerName": "c", "resourceName": resource, "requestName": "r"}
    status = {"resourceClaimName": "c", "requestMappings": [mapping]}
    objects.update(
        "pods",
        "p",
        lambda item: item["status"].update(extendedResourceClaimStatus=status),
        subresource="status",
    )
    objects.bind("p", node)
    await complaint(objects)
    reserve(objects, "c", "p", node=node)
    await until(lambda: phase(objects) == "Running")
