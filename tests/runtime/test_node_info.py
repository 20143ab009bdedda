"""What plugins see of one node is what is there, however much of it was kept from before."""

import operator
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.framework.node_info import NodeInfos
from kscheduler.framework.views import Views
from kscheduler.state.cache import Cache
from kscheduler.state.what_if import WhatIf
from tests.kit.objects import make_node as kit_node

NAMES = ("n0", "n1", "n2", "n3")
PROPERTIES = ("name", "node", "labels", "allocatable", "requested")


def make_node(name, *, rack="a", **more):
    allocatable = {"cpu": "4", "pods": "10", **more}
    return kit_node(name, labels={"rack": rack}, allocatable=allocatable)


def look(infos, nodes):
    """All that can be seen of these nodes."""
    return [
        (*(getattr(info, one) for one in PROPERTIES), [pod.key for pod in info.pods])
        for info in infos.of(nodes)
    ]


@pytest.fixture
def cluster(make_pod):
    cache = Cache()
    for name in NAMES:
        cache.add_node(make_node(name))
    cache.add_pod(make_pod("there", node="n1", requests={"cpu": "500m"}))
    return cache


@pytest.fixture
def show():
    """Nodes as plugins see them."""
    return Views().nodes


def test_nodes_stay_the_same_while_nothing_changes(cluster, show):
    infos = NodeInfos()
    before = list(infos.of(show(cluster.snapshot())))
    assert infos.of(show(cluster.snapshot())) == before
    assert infos.of(show(cluster.snapshot().take([2, 0]))) == [before[2], before[0]]


def test_only_a_node_that_changed_is_another(cluster, show, make_pod):
    infos = NodeInfos()
    before = list(infos.of(show(cluster.snapshot())))
    cluster.add_pod(make_pod("new", node="n2"))
    after = infos.of(show(cluster.snapshot()))
    assert [one is other for one, other in zip(before, after, strict=True)] == [1, 1, 0, 1]


def test_what_if(cluster, show, make_pod):
    infos, nodes = NodeInfos(), cluster.snapshot()
    as_it_is = look(infos, show(nodes))
    overlay = WhatIf(nodes)
    overlay.add_pod(make_pod("more", requests={"cpu": "1"}), 1)
    (seen,) = infos.of(show(overlay.nodes.take([1])))
    assert (seen.requested["cpu"], seen.requested["pods"]) == (1500, 2)
    assert [pod.name for pod in seen.pods] == ["there", "more"]
    assert look(infos, show(nodes)) == as_it_is


def test_a_resource_that_is_new_to_the_cluster_is_shown_everywhere(cluster, show):
    infos = NodeInfos()
    assert "example.com/gpu" not in infos.of(show(cluster.snapshot()))[0].allocatable
    cluster.update_node(make_node("n3", **{"example.com/gpu": "2"}))
    seen = [one.allocatable["example.com/gpu"] for one in infos.of(show(cluster.snapshot()))]
    assert seen == [0, 0, 0, 2]


def test_another_cluster_is_another(cluster, show, make_pod):
    infos = NodeInfos()
    assert look(infos, show(cluster.snapshot()))
    other = Cache()
    other.add_node(make_node("elsewhere"))
    assert [one.name for one in infos.of(show(other.snapshot()))] == ["elsewhere"]


def test_a_node_cannot_be_changed(cluster):
    (info,) = NodeInfos().of(Views().nodes(cluster.snapshot().take([0])))
    for name in (*PROPERTIES, "pods", "mine"):
        with pytest.raises(AttributeError, match="read-only"):
            setattr(info, name, None)
        with pytest.raises(AttributeError, match="read-only"):
            delattr(info, name)
    with pytest.raises(TypeError, match="does not support item assignment"):
        info.node.metadata.labels["a"] = "b"
    with pytest.raises(AttributeError, match="a node has no shoe"):
        _ = info.shoe


@pytest.mark.parametrize("name", ["labels", "allocatable", "requested"])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda mapping: operator.setitem(mapping, "cpu", 1), id="set"),
        pytest.param(lambda mapping: operator.delitem(mapping, "cpu"), id="delete"),
        pytest.param(lambda mapping: operator.ior(mapping, {"cpu": 1}), id="merge"),
        pytest.param(lambda mapping: mapping.update(cpu=1), id="update"),
        pytest.param(lambda mapping: mapping.setdefault("new", 1), id="setdefault"),
        pytest.param(lambda mapping: mapping.pop("cpu"), id="pop"),
        pytest.param(lambda mapping: mapping.popitem(), id="popitem"),
        pytest.param(lambda mapping: mapping.clear(), id="clear"),
    ],
)
def test_what_a_node_has_cannot_be_changed(name, change, cluster, show):
    (info,) = NodeInfos().of(show(cluster.snapshot().take([0])))
    mapping = getattr(info, name)
    before = dict(mapping)
    with pytest.raises(TypeError, match="read-only"):
        change(mapping)
    assert mapping == before


changes = st.lists(
    st.tuples(
        st.sampled_from(["pod", "gone", "node", "gpu", "no node", "look", "look at some"]),
        st.sampled_from(NAMES),
    ),
    max_size=30,
)


@settings(max_examples=40, deadline=None)
@given(changes=changes)
def test_what_was_kept_is_what_is_there(changes, make_pod):
    cache, kept, views = Cache(), NodeInfos(), Views()
    pods = []
    cache.add_node(make_node("n0"))
    for number, (what, name) in enumerate(changes):
        change(SimpleNamespace(cache=cache, pods=pods, make_pod=make_pod), what, name, number)
        nodes = cache.snapshot()
        if what == "look at some":
            nodes = nodes.take(nodes.order[::-2])
        if what.startswith("look"):
            nodes = views.nodes(nodes)
            assert look(kept, nodes) == look(NodeInfos(), nodes)
    nodes = views.nodes(cache.snapshot())
    assert look(kept, nodes) == look(NodeInfos(), nodes)


def change(there, what, name, number):
    if what == "pod":
        there.pods.append(there.make_pod(f"p{number}", node=name, requests={"cpu": "1"}))
        there.cache.add_pod(there.pods[-1])
    elif what == "gone" and there.pods:
        there.cache.remove_pod(there.pods.pop())
    elif what == "node":
        there.cache.update_node(make_node(name, rack=str(number)))
    elif what == "gpu":
        there.cache.update_node(make_node(name, **{"example.com/gpu": str(number)}))
    elif what == "no node" and there.cache.snapshot().row_of(name) is not None:
        there.cache.remove_node(make_node(name))
