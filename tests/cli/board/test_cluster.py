"""The scheduler's state as the board reads it."""

from types import SimpleNamespace

import numpy as np
import pytest

from kscheduler.api.decode import convert
from kscheduler.api.resource import ResourceClaim, ResourceSlice
from kscheduler.cli.board import cluster as board_cluster
from kscheduler.cli.board.cluster import devices_by_node
from kscheduler.framework.listers import FixedLister
from tests.cli.board.scenes import decide, make_cluster, make_node, waiting_pod
from tests.kit.devices import allocation, claim_manifest, slice_manifest
from tests.kit.objects import make_pod_info


@pytest.fixture
def scheduler():
    """A scheduler of two nodes with two devices each, of which a claim has both of the second."""
    slices = [convert(slice_manifest(node, devices=2), ResourceSlice) for node in ("n1", "n2")]
    taken = claim_manifest("c") | {"status": {"allocation": allocation("n2", "gpu-1", "gpu-0")}}
    claims = [convert(manifest, ResourceClaim) for manifest in (taken, claim_manifest("d"))]
    listers = {
        kind: FixedLister({one.key: one for one in objects})
        for kind, objects in ((ResourceSlice, slices), (ResourceClaim, claims))
    }
    return SimpleNamespace(informers=SimpleNamespace(lister=listers.__getitem__))


def test_devices_are_counted_and_named_by_node(scheduler):
    found = devices_by_node(scheduler)
    assert {node: (one.total, one.allocated) for node, one in found.items()} == {
        "n1": (2, set()),
        "n2": (2, {"gpu-0", "gpu-1"}),
    }


def test_too_many_devices_are_not_looked_at(scheduler, monkeypatch):
    monkeypatch.setattr(board_cluster, "COUNTED_OBJECTS", 3)
    assert devices_by_node(scheduler) == {}


def test_nodes_are_sorted_as_people_count_under_their_zones():
    zones = {"node-10": "b", "node-2": "b", "node-1": "a", "alone": ""}
    cluster = make_cluster([make_node(name, zone=zone) for name, zone in zones.items()])
    names = [cluster.nodes.name_of(row) for row in cluster.node_rows()]
    assert [zone.name for zone in cluster.zones()] == ["a", "b", ""]
    assert names == ["node-1", "node-2", "node-10", "alone"]
    assert [cluster.place_of(name) for name in names] == [0, 1, 2, 3]
    assert cluster.place_of("gone") is None


def test_a_strip_has_the_mean_of_neighbours_in_each_cell():
    nodes = [make_node(f"n{number}", cpu="1") for number in range(4)]
    pods = [make_pod_info(name, node=name, requests={"cpu": "1"}) for name in ("n2", "n3")]
    cluster = make_cluster(nodes, pods)
    rows = np.array(cluster.node_rows())
    assert cluster.strip(rows, 2) == [0.0, 1.0]
    assert cluster.strip(rows, 9) == [0.0, 0.0, 1.0, 1.0]


def test_states_of_nodes():
    lost = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    stopped = {"sandbox.kscheduler.dev/kubelet": "stopped"}
    cluster = make_cluster(
        [
            make_node("a"),
            make_node("b", annotations=stopped),
            make_node("c", annotations=stopped, taints=[lost], unschedulable=True),
        ]
    )
    states = [cluster.facts(row).state for row in cluster.node_rows()]
    assert states == ["", "kubelet stopped", "NotReady, cordoned"]


def test_the_version_changes_with_what_can_be_seen_and_only_then():
    cluster = make_cluster([make_node("n1")])
    before = cluster.version
    assert cluster.version == before
    cluster.on_add(waiting_pod("p"), is_initial=False)
    assert cluster.version != before


def test_victims_are_drawn_for_some_seconds():
    now = 0.0
    cluster = make_cluster([make_node("n1")], clock=lambda: now)
    decide(cluster, "vip", victims=["low-1", "low-2"], nominated_node="n1")
    (row,) = cluster.node_rows()
    eviction = cluster.facts(row).eviction
    assert (eviction.victims, eviction.preemptor) == (("low-1", "low-2"), "vip")
    before = cluster.version
    now = board_cluster.EVICTION_SECONDS
    assert cluster.version != before
    assert cluster.facts(row).eviction is None


def test_why_a_pod_waits():
    cluster = make_cluster([make_node("n1")])
    foreign = waiting_pod("foreign", schedulerName="other")
    for pod in (waiting_pod("new"), foreign):
        cluster.on_add(pod, is_initial=False)
    assert cluster.waiting_keys() == ["default/foreign", "default/new"]
    assert cluster.why_waiting("default/foreign")[1] == "nobody answers to schedulerName other"
    assert cluster.why_waiting("default/new")[1] == "not tried yet"
    assert cluster.why_waiting("default/gone") == ("", "")
    cluster.on_delete(foreign, final_state_unknown=False)
    assert cluster.waiting_keys() == ["default/new"]
