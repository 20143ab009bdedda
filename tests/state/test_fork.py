"""Forks as such; that they equal a changed cluster is tested with the cluster."""

import pytest

from kscheduler.api.core import (
    Container,
    ContainerPort,
    Node,
    NodeStatus,
    PersistentVolumeClaimSource,
    Pod,
    PodSpec,
    ResourceRequirements,
    Volume,
)
from kscheduler.api.labels import EVERYTHING
from kscheduler.api.meta import ObjectMeta
from kscheduler.state.cache import Cache
from kscheduler.state.fork import fork
from kscheduler.state.pod_info import PodInfo


def make_pod(uid, node="", **requests):
    container = Container(
        "c",
        ports=(ContainerPort(80, 80),),
        resources=ResourceRequirements(requests=requests or {"cpu": "1"}),
    )
    volume = Volume("v", persistent_volume_claim=PersistentVolumeClaimSource(uid))
    metadata = ObjectMeta(name=uid, namespace="ns", uid=uid)
    return PodInfo(Pod(metadata, PodSpec(node, containers=(container,), volumes=(volume,))))


@pytest.fixture
def cache():
    cache = Cache()
    for name in ("n0", "n1", "n2"):
        cache.add_node(Node(ObjectMeta(name=name), status=NodeStatus(allocatable={"cpu": "4"})))
    cache.add_pod(make_pod("a", "n0"))
    return cache


def told(nodes):
    return {
        "cpu": nodes.requested[:, 0].tolist(),
        "nonzero": nodes.nonzero_requested[:, 0].tolist(),
        "count": nodes.pod_count.tolist(),
        "ports": nodes.port_in_use("", "TCP", 80).tolist(),
        "pods": [[pod.uid for pod in nodes.pods(position)] for position in range(len(nodes))],
        "claims": [claim for claim in ("ns/a", "ns/b") if nodes.pvc_in_use(claim)],
        "all": nodes.index.matching(None, EVERYTHING, terminating=True).tolist(),
    }


def test_a_fork_changes_and_its_base_does_not(cache):
    nodes = cache.snapshot()
    before = told(nodes)
    branch = fork(nodes)
    branch.add(make_pod("b"), 2)
    branch.remove(nodes.pods(0)[0], 0)
    assert told(branch.nodes) == {
        "cpu": [0, 0, 1000],
        "nonzero": [0, 0, 1000],
        "count": [0, 0, 1],
        "ports": [False, False, True],
        "pods": [[], [], ["b"]],
        "claims": ["ns/b"],
        "all": [0, 0, 1],
    }
    assert told(nodes) == before


def test_a_fork_of_a_fork(cache):
    first = fork(cache.snapshot())
    first.add(make_pod("b"), 1)
    second = fork(first.nodes)
    second.remove(first.nodes.pods(1)[0], 1)
    second.add(make_pod("b"), 2)
    assert told(second.nodes)["all"] == [1, 0, 1]
    assert told(first.nodes)["all"] == [1, 1, 0]
    assert told(cache.snapshot())["all"] == [1, 0, 0]


def test_what_is_undone_leaves_no_trace(cache):
    nodes = cache.snapshot()
    branch = fork(nodes)
    branch.add(make_pod("b"), 2)
    branch.remove(make_pod("b"), 2)
    assert told(branch.nodes) == told(nodes)


def test_a_fork_of_some_nodes_shows_the_same_nodes(cache):
    some = cache.snapshot().take([2, 0])
    branch = fork(some)
    before = branch.nodes.pod_count.tolist()
    branch.add(make_pod("b"), 2)
    assert branch.nodes.names == ["n2", "n0"]
    assert (before, branch.nodes.pod_count.tolist()) == ([0, 1], [1, 1])


def test_a_resource_no_node_has_is_left_out(cache):
    nodes = cache.snapshot()
    branch = fork(nodes)
    pod = make_pod("b", cpu="1", **{"x.io/gpu": "1"})
    branch.add(pod, 1)
    assert branch.nodes.requested[:, 0].tolist() == [1000, 1000, 0]
    branch.remove(pod, 1)
    assert set(nodes.resources) == {"cpu", "memory", "ephemeral-storage"}


def test_counts_already_shown_do_not_change(cache):
    branch = fork(cache.snapshot())
    branch.add(make_pod("b"), 1)
    shown = branch.nodes.index.matching(None, EVERYTHING, terminating=True)
    branch.add(make_pod("c"), 1)
    assert shown.tolist() == [1, 1, 0]
    assert not shown.flags.writeable


def test_every_fork_has_a_generation_of_its_own(cache):
    nodes = cache.snapshot()
    one, other = fork(nodes), fork(nodes)
    generations = {nodes.generation, one.nodes.generation, other.nodes.generation}
    one.add(make_pod("b"), 1)
    assert len(generations | {one.nodes.generation}) == 4
