"""Scores: raw, brought into range, weighted and added up; or the error that stops them."""

from types import SimpleNamespace as Plugin

import numpy as np
import pytest

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import ALL_ZERO, SKIP, Code, Status, failed, rejected
from kscheduler.runtime.score import PluginScores


def scoring(name, *scores, **methods):
    return Plugin(name=name, score=lambda cycle, pod, nodes: np.array(scores), **methods)


def raising(*_):
    raise ValueError("oops")


def scored(board):
    return {
        name: (weight, raw.tolist(), normalized.tolist()) for name, weight, raw, normalized in board
    }


def test_weights_multiply_and_totals_add_up(make_framework, cycle, pod, nodes):
    framework = make_framework(
        scoring("A", 1, 2, 3), scoring("B", 100, 0, 50), weights={"A": 2, "B": 3}
    )
    board = framework.run_score(cycle, pod, nodes)
    assert scored(board) == {
        "A": (2, [1, 2, 3], [1, 2, 3]),
        "B": (3, [100, 0, 50], [100, 0, 50]),
    }
    assert board.total.tolist() == [302, 4, 156]


def test_normalizing_sees_the_raw_scores_and_leaves_them(make_framework, cycle, pod, nodes):
    halved = scoring("A", 100, 150, 200, normalize=lambda cycle, pod, scores, nodes: scores // 2)
    (one,) = make_framework(halved).run_score(cycle, pod, nodes)
    assert isinstance(one, PluginScores)
    assert (one.raw.tolist(), one.normalized.tolist()) == ([100, 150, 200], [50, 75, 100])


@pytest.mark.parametrize("sampled", [False, True])
def test_a_plugin_that_gives_zero_to_all_is_shown_with_zeros(make_framework, pod, nodes, sampled):
    def normalize(cycle, pod, scores, nodes):
        assert sampled, "normalize is only called to be timed"
        return scores

    indifferent = Plugin(name="A", score=lambda cycle, pod, nodes: ALL_ZERO, normalize=normalize)
    framework = make_framework(indifferent, scoring("B", 100, 0, 50), weights={"A": 2, "B": 3})
    board = framework.run_score(CycleState(sampled=sampled), pod, nodes)
    assert scored(board) == {"A": (2, [0, 0, 0], [0, 0, 0]), "B": (3, [100, 0, 50], [100, 0, 50])}
    assert board.total.tolist() == [300, 0, 150]


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        pytest.param(
            scoring("A", 0, 101, 0),
            "applying score defaultWeights on Score plugins: "
            'plugin "A" returns an invalid score 101, '
            "it should in the range of [0, 100] after normalizing",
            id="too high",
        ),
        pytest.param(
            scoring("A", 0, 0, -1),
            "applying score defaultWeights on Score plugins: "
            'plugin "A" returns an invalid score -1, '
            "it should in the range of [0, 100] after normalizing",
            id="negative",
        ),
        pytest.param(
            scoring("A", 0, 0, 0, normalize=lambda c, p, scores, n: scores + 101),
            "applying score defaultWeights on Score plugins: "
            'plugin "A" returns an invalid score 101, '
            "it should in the range of [0, 100] after normalizing",
            id="too high once normalized",
        ),
        pytest.param(
            Plugin(name="A", score=raising),
            'running Score plugins: plugin "A" failed with: ValueError: oops',
            id="score raises",
        ),
        pytest.param(
            scoring("A", 1, 2, 3, normalize=raising),
            'running Normalize on Score plugins: plugin "A" failed with: ValueError: oops',
            id="normalize raises",
        ),
        pytest.param(
            scoring("A", 1, 2),
            'running Score plugins: plugin "A" failed with: '
            "expected an array of 3 scores, got an array of shape (2,)",
            id="too few",
        ),
        pytest.param(
            scoring("A", 1.0, float("nan"), 2.0),
            'running Score plugins: plugin "A" failed with: a score is not a number',
            id="not a number",
        ),
        pytest.param(
            scoring("A", "1", "2", "3"),
            'running Score plugins: plugin "A" failed with: scores are <U1, not numbers',
            id="text",
        ),
    ],
)
def test_scores_that_cannot_be_used(plugin, message, make_framework, cycle, pod, nodes):
    framework = make_framework(scoring("Z", 1, 1, 1), plugin)
    assert framework.run_score(cycle, pod, nodes) == Status(Code.ERROR, (message,))


def test_the_range_is_checked_only_after_normalizing(make_framework, cycle, pod, nodes):
    wild = scoring("A", -500, 0, 500, normalize=lambda c, p, scores, n: (scores + 500) // 10)
    assert make_framework(wild).run_score(cycle, pod, nodes).total.tolist() == [0, 50, 100]


@pytest.mark.parametrize(
    "scores",
    [
        pytest.param([1, 2, 3], id="a list"),
        pytest.param(np.array([1, 2, 3], np.int32), id="small integers"),
        pytest.param(np.array([1.9, 2.1, 3.0]), id="floats lose their fraction"),
        pytest.param((1, 2, 3), id="a tuple"),
    ],
)
def test_scores_of_other_types_are_understood(scores, make_framework, cycle, pod, nodes):
    plugin = Plugin(name="A", score=lambda *_: scores)
    board = make_framework(plugin).run_score(cycle, pod, nodes)
    assert (board.total.tolist(), board.total.dtype) == ([1, 2, 3], np.int64)


def test_skipping_in_pre_score_leaves_the_score_out(make_framework, cycle, pod, nodes):
    skipping = Plugin(name="A", pre_score=lambda *_: SKIP, score=raising)
    framework = make_framework(skipping, scoring("B", 1, 2, 3))
    assert framework.run_pre_score(cycle, pod, nodes) is None
    assert framework.run_score(cycle, pod, nodes).total.tolist() == [1, 2, 3]


def test_when_all_skip_every_total_is_zero(make_framework, cycle, pod, nodes):
    framework = make_framework(Plugin(name="A", pre_score=lambda *_: SKIP, score=raising))
    framework.run_pre_score(cycle, pod, nodes)
    board = framework.run_score(cycle, pod, nodes)
    assert (list(board), board.total.tolist()) == ([], [0, 0, 0])


@pytest.mark.parametrize(
    ("pre_score", "message"),
    [
        pytest.param(lambda *_: failed("boom"), "boom", id="error"),
        pytest.param(lambda *_: rejected("no"), "no", id="a rejection is an error here"),
        pytest.param(raising, "ValueError: oops", id="exception"),
    ],
)
def test_pre_score_failures(pre_score, message, make_framework, cycle, pod, nodes):
    framework = make_framework(Plugin(name="A", pre_score=pre_score))
    text = f'running PreScore plugin "A": {message}'
    assert framework.run_pre_score(cycle, pod, nodes) == Status(Code.ERROR, (text,))


def test_evaluations(make_framework, cycle, pod, nodes, metrics):
    framework = make_framework(
        Plugin(name="A", pre_score=lambda *_: SKIP, score=raising),
        scoring("B", 1, 2, 3, pre_score=lambda *_: None),
    )
    framework.run_pre_score(cycle, pod, nodes)
    framework.run_score(cycle, pod, nodes)
    family = metrics.plugin_evaluation_total
    counted = {
        (name, point): family.labels(name, point, "default-scheduler").value
        for name in "AB"
        for point in ("PreScore", "Score")
    }
    assert counted == {
        ("A", "PreScore"): 0,
        ("A", "Score"): 0,
        ("B", "PreScore"): 1,
        ("B", "Score"): 3,
    }


def test_sampled_attempts_time_normalizing_on_its_own(make_framework, cycle, pod, nodes, metrics):
    cycle.sampled = True
    framework = make_framework(scoring("A", 1, 2, 3, normalize=lambda c, p, scores, n: scores))
    framework.run_score(cycle, pod, nodes)
    family = metrics.plugin_execution_duration_seconds
    assert family.labels("A", "Score", "Success").count == 1
    assert family.labels("A", "ScoreExtensionNormalize", "Success").count == 1
