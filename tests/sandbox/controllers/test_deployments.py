"""Deployments roll from one template to the next, within their limits."""

import pytest

from tests.kit.polling import until
from tests.sandbox.controllers.workloads import template, workload

DEPLOYMENTS, SETS = "deployments.apps", "replicasets.apps"
REVISION = "deployment.kubernetes.io/revision"


def deployment(**spec):
    return workload("Deployment", **spec)


def change(cluster, **spec):
    cluster.objects.update(DEPLOYMENTS, "web", lambda item: item["spec"].update(spec))


def images(cluster):
    return sorted(pod["spec"]["containers"][0]["image"] for pod in cluster.pods())


def is_done(cluster, replicas):
    """What `kubectl rollout status` waits for."""
    item = cluster.objects.get(DEPLOYMENTS, "web")
    state = item.get("status") or {}
    return (
        state.get("observedGeneration") == item["metadata"]["generation"]
        and state.get("updatedReplicas", 0) == replicas
        and state.get("replicas", 0) == state.get("availableReplicas", 0) == replicas
    )


def condition(cluster, kind):
    state = cluster.status(DEPLOYMENTS)
    found = {one["type"]: one for one in state.get("conditions") or ()}
    return found.get(kind, {}).get("status"), found.get(kind, {}).get("reason")


async def test_it_makes_a_replica_set_with_a_hash(cluster):
    cluster.objects.create(deployment(replicas=3))
    await until(lambda: is_done(cluster, 3))
    (item,) = cluster.objects.list(SETS)
    digest = item["metadata"]["labels"]["pod-template-hash"]
    assert item["metadata"]["name"] == f"web-{digest}"
    assert item["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": digest}
    assert item["metadata"]["annotations"][REVISION] == "1"
    assert all(name.startswith(f"web-{digest}-") for name in cluster.names())
    await until(lambda: condition(cluster, "Progressing") == ("True", "NewReplicaSetAvailable"))
    assert condition(cluster, "Available") == ("True", "MinimumReplicasAvailable")


@pytest.mark.parametrize(("surge", "unavailable"), [(1, 0), (0, 1), ("50%", "50%"), (0, 0)])
async def test_a_rolling_update_keeps_its_limits(cluster, surge, unavailable):
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    cluster.objects.create(deployment(replicas=4, strategy=strategy))
    await until(lambda: is_done(cluster, 4))
    most = 4 + {1: 1, "50%": 2}.get(surge, 0)
    least = 4 - {0: 0 if surge else 1, 1: 1, "50%": 2}[unavailable]
    running, wanted = [], []
    stops = [
        cluster.server.store["pods"].listen(
            lambda _: running.append(
                sum(pod["status"]["phase"] == "Running" for pod in cluster.pods())
            )
        ),
        # What is asked of the ReplicaSets keeps to the limit; they follow each for itself.
        cluster.server.store[SETS].listen(
            lambda _: wanted.append(
                sum(item["spec"]["replicas"] for item in cluster.objects.list(SETS))
            )
        ),
    ]
    change(cluster, template=template("i:2"))
    await until(lambda: is_done(cluster, 4) and images(cluster) == ["i:2"] * 4)
    for stop in stops:
        stop()
    assert max(wanted) == most
    assert min(running) >= least


async def test_recreate_ends_all_pods_before_it_starts_new_ones(cluster):
    cluster.objects.create(deployment(replicas=2, strategy={"type": "Recreate"}))
    await until(lambda: is_done(cluster, 2))
    mixed = []

    def look(_):
        pods = cluster.objects.list("pods")
        mixed.append(len({pod["spec"]["containers"][0]["image"] for pod in pods}) > 1)

    stop = cluster.server.store["pods"].listen(look)
    change(cluster, template=template("i:2"))
    await until(lambda: is_done(cluster, 2) and images(cluster) == ["i:2"] * 2)
    stop()
    assert not any(mixed)


async def test_a_former_template_comes_back_under_a_new_revision(cluster):
    cluster.objects.create(deployment(replicas=1))
    await until(lambda: is_done(cluster, 1))
    for image in ("i:2", "i:1"):
        change(cluster, template=template(image))
        await until(lambda image=image: is_done(cluster, 1) and images(cluster) == [image])
    revisions = {
        item["spec"]["template"]["spec"]["containers"][0]["image"]: item["metadata"]["annotations"]
        for item in cluster.objects.list(SETS)
    }
    assert revisions["i:1"][REVISION] == "3"
    assert revisions["i:1"]["deployment.kubernetes.io/revision-history"] == "1"
    assert revisions["i:2"][REVISION] == "2"
    assert cluster.objects.get(DEPLOYMENTS, "web")["metadata"]["annotations"][REVISION] == "3"


async def test_history_is_limited(cluster):
    cluster.objects.create(deployment(replicas=1, revisionHistoryLimit=1))
    await until(lambda: is_done(cluster, 1))
    for number in (2, 3, 4):
        change(cluster, template=template(f"i:{number}"))
        await until(lambda number=number: images(cluster) == [f"i:{number}"])
    await until(lambda: is_done(cluster, 1) and len(cluster.objects.list(SETS)) == 2)


async def test_scaling_in_the_middle_of_a_rollout_is_shared_out(cluster):
    rolling = {"maxSurge": 2, "maxUnavailable": 0}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    cluster.objects.create(deployment(replicas=4, strategy=strategy))
    await until(lambda: is_done(cluster, 4))
    cluster.places_pods = False
    change(cluster, template=template("i:2"))
    await until(lambda: images(cluster) == ["i:1"] * 4 + ["i:2"] * 2)
    change(cluster, replicas=10)
    await until(lambda: images(cluster) == ["i:1"] * 8 + ["i:2"] * 4)
    cluster.places_pods = True
    await until(lambda: is_done(cluster, 10) and images(cluster) == ["i:2"] * 10)


async def test_while_it_is_paused_it_scales_but_does_not_roll(cluster):
    cluster.objects.create(deployment(replicas=2))
    await until(lambda: is_done(cluster, 2))
    change(cluster, paused=True, template=template("i:2"), replicas=3)
    await until(lambda: images(cluster) == ["i:1"] * 3)
    await until(lambda: condition(cluster, "Progressing") == ("Unknown", "DeploymentPaused"))
    change(cluster, paused=False)
    await until(lambda: is_done(cluster, 3) and images(cluster) == ["i:2"] * 3)


async def test_a_rollout_that_gets_nowhere_says_so(cluster):
    cluster.places_pods = False
    cluster.objects.create(deployment(replicas=1, progressDeadlineSeconds=1))
    await until(lambda: condition(cluster, "Progressing") == ("False", "ProgressDeadlineExceeded"))
    assert condition(cluster, "Available") == ("False", "MinimumReplicasUnavailable")


async def test_deleting_it_takes_all_with_it(cluster):
    cluster.objects.create(deployment(replicas=2))
    await until(lambda: is_done(cluster, 2))
    cluster.objects.delete(DEPLOYMENTS, "web")
    await until(lambda: not cluster.objects.list(SETS) and not cluster.objects.list("pods"))
