"""Volumes and devices of pods that are only imagined: as controllers and drivers would do it."""

import json

from kscheduler.api.core import PersistentVolume, PersistentVolumeClaim
from kscheduler.api.decode import decoder_for
from kscheduler.api.resource import (
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from kscheduler.api.storage import CSINode, StorageClass
from tests.kit import devices
from tests.kit.devices import allocation, class_manifest, request, slice_manifest, using
from tests.kit.manifests import ZONE, pod_manifest
from tests.kit.objects import make_node, make_pod
from tests.what_if.conftest import nodes_of

KINDS = (
    DeviceClass,
    ResourceSlice,
    ResourceClaim,
    ResourceClaimTemplate,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    CSINode,
)
DECODERS = {kind.__name__: decoder_for(kind) for kind in KINDS}
NAMESPACED = ("ResourceClaim", "ResourceClaimTemplate", "PersistentVolumeClaim")


# With the defaults that an API server fills in.
ONE_DEVICE = request(allocationMode="ExactCount", count=1)


def claim_manifest(name):
    return devices.claim_manifest(name, ONE_DEVICE)


def objects(*manifests):
    """Structs, as an API server would have them."""
    found = []
    for number, manifest in enumerate(manifests):
        kind, metadata = manifest["kind"], manifest["metadata"]
        where = {"namespace": "default"} if kind in NAMESPACED else {}
        metadata = {**where, "uid": f"uid-{number}", "resourceVersion": "7", **metadata}
        found.append(DECODERS[kind](json.dumps({**manifest, "metadata": metadata}).encode()))
    return found


def from_template(name, template):
    return {"resourceClaims": [{"name": name, "resourceClaimTemplateName": template}]}


def nodes(*names, **fields):
    return [make_node(name, labels={"kubernetes.io/hostname": name}, **fields) for name in names]


class TestDevices:
    async def test_pods_that_share_a_claim_share_its_node(self, world):
        """The second finds it allocated, as in the cluster, and not in the process of being so."""
        cluster = world(
            nodes("a", "b"),
            objects=objects(class_manifest(), slice_manifest("b"), claim_manifest("shared")),
        )
        status = await cluster.review(pod_manifest(**using("shared")), replicas=3)
        assert nodes_of(status) == ["b", "b", "b"]

    async def test_a_pod_with_a_claim_of_a_running_pod_joins_it(self, world):
        held = claim_manifest("held")
        user = {"resource": "pods", "name": "there", "uid": "uid-of-there"}
        held["status"] = {"allocation": allocation("b"), "reservedFor": [user]}
        cluster = world(
            nodes("a", "b"),
            objects=objects(class_manifest(), slice_manifest("b"), held),
        )
        status = await cluster.review(pod_manifest(**using("held")))
        assert nodes_of(status) == ["b"]

    async def test_each_replica_gets_a_claim_of_its_own_from_a_template(self, world):
        cluster = world(
            nodes("a", "b"),
            objects=objects(
                class_manifest(),
                slice_manifest("a", devices=2),
                slice_manifest("b", devices=1),
                devices.template_manifest("one-gpu", ONE_DEVICE),
            ),
        )
        pod = pod_manifest("p", **from_template("gpu", "one-gpu"))
        status = await cluster.review(pod, replicas=4)
        assert sorted(nodes_of(status)) == ["", "a", "a", "b"]
        refused = next(one for one in status.placements if not one.node)
        assert refused.message == "0/2 nodes are available: 2 cannot allocate all claims."

    async def test_a_template_that_is_missing_is_told(self, world):
        cluster = world(nodes("a"), objects=objects(class_manifest()))
        status = await cluster.review(pod_manifest("p", **from_template("gpu", "none")))
        assert not status.fits
        assert "ResourceClaim not created yet" in status.message
        assert status.message.endswith(
            'There is no resource claim template "default/none": pods wait for it.'
        )

    async def test_a_drained_pod_gets_devices_elsewhere(self, world):
        held = claim_manifest("p-gpu-1")
        pod = make_pod(
            "p",
            node="a",
            owner={"kind": "ReplicaSet"},
            status={"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu-1"}]},
            **from_template("gpu", "one-gpu"),
        )
        user = {"resource": "pods", "name": "p", "uid": pod.uid}
        held["metadata"]["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod.uid, "controller": True}
        ]
        held["status"] = {"allocation": allocation("a"), "reservedFor": [user]}
        cluster = world(
            nodes("a", "b"),
            [pod],
            objects(class_manifest(), slice_manifest("a"), slice_manifest("b"), held),
        )
        status = await cluster.review(drain_nodes=("a",))
        assert nodes_of(status) == ["b"]

    async def test_devices_of_an_evicted_pod_are_free(self, world):
        """A pod that came before, and found no device, gets the one that was given up."""
        held = claim_manifest("c")
        low = make_pod("low", node="a", priority=-1, requests={"cpu": "4"}, **using("c"))
        held["status"] = {
            "allocation": allocation("a"),
            "reservedFor": [{"resource": "pods", "name": "low", "uid": low.uid}],
        }
        cluster = world(
            nodes("a"),
            [low],
            objects(class_manifest(), slice_manifest("a"), held, claim_manifest("mine")),
        )
        status = await cluster.review(
            pod_manifest("waits", **using("mine")),
            pod_manifest("high", cpu="4", priority=10),
            allow_preemption=True,
        )
        assert nodes_of(status)[:2] == ["a", "a"]

    async def test_nodes_that_are_added_like_another_have_its_devices_all_free(self, world):
        held = claim_manifest("held")
        held["status"] = {"allocation": allocation("a")}
        cluster = world(
            nodes("a"),
            objects=objects(
                class_manifest(),
                slice_manifest("a"),
                held,
                devices.template_manifest("one-gpu", ONE_DEVICE),
            ),
        )
        pod = pod_manifest("p", **from_template("gpu", "one-gpu"))
        status = await cluster.review(pod, replicas=3, add_nodes=[{"like": "a", "count": 2}])
        assert sorted(nodes_of(status)) == ["", "a-new-0", "a-new-1"]

    async def test_extended_resources_served_by_devices_are_counted(self, world):
        gpu = class_manifest(extendedResourceName="example.com/gpu")
        cluster = world(nodes("a"), objects=objects(gpu, slice_manifest("a", devices=2)))
        container = {"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}
        status = await cluster.review(pod_manifest(containers=[container]), replicas=3)
        assert nodes_of(status) == ["a", "a", ""]
        # The pod has no claims of its own to do without.
        assert [one.change for one in status.remedies] == ["without its extended resources"]
        assert status.summary == (
            "2 of 3 fit; the other does not: 1 node lacks devices it asks for."
        )


def storage_class(name="fast", provisioner="csi.example.com", mode="WaitForFirstConsumer", **more):
    return {
        "kind": "StorageClass",
        "metadata": {"name": name, **more},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }


def claim_spec(of_class="fast", size="1Gi"):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {**spec, "storageClassName": of_class} if of_class else spec


def volume_claim(name, **fields):
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": claim_spec(**fields),
        "status": {"phase": "Pending"},
    }


def local_volume(name, node, size="1Gi"):
    hostname = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": size},
            "storageClassName": "local",
            "volumeMode": "Filesystem",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [hostname]}]}},
        },
        "status": {"phase": "Available"},
    }


def csi_node(name, *keys):
    driver = {"name": "csi.example.com", "nodeID": name, "topologyKeys": list(keys)}
    return {"kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": [driver]}}


def mounting(claim):
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}


def ephemeral(**fields):
    template = {"spec": claim_spec(**fields)}
    return {"volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": template}}]}


class TestVolumes:
    async def test_pods_that_share_a_provisioned_volume_share_its_zone(self, world):
        zones = {"a": "z1", "b": "z2", "c": "z1"}
        cluster = world(
            [
                make_node(name, labels={ZONE: zone, "kubernetes.io/hostname": name})
                for name, zone in zones.items()
            ],
            objects=objects(
                storage_class(), volume_claim("data"), *(csi_node(name, ZONE) for name in zones)
            ),
        )
        only = {"kubernetes.io/hostname": "a"}
        apart = [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}]
        anti = {"requiredDuringSchedulingIgnoredDuringExecution": apart}
        status = await cluster.review(
            pod_manifest("first", nodeSelector=only, **mounting("data")),
            pod_manifest("second", pod_anti_affinity=anti, **mounting("data")),
        )
        assert nodes_of(status) == ["a", "c"]

    async def test_local_volumes_are_taken_one_by_one(self, world):
        cluster = world(
            nodes("a", "b"),
            objects=objects(
                storage_class("local", "kubernetes.io/no-provisioner"),
                local_volume("on-a", "a"),
                local_volume("on-b", "b", size="2Gi"),
                *(volume_claim(f"c{n}", of_class="local") for n in range(3)),
            ),
        )
        pods = [pod_manifest(f"p{n}", **mounting(f"c{n}")) for n in range(3)]
        status = await cluster.review(*pods, pod_manifest("again", **mounting("c0")))
        first, second, third, again = nodes_of(status)
        assert {first, second} == {"a", "b"}
        assert (third, again) == ("", first)

    async def test_claims_of_ephemeral_volumes_are_made(self, world):
        cluster = world(
            nodes("a", "b"),
            objects=objects(
                storage_class("local", "kubernetes.io/no-provisioner"),
                local_volume("on-a", "a"),
                local_volume("on-b", "b"),
            ),
        )
        status = await cluster.review(pod_manifest("p", **ephemeral(of_class="local")), replicas=3)
        assert sorted(nodes_of(status)) == ["", "a", "b"]

    async def test_the_default_class_is_filled_in(self, world):
        default = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
        cluster = world(nodes("a"), objects=objects(storage_class(**default)))
        status = await cluster.review(pod_manifest("p", **ephemeral(of_class=None)))
        assert status.fits

    async def test_a_drained_pod_gets_another_ephemeral_volume(self, world):
        pod = make_pod("p", node="a", owner={"kind": "ReplicaSet"}, **ephemeral(of_class="local"))
        bound = volume_claim("p-data", of_class="local")
        bound["metadata"] |= {
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod.uid, "controller": True}
            ],
            "uid": "claim",
        }
        bound["spec"]["volumeName"] = "on-a"
        taken = local_volume("on-a", "a")
        taken["spec"]["claimRef"] = {"namespace": "default", "name": "p-data", "uid": "claim"}
        taken["status"]["phase"] = "Bound"
        cluster = world(
            nodes("a", "b"),
            [pod],
            objects(
                storage_class("local", "kubernetes.io/no-provisioner"),
                bound,
                taken,
                local_volume("on-b", "b"),
            ),
        )
        status = await cluster.review(drain_nodes=("a",))
        assert nodes_of(status) == ["b"]
