"""DaemonSets have a pod on every eligible node, and follow nodes."""

from tests.kit.polling import until
from tests.sandbox.controllers.workloads import template, workload

SETS = "daemonsets.apps"


def daemons(cluster):
    """Nodes of the pods that are there."""
    return sorted(pod["spec"].get("nodeName", "") for pod in cluster.pods())


async def test_every_node_gets_a_pod_that_is_for_it(cluster):
    cluster.objects.create(workload("DaemonSet"))
    await until(lambda: daemons(cluster) == ["node-0", "node-1"])
    await until(lambda: cluster.status(SETS).get("numberReady") == 2)
    assert cluster.status(SETS) == {
        "currentNumberScheduled": 2,
        "desiredNumberScheduled": 2,
        "numberMisscheduled": 0,
        "numberReady": 2,
        "observedGeneration": 1,
        "updatedNumberScheduled": 2,
        "numberAvailable": 2,
    }
    pod = cluster.pods()[0]
    (term,) = pod["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"]
    (field,) = term["matchFields"]
    assert (field["key"], field["values"]) == ("metadata.name", [pod["spec"]["nodeName"]])
    tolerated = {(one["key"], one["effect"]) for one in pod["spec"]["tolerations"]}
    assert ("node.kubernetes.io/not-ready", "NoExecute") in tolerated
    assert ("node.kubernetes.io/unschedulable", "NoSchedule") in tolerated


async def test_pods_follow_nodes_and_their_labels(cluster):
    cluster.objects.create(workload("DaemonSet", pods=template(nodeSelector={"disk": "ssd"})))
    await until(lambda: cluster.status(SETS).get("observedGeneration") == 1)
    assert cluster.pods() == []

    def label(name, **labels):
        cluster.objects.update("nodes", name, lambda node: node["metadata"].update(labels=labels))

    label("node-1", disk="ssd")
    await until(lambda: daemons(cluster) == ["node-1"])
    (name,) = cluster.kubelets.add_nodes(1)
    label(name, disk="ssd")
    await until(lambda: daemons(cluster) == ["node-1", name])
    label("node-1", disk="hdd")
    await until(lambda: daemons(cluster) == [name])
    cluster.objects.delete("nodes", name)
    await until(lambda: daemons(cluster) == [])


async def test_taints_keep_pods_away_unless_they_are_tolerated(cluster):
    taint = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
    cluster.objects.update("nodes", "node-0", lambda node: node["spec"].update(taints=[taint]))
    cluster.objects.create(workload("DaemonSet"))
    await until(lambda: daemons(cluster) == ["node-1"])
    tolerant = template(
        labels={"app": "all"}, tolerations=[{"key": "dedicated", "operator": "Exists"}]
    )
    other = workload("DaemonSet", "all", pods=tolerant, selector={"matchLabels": {"app": "all"}})
    cluster.objects.create(other)
    await until(lambda: len(cluster.pods("app=all")) == 2)


async def test_an_update_replaces_pods_one_by_one(cluster):
    cluster.objects.create(workload("DaemonSet"))
    await until(lambda: cluster.status(SETS).get("numberAvailable") == 2)
    fewest = []
    stop = cluster.server.store["pods"].listen(
        lambda _: fewest.append(sum(pod["status"]["phase"] == "Running" for pod in cluster.pods()))
    )
    change = {"template": template("i:2")}
    cluster.objects.update(SETS, "web", lambda item: item["spec"].update(change))

    def images():
        return [pod["spec"]["containers"][0]["image"] for pod in cluster.pods()]

    await until(lambda: images() == ["i:2"] * 2)
    await until(lambda: cluster.status(SETS).get("updatedNumberScheduled") == 2)
    stop()
    assert min(fewest) >= 1
