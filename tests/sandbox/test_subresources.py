"""Binding a pod, and everything that can be in the way."""

import pytest

from kscheduler.sandbox import ApiServer
from tests.kit.manifests import pod_manifest
from tests.sandbox.rest import PODS, new_node


def binding(node="n1", name="p", **metadata):
    return {
        "kind": "Binding",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "target": {"kind": "Node", "name": node},
    }


async def test_a_bound_pod_is_on_its_node_and_says_so(rest, objects):
    pod = objects.create(pod_manifest("p"))
    answer = await rest.post(f"{PODS}/p/binding", binding(uid=pod["metadata"]["uid"]))
    assert answer == (
        201,
        {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201},
    )
    _, bound = await rest.get(f"{PODS}/p")
    assert bound["spec"]["nodeName"] == "n1"
    (condition,) = bound["status"]["conditions"]
    assert {**condition, "lastTransitionTime": "T"} == {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": "T",
    }
    assert bound["metadata"]["generation"] == 1


async def test_the_older_path_binds_too(rest, objects):
    objects.create(pod_manifest("p"))
    code, _ = await rest.post("/api/v1/namespaces/default/bindings", binding())
    assert code == 201
    assert objects.get("pods", "p")["spec"]["nodeName"] == "n1"


async def test_binding_clears_the_nomination(rest, objects):
    objects.create(pod_manifest("p"))
    await rest.patch(f"{PODS}/p/status", {"status": {"nominatedNodeName": "n2"}})
    await rest.post(f"{PODS}/p/binding", binding())
    assert "nominatedNodeName" not in objects.get("pods", "p")["status"]


async def test_a_pod_inherits_the_topology_of_its_node(rest, objects):
    zone = {"topology.kubernetes.io/zone": "z1", "rack": "r1"}
    objects.create(new_node("n1", labels=zone))
    objects.create(pod_manifest("p", labels={"app": "web"}))
    await rest.post(f"{PODS}/p/binding", binding(annotations={"by": "test"}))
    about = objects.get("pods", "p")["metadata"]
    assert about["labels"] == {"app": "web", "topology.kubernetes.io/zone": "z1"}
    assert about["annotations"] == {"by": "test"}


@pytest.mark.parametrize(
    ("pod", "body", "want"),
    [
        pytest.param(
            pod_manifest("p", nodeName="n2"),
            binding(),
            'Operation cannot be fulfilled on pods/binding "p": '
            'pod p is already assigned to node "n2"',
            id="assigned",
        ),
        pytest.param(
            pod_manifest("p", schedulingGates=[{"name": "wait"}]),
            binding(),
            'Operation cannot be fulfilled on pods/binding "p": '
            "pod p has non-empty .spec.schedulingGates",
            id="gated",
        ),
        pytest.param(
            pod_manifest("p") | {"metadata": {"name": "p", "finalizers": ["example.com/hold"]}},
            binding(),
            'Operation cannot be fulfilled on pods/binding "p": '
            "pod p is being deleted, cannot be assigned to a host",
            id="being deleted",
        ),
    ],
)
async def test_a_pod_that_cannot_be_bound_is_a_conflict(rest, objects, pod, body, want):
    objects.create(pod)
    if "finalizers" in pod["metadata"]:
        objects.delete("pods", "p")
    code, answer = await rest.post(f"{PODS}/p/binding", body)
    assert (code, answer["reason"], answer["message"]) == (409, "Conflict", want)
    assert answer["details"] == {"name": "p", "kind": "pods/binding"}


async def test_another_incarnation_of_the_pod_is_not_bound(rest, objects):
    found = objects.create(pod_manifest("p"))["metadata"]["uid"]
    code, answer = await rest.post(f"{PODS}/p/binding", binding(uid="gone"))
    assert (code, answer["message"]) == (
        409,
        'Operation cannot be fulfilled on pods "p": StorageError: invalid object, Code: 4, '
        "Key: /registry/pods/default/p, ResourceVersion: 0, AdditionalErrorMsg: Precondition "
        f"failed: UID in precondition: gone, UID in object meta: {found}",
    )


async def test_a_pod_that_is_gone_is_not_found(rest):
    code, answer = await rest.post(f"{PODS}/p/binding", binding())
    assert (code, answer["message"]) == (404, 'pods "p" not found')


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({}, "target.name: Required value"),
        (
            {"kind": "Pod", "name": "n1"},
            'target.kind: Unsupported value: "Pod": supported values: "<empty>", "Node"',
        ),
    ],
)
async def test_a_binding_needs_a_node(rest, objects, target, message):
    objects.create(pod_manifest("p"))
    code, answer = await rest.post(f"{PODS}/p/binding", binding() | {"target": target})
    assert (code, answer["message"]) == (500, message)


async def test_labels_are_not_copied_when_that_is_switched_off():
    server = ApiServer(disable_admission=["PodTopologyLabels"])
    server.objects.create(new_node("n1", labels={"topology.kubernetes.io/zone": "z1"}))
    server.objects.create(pod_manifest("p", nodeName="n1"))
    assert server.objects.get("pods", "p")["metadata"].get("labels") == {}
