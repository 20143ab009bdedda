"""Decisions in a line each."""

import pytest

from kscheduler.cli.board.sentences import decision_line
from tests.cli.board.scenes import record

NAMES = ("node-1", "node-4")
SCORES = {
    "NodeResourcesFit": (1, [95, 98]),
    "PodTopologySpread": (2, [100, 100]),
    "TaintToleration": (3, [100, 100]),
    "ImageLocality": (1, [0, 0]),
}


@pytest.mark.parametrize(
    ("attempt", "want"),
    [
        pytest.param(
            record(NAMES, node="node-4", scores=SCORES),
            "web-3 → node-4: Fit 98 + Spread 200 + Taints 300 = 598, next node-1 595",
            id="scores, their sum, and the next best node",
        ),
        pytest.param(
            record(NAMES, node="node-4", scores={"MyPlugin": (5, [7, 7])}),
            "web-3 → node-4: 35, drawn among 2 equals",
            id="equals",
        ),
        pytest.param(
            record(NAMES, node="node-4"),
            "web-3 → node-4: the only node that fits, of 2",
            id="nothing to choose from",
        ),
        pytest.param(
            record(NAMES, node="node-4", only_tried="nominated"),
            "web-3 → node-4: nominated for it, where room was made",
            id="nominated",
        ),
        pytest.param(
            record(NAMES, node="node-4", only_tried="batch"),
            "web-3 → node-4: the best node left of those found for the pod before it",
            id="batch",
        ),
        pytest.param(
            record(NAMES, victims=["a", "b"], nominated_node="node-1"),
            "web-3 evicts a b to get node-1",
            id="a preemption",
        ),
        pytest.param(
            record(NAMES, victims=list("abcdef"), nominated_node="node-1"),
            "web-3 evicts a b c d and 2 more to get node-1",
            id="a preemption of many",
        ),
        pytest.param(
            record(NAMES, rejected={"Insufficient cpu": 2}, shortage=("cpu", 8000, 1500, 1)),
            "web-3 waits: 2 Insufficient cpu (asks 8, at most 1500m left on node-4)",
            id="a shortage",
        ),
        pytest.param(
            record(NAMES, rejected=dict.fromkeys("abcde", 1)),
            "web-3 waits: 1 a; 1 b; 1 c; and 2 more reasons",
            id="many reasons",
        ),
        pytest.param(
            record(NAMES, message="no nodes \x1b[2Javailable"),
            "web-3 waits: no nodes \N{REPLACEMENT CHARACTER}[2Javailable",
            id="nothing but a message",
        ),
    ],
)
def test_a_decision_is_told_in_a_line(attempt, want):
    assert decision_line("web-3", attempt).plain == want


def test_a_sum_is_told_without_its_parts_where_there_is_no_room():
    line = decision_line("web-3", record(NAMES, node="node-4", scores=SCORES), brief=True)
    assert line.plain == "web-3 → node-4: 598, next node-1 595"


def test_plugins_that_we_have_no_word_for_come_before_the_last():
    scores = {"TaintToleration": (3, [100, 100]), "Mine": (1, [0, 1]), "ImageLocality": (1, [2, 2])}
    line = decision_line("p", record(NAMES, node="node-4", scores=scores))
    assert line.plain == "p → node-4: Image 2 + Mine 1 + Taints 300 = 303, next node-1 302"


def test_victims_are_struck_through():
    line = decision_line("vip", record(NAMES, victims=["low"], nominated_node="node-1"))
    assert [
        line.plain[one.start : one.end] for one in line.spans if "strike" in str(one.style)
    ] == ["low"]
