"""Which events may help a pod that was rejected for lack of resources."""

import pytest

from kscheduler.framework.cluster_event import (
    ASSIGNED_POD,
    NODE,
    TARGET_POD,
    Action,
    ClusterEvent,
)
from kscheduler.plugins.node_resources.args import NodeResourcesFitArgs
from kscheduler.plugins.node_resources.fit import NodeResourcesFit
from tests.plugins.machines import container, hint, make_node
from tests.plugins.topologies import make_handle, make_pod

AAA, BBB = "example.com/aaa", "example.com/bbb"


def make_plugin(**args):
    return NodeResourcesFit(NodeResourcesFitArgs.model_validate(args), make_handle())


def asking(requests=None, **fields):
    return make_pod(containers=[container(requests)], **fields)


def node(pods=10, **amounts):
    known = {"cpu": "4", "memory": "8Gi", "pods": str(pods), **amounts}
    return make_node(allocatable={name.replace("aaa", AAA): n for name, n in known.items() if n})


PLACED, NOWHERE = asking(nodeName="n"), asking()
NOMINATED = asking(status={"nominatedNodeName": "n"})


@pytest.mark.parametrize(
    ("deleted", "want"), [(PLACED, "Queue"), (NOMINATED, "Queue"), (NOWHERE, "QueueSkip")]
)
def test_a_deleted_pod_helps_if_it_had_a_node(deleted, want):
    event = ClusterEvent(ASSIGNED_POD, Action.DELETE)
    assert hint(make_plugin(), event, asking({"cpu": "1"}), deleted, None) == want


@pytest.mark.parametrize(
    ("requests", "old", "new", "want"),
    [
        pytest.param({"cpu": "4"}, None, node(), "Queue", id="a node with room is added"),
        pytest.param({"cpu": "5"}, None, node(), "QueueSkip", id="a node without is added"),
        pytest.param({}, None, node(pods=0), "QueueSkip", id="a node that takes no pods is added"),
        pytest.param({}, None, node(), "Queue", id="any node has room for nothing"),
        pytest.param({AAA: "1"}, None, node(), "QueueSkip", id="it lacks what is asked for"),
        pytest.param({"cpu": "1"}, node(), node(cpu="5"), "Queue", id="cpu grew"),
        pytest.param({"cpu": "1"}, node(), node(memory="9Gi"), "QueueSkip", id="memory grew"),
        pytest.param(
            {"cpu": "1", "memory": "9Gi"},
            node(),
            node(cpu="3", memory="9Gi"),
            "Queue",
            id="cpu shrank, memory grew, it fits",
        ),
        pytest.param(
            {"cpu": "4", "memory": "9Gi"},
            node(),
            node(cpu="3", memory="9Gi"),
            "QueueSkip",
            id="cpu shrank too far",
        ),
        pytest.param({"cpu": "1"}, node(), node(pods=11), "Queue", id="room for one more pod"),
        pytest.param({"cpu": "1"}, node(), node(pods=9), "QueueSkip", id="room for one less"),
        pytest.param({}, node(), node(cpu="5"), "QueueSkip", id="nothing asked for grew"),
        pytest.param({}, node(), node(pods=11), "Queue", id="room for another pod"),
        pytest.param({AAA: "1"}, node(), node(aaa="1"), "Queue", id="a new resource"),
        pytest.param({AAA: "0"}, node(), node(aaa="1"), "QueueSkip", id="zero asks for nothing"),
        pytest.param({"cpu": "1"}, node(), node(), "QueueSkip", id="nothing changed"),
    ],
)
def test_nodes_help_if_what_is_asked_for_grew(requests, old, new, want):
    action = Action.ADD if old is None else Action.UPDATE_NODE_ALLOCATABLE
    assert hint(make_plugin(), ClusterEvent(NODE, action), asking(requests), old, new) == want


def test_what_the_profile_ignores_is_asked_for_all_the_same():
    plugin = make_plugin(ignoredResources=[BBB])
    event = ClusterEvent(NODE, Action.ADD)
    assert hint(plugin, event, asking({BBB: "1"}), None, node()) == "QueueSkip"


@pytest.mark.parametrize(
    ("old", "new", "where", "want"),
    [
        pytest.param({"cpu": "2"}, {"cpu": "1"}, "n", "Queue", id="cpu got less"),
        pytest.param({"cpu": "2"}, {"cpu": "1"}, "", "QueueSkip", id="of a pod without a node"),
        pytest.param({"cpu": "1"}, {"cpu": "2"}, "n", "QueueSkip", id="cpu got more"),
        pytest.param({"memory": "2"}, {"memory": "1"}, "n", "QueueSkip", id="memory got less"),
        pytest.param({AAA: "2"}, {}, "n", "Queue", id="a resource was given up"),
        pytest.param({BBB: "2"}, {}, "n", "QueueSkip", id="one that is not asked for"),
    ],
)
def test_pods_that_shrink_help(old, new, where, want):
    event = ClusterEvent(ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN)
    waiting = asking({"cpu": "4", AAA: "1", "memory": "0"})
    before, after = asking(old, nodeName=where), asking(new, nodeName=where)
    assert hint(make_plugin(), event, waiting, before, after) == want


def test_a_waiting_pod_that_shrinks_is_queued():
    event = ClusterEvent(TARGET_POD, Action.UPDATE_POD_SCALE_DOWN)
    assert hint(make_plugin(), event, asking(), asking(), asking()) == "Queue"


@pytest.mark.parametrize(
    "event",
    [
        ClusterEvent(NODE, Action.UPDATE_NODE_LABEL),
        ClusterEvent(ASSIGNED_POD, Action.ADD),
        ClusterEvent(TARGET_POD, Action.UPDATE_POD_LABEL),
    ],
    ids=lambda event: event.label,
)
def test_other_events_do_not_matter(event):
    assert hint(make_plugin(), event, asking(), None, None) is None
