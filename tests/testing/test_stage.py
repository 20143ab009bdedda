"""A plugin under test is called as the scheduler calls it."""

import pytest

from kscheduler.errors import KschedulerError
from kscheduler.framework import (
    SKIP,
    Code,
    NodeNames,
    Rejection,
    Status,
    failed,
    rejected,
    rejected_for_good,
    unschedulable,
)
from kscheduler.testing import Stage, make_node, make_pod

NODES = [make_node("a"), make_node("b"), make_node("c")]
POD = make_pod("p")


def plugin_of(**methods):
    return type("Mine", (), {"name": "Mine", "__init__": lambda *_: None, **methods})


def stage_of(**methods):
    return Stage(plugin_of(**methods), nodes=NODES)


def answer(value):
    return lambda *_: value


def reject_all(self, cycle, pod, nodes):
    yield unschedulable(nodes.valid, "no")


@pytest.mark.parametrize(
    ("methods", "want"),
    [
        pytest.param({"filter": reject_all}, {"a": ["no"], "b": ["no"], "c": ["no"]}, id="filter"),
        pytest.param(
            {
                "filter_node": lambda self, cycle, pod, node: (
                    rejected("b") if node.name == "b" else None
                )
            },
            {"b": ["b"]},
            id="node by node",
        ),
        pytest.param({"pre_filter": answer(None)}, {}, id="PreFilter alone"),
        pytest.param(
            {"pre_filter": answer(rejected("not now")), "filter": answer(())},
            {"a": ["not now"], "b": ["not now"], "c": ["not now"]},
            id="PreFilter rejects",
        ),
        pytest.param(
            {"pre_filter": answer(Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("x", "y")))},
            {"a": ["x", "y"], "b": ["x", "y"], "c": ["x", "y"]},
            id="PreFilter rejects for good",
        ),
        pytest.param({"pre_filter": answer(SKIP), "filter": reject_all}, {}, id="PreFilter skips"),
        pytest.param(
            {"pre_filter": answer(NodeNames(frozenset({"b", "gone"}))), "filter": reject_all},
            {
                "a": ["node(s) didn't satisfy plugin(s) [Mine]"],
                "b": ["no"],
                "c": ["node(s) didn't satisfy plugin(s) [Mine]"],
            },
            id="PreFilter names nodes",
        ),
    ],
)
def test_rejections(methods, want):
    assert stage_of(**methods).rejections(POD) == want


class Prepared:
    def __init__(self, name):
        self.name = name


def test_every_attempt_has_a_state_of_its_own():
    seen = []

    def pre_filter(self, cycle, pod, nodes):
        seen.append(cycle.get(Prepared))
        cycle.put(Prepared(pod.name))

    def filter(self, cycle, pod, nodes):
        yield unschedulable(nodes.valid, f"prepared for {cycle[Prepared].name}")

    def permit(self, cycle, pod, node):
        seen.append(cycle[Prepared].name)

    stage = stage_of(pre_filter=pre_filter, filter=filter, permit=permit)
    assert stage.rejections(make_pod("p"))["a"] == ["prepared for p"]
    assert stage.rejections(make_pod("q"))["a"] == ["prepared for q"]
    stage.permit(make_pod("p"), "a")
    assert seen == [None, None, "p"]


def test_only_nodes_that_can_take_the_pod_are_scored():
    def filter(self, cycle, pod, nodes):
        yield unschedulable(nodes.valid & (nodes.rows == 1), "no")

    def score(self, cycle, pod, nodes):
        return [10 * len(nodes)] * len(nodes)

    stage = stage_of(filter=filter, score=score)
    assert stage.scores(POD) == {"a": 20, "c": 20}


def test_scores_are_normalized():
    stage = stage_of(
        score=lambda self, cycle, pod, nodes: nodes.rows * 7,
        normalize=lambda self, cycle, pod, scores, nodes: scores * 100 // scores.max(),
    )
    assert stage.scores(POD) == {"a": 0, "b": 50, "c": 100}


def test_a_plugin_that_skips_scores_nothing():
    def score(self, cycle, pod, nodes):
        raise AssertionError

    assert stage_of(pre_score=answer(SKIP), score=score).scores(POD) == {}


def broken(*_):
    raise ZeroDivisionError("oops")


@pytest.mark.parametrize("method", ["pre_filter", "filter", "filter_node"])
def test_exceptions_are_raised_on(method):
    with pytest.raises(ZeroDivisionError, match="oops"):
        stage_of(**{method: broken}).rejections(POD)


@pytest.mark.parametrize("method", ["pre_score", "score"])
def test_exceptions_of_scoring_are_raised_on(method):
    methods = {"score": lambda self, cycle, pod, nodes: nodes.rows, method: broken}
    with pytest.raises(ZeroDivisionError, match="oops"):
        stage_of(**methods).scores(POD)


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        pytest.param(
            {"pre_filter": answer(failed("no idea"))},
            'running PreFilter plugin "Mine": no idea',
            id="PreFilter",
        ),
        pytest.param(
            {"filter": lambda s, c, p, nodes: [Rejection(nodes.valid, Code.ERROR, "no idea")]},
            'running "Mine" filter plugin: no idea',
            id="Filter",
        ),
        pytest.param(
            {"score": lambda self, cycle, pod, nodes: [101] * len(nodes)},
            'plugin "Mine" returns an invalid score 101',
            id="scores out of range",
        ),
    ],
)
def test_attempts_that_fail_say_why(methods, message):
    with pytest.raises(KschedulerError, match=message):
        stage_of(**methods).scores(POD)


def test_what_the_plugin_answers_wrong_is_told():
    with pytest.raises(KschedulerError, match="expected an iterable of Rejections"):
        stage_of(filter=answer(rejected_for_good("x"))).rejections(POD)
