"""Nodes and pods for tests of plugins: fields of the spec as in a manifest."""

import pytest

from kscheduler.testing import make_node, make_pod


def test_a_node_has_taints_as_in_a_manifest():
    node = make_node("n", taints=[{"key": "gpu", "effect": "NoSchedule"}], unschedulable=True)
    (taint,) = node.spec.taints
    assert (taint.key, taint.value, taint.effect) == ("gpu", "", "NoSchedule")
    assert node.spec.unschedulable


def test_a_pod_has_fields_of_its_spec_and_keeps_its_others():
    pod = make_pod(
        "p",
        node="n",
        requests={"cpu": "1"},
        tolerations=[{"key": "gpu", "operator": "Exists"}],
        nodeSelector={"zone": "a"},
    )
    assert pod.spec.tolerations[0].key == "gpu"
    assert pod.spec.node_selector == {"zone": "a"}
    assert (pod.spec.node_name, pod.spec.containers[0].resources.requests) == ("n", {"cpu": "1"})


def test_containers_take_the_place_of_the_one():
    pod = make_pod("p", containers=[{"name": "a"}, {"name": "b"}])
    assert [container.name for container in pod.spec.containers] == ["a", "b"]


@pytest.mark.parametrize(
    ("make", "fields", "want"),
    [
        (make_pod, {"node_selector": {}}, "PodSpec has no field node_selector; did you mean node"),
        (make_pod, {"taints": []}, "PodSpec has no field taints"),
        (make_node, {"taint": []}, "NodeSpec has no field taint; did you mean taints?"),
    ],
)
def test_a_field_that_does_not_exist_is_refused(make, fields, want):
    with pytest.raises(TypeError, match=want):
        make("x", **fields)
