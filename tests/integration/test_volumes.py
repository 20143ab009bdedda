"""Pods with claims, from end to end in one process: a scheduler, and somebody who makes volumes."""

import asyncio
from contextlib import asynccontextmanager

from kscheduler.sandbox import VolumeControllers, default_storage_class
from tests.integration.cluster import pod
from tests.kit.manifests import node_manifest
from tests.kit.polling import until


@asynccontextmanager
async def storage(cluster):
    task = asyncio.create_task(VolumeControllers(cluster.api.registry).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


def claim(name, **spec):
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            **spec,
        },
    }


def using(name, *claims, **fields):
    volumes = [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims]
    return pod(name, volumes=volumes, **fields)


def csi_node(name, limit, driver="sandbox.kscheduler.io"):
    listed = {"name": driver, "nodeID": name, "topologyKeys": ["kubernetes.io/hostname"]}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name},
        "spec": {"drivers": [listed | {"allocatable": {"count": limit}}]},
    }


def local_volume(name, host):
    there = {"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "local": {"path": "/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [there]}]}},
        },
    }


def claim_of(cluster, name):
    return cluster.api.objects.get("persistentvolumeclaims", name)


async def test_volumes_are_made_where_pods_go_and_keep_them_there(cluster):
    cluster.create(default_storage_class(), *(node_manifest(name) for name in ("n1", "n2")))
    cluster.create(csi_node("n1", 5), csi_node("n2", 5))
    async with storage(cluster), cluster.scheduler():
        cluster.create(claim("c"), using("first", "c"))
        await until(lambda: cluster.place("first"))
        where = cluster.place("first")
        annotations = claim_of(cluster, "c")["metadata"]["annotations"]
        assert annotations["volume.kubernetes.io/selected-node"] == where
        cluster.api.objects.delete("pods", "first", grace_period_seconds=0)
        cluster.create(using("again", "c"))
        await until(lambda: cluster.place("again"))
        assert cluster.place("again") == where


async def test_local_volumes_decide_where_pods_go(cluster):
    local = default_storage_class("local") | {"provisioner": "kubernetes.io/no-provisioner"}
    cluster.create(local, *(node_manifest(name) for name in ("n1", "n2", "n3")))
    cluster.create(local_volume("pv-2", "n2"), local_volume("pv-3", "n3"))
    async with storage(cluster), cluster.scheduler():
        cluster.create(*(claim(f"c{n}", storageClassName="local") for n in range(3)))
        cluster.create(*(using(f"p{n}", f"c{n}") for n in range(3)))
        why = "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind."
        await until(
            lambda: (
                len(cluster.waiting()) == 1
                # What was said before the scheduler knew of its claim is not the last word.
                and cluster.complaint(*cluster.waiting()).startswith(why)
            )
        )
        [left] = cluster.waiting()
        placed = {name: where for name, where in cluster.places().items() if where}
        assert sorted(placed.values()) == ["n2", "n3"]
        for name, where in placed.items():
            volume = claim_of(cluster, name.replace("p", "c"))["spec"]["volumeName"]
            assert volume == where.replace("n", "pv-")
        cluster.create(local_volume("pv-1", "n1"))
        await until(lambda: not cluster.waiting())
        assert cluster.place(left) == "n1"


async def test_a_full_node_takes_a_pod_when_another_has_gone(cluster):
    cluster.create(default_storage_class(), node_manifest("n1"), csi_node("n1", 2))
    async with storage(cluster), cluster.scheduler():
        cluster.create(*(claim(f"c{n}") for n in range(3)))
        cluster.create(*(using(f"p{n}", f"c{n}") for n in range(2)))
        await until(lambda: not cluster.waiting())
        cluster.create(using("p2", "c2"))
        await until(lambda: "1 node(s) exceed max volume count." in cluster.complaint("p2"))
        cluster.api.objects.delete("pods", "p0", grace_period_seconds=0)
        await until(lambda: cluster.place("p2"))


async def test_ephemeral_volumes(cluster):
    cluster.create(default_storage_class(), node_manifest("n1"))
    template = {"spec": claim("x")["spec"]}
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}]
    async with storage(cluster), cluster.scheduler():
        cluster.create(pod("p", volumes=volumes))
        await until(lambda: cluster.place("p"))
    assert claim_of(cluster, "p-v")["status"]["phase"] == "Bound"
