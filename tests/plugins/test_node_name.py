"""A pod that names its node goes there or nowhere."""

import pytest

from kscheduler.framework.cluster_event import NODE, Action, ClusterEvent
from kscheduler.framework.cycle_state import CycleState
from kscheduler.plugins.node_name import NodeName
from tests.plugins.machines import UNRESOLVABLE, hint, make_node, prepared, rejected
from tests.plugins.topologies import make_cluster, make_pod

REASON = (UNRESOLVABLE, "node(s) didn't match the requested node name")
NODES = make_cluster([make_node("a"), make_node("gone"), make_node("b")], gone=[make_node("gone")])


@pytest.mark.parametrize(
    ("name", "want"),
    [
        pytest.param("", {}, id="no name"),
        pytest.param("a", {"b": REASON}, id="one of the nodes"),
        pytest.param("elsewhere", {"a": REASON, "b": REASON}, id="no such node"),
        pytest.param("gone", {"a": REASON, "b": REASON}, id="a node that is gone"),
    ],
)
def test_only_the_named_node_passes(name, want):
    assert rejected(NodeName(), make_pod(nodeName=name), NODES, CycleState()) == want


@pytest.mark.parametrize("name", ["a", "elsewhere"])
def test_other_nodes_need_not_be_looked_at(name):
    assert prepared(NodeName(), make_pod(nodeName=name), NODES) == [name]


def test_without_a_name_all_nodes_are_looked_at():
    assert isinstance(prepared(NodeName(), make_pod(), NODES), CycleState)


def test_judges_a_few_of_the_nodes_as_well():
    view = NODES.take([2, 0])
    assert rejected(NodeName(), make_pod(nodeName="b"), view, CycleState()) == {"a": REASON}


def test_any_new_node_may_be_the_one():
    added = ClusterEvent(NODE, Action.ADD)
    assert hint(NodeName(), added, make_pod(nodeName="x"), None, make_node("y")) == "Queue"


def test_signs_the_name():
    assert NodeName().sign(make_pod(nodeName="a")) == {"v1.Pod.Spec.NodeName": "a"}
