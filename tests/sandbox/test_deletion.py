"""Deletion: grace, finalizers, preconditions, eviction and namespaces."""

import pytest

from tests.kit.manifests import pod_manifest
from tests.kit.polling import until
from tests.sandbox.rest import PODS

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


async def test_a_pod_that_is_nowhere_goes_at_once(rest, objects):
    objects.create(pod_manifest("p"))
    code, pod = await rest.delete(f"{PODS}/p")
    assert (code, pod["kind"]) == (200, "Pod")
    assert objects.find("pods", "p") is None


async def test_a_bound_pod_waits_for_its_kubelet(rest, objects):
    objects.create(pod_manifest("p", nodeName="n1", terminationGracePeriodSeconds=20))
    _, pod = await rest.delete(f"{PODS}/p")
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 20
    assert pod["metadata"]["generation"] == 2
    assert objects.find("pods", "p") is not None
    await rest.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})
    assert objects.find("pods", "p") is None


async def test_a_grace_period_can_only_be_shortened(rest, objects):
    objects.create(pod_manifest("p", nodeName="n1"))
    await rest.delete(f"{PODS}/p", {"gracePeriodSeconds": 10})
    _, later = await rest.delete(f"{PODS}/p?gracePeriodSeconds=60")
    _, sooner = await rest.delete(f"{PODS}/p?gracePeriodSeconds=5")
    seconds = [one["metadata"]["deletionGracePeriodSeconds"] for one in (later, sooner)]
    assert seconds == [10, 5]


async def test_a_finished_pod_has_nothing_to_wait_for(rest, objects):
    objects.create(pod_manifest("p", nodeName="n1"))
    await rest.patch(f"{PODS}/p/status", {"status": {"phase": "Succeeded"}})
    await rest.delete(f"{PODS}/p")
    assert objects.find("pods", "p") is None


async def test_other_kinds_answer_with_a_status(rest, objects):
    created = objects.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {}}
    )
    _, answer = await rest.delete("/api/v1/namespaces/default/configmaps/c")
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert answer["details"] == {
        "name": "c",
        "kind": "configmaps",
        "uid": created["metadata"]["uid"],
    }


async def test_finalizers_keep_an_object_until_the_last_one_goes(rest, objects):
    manifest = pod_manifest("p")
    manifest["metadata"]["finalizers"] = ["example.com/a", "example.com/b"]
    objects.create(manifest)
    _, pod = await rest.delete(f"{PODS}/p")
    assert pod["metadata"]["deletionTimestamp"]
    await rest.patch(f"{PODS}/p", {"metadata": {"finalizers": ["example.com/b"]}}, kind="merge")
    assert objects.find("pods", "p") is not None
    code, _ = await rest.patch(f"{PODS}/p", {"metadata": {"finalizers": None}}, kind="merge")
    assert code == 200
    assert objects.find("pods", "p") is None


async def test_a_dying_object_takes_no_new_finalizers(rest, objects):
    manifest = pod_manifest("p")
    manifest["metadata"]["finalizers"] = ["example.com/a"]
    objects.create(manifest)
    objects.delete("pods", "p")
    code, body = await rest.patch(f"{PODS}/p", {"metadata": {"finalizers": ["example.com/z"]}})
    assert code == 422
    assert 'found new finalizers ["example.com/z"]' in body["message"]


async def test_preconditions_name_the_incarnation_that_is_meant(rest, objects):
    uid = objects.create(pod_manifest("p"))["metadata"]["uid"]
    code, body = await rest.delete(f"{PODS}/p", {"preconditions": {"uid": "other"}})
    assert (code, body["message"]) == (
        409,
        'Operation cannot be fulfilled on Pod "p": the UID in the precondition (other) does not '
        f"match the UID in record ({uid}). The object might have been deleted and then recreated",
    )
    code, _ = await rest.delete(f"{PODS}/p", {"preconditions": {"uid": uid}})
    assert code == 200


async def test_a_selection_is_deleted_as_one(rest, objects):
    for name, app in (("a", "web"), ("b", "web"), ("c", "db")):
        objects.create(pod_manifest(name, labels={"app": app}))
    code, body = await rest.delete(f"{PODS}?labelSelector=app%3Dweb")
    assert (code, body["kind"], len(body["items"])) == (200, "PodList", 2)
    assert [pod["metadata"]["name"] for pod in objects.list("pods")] == ["c"]


def running(name="p"):
    return pod_manifest(name, nodeName="n1", labels={"app": "web"})


async def with_budget(rest, objects, **state):
    objects.create(running())
    ready = [{"type": "Ready", "status": "True"}]
    await rest.patch(f"{PODS}/p/status", {"status": {"phase": "Running", "conditions": ready}})
    selector = {"matchLabels": {"app": "web"}}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"selector": selector, "minAvailable": 1},
    }
    await rest.post(BUDGETS, budget)
    if state:
        await rest.patch(f"{BUDGETS}/b/status", {"status": {"observedGeneration": 1, **state}})


def eviction(name="p"):
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}


async def test_an_eviction_spends_the_budget(rest, objects):
    await with_budget(rest, objects, disruptionsAllowed=1, currentHealthy=2, desiredHealthy=1)
    code, _ = await rest.post(f"{PODS}/p/eviction", eviction())
    assert code == 201
    pod = objects.get("pods", "p")
    assert pod["metadata"]["deletionTimestamp"]
    assert [one["type"] for one in pod["status"]["conditions"]] == ["Ready", "DisruptionTarget"]
    budget = objects.get("poddisruptionbudgets.policy", "b")["status"]
    assert (budget["disruptionsAllowed"], list(budget["disruptedPods"])) == (0, ["p"])


@pytest.mark.parametrize(
    ("state", "cause"),
    [
        pytest.param(
            {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1},
            "The disruption budget b needs 1 healthy pods and has 1 currently",
            id="spent",
        ),
        pytest.param(
            {}, "The disruption budget b is still being processed by the server.", id="unknown"
        ),
    ],
)
async def test_an_eviction_against_the_budget_is_told_to_wait(rest, objects, state, cause):
    await with_budget(rest, objects, **state)
    code, body = await rest.post(f"{PODS}/p/eviction", eviction())
    assert (code, body["reason"], body["message"]) == (
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
    )
    assert body["details"]["causes"] == [{"reason": "DisruptionBudget", "message": cause}]
    assert "deletionTimestamp" not in objects.get("pods", "p")["metadata"]


async def test_a_pending_pod_is_evicted_whatever_the_budget(rest, objects):
    await with_budget(rest, objects, disruptionsAllowed=0)
    objects.create(running("q"))
    code, _ = await rest.post(f"{PODS}/q/eviction", eviction("q"))
    assert code == 201


async def test_a_namespace_takes_its_content_with_it(rest, objects):
    objects.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    assert objects.find("serviceaccounts", "default", "team") is not None
    pod = pod_manifest("p")
    pod["metadata"]["namespace"] = "team"
    objects.create(pod)
    code, namespace = await rest.delete("/api/v1/namespaces/team")
    assert (code, namespace["status"]["phase"]) == (200, "Terminating")
    await until(lambda: objects.find("namespaces", "team") is None)
    assert objects.list("pods", "team") == []


async def test_a_terminating_namespace_takes_no_new_content(rest, objects):
    objects.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    held = pod_manifest("held")
    held["metadata"] |= {"namespace": "team", "finalizers": ["example.com/hold"]}
    objects.create(held)
    await rest.delete("/api/v1/namespaces/team")
    code, body = await rest.post("/api/v1/namespaces/team/pods", pod_manifest("p"))
    assert (code, body["message"]) == (
        403,
        'pods "p" is forbidden: unable to create new content in namespace team '
        "because it is being terminated",
    )
    assert body["details"]["causes"][0]["reason"] == "NamespaceTerminating"


async def test_nothing_is_bound_in_a_terminating_namespace(rest, objects):
    objects.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    held = pod_manifest("held")
    held["metadata"] |= {"namespace": "team", "finalizers": ["example.com/hold"]}
    objects.create(held)
    await rest.delete("/api/v1/namespaces/team")
    binding = {"metadata": {"name": "held"}, "target": {"kind": "Node", "name": "n1"}}
    code, body = await rest.post("/api/v1/namespaces/team/pods/held/binding", binding)
    assert (code, body["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")


async def test_the_default_namespaces_cannot_be_deleted(rest):
    code, body = await rest.delete("/api/v1/namespaces/kube-system")
    assert (code, body["message"]) == (
        403,
        'namespaces "kube-system" is forbidden: this namespace may not be deleted',
    )
