"""A plugin of others that is asked node by node goes wrong as harmlessly as one over columns."""

import time

import pytest

from kscheduler.framework import Code, Status, rejected

TIMED_OUT = "timed out: it had not answered after 200ms"
NOT_A_STATUS = "expected a Status or None"
CHANGED = "tried to change what it was given: "


def at_n1(does):
    """Fine with every node but n1."""
    return lambda self, cycle, pod, node: does(node) if node.name == "n1" else None


def scored_at_n1(does):
    return lambda self, cycle, pod, node: does(node) if node.name == "n1" else 1


def boom(node):
    raise ValueError("oops")


def hang(node):
    time.sleep(60)


def swallow(node):
    while True:
        try:
            time.sleep(60)
        except Exception:
            continue


def rename(node):
    node.name = "other"


def relabel(node):
    node.labels["a"] = "b"


def relabel_object(node):
    node.node.metadata.labels["a"] = "b"


def spend(node):
    node.requested["cpu"] = 1


def evict(node):
    del node.pods


READ_ONLY = CHANGED + "AttributeError: {} of a node is read-only"
NO_ASSIGNMENT = CHANGED + "TypeError: what a node has is read-only"
FROZEN = CHANGED + "TypeError: 'mappingproxy' object does not support item assignment"
WRONG_EVERYWHERE = [
    pytest.param(boom, "ValueError: oops", "exception", id="raises"),
    pytest.param(hang, TIMED_OUT, "timeout", id="hangs"),
    pytest.param(swallow, TIMED_OUT, "timeout", id="hangs and swallows exceptions"),
    pytest.param(rename, READ_ONLY.format("name"), "mutation", id="writes to the node"),
    pytest.param(evict, READ_ONLY.format("pods"), "mutation", id="deletes the node's pods"),
    pytest.param(relabel, NO_ASSIGNMENT, "mutation", id="writes to labels"),
    pytest.param(relabel_object, FROZEN, "mutation", id="writes to the API object"),
    pytest.param(spend, NO_ASSIGNMENT, "mutation", id="writes to amounts"),
]


@pytest.mark.parametrize(
    ("does", "text", "fault"),
    [
        *WRONG_EVERYWHERE,
        pytest.param(lambda _: 7, f"returned int 7, {NOT_A_STATUS}", "answer", id="a number"),
        pytest.param(
            lambda _: False, f"returned bool False, {NOT_A_STATUS}", "answer", id="a boolean"
        ),
        pytest.param(
            lambda _: "no", f"returned str 'no', {NOT_A_STATUS}", "answer", id="a sentence"
        ),
    ],
)
def test_a_filter_that_goes_wrong(
    does, text, fault, guarded, make_framework, cycle, pod, nodes, faults
):
    framework = make_framework(guarded(filter_node=at_n1(does)))
    filtered = framework.run_filter(cycle, pod, nodes)
    (error,) = filtered.errors
    assert error.reason == f'running "A" filter plugin: {text}'
    assert filtered.count == 0
    assert faults() == {("Filter", fault): 1}
    assert not nodes.node(1).metadata.labels


def test_a_code_that_does_not_reject_is_no_answer(
    guarded, make_framework, cycle, pod, nodes, faults
):
    framework = make_framework(guarded(filter_node=at_n1(lambda _: Status(Code.SKIP, ("no",)))))
    (error,) = framework.run_filter(cycle, pod, nodes).errors
    assert error.reason.endswith("expected a code that rejects, or Code.ERROR")
    assert faults() == {("Filter", "answer"): 1}


def test_a_node_that_cannot_be_judged(guarded, make_framework, cycle, pod, nodes, faults):
    framework = make_framework(guarded(filter_node=at_n1(lambda _: Status(Code.ERROR, ("what?",)))))
    filtered = framework.run_filter(cycle, pod, nodes)
    assert [(one.rows.tolist(), one.reason) for one in filtered.errors] == [
        ([1], 'running "A" filter plugin: what?')
    ]
    assert filtered.feasible.tolist() == [0, 2]
    assert faults() == {}


SCORE_FAILED = 'running Score plugins: plugin "A" failed with: '
BEYOND = (
    'applying score defaultWeights on Score plugins: plugin "A" returns an invalid score {}, '
    "it should in the range of [0, 100] after normalizing"
)


@pytest.mark.parametrize(
    ("does", "message", "fault"),
    [
        *(
            pytest.param(one.values[0], SCORE_FAILED + one.values[1], one.values[2], id=one.id)
            for one in WRONG_EVERYWHERE
        ),
        pytest.param(
            lambda _: float("nan"), SCORE_FAILED + "a score is not a number", "score", id="NaN"
        ),
        pytest.param(
            lambda _: float("inf"), SCORE_FAILED + "a score is not a number", "score", id="infinite"
        ),
        pytest.param(lambda _: 101, BEYOND.format(101), "score", id="too high"),
        pytest.param(lambda _: -1, BEYOND.format(-1), "score", id="negative"),
        pytest.param(
            lambda _: 1e300, SCORE_FAILED + "a score does not fit 64 bits", "answer", id="huge"
        ),
        pytest.param(
            lambda _: 1 << 70,
            SCORE_FAILED + "scores are object, not numbers",
            "answer",
            id="a huge integer",
        ),
        pytest.param(
            lambda _: None, SCORE_FAILED + "scores are object, not numbers", "answer", id="nothing"
        ),
        pytest.param(
            lambda _: "5", SCORE_FAILED + "scores are <U21, not numbers", "answer", id="a string"
        ),
    ],
)
def test_a_score_that_goes_wrong(
    does, message, fault, guarded, make_framework, cycle, pod, nodes, faults
):
    framework = make_framework(guarded(score_node=scored_at_n1(does)))
    assert framework.run_score(cycle, pod, nodes) == Status(Code.ERROR, (message,))
    assert faults() == {("Score", fault): 1}
    assert not nodes.node(1).metadata.labels


def test_after_a_fault_it_is_asked_again_as_if_nothing_had_been(
    guarded, make_framework, cycle, pod, nodes, faults
):
    hanging = {"n1"}

    def filter_node(self, cycle, pod, node):
        if node.name in hanging:
            hang(node)
        return rejected("not n2") if node.name != "n2" else None

    framework = make_framework(guarded(filter_node=filter_node))
    assert framework.run_filter(cycle, pod, nodes).errors
    hanging.clear()
    filtered = framework.run_filter(cycle, pod, nodes)
    assert filtered.feasible.tolist() == [2]
    assert [(one.rows.tolist(), one.reason) for one in filtered.charges] == [([0, 1], "not n2")]
