"""Objects go with their owners: in the background, first, or not at all."""

import pytest

from tests.kit.polling import until
from tests.sandbox.controllers.workloads import workload
from tests.sandbox.rest import Rest

SETS = "/apis/apps/v1/namespaces/default/replicasets/web"


@pytest.fixture
async def owner(cluster):
    cluster.objects.create(workload("ReplicaSet", replicas=2))
    await until(lambda: cluster.status("replicasets.apps").get("readyReplicas") == 2)
    return cluster


async def delete(rest: Rest, policy):
    code, _ = await rest.delete(SETS, {"propagationPolicy": policy})
    assert code == 200


async def test_in_the_background_dependents_follow(owner, rest):
    await delete(rest, "Background")
    assert owner.objects.find("replicasets.apps", "web") is None
    await until(lambda: owner.objects.list("pods") == [])


async def test_orphans_stay(owner, rest):
    await delete(rest, "Orphan")
    await until(lambda: owner.objects.find("replicasets.apps", "web") is None)
    pods = owner.pods()
    assert len(pods) == 2
    assert all("ownerReferences" not in pod["metadata"] for pod in pods)


async def test_in_the_foreground_the_owner_goes_last(owner, rest):
    left = []
    owner.server.store["replicasets.apps"].listen(
        lambda change: change.type == "DELETED" and left.append(owner.objects.count("pods"))
    )
    await delete(rest, "Foreground")
    await until(lambda: owner.objects.find("replicasets.apps", "web") is None)
    assert left == [0]


async def test_what_has_another_owner_stays(cluster):
    def config(name, *owners):
        references = [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": one["metadata"]["name"],
                "uid": one["metadata"]["uid"],
            }
            for one in owners
        ]
        metadata = {"name": name, "ownerReferences": references}
        return cluster.objects.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        )

    first, second = config("first"), config("second")
    config("both", first, second)
    config("one", first)
    cluster.objects.delete("configmaps", "first")
    await until(lambda: cluster.objects.find("configmaps", "one") is None)

    def owners():
        about = cluster.objects.get("configmaps", "both")["metadata"]
        return [one["name"] for one in about["ownerReferences"]]

    await until(lambda: owners() == ["second"])


async def test_an_owner_of_that_name_made_anew_is_another_one(cluster):
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "of-old"}
    cluster.objects.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})
    about = {"name": "s", "ownerReferences": [reference]}
    cluster.objects.create({"apiVersion": "v1", "kind": "Secret", "metadata": about})
    await until(lambda: cluster.objects.find("secrets", "s") is None)
