"""A host port can be taken once per node."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.framework.cluster_event import ASSIGNED_POD, NODE, Action, ClusterEvent
from kscheduler.framework.cycle_state import CycleState
from kscheduler.plugins.node_ports import NOT_PREPARED, NodePorts
from tests.plugins.machines import UNSCHEDULABLE, container, hint, make_node, prepared, rejected
from tests.plugins.topologies import make_cluster, make_pod

TAKEN = (UNSCHEDULABLE, "node(s) didn't have free ports for the requested pod ports")


def port(text):
    """`TCP/127.0.0.1/8080`; an empty part is left out of the manifest."""
    protocol, ip, number = text.split("/")
    known = {"protocol": protocol, "hostIP": ip, "hostPort": int(number or 0)}
    return {"containerPort": 1, **{key: value for key, value in known.items() if value}}


def holding(*ports, name="p", **spec):
    spec.setdefault("containers", [container(ports=[port(one) for one in ports])])
    return make_pod(name, **spec)


@pytest.mark.parametrize(
    ("want", "used", "conflict"),
    [
        ("TCP/0.0.0.0/8001", "TCP/127.0.0.1/8001", True),
        ("TCP/127.0.0.1/8001", "TCP/0.0.0.0/8001", True),
        ("TCP/127.0.0.1/8001", "TCP/127.0.0.1/8001", True),
        ("TCP/127.0.0.1/8080", "TCP/127.0.0.2/8080", False),
        ("UDP/127.0.0.1/8001", "TCP/0.0.0.0/8001", False),
        ("TCP/127.0.0.1/8001", "TCP/127.0.0.1/8002", False),
        pytest.param("TCP//8001", "TCP/1.2.3.4/8001", True, id="no address is any address"),
        pytest.param("/1.2.3.4/8001", "TCP//8001", True, id="no protocol is TCP"),
        pytest.param("TCP/::/8001", "TCP/::1/8001", False, id="any IPv6 address is not any"),
        pytest.param("TCP/::/8001", "TCP/0.0.0.0/8001", True, id="any IPv4 address is any"),
    ],
)
def test_conflicts(want, used, conflict):
    pods = [holding(used, name="there", nodeName="n1")]
    nodes = make_cluster([make_node("n1"), make_node("n2")], pods)
    assert rejected(NodePorts(), holding(want), nodes) == ({"n1": TAKEN} if conflict else {})


def test_one_conflicting_port_of_several_is_enough():
    pods = [holding("TCP//81", name="there", nodeName="n1")]
    nodes = make_cluster([make_node("n1")], pods)
    assert rejected(NodePorts(), holding("TCP//80", "TCP//81"), nodes) == {"n1": TAKEN}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"containers": [container()]}, "Skip", id="no port"),
        pytest.param({"containers": [container(ports=[port("TCP//")])]}, "Skip", id="no host port"),
        pytest.param(
            {"initContainers": [container(ports=[port("TCP//80")])]}, "Skip", id="init container"
        ),
        pytest.param(
            {"initContainers": [container(ports=[port("TCP//80")], restartPolicy="Always")]},
            None,
            id="sidecar",
        ),
        pytest.param({"containers": [container(ports=[port("TCP//80")])]}, None, id="host port"),
    ],
)
def test_pods_without_host_ports_are_not_looked_at(spec, want):
    answer = prepared(NodePorts(), make_pod(**spec), make_cluster([make_node()]))
    assert (None if isinstance(answer, CycleState) else answer) == want


def test_filter_needs_what_pre_filter_prepares():
    nodes = make_cluster([make_node("n1")])
    got = rejected(NodePorts(), make_pod(), nodes, CycleState())
    assert got == {"n1": ("Error", NOT_PREPARED)}


@pytest.mark.parametrize(
    ("deleted", "want"),
    [
        pytest.param(holding("TCP//80", nodeName="n1"), "Queue", id="held the port"),
        pytest.param(holding("TCP//81", nodeName="n1"), "QueueSkip", id="held another"),
        pytest.param(make_pod(nodeName="n1"), "QueueSkip", id="held none"),
        pytest.param(holding("TCP//80"), "QueueSkip", id="was nowhere"),
        pytest.param(
            holding("TCP//80", status={"nominatedNodeName": "n1"}),
            "Queue",
            id="was nominated to a node",
        ),
    ],
)
def test_hint_for_a_deleted_pod(deleted, want):
    event = ClusterEvent(ASSIGNED_POD, Action.DELETE)
    assert hint(NodePorts(), event, holding("TCP/1.2.3.4/80"), deleted, None) == want


def test_a_new_node_queues_the_pod():
    event = ClusterEvent(NODE, Action.ADD)
    assert hint(NodePorts(), event, holding("TCP//80"), None, make_node()) == "Queue"


def test_signs_the_numbers_of_all_ports():
    pod = make_pod(
        containers=[container(ports=[port("TCP//81"), port("UDP/1.2.3.4/80"), port("TCP//")])],
        initContainers=[container(ports=[port("TCP//82"), port("TCP//81")])],
    )
    assert NodePorts().sign(pod) == {"v1.Pod.Spec.HostPorts()": [80, 81, 82]}


ports = st.builds(
    "{}/{}/{}".format,
    st.sampled_from(["TCP", "UDP", ""]),
    st.sampled_from(["", "0.0.0.0", "10.0.0.1", "10.0.0.2", "::"]),
    st.sampled_from([80, 81]),
)


def conflict(one, other):
    """By the definition: same port and protocol, and one of the addresses covers the other."""
    (protocol, ip, number), (protocol2, ip2, number2) = one.split("/"), other.split("/")
    same = (protocol or "TCP", number) == (protocol2 or "TCP", number2)
    ips = (ip or "0.0.0.0", ip2 or "0.0.0.0")
    return same and ("0.0.0.0" in ips or ips[0] == ips[1])


@settings(deadline=None)
@given(
    wanted=st.lists(ports, min_size=1, max_size=3),
    used=st.lists(st.lists(st.lists(ports, max_size=2), max_size=2), min_size=1, max_size=4),
)
def test_equals_its_definition(wanted, used):
    pods = [
        holding(*held, name=f"p{i}-{j}", nodeName=f"n{i}")
        for i, on_node in enumerate(used)
        for j, held in enumerate(on_node)
    ]
    nodes = make_cluster([make_node(f"n{i}") for i in range(len(used))], pods)
    want = {
        f"n{i}": TAKEN
        for i, on_node in enumerate(used)
        if any(conflict(one, other) for one in wanted for held in on_node for other in held)
    }
    assert rejected(NodePorts(), holding(*wanted), nodes) == want
