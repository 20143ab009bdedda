"""A part of each node is left to others."""

import pytest

from kscheduler.api.field_errors import Path
from kscheduler.framework.cluster_event import (
    ASSIGNED_POD,
    NODE,
    Action,
    ClusterEvent,
)
from kscheduler.framework.cycle_state import CycleState
from kscheduler.plugins.node_headroom import KeptResource, NodeHeadroom, NodeHeadroomArgs
from tests.kit.clusters import make_handle
from tests.kit.objects import make_node, make_pod_info
from tests.plugins.machines import UNRESOLVABLE, UNSCHEDULABLE, hint, rejected
from tests.plugins.topologies import make_cluster


def make_plugin(**kept):
    resources = tuple(KeptResource(name=name, keep=keep) for name, keep in kept.items())
    return NodeHeadroom(NodeHeadroomArgs(resources=resources), make_handle())


def too_little(resource, code=UNSCHEDULABLE):
    return code, f"node(s) would have too little headroom left: {resource}"


@pytest.mark.parametrize(
    ("kept", "requests", "used", "want"),
    [
        pytest.param({"cpu": "10%"}, {"cpu": "3600m"}, {}, None, id="the share is left"),
        pytest.param(
            {"cpu": "10%"},
            {"cpu": "1001m"},
            {"cpu": "2600m"},
            too_little("cpu"),
            id="less than the share would be left",
        ),
        pytest.param(
            {"cpu": "10%"},
            {"cpu": "3601m"},
            {},
            too_little("cpu", UNRESOLVABLE),
            id="never, even if the node were empty",
        ),
        pytest.param({"memory": "1Gi"}, {"memory": "5Gi"}, {"memory": "2Gi"}, None, id="amount"),
        pytest.param(
            {"memory": "1Gi"},
            {"memory": "5Gi"},
            {"memory": "3Gi"},
            too_little("memory"),
            id="less than the amount would be left",
        ),
        pytest.param({"cpu": "50%"}, {"memory": "1Gi"}, {"cpu": "4"}, None, id="not asked for"),
        pytest.param({"a.io/x": "1"}, {"a.io/x": "1"}, {}, None, id="no node has any"),
    ],
)
def test_resources(kept, requests, used, want):
    node = make_node("n1", allocatable={"cpu": "4", "memory": "8Gi", "pods": "10"})
    nodes = make_cluster([node], [make_pod_info("there", node="n1", requests=used)])
    pod = make_pod_info("p", requests=requests)
    found = rejected(make_plugin(**kept), pod, nodes, CycleState())
    assert found == ({} if want is None else {"n1": want})


def test_places_of_pods():
    nodes = make_cluster(
        [make_node("n1", allocatable={"pods": "3"}), make_node("n2", allocatable={"pods": "1"})],
        [make_pod_info("there", node="n1")],
    )
    found = rejected(make_plugin(pods="1"), make_pod_info("p"), nodes, CycleState())
    assert found == {"n2": too_little("pods", UNRESOLVABLE)}
    found = rejected(make_plugin(pods="2"), make_pod_info("p"), nodes, CycleState())
    assert found["n1"] == too_little("pods")


def test_a_share_of_the_largest_amount_there_can_be():
    most = str(2**63 - 1)
    nodes = make_cluster([make_node("n1", allocatable={"memory": most, "pods": "10"})])
    pod = make_pod_info("p", requests={"memory": "1Gi"})
    assert rejected(make_plugin(memory="99%"), pod, nodes, CycleState()) == {}


@pytest.mark.parametrize(
    ("resources", "want"),
    [
        pytest.param([("cpu", "10%"), ("memory", "1Gi")], [], id="good ones"),
        pytest.param(
            [], ["a.resources: Required value: at least one resource must be named"], id="none"
        ),
        pytest.param(
            [("cpu", "1"), ("cpu", "2")],
            ['a.resources[1].name: Duplicate value: "cpu"'],
            id="twice",
        ),
        pytest.param(
            [("nonsense", "1")],
            [
                'a.resources[0].name: Invalid value: "nonsense": must be a resource that '
                "scheduling counts"
            ],
            id="no resource",
        ),
        pytest.param(
            [("cpu", "100%")],
            ['a.resources[0].keep: Invalid value: "100%": not in valid range [0%, 100%)'],
            id="all of it",
        ),
        pytest.param(
            [("cpu", "-1")],
            ['a.resources[0].keep: Invalid value: "-1": must not be negative'],
            id="less than nothing",
        ),
        pytest.param(
            [("cpu", "1.5%")],
            [
                'a.resources[0].keep: Invalid value: "1.5%": must be a share like 10% or an amount '
                "like 1Gi: 1.5% is no whole number of percents"
            ],
            id="half a percent",
        ),
    ],
)
def test_arguments_are_checked(resources, want):
    args = NodeHeadroomArgs(
        resources=tuple(KeptResource(name=name, keep=keep) for name, keep in resources)
    )
    assert [str(error) for error in args.errors(Path("a"), None)] == want


def test_pods_that_leave_and_nodes_that_come_may_help():
    plugin, pod = make_plugin(cpu="1"), make_pod_info("p")
    gone = ClusterEvent(ASSIGNED_POD, Action.DELETE)
    assert hint(plugin, gone, pod, make_pod_info("q", node="n1"), None) == "Queue"
    assert hint(plugin, ClusterEvent(NODE, Action.ADD), pod, None, make_node()) == "Queue"


def test_it_is_in_no_profile_that_does_not_name_it():
    assert NodeHeadroom.declaration.by_default is False
