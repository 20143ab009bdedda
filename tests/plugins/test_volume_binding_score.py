"""Room to spare is liked: in volumes that exist, or with the driver that would make them."""

import pytest

from kscheduler.config.plugin_args import UtilizationShapePoint
from kscheduler.framework.cycle_state import CycleState
from tests.plugins.machines import make_node, raw_scores
from tests.plugins.volumes import (
    MOST_FREE,
    Stage,
    make_capacity,
    make_claim,
    make_class,
    make_driver,
    make_volume,
    reachable_from,
    using,
)

NODES = [make_node(zone, labels={"zone": zone}) for zone in ("a", "b", "c")]
LEAST_FREE = tuple(
    UtilizationShapePoint(utilization=utilization, score=score)
    for utilization, score in ((0, 0), (50, 2), (100, 10))
)
PROVIDED, LOCAL = make_class("wait"), make_class("local", "kubernetes.io/no-provisioner")


def volume_in(zone, name, size, **parts):
    return make_volume(name, size, nodeAffinity=reachable_from(zone=zone), **parts)


def room_in(zone, capacity, **parts):
    labels = {"zone": zone}
    return make_capacity(f"cap-{zone}-{parts.get('of')}", labels=labels, capacity=capacity, **parts)


def scores(pod, *objects, shape=MOST_FREE, gates=None):
    stage = Stage(NODES, *objects, shape=shape, gates=gates)
    cycle = stage.prepared(pod)
    list(stage.plugin.filter(cycle, pod, stage.nodes))
    assert stage.plugin.pre_score(cycle, pod, stage.nodes) is None
    return raw_scores(stage.plugin, pod, stage.nodes, cycle)


STATIC = [volume_in("a", "pv-a", "200Gi"), volume_in("b", "pv-b", "100Gi")]


@pytest.mark.parametrize(
    ("objects", "shape", "want"),
    [
        pytest.param(
            [make_claim("c", "50Gi"), *STATIC], MOST_FREE, [75, 50, 0], id="larger volumes"
        ),
        pytest.param(
            [make_claim("c", "50Gi"), *STATIC], LEAST_FREE, [10, 20, 0], id="or smaller ones"
        ),
        pytest.param(
            [
                make_claim("c", "50Gi"),
                make_driver(),
                room_in("a", "100Gi"),
                room_in("b", "400Gi"),
                room_in("c", "50Gi"),
            ],
            MOST_FREE,
            [50, 88, 0],
            id="more room to make one",
        ),
        pytest.param(
            [make_claim("c", "50Gi"), *STATIC, make_driver(), room_in("c", "100Gi")],
            MOST_FREE,
            [75, 50, 50],
            id="where there is no volume, room counts",
        ),
        pytest.param([make_claim("c", "50Gi")], MOST_FREE, [0, 0, 0], id="room that is not told"),
        pytest.param(
            [
                make_claim("c", "50Gi"),
                make_driver(),
                make_capacity(labels={}, maximumVolumeSize="100Gi"),
            ],
            MOST_FREE,
            [0, 0, 0],
            id="only the largest volume is told",
        ),
    ],
)
def test_one_claim(objects, shape, want):
    assert scores(using("c"), PROVIDED, *objects, shape=shape) == want


def test_claims_of_one_class_share_its_room():
    claims = [make_claim("c", "50Gi"), make_claim("d", "50Gi")]
    room = [make_driver(), room_in("a", "100Gi"), room_in("b", "200Gi")]
    assert scores(using("c", "d"), PROVIDED, *claims, *room) == [0, 50, 0]


def test_classes_count_alike():
    claims = [make_claim("c", "50Gi"), make_claim("d", "50Gi", of="local")]
    volumes = [
        volume_in("a", "one", "200Gi"),
        volume_in("a", "two", "100Gi", of="local"),
        volume_in("b", "three", "60Gi"),
        volume_in("b", "four", "50Gi", of="local"),
    ]
    # 75 and 50; 17 and 0, rounded.
    assert scores(using("c", "d"), PROVIDED, LOCAL, *claims, *volumes) == [63, 9, 0]


def test_an_existing_volume_makes_room_for_new_ones_irrelevant():
    claims = [make_claim("c", "50Gi"), make_claim("d", "50Gi", of="local")]
    room = [make_driver(), room_in("a", "1000Gi"), room_in("b", "100Gi")]
    volume = make_volume("pv", "100Gi", of="local")
    assert scores(using("c", "d"), PROVIDED, LOCAL, *claims, *room, volume) == [50, 50, 50]


def test_bound_volumes_do_not_count():
    assert scores(using("c"), make_claim("c", bound_to="pv"), make_volume()) == [0, 0, 0]


def test_a_pod_without_volumes_is_liked_nowhere():
    stage, pod, cycle = Stage(NODES), using(), CycleState()
    stage.plugin.pre_filter(cycle, pod, stage.nodes)
    assert stage.plugin.pre_score(cycle, pod, stage.nodes) is None
    assert raw_scores(stage.plugin, pod, stage.nodes, cycle) == [0, 0, 0]


def test_without_pre_filter_nothing_is_known():
    stage = Stage(NODES)
    assert raw_scores(stage.plugin, using(), stage.nodes) == ("Error", "not found")


def test_without_filter_no_node_is_liked():
    stage = Stage(NODES, PROVIDED, make_claim("c", "50Gi"), *STATIC)
    pod = using("c")
    assert raw_scores(stage.plugin, pod, stage.nodes, stage.prepared(pod)) == [0, 0, 0]


def test_some_nodes_are_scored_as_all_are():
    stage = Stage(NODES, PROVIDED, make_claim("c", "50Gi"), *STATIC)
    pod = using("c")
    cycle = stage.prepared(pod)
    list(stage.plugin.filter(cycle, pod, stage.nodes))
    some = stage.nodes.take([1, 0])
    assert raw_scores(stage.plugin, pod, some, cycle) == [50, 75]


def test_nothing_is_scored_with_the_gate_off():
    stage = Stage(NODES, shape=None, gates={"StorageCapacityScoring": False})
    assert raw_scores(stage.plugin, using("c"), stage.nodes) == "Skip"


def test_the_second_mount_of_a_claim_counts_with_the_volume_it_gets_there():
    """10 Gi of the volume kept for it and 10 Gi of a free one, of 20 Gi and 40 Gi."""
    objects = [
        make_claim("c", "10Gi"),
        make_volume("kept", "20Gi", kept_for="c"),
        make_volume("free", "40Gi"),
    ]
    gates = {"StorageCapacityScoring": True}
    assert scores(using("c", "c"), PROVIDED, *objects, gates=gates) == [67, 67, 67]
