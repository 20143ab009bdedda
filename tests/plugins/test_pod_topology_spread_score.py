"""Soft constraints: the fewer matching pods around a node, the higher its score."""

import numpy as np
import pytest

from kscheduler.errors import KschedulerError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.plugins.pod_topology_spread.args import PodTopologySpreadArgs
from kscheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from kscheduler.plugins.pod_topology_spread.scoring import rounded
from tests.plugins.topologies import (
    HOST,
    ZONE,
    make_cluster,
    make_handle,
    make_node,
    make_pod,
    scores,
)

FOO = {"matchLabels": {"foo": ""}}


def constraint(key=ZONE, *, max_skew=1, selector=FOO, when="ScheduleAnyway", **more):
    return {
        "topologyKey": key,
        "maxSkew": max_skew,
        "whenUnsatisfiable": when,
        "labelSelector": selector,
        **more,
    }


def spread_pod(*constraints, **spec):
    return make_pod(labels={"foo": ""}, topologySpreadConstraints=list(constraints), **spec)


def pods_on(label, *counts, **how):
    """So many pods with this label on n0, n1, …"""
    return [
        make_pod(f"{label}-{i}-{j}", {label: ""}, nodeName=f"n{i}", **how)
        for i, count in enumerate(counts)
        for j in range(count)
    ]


def plugin():
    return PodTopologySpread(PodTopologySpreadArgs(), make_handle())


FOUR = [make_node(f"n{i}", {HOST: f"n{i}"}) for i in range(4)]
TWO_ZONES = [make_node(f"n{i}", {ZONE: "ab"[i // 2], HOST: f"n{i}"}) for i in range(4)]


@pytest.mark.parametrize(
    ("pod", "nodes", "pods", "want"),
    [
        pytest.param(
            spread_pod(constraint(HOST)),
            FOUR,
            pods_on("foo", 2, 1, 0, 3),
            ([4, 2, 0, 5], [20, 60, 100, 0]),
            id="hosts",
        ),
        pytest.param(
            spread_pod(constraint(HOST, max_skew=2)),
            FOUR,
            pods_on("foo", 2, 1, 0, 3),
            ([5, 3, 1, 6], [33, 66, 100, 16]),
            id="a larger skew waters the differences down",
        ),
        pytest.param(
            spread_pod(constraint(HOST, max_skew=3)),
            FOUR,
            pods_on("foo", 4, 3, 2, 1),
            ([9, 7, 6, 4], [44, 66, 77, 100]),
            id="an even larger skew",
        ),
        pytest.param(
            spread_pod(constraint(), constraint(HOST, selector={"matchLabels": {"bar": ""}})),
            TWO_ZONES,
            [*pods_on("foo", 1, 1, 0, 1), *pods_on("bar", 0, 1, 0, 1)],
            ([3, 5, 1, 3], [60, 20, 100, 60]),
            id="zones and hosts, with a selector each",
        ),
        pytest.param(
            spread_pod(constraint(HOST, selector=None)),
            FOUR,
            pods_on("foo", 2, 1, 0, 3),
            ([0, 0, 0, 0], [100, 100, 100, 100]),
            id="no selector: all nodes are equal",
        ),
        pytest.param(
            spread_pod(constraint(HOST)),
            FOUR,
            pods_on("foo", 2, 1, 0, 3, namespace="other"),
            ([0, 0, 0, 0], [100, 100, 100, 100]),
            id="pods in other namespaces do not count",
        ),
        pytest.param(
            spread_pod(constraint(HOST)),
            FOUR,
            pods_on("foo", 2, 1, 0, 3, deleted=True),
            ([0, 0, 0, 0], [100, 100, 100, 100]),
            id="pods that are being deleted do not count",
        ),
        pytest.param(
            spread_pod(constraint()),
            [*TWO_ZONES[:3], make_node("n3", {HOST: "n3"})],
            pods_on("foo", 1, 1, 0, 5),
            ([3, 3, 0, 0], [0, 0, 100, 0]),
            id="a node without a label is left out and gets nothing",
        ),
        pytest.param(
            spread_pod(constraint(), constraint(HOST)),
            # With the last node there would be 3 zones or 4 hosts, and 10 for the first either way.
            [*TWO_ZONES[:3], make_node("n3", {ZONE: "c"})],
            pods_on("foo", 3, 0, 0, 0),
            ([9, 4, 0, 0], [0, 55, 100, 0]),
            id="a node that is left out does not add to the number of domains",
        ),
        pytest.param(
            spread_pod(constraint("rack")),
            FOUR,
            pods_on("foo", 1),
            ([0, 0, 0, 0], [0, 0, 0, 0]),
            id="no node has the label",
        ),
        pytest.param(
            spread_pod(constraint(HOST), nodeSelector={"disk": "ssd"}),
            [make_node("n0", {HOST: "n0"}), make_node("n1", {HOST: "n1", "disk": "ssd"})],
            pods_on("foo", 2, 0),
            ([3, 0], [0, 100]),
            id="hosts count their own pods, whoever could go there",
        ),
        pytest.param(
            spread_pod(constraint(), nodeSelector={"disk": "ssd"}),
            [
                make_node("n0", {ZONE: "a"}),
                make_node("n1", {ZONE: "a", "disk": "ssd"}),
                make_node("n2", {ZONE: "b", "disk": "ssd"}),
            ],
            pods_on("foo", 3, 0, 1),
            ([0, 0, 1], [100, 100, 0]),
            id="zones do not count pods where the pod cannot go",
        ),
        pytest.param(
            spread_pod(constraint(nodeAffinityPolicy="Ignore"), nodeSelector={"disk": "ssd"}),
            [
                make_node("n0", {ZONE: "a"}),
                make_node("n1", {ZONE: "a", "disk": "ssd"}),
                make_node("n2", {ZONE: "b", "disk": "ssd"}),
            ],
            pods_on("foo", 3, 0, 1),
            ([4, 4, 1], [25, 25, 100]),
            id="unless node affinity is ignored",
        ),
        pytest.param(
            spread_pod(constraint(minDomains=9, when="DoNotSchedule"), constraint()),
            TWO_ZONES,
            pods_on("foo", 1, 0, 0, 0),
            ([1, 1, 0, 0], [0, 0, 100, 100]),
            id="hard constraints add nothing",
        ),
        pytest.param(
            spread_pod(constraint(when="DoNotSchedule")),
            TWO_ZONES,
            [],
            "Skip",
            id="without soft constraints there is nothing to score",
        ),
        pytest.param(
            spread_pod(constraint(HOST)), FOUR[:1], pods_on("foo", 7), ([8], [100]), id="one node"
        ),
    ],
)
def test_score(pod, nodes, pods, want):
    assert scores(plugin(), pod, make_cluster(nodes, pods)) == want


def test_zones_count_pods_on_infeasible_nodes_but_hosts_do_not():
    nodes = [
        *(make_node(f"n{i}", {ZONE: "a", HOST: f"n{i}"}) for i in range(2)),
        *(make_node(f"n{i}", {ZONE: "b", HOST: f"n{i}"}) for i in range(2, 5)),
    ]
    cluster = make_cluster(nodes, pods_on("foo", 2, 1, 2, 3, 1))
    pod = spread_pod(constraint(), constraint(HOST))
    assert scores(plugin(), pod, cluster.take([0, 2])) == ([7, 11], [100, 63])


def test_a_selector_that_cannot_be_parsed_is_an_error():
    broken = {"matchExpressions": [{"key": "foo", "operator": "Near"}]}
    pod = spread_pod(constraint(selector=broken))
    assert scores(plugin(), pod, make_cluster(FOUR)) == (
        "Error",
        "calculating preScoreState: obtaining pod's soft topology spread constraints: "
        '"Near" is not a valid label selector operator',
    )


def test_score_without_pre_score_is_an_error():
    with pytest.raises(KschedulerError) as caught:
        plugin().score(CycleState(), make_pod(), make_cluster(FOUR))
    assert str(caught.value) == (
        'error reading "PreScorePodTopologySpread" from cycleState: not found'
    )


def test_halves_are_rounded_up():
    numbers = np.array([0.0, 0.5, 1.5, 2.4999999999999996, 2.5, 0.49999999999999994])
    assert rounded(numbers).tolist() == [0, 1, 2, 2, 3, 0]
