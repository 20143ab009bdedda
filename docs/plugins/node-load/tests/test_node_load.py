"""Loads become scores, wherever they are written down."""

import pytest
from node_load import NodeLoad, NodeLoadArgs

from kscheduler.framework import ConfigError, ConfigMap, ObjectMeta
from kscheduler.testing import Stage, make_node, make_pod

ANNOTATION = "example.com/load-percent"


def loaded(name, load):
    return make_node(name, annotations={ANNOTATION: load})


def loads(**by_node):
    metadata = ObjectMeta(name="node-load", namespace="kube-system", resource_version="1")
    return ConfigMap(metadata=metadata, data=by_node)


@pytest.mark.parametrize(
    ("load", "score"),
    [
        pytest.param("0", 100, id="idle"),
        pytest.param("99.5", 0, id="busy"),
        pytest.param("250", 0, id="more than busy"),
        pytest.param("-3", 100, id="less than idle"),
        pytest.param("high", 50, id="not a number"),
        pytest.param("nan", 50, id="literally not a number"),
    ],
)
def test_an_annotation_becomes_a_score(load, score):
    stage = Stage(NodeLoad, nodes=[loaded("a", load), make_node("b")])
    assert stage.scores(make_pod("p")) == {"a": score, "b": 50}


def test_a_new_annotation_counts_at_once():
    stage = Stage(NodeLoad, nodes=[loaded("a", "10"), loaded("b", "20")])
    assert stage.scores(make_pod("p")) == {"a": 90, "b": 80}
    stage.change_node(loaded("a", "70"))
    assert stage.scores(make_pod("p")) == {"a": 30, "b": 80}


def test_a_config_map_has_them_all():
    args = {"configMap": "node-load"}
    stage = Stage(NodeLoad, args=args, nodes=[make_node("a"), loaded("b", "1")])
    assert stage.scores(make_pod("p")) == {"a": 50, "b": 50}
    stage.put(loads(a="10", b="90"))
    assert stage.scores(make_pod("p")) == {"a": 90, "b": 10}
    stage.put(loads(a="80"))
    assert stage.scores(make_pod("p")) == {"a": 20, "b": 50}


def test_what_cannot_be_read_is_counted():
    stage = Stage(NodeLoad, nodes=[loaded("a", "high")])
    for _ in range(3):
        stage.scores(make_pod("p"))
    (sample,) = stage.metrics.families["node_load_unreadable_total"].collect().samples
    assert sample.value == 1  # once per version of the node, not once per pod


def test_arguments_that_make_no_sense_are_refused():
    with pytest.raises(ConfigError, match="one of configMap and annotation is needed"):
        Stage(NodeLoad, args={"annotation": ""})
    assert NodeLoadArgs().annotation == ANNOTATION
