"""Cordoned nodes take only pods that tolerate it."""

import pytest

from kscheduler.framework.cluster_event import NODE, TARGET_POD, Action, ClusterEvent
from kscheduler.plugins.node_unschedulable import NodeUnschedulable
from tests.plugins.machines import UNRESOLVABLE, hint, make_node, rejected
from tests.plugins.topologies import make_cluster, make_handle, make_pod

REASON = (UNRESOLVABLE, "node(s) were unschedulable")
KEY = "node.kubernetes.io/unschedulable"
PLUGIN = NodeUnschedulable(None, make_handle())
OPEN, CORDONED = make_node("open"), make_node("cordoned", unschedulable=True)


def tolerating(*tolerations):
    return make_pod(tolerations=list(tolerations))


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        pytest.param({"key": KEY, "operator": "Exists"}, True, id="the key"),
        pytest.param({"key": KEY, "effect": "NoSchedule"}, True, id="both values are empty"),
        pytest.param({"operator": "Exists"}, True, id="everything"),
        pytest.param({"operator": "Exists", "effect": "NoSchedule"}, True, id="the effect"),
        pytest.param({"operator": "Exists", "effect": "NoExecute"}, False, id="another effect"),
        pytest.param({"key": KEY, "operator": "Equal", "value": "x"}, False, id="another value"),
        pytest.param({"key": "other", "operator": "Exists"}, False, id="another key"),
        pytest.param({"key": KEY, "operator": "Gt", "value": "1"}, False, id="numeric operator"),
    ],
)
def test_a_toleration_opens_a_cordoned_node(toleration, tolerated):
    nodes = make_cluster([OPEN, CORDONED])
    want = {} if tolerated else {"cordoned": REASON}
    assert rejected(PLUGIN, tolerating(toleration), nodes) == want


def test_without_toleration_only_open_nodes_remain():
    assert rejected(PLUGIN, make_pod(), make_cluster([OPEN, CORDONED])) == {"cordoned": REASON}


def test_the_taint_itself_is_not_looked_at():
    tainted = make_node(taints=[{"key": KEY, "effect": "NoSchedule"}])
    assert rejected(PLUGIN, make_pod(), make_cluster([tainted])) == {}


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(None, OPEN, "Queue", id="an open node is added"),
        pytest.param(None, CORDONED, "QueueSkip", id="a cordoned node is added"),
        pytest.param(CORDONED, OPEN, "Queue", id="a node is opened"),
        pytest.param(OPEN, CORDONED, "QueueSkip", id="a node is cordoned"),
        pytest.param(OPEN, OPEN, "QueueSkip", id="it was open before"),
        pytest.param(CORDONED, CORDONED, "QueueSkip", id="it is still cordoned"),
    ],
)
def test_hint_for_nodes(old, new, want):
    event = ClusterEvent(NODE, Action.ADD if old is None else Action.UPDATE_NODE_TAINT)
    assert hint(PLUGIN, event, make_pod(), old, new) == want


@pytest.mark.parametrize(
    ("key", "want"), [pytest.param(KEY, "Queue", id="helps"), ("other", "QueueSkip")]
)
def test_hint_for_a_new_toleration(key, want):
    event = ClusterEvent(TARGET_POD, Action.UPDATE_POD_TOLERATION)
    after = tolerating({"key": key, "operator": "Exists"})
    assert hint(PLUGIN, event, after, make_pod(), after) == want
