"""What plugins of others see: the same as our own, and nothing they could write to."""

import msgspec
import numpy as np
import pytest

from kscheduler.api.core import Node
from kscheduler.api.meta import ObjectMeta
from kscheduler.framework.node_column import NodeColumn
from kscheduler.framework.views import Views, frozen, thawed
from kscheduler.state.what_if import WhatIf


@pytest.fixture
def views():
    return Views()


def test_columns_are_those_of_the_cache(views, cluster, make_pod):
    cluster.add_pod(make_pod("a", node="n1", requests={"cpu": "1500m"}))
    nodes = views.nodes(cluster.snapshot())
    assert len(nodes) == 3
    assert nodes.names == ("n0", "n1", "n2")
    assert nodes.pod_count.tolist() == [0, 1, 0]
    assert nodes.requested_of("cpu").tolist() == [0, 1500, 0]
    assert nodes.requested_of("example.com/none").tolist() == [0, 0, 0]
    assert nodes.valid.tolist() == [True] * 3
    zones = nodes.label_values("zone")
    assert nodes.label("zone").tolist() == [zones["z0"], zones["z1"], zones["z0"]]
    numbers, valid = nodes.label_numbers("rank")
    assert (numbers.tolist(), valid.all()) == ([0, 1, 2], True)
    assert [one.key for one in nodes.pods(1)] == ["default/a"]
    assert nodes.node(2).metadata.annotations["load"] == "20"
    assert nodes.row_of("n2") == 2


def test_a_narrowed_view_is_aligned(views, cluster):
    nodes = views.nodes(cluster.snapshot().take([2, 0]))
    assert nodes.names == ("n2", "n0")
    assert nodes.rows.tolist() == [2, 0]
    assert nodes.row_count == 3
    assert nodes.name_of(0) == "n2"


@pytest.mark.parametrize(
    "column",
    ["rows", "valid", "unschedulable", "pod_count", "max_pods", "allocatable", "requested"],
)
def test_no_column_can_be_made_writable(column, views, cluster):
    for nodes in (cluster.snapshot(), cluster.snapshot().take([0])):
        array = getattr(views.nodes(nodes), column)
        with pytest.raises(ValueError, match="cannot set WRITEABLE"):
            array.setflags(write=True)
        assert np.array_equal(array, getattr(nodes, column))


def test_a_frozen_object_equals_its_original_and_is_made_once(views, cluster):
    nodes = cluster.snapshot()
    seen = views.nodes(nodes).node(0)
    assert seen == nodes.node(0)
    assert seen is not nodes.node(0)
    assert views.nodes(nodes).node(0) is seen


def test_freezing_reaches_everything():
    deep = {"a": [{"b": {"c": 1}}]}
    ice = frozen(deep)
    with pytest.raises(TypeError):
        ice["a"][0]["b"]["c"] = 2
    with pytest.raises(AttributeError):
        ice["a"].append(1)
    assert msgspec.json.encode(thawed(ice)) == msgspec.json.encode(deep)


def load(node):
    return float(node.metadata.annotations["load"])


def renamed(name, load):
    return Node(metadata=ObjectMeta(name=name, uid=name, annotations={"load": str(load)}))


def test_a_column_of_ones_own_follows_the_nodes(views, cluster, make_pod):
    asked = []
    column = NodeColumn(lambda node: asked.append(node.name) or load(node))
    assert column(views.nodes(cluster.snapshot())).tolist() == [0, 10, 20]
    assert column(views.nodes(cluster.snapshot().take([2, 1]))).tolist() == [20, 10]
    cluster.add_pod(make_pod("a", node="n1"))
    cluster.update_node(renamed("n1", 77))
    assert column(views.nodes(cluster.snapshot())).tolist() == [0, 77, 20]
    assert asked == ["n0", "n1", "n2", "n1"]


def test_a_column_of_ones_own_follows_nodes_that_come_and_go(views, cluster):
    column = NodeColumn(load)
    column(views.nodes(cluster.snapshot()))
    cluster.remove_node(cluster.snapshot().node(0))
    assert column(views.nodes(cluster.snapshot())).tolist() == [0, 10, 20]
    cluster.add_node(renamed("n3", 30))
    cluster.add_node(renamed("n4", 40))
    nodes = cluster.snapshot()
    seen = column(views.nodes(nodes)).tolist()
    by_name = {nodes.name_of(row): seen[row] for row in range(len(nodes))}
    assert by_name == {"n1": 10, "n2": 20, "n3": 30, "n4": 40}


def test_a_column_of_ones_own_in_a_what_if(views, cluster, make_pod):
    column = NodeColumn(load)
    what_if = WhatIf(cluster.snapshot())
    what_if.add_pod(make_pod("a"), 0)
    assert column(views.nodes(what_if.nodes)).tolist() == [0, 10, 20]


def test_a_column_that_failed_is_worked_out_again(views, cluster):
    problems = [ValueError("oops")]

    def sometimes(node):
        if node.name == "n1" and problems:
            raise problems.pop()
        return load(node)

    column = NodeColumn(sometimes)
    with pytest.raises(ValueError, match="oops"):
        column(views.nodes(cluster.snapshot()))
    assert column(views.nodes(cluster.snapshot())).tolist() == [0, 10, 20]


def test_a_column_of_ones_own_for_an_in_tree_plugin(cluster):
    nodes = cluster.snapshot()
    assert NodeColumn(load)(nodes).tolist() == [0, 10, 20]
    assert NodeColumn(load)(nodes.take([2, 0])).tolist() == [20, 0]
