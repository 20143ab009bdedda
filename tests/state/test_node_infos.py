"""Nodes told to others: amounts that nothing is rounded off, pods counted, labels and taints."""

from kscheduler.state.node_infos import node_info, node_infos
from tests.kit.clusters import snapshot_of
from tests.kit.objects import make_node, make_pod_info

ROOM = {"cpu": "3500m", "memory": "7Gi", "pods": "10"}


def test_a_node_is_told_with_what_it_offers_and_what_is_taken():
    nodes = snapshot_of(
        [make_node("a", allocatable=ROOM, labels={"zone": "z"})],
        [make_pod_info("p", requests={"cpu": "250m", "memory": "1000001"}, node="a")],
    )
    [info] = node_infos(nodes)
    assert info.name == "a"
    assert info.metadata.labels["zone"] == "z"
    assert (info.allocatable["cpu"], info.allocatable["memory"]) == ("3500m", "7Gi")
    assert info.allocatable["pods"] == "10"
    assert dict(info.requested) == {"cpu": "250m", "memory": "1000001"}
    assert (info.pods, info.unschedulable, info.taints) == (1, False, ())


def test_one_row_is_told_alone_with_its_taints():
    taints = [
        {"key": "k", "value": "v", "effect": "NoSchedule"},
        {"key": "l", "effect": "NoExecute"},
    ]
    nodes = snapshot_of([make_node("a"), make_node("b", unschedulable=True, taints=taints)])
    row = nodes.row_of("b")
    assert row is not None
    info = node_info(nodes, row)
    assert info.unschedulable
    assert info.taints == ("k=v:NoSchedule", "l:NoExecute")
