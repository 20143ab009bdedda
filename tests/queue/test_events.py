import msgspec
import pytest

from kscheduler.api.core import (
    ContainerStatus,
    Node,
    NodeCondition,
    NodePodPreemptionPolicy,
    NodeSpec,
    NodeStatus,
    PodExtendedResourceClaimStatus,
    PodResourceClaimStatus,
    PodStatus,
    ResourceRequirements,
    Taint,
)
from kscheduler.api.meta import ObjectMeta
from kscheduler.framework.cluster_event import TARGET_POD, UNSCHEDULED_POD
from kscheduler.queue.events import (
    node_scheduling_properties_change,
    pod_scheduling_properties_change,
)


def labels(events):
    return [event.label for event in events]


def claims(*names):
    statuses = tuple(PodResourceClaimStatus(name, f"{name}-xyz") for name in names)
    return PodStatus(resource_claim_statuses=statuses)


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param({}, {}, ["Update"], id="nothing of interest"),
        pytest.param({}, {"labels": {"a": "b"}}, ["UpdatePodLabel"], id="label"),
        pytest.param(
            {"requests": {"cpu": "2"}},
            {"requests": {"cpu": "1500m"}},
            ["UpdatePodScaleDown"],
            id="asks for less",
        ),
        pytest.param(
            {"requests": {"cpu": "1", "memory": "1Gi"}},
            {"requests": {"cpu": "1"}},
            ["UpdatePodScaleDown"],
            id="no longer asks for memory",
        ),
        pytest.param(
            {"requests": {"cpu": "1"}},
            {"requests": {"cpu": "1", "example.com/gpu": "1"}},
            ["UpdatePodScaleUp"],
            id="asks for more kinds",
        ),
        pytest.param(
            {"requests": {"cpu": "1", "memory": "1Gi"}},
            {"requests": {"cpu": "2", "memory": "1Mi"}},
            ["UpdatePodScaleDown", "UpdatePodScaleUp"],
            id="less of one, more of another",
        ),
        pytest.param(
            {"requests": {"cpu": "1"}}, {"requests": {"cpu": "1000m"}}, ["Update"], id="same amount"
        ),
        pytest.param(
            {"labels": {"a": "1"}, "requests": {"cpu": "2"}},
            {"labels": {"a": "2"}, "requests": {"cpu": "1"}},
            ["UpdatePodLabel", "UpdatePodScaleDown"],
            id="label and scale",
        ),
        pytest.param(
            {"gates": ["g1", "g2"]},
            {},
            ["UpdatePodSchedulingGatesEliminated"],
            id="last gate removed",
        ),
        pytest.param({"gates": ["g1", "g2"]}, {"gates": ["g1"]}, ["Update"], id="a gate is left"),
        pytest.param({}, {"tolerations": 1}, ["UpdatePodToleration"], id="toleration"),
        pytest.param(
            {"status": claims("a", "b")},
            {"status": claims("b", "a")},
            ["UpdatePodGeneratedResourceClaim"],
            id="claim statuses reordered",
        ),
        pytest.param(
            {},
            {
                "status": PodStatus(
                    extended_resource_claim_status=PodExtendedResourceClaimStatus((), "claim")
                )
            },
            ["UpdatePodGeneratedResourceClaim"],
            id="claim for extended resources",
        ),
        pytest.param(
            {"gates": ["g"]},
            {
                "labels": {"a": "b"},
                "requests": {"cpu": "1"},
                "tolerations": 1,
                "status": claims("a"),
            },
            [
                "UpdatePodLabel",
                "UpdatePodScaleUp",
                "UpdatePodSchedulingGatesEliminated",
                "UpdatePodToleration",
                "UpdatePodGeneratedResourceClaim",
            ],
            id="everything, in this order",
        ),
    ],
)
def test_what_changed_about_a_pod(make_pod, old, new, want):
    events = pod_scheduling_properties_change(make_pod(**old), make_pod(**new), TARGET_POD)
    assert labels(events) == [f"TargetPod{change}" for change in want]


@pytest.mark.parametrize(
    ("node", "resource", "want"),
    [
        ("", UNSCHEDULED_POD, "UnscheduledPodUpdate"),
        ("", TARGET_POD, "TargetPodUpdate"),
        ("n1", TARGET_POD, "AssignedPodUpdate"),
    ],
)
def test_a_pod_with_a_node_is_an_assigned_pod_even_if_it_is_the_target(
    make_pod, node, resource, want
):
    assert labels(pod_scheduling_properties_change(make_pod(), make_pod(node=node), resource)) == [
        want
    ]


def test_what_the_kubelet_still_holds_counts_as_requested(make_pod):
    def shrinking(allocated):
        resources = ResourceRequirements(requests={"cpu": allocated})
        status = ContainerStatus("c", allocated_resources={"cpu": allocated}, resources=resources)
        return make_pod(
            requests={"cpu": "1"}, node="n1", status=PodStatus(container_statuses=(status,))
        )

    events = pod_scheduling_properties_change(shrinking("2"), shrinking("1"), UNSCHEDULED_POD)
    assert labels(events) == ["AssignedPodUpdatePodScaleDown"]


def node(*, labels=None, annotations=None, unschedulable=False, taints=(), policy=None, **status):
    return Node(
        ObjectMeta(name="n1", labels=labels or {}, annotations=annotations or {}),
        NodeSpec(unschedulable, tuple(map(Taint, taints)), policy),
        NodeStatus(**status),
    )


def conditions(**statuses):
    return tuple(NodeCondition(kind, status) for kind, status in statuses.items())


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param({}, {}, [], id="nothing"),
        pytest.param(
            {"conditions": conditions(Ready="True", DiskPressure="False")},
            {"conditions": conditions(DiskPressure="False", Ready="True")},
            [],
            id="conditions in another order",
        ),
        pytest.param(
            {"conditions": conditions(Ready="True")},
            {"conditions": conditions(Ready="False")},
            ["UpdateNodeCondition"],
            id="condition",
        ),
        pytest.param({}, {"unschedulable": True}, [], id="cordoned"),
        pytest.param({"unschedulable": True}, {}, ["UpdateNodeTaint"], id="uncordoned"),
        pytest.param(
            {"unschedulable": True, "taints": ["a"]},
            {},
            ["UpdateNodeTaint", "UpdateNodeTaint"],
            id="uncordoned and untainted: two events",
        ),
        pytest.param(
            {"allocatable": {"cpu": "1"}},
            {"allocatable": {"cpu": "2"}},
            ["UpdateNodeAllocatable"],
            id="allocatable",
        ),
        pytest.param(
            {"allocatable": {"cpu": "1", "memory": "1Gi"}},
            {"allocatable": {"memory": "1024Mi", "cpu": "1000m"}},
            [],
            id="the same allocatable in other words",
        ),
        pytest.param(
            {"allocatable": {"cpu": "1"}},
            {"allocatable": {"cpu": "junk"}},
            ["UpdateNodeAllocatable"],
            id="allocatable became unreadable",
        ),
        pytest.param(
            {"labels": {"zone": "a"}},
            {"labels": {"zone": "b"}, "taints": ["t"]},
            ["UpdateNodeLabel", "UpdateNodeTaint"],
            id="label and taint: two events",
        ),
        pytest.param({}, {"annotations": {"a": "b"}}, ["UpdateNodeAnnotation"], id="annotation"),
        pytest.param(
            {}, {"policy": NodePodPreemptionPolicy()}, ["UpdateNodePreemptionPolicy"], id="policy"
        ),
        pytest.param(
            {"declared_features": ("A", "B")},
            {"declared_features": ("B", "A")},
            ["UpdateNodeDeclaredFeature"],
            id="declared features, in order",
        ),
    ],
)
def test_what_changed_about_a_node(old, new, want):
    events = node_scheduling_properties_change(node(**old), node(**new))
    assert labels(events) == [f"Node{change}" for change in want]


def test_a_heartbeat_changes_nothing():
    def beating(time):
        condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": time}
        return msgspec.convert({"status": {"conditions": [condition]}}, Node)

    assert (
        node_scheduling_properties_change(
            beating("2026-01-01T00:00:00Z"), beating("2026-01-01T00:05:00Z")
        )
        == []
    )
