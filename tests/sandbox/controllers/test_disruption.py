"""Disruption budgets know how many pods may go."""

import pytest

from tests.kit.manifests import pod_manifest
from tests.kit.polling import until
from tests.sandbox.controllers.workloads import LABELS, workload

BUDGETS = "poddisruptionbudgets.policy"


def budget(**spec):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"selector": {"matchLabels": LABELS}, **spec},
    }


@pytest.mark.parametrize(
    ("spec", "allowed", "desired"),
    [
        ({"minAvailable": 2}, 1, 2),
        ({"minAvailable": "50%"}, 1, 2),
        ({"maxUnavailable": 1}, 1, 2),
        ({"maxUnavailable": "100%"}, 3, 0),
        ({"minAvailable": 5}, 0, 5),
    ],
)
async def test_status(cluster, spec, allowed, desired):
    cluster.objects.create(budget(**spec))
    cluster.objects.create(workload("Deployment", replicas=3))
    await until(lambda: cluster.status(BUDGETS, "b").get("currentHealthy") == 3)
    state = cluster.status(BUDGETS, "b")
    assert (state["disruptionsAllowed"], state["desiredHealthy"]) == (allowed, desired)
    assert state["expectedPods"] == 3
    (condition,) = state["conditions"]
    assert condition["type"] == "DisruptionAllowed"
    assert condition["status"] == ("True" if allowed else "False")


async def test_an_eviction_beyond_the_budget_is_refused(cluster, rest):
    cluster.objects.create(budget(minAvailable=2))
    cluster.objects.create(workload("Deployment", replicas=2))
    await until(lambda: cluster.status(BUDGETS, "b").get("currentHealthy") == 2)
    name = cluster.names()[0]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    path = f"/api/v1/namespaces/default/pods/{name}/eviction"
    code, _ = await rest.post(path, body)
    assert code == 429
    cluster.objects.update("deployments.apps", "web", lambda item: item["spec"].update(replicas=3))
    await until(lambda: cluster.status(BUDGETS, "b").get("disruptionsAllowed") == 1)
    code, _ = await rest.post(path, body)
    assert code == 201
    await until(lambda: name not in cluster.names())


async def test_pods_without_a_controller_have_no_scale(cluster):
    cluster.objects.create(pod_manifest("bare", labels=LABELS))
    cluster.objects.create(budget(maxUnavailable=1))
    await until(lambda: cluster.status(BUDGETS, "b").get("conditions"))
    (condition,) = cluster.status(BUDGETS, "b")["conditions"]
    assert condition["reason"] == "SyncFailed"
    assert "found no controller ref" in condition["message"]
