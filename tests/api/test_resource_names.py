import pytest

from kscheduler.api import resource_names


@pytest.mark.parametrize(
    ("name", "extended", "scalar", "counted", "pod_level"),
    [
        ("cpu", False, False, True, True),
        ("memory", False, False, True, True),
        ("ephemeral-storage", False, False, True, False),
        ("pods", False, False, True, False),
        ("storage", False, False, False, False),
        ("foo", False, False, False, False),
        ("hugepages-2Mi", False, True, True, True),
        ("attachable-volumes-aws-ebs", False, True, True, False),
        ("nvidia.com/gpu", True, True, True, False),
        ("kubernetes.io/batteries", False, True, True, False),
        ("sub.kubernetes.io/x", False, True, True, False),
        ("requests.nvidia.com/gpu", False, False, False, False),
        ("bad name/x", False, False, False, False),
        ("a.com/" + "x" * 64, False, False, False, False),
    ],
)
def test_what_a_name_means(name, extended, scalar, counted, pod_level):
    assert resource_names.is_extended(name) is extended
    assert resource_names.is_scalar(name) is scalar
    assert resource_names.is_counted(name) is counted
    assert resource_names.is_pod_level(name) is pod_level


def test_unprefixed_names_are_native():
    assert resource_names.is_native("cpu")
    assert resource_names.is_native("kubernetes.io/x")
    assert not resource_names.is_native("nvidia.com/gpu")
