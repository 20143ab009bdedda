"""Claims get volumes, ephemeral volumes get claims, and nodes get what their pods use."""

import asyncio

import pytest

from kscheduler.sandbox.controllers.volumes import VolumeControllers, default_storage_class
from tests.kit.manifests import pod_manifest
from tests.kit.polling import until
from tests.sandbox.rest import new_node

BOUND = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
SELECTED_NODE = "volume.kubernetes.io/selected-node"
DRIVER = "csi.example.com"


def volume(name="pv", size="10Gi", *, of="", labels=None, **spec):
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": of,
            "csi": {"driver": DRIVER, "volumeHandle": name},
            **spec,
        },
    }


def claim(name="c", size="5Gi", *, of="", annotations=None, **spec):
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            "storageClassName": of,
            **spec,
        },
    }


def storage_class(name="now", provisioner=DRIVER, mode="Immediate", **fields):
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
        **fields,
    }


WAIT = storage_class("wait", mode="WaitForFirstConsumer")


def using(*claims, name="p", **spec):
    volumes = [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims]
    return pod_manifest(name, volumes=volumes, **spec)


@pytest.fixture
async def cluster(server):
    """The objects, with somebody who deals with volumes."""
    task = asyncio.create_task(VolumeControllers(server.registry).run())
    yield server.objects
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()


async def settled(objects, name="c"):
    """The claim, when all that was asked for has been done."""
    objects.create(volume("for-last", claimRef={"namespace": "default", "name": "last"}))
    objects.create(claim("last"))
    await until(lambda: phase(objects, "last") == "Bound")
    objects.delete("persistentvolumeclaims", "last")
    await until(lambda: objects.get("persistentvolumes", "for-last")["status"]["phase"] != "Bound")
    objects.delete("persistentvolumes", "for-last")
    return objects.get("persistentvolumeclaims", name)


def phase(objects, name):
    found = objects.find("persistentvolumeclaims", name)
    return found and found["status"]["phase"]


async def bound(objects, name="c"):
    await until(lambda: phase(objects, name) == "Bound")
    return objects.get("persistentvolumeclaims", name)


class TestBinding:
    async def test_both_sides_say_so(self, cluster):
        cluster.create(volume())
        cluster.create(claim())
        found = await bound(cluster)
        assert found["spec"]["volumeName"] == "pv"
        assert found["metadata"]["annotations"] == BOUND
        assert found["status"] == {
            "phase": "Bound",
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "10Gi"},
        }
        there = cluster.get("persistentvolumes", "pv")
        assert there["status"]["phase"] == "Bound"
        assert there["spec"]["claimRef"]["uid"] == found["metadata"]["uid"]

    @pytest.mark.parametrize(
        ("offered", "wanted", "want"),
        [
            pytest.param([volume("a", "8Gi"), volume("b", "6Gi")], {}, "b", id="the smallest"),
            pytest.param([volume("a", "1Gi")], {}, None, id="too small"),
            pytest.param([volume("a", of="x")], {}, None, id="of another class"),
            pytest.param([volume("a", volumeMode="Block")], {}, None, id="of another mode"),
            pytest.param(
                [volume("a")], {"accessModes": ["ReadWriteMany"]}, None, id="for fewer users"
            ),
            pytest.param(
                [volume("a"), volume("b", labels={"fast": "yes"})],
                {"selector": {"matchLabels": {"fast": "yes"}}},
                "b",
                id="by its labels",
            ),
            pytest.param(
                [volume("a", claimRef={"namespace": "default", "name": "x"})],
                {},
                None,
                id="kept for another claim",
            ),
            pytest.param(
                [volume("a", "6Gi"), volume("b", claimRef={"namespace": "default", "name": "c"})],
                {},
                "b",
                id="kept for this one",
            ),
            pytest.param([volume("a"), volume("b", "6Gi")], {"volumeName": "a"}, "a", id="named"),
            pytest.param([volume("a")], {"volumeName": "b"}, None, id="named, not there yet"),
        ],
    )
    async def test_which_volume(self, cluster, offered, wanted, want):
        cluster.create(claim(**wanted))
        for one in offered:
            cluster.create(one)
        if want is None:
            assert (await settled(cluster))["status"]["phase"] == "Pending"
        else:
            assert (await bound(cluster))["spec"]["volumeName"] == want

    async def test_what_was_there_before(self, server):
        server.objects.create(volume())
        server.objects.create(claim())
        task = asyncio.create_task(VolumeControllers(server.registry).run())
        await bound(server.objects)
        task.cancel()
        await asyncio.wait({task})

    async def test_a_claim_that_waits_gets_what_a_scheduler_chose(self, cluster):
        cluster.create(
            storage_class("wait", "kubernetes.io/no-provisioner", "WaitForFirstConsumer")
        )
        cluster.create(volume("a", "6Gi", of="wait"))
        cluster.create(volume("b", of="wait"))
        cluster.create(claim(of="wait"))
        waiting = await settled(cluster)
        assert waiting["status"]["phase"] == "Pending"
        assert cluster.get("persistentvolumes", "b")["status"]["phase"] == "Available"
        uid = waiting["metadata"]["uid"]
        reference = {"namespace": "default", "name": "c", "uid": uid}
        cluster.update("persistentvolumes", "b", lambda pv: pv["spec"].update(claimRef=reference))
        assert (await bound(cluster))["spec"]["volumeName"] == "b"

    async def test_a_volume_outlives_its_claim(self, cluster):
        cluster.create(volume())
        cluster.create(claim())
        await bound(cluster)
        cluster.delete("persistentvolumeclaims", "c")
        await until(lambda: cluster.get("persistentvolumes", "pv")["status"]["phase"] == "Released")

    async def test_a_claim_whose_volume_is_gone_is_lost(self, cluster):
        cluster.create(volume())
        cluster.create(claim())
        await bound(cluster)
        cluster.delete("persistentvolumes", "pv")
        await until(lambda: phase(cluster, "c") == "Lost")


class TestProvisioning:
    async def test_at_once(self, cluster):
        cluster.create(claim(of="now", volumeMode="Block"))
        cluster.create(storage_class())
        found = await bound(cluster)
        made = cluster.get("persistentvolumes", f"pvc-{found['metadata']['uid']}")
        assert made["spec"]["csi"]["driver"] == DRIVER
        assert made["spec"]["volumeMode"] == "Block"
        assert made["spec"]["capacity"] == {"storage": "5Gi"}
        assert "nodeAffinity" not in made["spec"]
        cluster.delete("persistentvolumeclaims", "c")
        await until(lambda: not cluster.list("persistentvolumes"))

    async def test_where_a_node_was_selected(self, cluster):
        cluster.create(new_node("n", labels={"zone": "a", "rack": "r"}))
        driver = {"name": DRIVER, "nodeID": "n", "topologyKeys": ["zone"]}
        cluster.create(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSINode",
                "metadata": {"name": "n"},
                "spec": {"drivers": [driver]},
            }
        )
        cluster.create(WAIT)
        cluster.create(claim(of="wait"))
        assert (await settled(cluster))["status"]["phase"] == "Pending"
        cluster.update(
            "persistentvolumeclaims",
            "c",
            lambda item: item["metadata"].update(annotations={SELECTED_NODE: "n"}),
        )
        made = cluster.get("persistentvolumes", (await bound(cluster))["spec"]["volumeName"])
        [term] = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term["matchExpressions"] == [{"key": "zone", "operator": "In", "values": ["a"]}]

    async def test_where_the_class_allows_it(self, cluster):
        allowed = [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}]
        cluster.create(storage_class(allowedTopologies=allowed))
        cluster.create(claim(of="now"))
        made = cluster.get("persistentvolumes", (await bound(cluster))["spec"]["volumeName"])
        [term] = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term["matchExpressions"] == [{"key": "zone", "operator": "In", "values": ["a", "b"]}]

    async def test_nobody_makes_volumes_of_a_class_without_a_provisioner(self, cluster):
        cluster.create(storage_class(provisioner="kubernetes.io/no-provisioner"))
        cluster.create(claim(of="now"))
        assert (await settled(cluster))["status"]["phase"] == "Pending"

    async def test_the_default_class(self, cluster):
        cluster.create(default_storage_class())
        nameless = claim(annotations={SELECTED_NODE: "n"})
        del nameless["spec"]["storageClassName"]
        cluster.create(nameless)
        assert (await bound(cluster))["spec"]["storageClassName"] == "standard"


class TestEphemeral:
    def pod(self):
        template = {"metadata": {"labels": {"a": "b"}}, "spec": claim(of="now")["spec"]}
        source = {"volumeClaimTemplate": template}
        return pod_manifest("p", volumes=[{"name": "v", "ephemeral": source}])

    async def test_claims_come_and_go_with_the_pod(self, cluster):
        cluster.create(storage_class())
        owner = cluster.create(self.pod())
        found = await bound(cluster, "p-v")
        assert found["metadata"]["labels"] == {"a": "b"}
        [reference] = found["metadata"]["ownerReferences"]
        assert (reference["uid"], reference["controller"]) == (owner["metadata"]["uid"], True)
        cluster.delete("pods", "p", grace_period_seconds=0)
        await until(lambda: not cluster.list("persistentvolumeclaims"))
        await until(lambda: not cluster.list("persistentvolumes"))

    async def test_somebody_else_s_claim_stays(self, cluster):
        cluster.create(claim("p-v"))
        cluster.create(self.pod())
        found = await settled(cluster, "p-v")
        assert "ownerReferences" not in found["metadata"]
        cluster.delete("pods", "p", grace_period_seconds=0)
        assert (await settled(cluster, "p-v"))["metadata"]["uid"] == found["metadata"]["uid"]


class TestAttachments:
    def attached(self, cluster):
        return {
            (one["spec"]["nodeName"], one["spec"]["source"]["persistentVolumeName"])
            for one in cluster.list("volumeattachments.storage.k8s.io")
            if one["status"]["attached"] and one["spec"]["attacher"] == DRIVER
        }

    async def test_for_the_pods_on_a_node(self, cluster):
        cluster.create(volume())
        cluster.create(claim())
        cluster.create(using("c"))
        await bound(cluster)
        assert self.attached(cluster) == set()
        cluster.bind("p", "n")
        await until(lambda: self.attached(cluster) == {("n", "pv")})
        cluster.create(using("c", name="q", nodeName="n"))
        cluster.delete("pods", "p", grace_period_seconds=0)
        await settled(cluster)
        assert self.attached(cluster) == {("n", "pv")}
        cluster.delete("pods", "q", grace_period_seconds=0)
        await until(lambda: self.attached(cluster) == set())

    async def test_when_the_claim_is_bound_after_the_pod(self, cluster):
        cluster.create(claim())
        cluster.create(using("c", nodeName="n"))
        cluster.create(volume())
        await until(lambda: self.attached(cluster) == {("n", "pv")})

    async def test_not_for_pods_that_have_ended(self, cluster):
        cluster.create(volume())
        cluster.create(claim())
        cluster.create(using("c", nodeName="n"))
        await until(lambda: self.attached(cluster) == {("n", "pv")})
        cluster.update(
            "pods", "p", lambda pod: pod["status"].update(phase="Failed"), subresource="status"
        )
        await until(lambda: self.attached(cluster) == set())

    async def test_not_by_drivers_that_have_nothing_to_attach(self, cluster):
        cluster.create(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSIDriver",
                "metadata": {"name": DRIVER},
                "spec": {"attachRequired": False},
            }
        )
        cluster.create(volume())
        cluster.create(claim())
        cluster.create(using("c", nodeName="n"))
        await settled(cluster)
        assert self.attached(cluster) == set()
