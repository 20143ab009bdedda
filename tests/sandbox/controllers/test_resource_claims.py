"""Templates become claims, and claims are released when the last pod that uses them is done."""

import asyncio

import pytest

from kscheduler.sandbox.controllers.resource_claims import (
    POD_CLAIM_NAME,
    ResourceClaimController,
    generated_base,
)
from tests.kit.devices import (
    FINALIZER,
    allocation,
    claim_manifest,
    consumer,
    request,
    template_manifest,
)
from tests.kit.manifests import pod_manifest
from tests.kit.polling import until

CLAIMS = "resourceclaims.resource.k8s.io"


@pytest.fixture
async def cluster(server):
    """The objects, with a controller of their claims."""
    task = asyncio.create_task(ResourceClaimController(server.registry).run())
    yield server.objects
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()


def pod_with(name="p", template="t", claim="", **spec):
    source = {"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": template}
    return pod_manifest(name, resourceClaims=[{"name": "gpu", **source}], **spec)


async def generated(objects, pod="p"):
    """The claim that was made for a pod, when the pod says so."""

    def told():
        return objects.get("pods", pod)["status"].get("resourceClaimStatuses")

    await until(told)
    (status,) = told()
    assert status["name"] == "gpu"
    return objects.get(CLAIMS, status["resourceClaimName"])


def allocate(objects, name, *pods, node="n"):
    """What a scheduler writes: the finalizer first, then the status."""

    def protect(item):
        item["metadata"]["finalizers"] = [FINALIZER]

    def reserve(item):
        reserved = [consumer(objects.get("pods", pod)) for pod in pods]
        item["status"] = {"allocation": allocation(node), "reservedFor": reserved}

    objects.update(CLAIMS, name, protect)
    return objects.update(CLAIMS, name, reserve, subresource="status")


def finish(objects, pod, phase="Succeeded"):
    objects.update(
        "pods", pod, lambda item: item["status"].update(phase=phase), subresource="status"
    )


def is_free(objects, name):
    claim = objects.get(CLAIMS, name)
    return claim["status"] == {} and "finalizers" not in claim["metadata"]


class TestTemplates:
    async def test_a_pod_gets_a_claim_of_its_own(self, cluster):
        labelled = template_manifest("t", labels={"a": "b"}, annotations={"c": "d"})
        cluster.create(labelled)
        pod = cluster.create(pod_with())
        claim = await generated(cluster)
        about = claim["metadata"]
        assert about["name"].startswith("p-gpu-")
        assert about["labels"] == {"a": "b"}
        assert about["annotations"] == {"c": "d", POD_CLAIM_NAME: "gpu"}
        assert about["ownerReferences"] == [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": "p",
                "uid": pod["metadata"]["uid"],
                "controller": True,
            }
        ]
        (asked,) = claim["spec"]["devices"]["requests"]
        assert asked["name"] == "r"

    async def test_a_template_may_come_after_its_pods(self, cluster):
        cluster.create(pod_with())
        await until(lambda: cluster.count("events"))
        (event,) = cluster.list("events")
        assert (event["reason"], event["message"]) == (
            "FailedResourceClaimCreation",
            'PodResourceClaim gpu: resource claim template "t": '
            'resourceclaimtemplate.resource.k8s.io "t" not found',
        )
        cluster.create(template_manifest("t"))
        await generated(cluster)
        assert cluster.count("events") == 1

    async def test_a_claim_that_cannot_be_made_leaves_its_pod_waiting(self, cluster):

        def label(value):
            admin = {"resource.kubernetes.io/admin-access": value}
            cluster.update(
                "namespaces", "default", lambda item: item["metadata"].update(labels=admin)
            )

        label("true")
        cluster.create(template_manifest("t", request(adminAccess=True)))
        label("false")
        cluster.create(pod_with())
        await until(lambda: cluster.count("events"))
        assert "admin access to devices requires" in cluster.list("events")[0]["message"]
        assert cluster.count(CLAIMS) == 0

    async def test_a_claim_made_before_is_used_again(self, server):
        """The controller may have ended between its two writes."""
        objects = server.objects
        objects.create(template_manifest("t"))
        pod = objects.create(pod_with())
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "controller": True}
        orphan = claim_manifest("p-gpu-before")
        orphan["metadata"] |= {
            "annotations": {POD_CLAIM_NAME: "gpu"},
            "ownerReferences": [{**owner, "uid": pod["metadata"]["uid"]}],
        }
        objects.create(orphan)
        task = asyncio.create_task(ResourceClaimController(server.registry).run())
        claim = await generated(objects)
        task.cancel()
        assert claim["metadata"]["name"] == "p-gpu-before"
        assert objects.count(CLAIMS) == 1

    async def test_a_claim_that_was_deleted_is_made_anew(self, cluster):
        cluster.create(template_manifest("t"))
        cluster.create(pod_with())
        first = (await generated(cluster))["metadata"]["name"]
        cluster.delete(CLAIMS, first)

        def renamed():
            (status,) = cluster.get("pods", "p")["status"]["resourceClaimStatuses"]
            return status["resourceClaimName"] != first

        await until(renamed)
        await generated(cluster)

    @pytest.mark.parametrize(
        ("pod", "claim", "want"),
        [
            pytest.param("web-0", "gpu", "web-0-gpu-", id="short"),
            pytest.param("p" * 52, "abc", "p" * 52 + "-abc-", id="just short enough"),
            pytest.param("p" * 100, "c" * 14, "p" * 49 + "-" + "c" * 6, id="cut in proportion"),
        ],
    )
    def test_names_begin_with_the_pods(self, pod, claim, want):
        assert generated_base(pod, claim) == want


class TestRelease:
    @pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
    async def test_a_claim_goes_with_the_last_run_of_its_pod(self, cluster, phase):
        cluster.create(template_manifest("t"))
        cluster.create(pod_with(nodeName="n"))
        name = (await generated(cluster))["metadata"]["name"]
        allocate(cluster, name, "p")
        finish(cluster, "p", phase)
        await until(lambda: cluster.find(CLAIMS, name) is None)

    async def test_a_claim_goes_with_its_pod(self, cluster):
        cluster.create(template_manifest("t"))
        cluster.create(pod_with())
        name = (await generated(cluster))["metadata"]["name"]
        allocate(cluster, name, "p")
        cluster.delete("pods", "p", grace_period_seconds=0)
        await until(lambda: cluster.find(CLAIMS, name) is None)

    async def test_a_claim_of_an_extended_resource_goes_with_its_pod(self, cluster):
        """The pod's spec does not mention it; only its owner says whose it is."""
        pod = cluster.create(pod_manifest("p"))
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "controller": True}
        special = claim_manifest("special")
        special["metadata"]["ownerReferences"] = [{**owner, "uid": pod["metadata"]["uid"]}]
        cluster.create(special)
        await asyncio.sleep(0)
        cluster.delete("pods", "p")
        await until(lambda: cluster.find(CLAIMS, "special") is None)

    async def test_a_shared_claim_is_free_after_its_last_pod(self, cluster):
        cluster.create(claim_manifest("shared"))
        pods = [cluster.create(pod_with(name, claim="shared")) for name in ("a", "b")]
        allocate(cluster, "shared", "a", "b")
        cluster.delete("pods", "a")

        def consumers():
            return cluster.get(CLAIMS, "shared")["status"].get("reservedFor")

        await until(lambda: consumers() == [consumer(pods[1])])
        assert "allocation" in cluster.get(CLAIMS, "shared")["status"]
        cluster.delete("pods", "b")
        await until(lambda: is_free(cluster, "shared"))

    async def test_an_allocated_claim_that_nobody_uses_stays_allocated(self, cluster):
        cluster.create(claim_manifest("idle"))
        cluster.create(claim_manifest("used"))
        cluster.create(pod_with("p", claim="used"))
        allocate(cluster, "idle")
        allocate(cluster, "used", "p")
        cluster.delete("pods", "p")
        await until(lambda: is_free(cluster, "used"))
        assert "allocation" in cluster.get(CLAIMS, "idle")["status"]

    async def test_a_deleted_claim_waits_for_its_pods(self, cluster):
        cluster.create(claim_manifest("c"))
        cluster.create(pod_with("p", claim="c"))
        allocate(cluster, "c", "p")
        cluster.delete(CLAIMS, "c")
        await asyncio.sleep(0)
        assert "deletionTimestamp" in cluster.get(CLAIMS, "c")["metadata"]
        cluster.delete("pods", "p")
        await until(lambda: cluster.find(CLAIMS, "c") is None)

    async def test_a_deleted_claim_that_nobody_uses_goes_at_once(self, cluster):
        cluster.create(claim_manifest("c"))
        allocate(cluster, "c")
        cluster.delete(CLAIMS, "c")
        await until(lambda: cluster.find(CLAIMS, "c") is None)

    async def test_consumers_of_other_kinds_are_left_alone(self, cluster):
        cluster.create(claim_manifest("c"))
        cluster.create(pod_with("p", claim="c"))
        allocate(cluster, "c", "p")
        other = {"apiGroup": "example.com", "resource": "jobs", "name": "p", "uid": "j"}
        cluster.update(
            CLAIMS,
            "c",
            lambda item: item["status"]["reservedFor"].append(other),
            subresource="status",
        )
        cluster.delete("pods", "p")
        await until(lambda: cluster.get(CLAIMS, "c")["status"].get("reservedFor") == [other])

    async def test_a_pod_of_the_same_name_is_another_pod(self, cluster):
        cluster.create(claim_manifest("c"))
        cluster.create(pod_with("p", claim="c"))
        allocate(cluster, "c", "p")
        cluster.delete("pods", "p")
        cluster.create(pod_with("p", claim="c"))
        await until(lambda: is_free(cluster, "c"))

    async def test_an_allocated_claim_is_reserved_for_a_pod_that_came_to_its_node_otherwise(
        self, cluster
    ):
        cluster.create(claim_manifest("c"))
        allocate(cluster, "c")
        pod = cluster.create(pod_with("p", claim="c", nodeName="n"))
        reserved = [consumer(pod)]
        await until(lambda: cluster.get(CLAIMS, "c")["status"].get("reservedFor") == reserved)
