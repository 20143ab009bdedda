"""ReplicaSets have as many pods as they want, and know how these fare."""

from tests.kit.manifests import pod_manifest
from tests.kit.polling import until
from tests.sandbox.controllers.workloads import LABELS, workload

SETS = "replicasets.apps"


async def test_it_makes_pods_that_it_owns(cluster):
    made = cluster.objects.create(workload("ReplicaSet", replicas=3))
    await until(lambda: cluster.status(SETS).get("readyReplicas") == 3)
    for pod in cluster.pods():
        assert pod["metadata"]["name"].startswith("web-")
        (owner,) = pod["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("ReplicaSet", made["metadata"]["uid"])
        assert owner["controller"] is True
    await until(lambda: cluster.status(SETS).get("availableReplicas") == 3)
    assert cluster.status(SETS) == {
        "replicas": 3,
        "fullyLabeledReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "observedGeneration": 1,
    }


async def test_scaling_down_spares_pods_that_are_ready(cluster):
    cluster.objects.create(workload("ReplicaSet", replicas=2))
    await until(lambda: cluster.status(SETS).get("readyReplicas") == 2)
    ready = set(cluster.names())
    cluster.places_pods = False
    scale(cluster, 4)
    await until(lambda: len(cluster.pods()) == 4)
    scale(cluster, 2)
    await until(lambda: len(cluster.pods()) == 2)
    assert set(cluster.names()) == ready


def scale(cluster, replicas):
    cluster.objects.update(SETS, "web", lambda item: item["spec"].update(replicas=replicas))


async def test_pods_that_end_are_replaced(cluster):
    cluster.objects.create(workload("ReplicaSet", replicas=2))
    await until(lambda: cluster.status(SETS).get("readyReplicas") == 2)
    first = cluster.names()[0]
    cluster.objects.delete("pods", first)
    await until(lambda: first not in cluster.names() and len(cluster.pods()) == 2)


async def test_pods_that_match_are_adopted_and_others_released(cluster):
    cluster.objects.create(pod_manifest("bare", labels=LABELS))
    made = cluster.objects.create(workload("ReplicaSet", replicas=2))

    def owners(name):
        return cluster.objects.get("pods", name)["metadata"].get("ownerReferences") or []

    await until(lambda: [one["uid"] for one in owners("bare")] == [made["metadata"]["uid"]])
    await until(lambda: len(cluster.pods()) == 2)
    cluster.objects.update(
        "pods", "bare", lambda item: item["metadata"].update(labels={"app": "other"})
    )
    await until(lambda: owners("bare") == [] and len(cluster.pods()) == 2)


async def test_a_pod_that_cannot_be_made_is_told(cluster):
    manifest = workload("ReplicaSet", replicas=1)
    manifest["spec"]["template"]["spec"] |= {"priorityClassName": "none"}
    cluster.objects.create(manifest)
    await until(lambda: cluster.status(SETS).get("conditions"))
    (condition,) = cluster.status(SETS)["conditions"]
    assert (condition["type"], condition["reason"]) == ("ReplicaFailure", "FailedCreate")
    assert "no PriorityClass with name none was found" in condition["message"]
    events = cluster.objects.list("events")
    assert any(event["reason"] == "FailedCreate" for event in events)


async def test_replication_controllers_work_alike(cluster):
    manifest = workload("ReplicaSet", replicas=2) | {
        "apiVersion": "v1",
        "kind": "ReplicationController",
    }
    manifest["spec"]["selector"] = LABELS
    cluster.objects.create(manifest)
    await until(lambda: cluster.status("replicationcontrollers").get("readyReplicas") == 2)
    assert len(cluster.pods()) == 2
