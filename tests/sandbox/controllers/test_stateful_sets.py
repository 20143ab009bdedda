"""StatefulSets make numbered pods, one after the other, and claims for them."""

import time

import pytest

from kscheduler.sandbox.controllers import stateful_sets
from kscheduler.sandbox.controllers.stateful_sets import CLAIM_LEAD_SECONDS
from tests.kit.polling import until
from tests.sandbox.controllers.workloads import template, workload

SETS = "statefulsets.apps"
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def change(cluster, **spec):
    cluster.objects.update(SETS, "web", lambda item: item["spec"].update(spec))


async def test_pods_come_in_order_with_names_and_claims(cluster):
    order = []

    def look(changed):
        if changed.type == "ADDED":
            others = cluster.pods()
            waiting = [pod for pod in others if pod["status"]["phase"] != "Running"]
            order.append((changed.stored.key[1], len(waiting)))

    cluster.server.store["pods"].listen(look)
    cluster.objects.create(
        workload("StatefulSet", replicas=3, serviceName="db", volumeClaimTemplates=[CLAIM])
    )
    await until(lambda: cluster.status(SETS).get("readyReplicas") == 3)
    # Each comes when all before it run; it is itself the one that waits.
    assert order == [("web-0", 1), ("web-1", 1), ("web-2", 1)]
    pod = cluster.objects.get("pods", "web-1")
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("web-1", "db")
    assert pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "1"
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-1"}}
    assert volume in pod["spec"]["volumes"]
    claims = [item["metadata"]["name"] for item in cluster.objects.list("persistentvolumeclaims")]
    assert claims == ["data-web-0", "data-web-1", "data-web-2"]


async def test_a_template_mounts_the_volumes_of_its_claims(cluster):
    container = {"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}
    cluster.objects.create(
        workload(
            "StatefulSet",
            pods=template() | {"spec": {"containers": [container]}},
            volumeClaimTemplates=[CLAIM],
        )
    )
    await until(lambda: cluster.status(SETS).get("readyReplicas") == 1)


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
async def test_a_pod_comes_a_moment_after_its_claims(cluster, policy):
    """A scheduler that watches both has seen the claims by then."""
    made = {}
    for plural in ("persistentvolumeclaims", "pods"):
        cluster.server.store[plural].listen(
            lambda change: made.setdefault(change.stored.key[1], time.monotonic())
        )
    cluster.objects.create(
        workload(
            "StatefulSet", replicas=2, podManagementPolicy=policy, volumeClaimTemplates=[CLAIM]
        )
    )
    await until(lambda: cluster.status(SETS).get("readyReplicas") == 2)
    for pod in ("web-0", "web-1"):
        assert made[pod] - made[f"data-{pod}"] >= CLAIM_LEAD_SECONDS


async def test_a_large_parallel_set_gets_its_claims_and_pods_in_bursts(cluster, monkeypatch):
    monkeypatch.setattr(stateful_sets, "BURST", 2)
    made = []
    for plural in ("persistentvolumeclaims", "pods"):
        cluster.server.store[plural].listen(
            lambda change: change.type == "ADDED" and made.append(change.stored.key[1])
        )
    cluster.objects.create(
        workload(
            "StatefulSet", replicas=5, podManagementPolicy="Parallel", volumeClaimTemplates=[CLAIM]
        )
    )
    await until(lambda: cluster.status(SETS).get("readyReplicas") == 5)
    assert made.index("web-0") < made.index("data-web-2") < made.index("data-web-4")


async def test_parallel_sets_do_not_wait(cluster):
    cluster.places_pods = False
    cluster.objects.create(workload("StatefulSet", replicas=3, podManagementPolicy="Parallel"))
    await until(lambda: cluster.names() == ["web-0", "web-1", "web-2"])


async def test_scaling_down_takes_the_last_and_leaves_its_claim(cluster):
    cluster.objects.create(workload("StatefulSet", replicas=3, volumeClaimTemplates=[CLAIM]))
    await until(lambda: cluster.status(SETS).get("readyReplicas") == 3)
    change(cluster, replicas=1)
    await until(lambda: cluster.names() == ["web-0"])
    assert len(cluster.objects.list("persistentvolumeclaims")) == 3


async def test_an_update_goes_from_the_last_to_the_partition(cluster):
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    cluster.objects.create(workload("StatefulSet", replicas=3, updateStrategy=rolling))
    await until(lambda: cluster.status(SETS).get("readyReplicas") == 3)
    first = cluster.status(SETS)["currentRevision"]
    change(cluster, template=template("i:2"))

    def images():
        return [pod["spec"]["containers"][0]["image"] for pod in cluster.pods()]

    await until(lambda: images() == ["i:1", "i:1", "i:2"])
    cluster.objects.delete("pods", "web-0")  # below the partition, it comes back as it was
    await until(lambda: images() == ["i:1", "i:1", "i:2"])
    assert cluster.status(SETS)["currentRevision"] == first
    rolling["rollingUpdate"]["partition"] = 0
    change(cluster, updateStrategy=rolling)
    await until(lambda: images() == ["i:2"] * 3)
    await until(
        lambda: cluster.status(SETS)["currentRevision"] == cluster.status(SETS)["updateRevision"]
    )
    assert cluster.status(SETS)["currentRevision"] != first
    revisions = cluster.objects.list("controllerrevisions.apps")
    assert sorted(item["revision"] for item in revisions) == [1, 2]
