import json

import pytest

from kscheduler.api import RESOURCES, resources
from kscheduler.api.core import Binding, ObjectReference
from kscheduler.api.meta import ObjectMeta
from kscheduler.api.resources import BINDINGS, LEASES, NODES, POD_GROUPS, PODS
from kscheduler.api.small_groups import Lease, LeaseSpec


@pytest.mark.parametrize(
    ("path", "want"),
    [
        pytest.param(PODS.path(), "/api/v1/pods", id="all pods"),
        pytest.param(PODS.path("ns"), "/api/v1/namespaces/ns/pods", id="pods of a namespace"),
        pytest.param(PODS.path("ns", "p"), "/api/v1/namespaces/ns/pods/p", id="one pod"),
        pytest.param(
            PODS.path("ns", "p", "binding"), "/api/v1/namespaces/ns/pods/p/binding", id="binding"
        ),
        pytest.param(NODES.path(name="n"), "/api/v1/nodes/n", id="one node"),
        pytest.param(
            NODES.path("ignored", "n"), "/api/v1/nodes/n", id="cluster-scoped, namespace ignored"
        ),
        pytest.param(
            LEASES.path("kube-system", "kube-scheduler"),
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler",
            id="a named group",
        ),
        pytest.param(
            POD_GROUPS.path(), "/apis/scheduling.k8s.io/v1beta1/podgroups", id="a beta version"
        ),
    ],
)
def test_path(path, want):
    assert path == want


def test_resources_are_known_once_each():
    names = [(item.group, item.plural) for item in RESOURCES]
    assert len(names) == len(set(names)) == 31


def test_a_body_carries_kind_and_api_version():
    binding = Binding(
        metadata=ObjectMeta(name="p1", namespace="default", uid="u"),
        target=ObjectReference(kind="Node", name="n2"),
    )
    assert json.loads(BINDINGS.encode(binding)) == {
        "kind": "Binding",
        "apiVersion": "v1",
        "metadata": {"name": "p1", "namespace": "default", "uid": "u"},
        "target": {"kind": "Node", "name": "n2"},
    }


def test_the_body_of_an_empty_object_is_valid_json():
    assert json.loads(LEASES.encode(Lease())) == {
        "kind": "Lease",
        "apiVersion": "coordination.k8s.io/v1",
    }


def test_zero_and_empty_lease_fields_are_written():
    spec = LeaseSpec(holder_identity="", lease_duration_seconds=1, lease_transitions=0)
    body = json.loads(LEASES.encode(Lease(spec=spec)))
    assert body["spec"] == {
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
        "leaseTransitions": 0,
    }


def test_kinds_follow_from_the_structs():
    assert resources.CSI_STORAGE_CAPACITIES.kind == "CSIStorageCapacity"
    assert resources.EVENTS.kind == resources.CORE_EVENTS.kind == "Event"
