"""How the answers of PreFilter plugins combine."""

from types import SimpleNamespace as Plugin

import pytest

from kscheduler.errors import KschedulerError
from kscheduler.framework.plugin import NodeNames
from kscheduler.framework.status import (
    SKIP,
    Code,
    Status,
    failed,
    rejected,
    rejected_for_good,
)
from kscheduler.runtime.pre_filter import PreFilterOutcome


def answering(name, answer):
    return Plugin(name=name, pre_filter=lambda cycle, pod, nodes: answer)


def raising(name, error):
    def pre_filter(cycle, pod, nodes):
        raise error

    return Plugin(name=name, pre_filter=pre_filter)


def only(*names):
    return NodeNames(frozenset(names))


def outcome(code=None, *reasons, plugin="", names=None, plugins=()):
    status = None if code is None else Status(code, reasons, plugin)
    return PreFilterOutcome(status, None if names is None else frozenset(names), frozenset(plugins))


@pytest.mark.parametrize(
    ("plugins", "want"),
    [
        pytest.param([], outcome(), id="no plugin"),
        pytest.param([answering("A", None), answering("B", None)], outcome(), id="all agree"),
        pytest.param([answering("A", Status(Code.SUCCESS))], outcome(), id="success said aloud"),
        pytest.param(
            [answering("A", rejected("a")), answering("B", None)],
            outcome(Code.UNSCHEDULABLE, "a", plugin="A"),
            id="a rejection",
        ),
        pytest.param(
            [answering("A", rejected("a")), answering("B", rejected("b"))],
            outcome(Code.UNSCHEDULABLE, "b", plugin="B"),
            id="of two rejections the last is told",
        ),
        pytest.param(
            [answering("A", rejected("a")), answering("B", rejected_for_good("b"))],
            outcome(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "b", plugin="B"),
            id="unresolvable wins",
        ),
        pytest.param(
            [answering("A", failed("boom"))],
            outcome(Code.ERROR, 'running PreFilter plugin "A": boom', plugin="A"),
            id="an error",
        ),
        pytest.param(
            [answering("A", Status(Code.PENDING, ("later",)))],
            outcome(Code.ERROR, 'running PreFilter plugin "A": later', plugin="A"),
            id="pending is no answer here",
        ),
        pytest.param(
            [raising("A", KeyError("x"))],
            outcome(Code.ERROR, "running PreFilter plugin \"A\": KeyError: 'x'", plugin="A"),
            id="an exception is an error",
        ),
        pytest.param(
            [raising("A", KschedulerError("no such claim"))],
            outcome(Code.ERROR, 'running PreFilter plugin "A": no such claim', plugin="A"),
            id="an exception fit to be shown is told as it is",
        ),
        pytest.param(
            [answering("A", only("n1")), answering("B", None)],
            outcome(names={"n1"}, plugins={"A"}),
            id="only some nodes",
        ),
        pytest.param(
            [answering("A", only("n2")), answering("B", only("n1", "n2"))],
            outcome(names={"n2"}, plugins={"A", "B"}),
            id="nodes both want",
        ),
        pytest.param(
            [answering("B", only("n1")), answering("A", only("n2"))],
            outcome(
                Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
                "node(s) didn't satisfy plugin(s) [A B] simultaneously",
                names=(),
                plugins={"A", "B"},
            ),
            id="nodes nobody agrees on",
        ),
        pytest.param(
            [answering("A", only())],
            outcome(
                Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
                "node(s) didn't satisfy plugin A",
                names=(),
                plugins={"A"},
            ),
            id="no node at all",
        ),
        pytest.param(
            [answering("A", rejected("a")), answering("B", only("n1"))],
            outcome(Code.UNSCHEDULABLE, "a", plugin="A", names={"n1"}, plugins={"B"}),
            id="a rejection beside a restriction",
        ),
    ],
)
def test_answers_combine(plugins, want, make_framework, cycle, pod, nodes):
    assert make_framework(*plugins).run_pre_filter(cycle, pod, nodes) == want


@pytest.mark.parametrize(
    ("first", "asked"),
    [
        pytest.param(None, ["A", "B"], id="after success"),
        pytest.param(SKIP, ["A", "B"], id="after skip"),
        pytest.param(rejected("a"), ["A", "B"], id="after a rejection"),
        pytest.param(rejected_for_good("a"), ["A"], id="not after an unresolvable one"),
        pytest.param(failed("a"), ["A"], id="not after an error"),
        pytest.param(only(), ["A"], id="not when no node is left"),
    ],
)
def test_who_is_still_asked(first, asked, make_framework, cycle, pod, nodes):
    heard = []

    def plugin(name, answer):
        return Plugin(name=name, pre_filter=lambda *_: (heard.append(name), answer)[1])

    make_framework(plugin("A", first), plugin("B", None)).run_pre_filter(cycle, pod, nodes)
    assert heard == asked


def test_skipping_leaves_the_filter_and_the_extensions_out(make_framework, cycle, pod, nodes):
    def never(*_):
        raise AssertionError

    skipping = Plugin(
        name="A",
        pre_filter=lambda *_: SKIP,
        filter=never,
        add_pod=never,
        remove_pod=never,
    )
    framework = make_framework(skipping)
    framework.run_pre_filter(cycle, pod, nodes)
    assert cycle.skip_filter == {"A"}
    assert framework.run_filter(cycle, pod, nodes).feasible.tolist() == [0, 1, 2]
    assert framework.run_add_pod(cycle, pod, pod, 0, nodes) is None
    assert framework.run_remove_pod(cycle, pod, pod, 0, nodes) is None


def test_what_was_skipped_is_asked_again_in_the_next_pre_filter(make_framework, cycle, pod, nodes):
    answers = iter([SKIP, None])
    framework = make_framework(Plugin(name="A", pre_filter=lambda *_: next(answers)))
    framework.run_pre_filter(cycle, pod, nodes)
    framework.run_pre_filter(cycle, pod, nodes)
    assert cycle.skip_filter == set()


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param(None, None, id="success"),
        pytest.param(failed("boom"), 'running AddPod on PreFilter plugin "A": boom', id="error"),
        pytest.param(rejected("no"), 'running AddPod on PreFilter plugin "A": no', id="rejection"),
    ],
)
def test_adding_a_pod(status, want, make_framework, make_pod, cycle, pod, nodes):
    seen = []

    def add_pod(cycle, pod, added, row, nodes):
        seen.append((pod.name, added.name, row))
        return status

    plugin = Plugin(
        name="A", pre_filter=lambda *_: None, add_pod=add_pod, remove_pod=lambda *_: None
    )
    result = make_framework(plugin).run_add_pod(cycle, pod, make_pod("new"), 2, nodes)
    assert result == (want and Status(Code.ERROR, (want,)))
    assert seen == [("p", "new", 2)]


def test_removing_a_pod_that_raises(make_framework, cycle, pod, nodes):
    def remove_pod(*_):
        raise ValueError("lost count")

    plugin = Plugin(
        name="A", pre_filter=lambda *_: None, add_pod=lambda *_: None, remove_pod=remove_pod
    )
    result = make_framework(plugin).run_remove_pod(cycle, pod, pod, 0, nodes)
    assert result.message == ('running RemovePod on PreFilter plugin "A": ValueError: lost count')


def test_evaluations_are_counted_unless_skipped(make_framework, cycle, pod, nodes, metrics):
    framework = make_framework(answering("A", None), answering("B", SKIP))
    framework.run_pre_filter(cycle, pod, nodes)
    counted = {
        name: metrics.plugin_evaluation_total.labels(name, "PreFilter", "default-scheduler").value
        for name in "AB"
    }
    assert counted == {"A": 1, "B": 0}
