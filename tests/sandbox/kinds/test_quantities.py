"""Quantities as kube-apiserver 1.37.1 stores them: in resource lists no finer than 1/1000."""

import pytest

from kscheduler.sandbox import ApiServer, StatusError
from tests.sandbox.rest import new_node

ROUNDED = {
    "100u": "1m",
    "1n": "1m",
    "0.0000000001": "1m",
    "1.2345m": "2m",
    "1.23456789012345678901m": "2m",
    "999999u": "1",
    "1000000u": "1",
    "1000001u": "1001m",
    "1.00001": "1001m",
    "100.5": "100500m",
    "1e-4": "1e-3",
    "1.5e-3": "2e-3",
    "5e-1": "500e-3",
    "0.001Ki": "1024m",
    "1.0000001Ki": "1024001m",
    "0.1Gi": "107374182400m",
    "12345678901234567890n": "12345678901235m",
}
FINE = {"storage": "1.00001"}
COARSE = {"storage": "1001m"}
SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": FINE, "limits": FINE}}
CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100u"}}}


@pytest.fixture
def objects():
    return ApiServer().objects


@pytest.mark.parametrize(("text", "want"), ROUNDED.items(), ids=ROUNDED)
def test_amounts_in_a_resource_list_are_rounded_up(objects, text, want):
    node = new_node("n")
    node["status"] = {"capacity": {"memory": text}, "allocatable": {"cpu": text}}
    state = objects.create(node)["status"]
    assert (state["capacity"], state["allocatable"]) == ({"memory": want}, {"cpu": want})


def test_what_is_below_zero_is_rounded_away_from_it_and_refused(objects):
    node = new_node("n")
    node["status"] = {"capacity": {"memory": "-100u"}, "allocatable": {}}
    with pytest.raises(StatusError) as refused:
        objects.create(node)
    assert str(refused.value) == (
        'Node "n" is invalid: status.capacity.memory: Invalid value: "-1m": '
        "must be greater than or equal to 0"
    )


def test_amounts_in_a_status_are_rounded_when_it_is_written(objects):
    objects.create(new_node("n"))
    written(objects, "nodes", "n", allocatable={"cpu": "100u"})
    assert objects.get("nodes", "n")["status"]["allocatable"] == {"cpu": "1m"}


def written(objects, plural, name, **state):
    """The status after these parts of it were written."""
    stored = objects.update(
        plural, name, lambda it: it["status"].update(state), subresource="status"
    )
    return stored["status"]


def manifest(kind, version="v1", **parts):
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "it"}, **parts}


def test_claims_and_volumes(objects):
    claim = objects.create(manifest("PersistentVolumeClaim", spec=dict(SPEC)))
    assert claim["spec"]["resources"] == {"requests": COARSE, "limits": COARSE}
    told = {"capacity": dict(FINE), "allocatedResources": dict(FINE)}
    state = written(objects, "persistentvolumeclaims", "it", **told)
    assert (state["capacity"], state["allocatedResources"]) == (COARSE, COARSE)
    volume = {"accessModes": ["ReadWriteOnce"], "capacity": FINE, "hostPath": {"path": "/x"}}
    assert objects.create(manifest("PersistentVolume", spec=volume))["spec"]["capacity"] == COARSE


def test_pods_with_claims_of_their_own(objects):
    ephemeral = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": SPEC}}}
    spec = {"containers": [CONTAINER], "initContainers": [{**CONTAINER, "name": "d"}]}
    spec |= {"volumes": [ephemeral], "resources": {"limits": {"cpu": "1.5m"}}}
    stored = objects.create(manifest("Pod", spec=spec))["spec"]
    for container in (stored["containers"][0], stored["initContainers"][0]):
        assert container["resources"] == {"requests": {"cpu": "1m"}}
    assert stored["resources"]["limits"] == {"cpu": "2m"}
    template = stored["volumes"][0]["ephemeral"]["volumeClaimTemplate"]
    assert template["spec"]["resources"] == {"requests": COARSE, "limits": COARSE}


def test_resources_that_a_kubelet_reports(objects):
    objects.create(manifest("Pod", spec={"containers": [CONTAINER]}))
    told = {"allocatedResources": {"cpu": "100u"}, "resources": {"limits": {"cpu": "1.5m"}}}
    (state,) = written(objects, "pods", "it", containerStatuses=[{"name": "c", **told}])[
        "containerStatuses"
    ]
    assert state["allocatedResources"] == {"cpu": "1m"}
    assert state["resources"] == {"limits": {"cpu": "2m"}}


def test_templates_of_workloads(objects):
    labels = {"a": "b"}
    spec = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [CONTAINER]}},
        "volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": SPEC}],
    }
    stored = objects.create(manifest("StatefulSet", "apps/v1", spec=spec))["spec"]
    container = stored["template"]["spec"]["containers"][0]
    assert container["resources"] == {"requests": {"cpu": "1m"}}
    assert stored["volumeClaimTemplates"] == [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "v"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": COARSE, "limits": COARSE},
                "volumeMode": "Filesystem",
            },
            "status": {"phase": "Pending"},
        }
    ]


def test_limits_and_quotas(objects):
    limit = {"type": "Container", "max": {"cpu": "2.00001"}, "defaultRequest": {"cpu": "300u"}}
    stored = objects.create(manifest("LimitRange", spec={"limits": [limit]}))["spec"]["limits"][0]
    assert (stored["max"], stored["defaultRequest"]) == ({"cpu": "2001m"}, {"cpu": "1m"})
    quota = objects.create(manifest("ResourceQuota", spec={"hard": {"cpu": "100.00001"}}))
    assert quota["spec"]["hard"] == {"cpu": "100001m"}


def test_amounts_outside_of_resource_lists_are_only_spelled_anew(objects):
    sizes = {"capacity": "1.00001", "maximumVolumeSize": "100u"}
    kind = manifest("CSIStorageCapacity", "storage.k8s.io/v1", storageClassName="x", **sizes)
    stored = objects.create(kind)
    assert (stored["capacity"], stored["maximumVolumeSize"]) == ("1000010u", "100u")
