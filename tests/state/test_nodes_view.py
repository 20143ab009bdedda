import numpy as np
import pytest

from kscheduler.api.core import ContainerImage, Node, NodeStatus
from kscheduler.api.labels import EVERYTHING, selector_from_labels
from kscheduler.api.meta import ObjectMeta
from kscheduler.state.cache import Cache
from tests.kit.objects import make_pod_info


def make_node(name, disk=None, *images):
    return Node(
        ObjectMeta(name=name, labels={"disk": disk} if disk else {}),
        status=NodeStatus(allocatable={"cpu": name[1:]}, images=images),
    )


def make_pod(uid, node):
    return make_pod_info(uid, uid=uid, namespace="ns", node=node)


@pytest.fixture
def cache():
    cache = Cache()
    for name, disk in [("n1", "ssd"), ("n2", None), ("n3", "hdd"), ("n4", "ssd")]:
        cache.add_node(make_node(name, disk))
    return cache


def test_a_snapshot_is_made_once_and_shows_what_is(cache):
    before = cache.snapshot()
    cache.add_pod(make_pod("u", "n2"))
    assert cache.snapshot() is before
    assert before.pod_count.tolist() == [0, 1, 0, 0]


def test_a_snapshot_is_made_anew_when_rows_change(cache):
    before = cache.snapshot()
    cache.add_node(make_node("n5"))
    assert cache.snapshot() is not before
    assert len(cache.snapshot()) == 5


def test_free_rows_look_empty(cache):
    cache.add_pod(make_pod("u", "n2"))
    cache.remove_node(make_node("n2"))
    nodes = cache.snapshot()
    assert nodes.valid.tolist() == [True, False, True, True]
    assert nodes.allocatable[1].tolist() == nodes.requested[1].tolist() == [0, 0, 0]
    assert nodes.label("disk")[1] == -1
    assert not nodes.selector_mask(EVERYTHING)[1]
    assert (nodes.total, len(nodes), nodes.row_of("n2"), nodes.name_of(1)) == (3, 4, None, "")


def test_a_mask_takes_positions_and_numbers_take_rows(cache):
    nodes = cache.snapshot()
    ssd = nodes.take(nodes.selector_mask(selector_from_labels({"disk": "ssd"})))
    assert (ssd.names, ssd.rows.tolist(), len(ssd)) == (["n1", "n4"], [0, 3], 2)
    assert ssd.take([False, True]).names == ["n4"]
    assert ssd.take([3, 2, 0]).names == ["n4", "n3", "n1"]
    assert ssd.take([]).names == []


def test_some_nodes_know_the_whole_table(cache):
    nodes = cache.snapshot()
    assert nodes.whole is nodes
    assert nodes.take([2]).whole.names == nodes.names


def test_taken_columns_are_in_the_order_taken(cache):
    cache.add_pod(make_pod("u", "n4"))
    cache.update_node(make_node("n3", "hdd", ContainerImage(("a",), 5)))
    some = cache.snapshot().take([3, 2])
    assert some.allocatable[:, 0].tolist() == [4000, 3000]
    assert some.allocatable[:, 0].flags.c_contiguous
    assert some.pod_count.tolist() == [1, 0]
    assert some.label("disk").tolist() == [0, 1]
    assert some.image("a").mask.tolist() == [False, True]
    assert (some.image("a").node_count, some.total) == (1, 4)
    assert some.name_of(0) == some.node(0).name == "n4"
    assert [pod.uid for pod in some.pods(0)] == ["u"]


def test_no_array_can_be_written(cache):
    nodes = cache.snapshot()
    for view in (nodes, nodes.take(np.array([1, 2]))):
        for name in ("rows", "valid", "allocatable", "requested", "pod_count", "taint_set"):
            with pytest.raises(ValueError, match="read-only"):
                getattr(view, name)[0] = 0


def test_generations_change_with_what_they_count(cache):
    def numbers():
        nodes = cache.snapshot()
        return nodes.generation, nodes.node_generation, nodes.label_generation

    start = numbers()
    assert numbers() == start
    cache.add_pod(make_pod("u", "n1"))
    pod_added = numbers()
    assert pod_added[0] > start[0]
    assert pod_added[1:] == start[1:]
    cache.update_node(make_node("n1", "ssd", ContainerImage(("a",), 5)))
    node_changed = numbers()
    assert node_changed[0] > pod_added[0]
    assert node_changed[1] > pod_added[1]
    assert node_changed[2] == pod_added[2]
    cache.update_node(make_node("n1", "hdd"))
    assert numbers()[2] > node_changed[2]


def test_a_selector_is_evaluated_again_only_after_labels_changed(cache):
    ssd = selector_from_labels({"disk": "ssd"})
    first = cache.snapshot().selector_mask(ssd)
    cache.add_pod(make_pod("u", "n1"))
    cache.update_node(make_node("n1", "ssd", ContainerImage(("a",), 5)))
    assert cache.snapshot().selector_mask(ssd) is first
    cache.update_node(make_node("n1", "hdd"))
    assert cache.snapshot().selector_mask(ssd).tolist() == [False, False, False, True]


def test_a_view_has_no_other_attributes(cache):
    with pytest.raises(AttributeError):
        cache.snapshot().colour  # noqa: B018
