"""Filter: every node is charged to the first plugin that rejects it."""

from types import SimpleNamespace as Plugin

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Code, Rejection, unresolvable, unschedulable
from kscheduler.metrics import Metrics
from kscheduler.runtime.filter import NARROW_FROM, Filtering


def mask(nodes, *names):
    return np.isin(nodes.names, names)


def rejecting(name, *verdicts):
    """Verdicts are (make, node names, reason)."""

    def filter(cycle, pod, nodes):
        for make, names, reason in verdicts:
            yield make(mask(nodes, *names), reason)

    return Plugin(name=name, filter=filter)


def errs(mask, reason):
    return Rejection(mask, Code.ERROR, reason)


def pending(mask, reason):
    return Rejection(mask, Code.PENDING, reason)


def told(charges, nodes):
    return [
        (charge.plugin, [nodes.name_of(row) for row in charge.rows], charge.code, charge.reason)
        for charge in charges
    ]


U, UU = Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE


@pytest.mark.parametrize(
    ("plugins", "feasible", "charges"),
    [
        pytest.param([], [0, 1, 2], [], id="no plugin"),
        pytest.param([rejecting("A")], [0, 1, 2], [], id="nothing to object"),
        pytest.param(
            [rejecting("A", (unschedulable, ["n1"], "a"))],
            [0, 2],
            [("A", ["n1"], U, "a")],
            id="one node",
        ),
        pytest.param(
            [
                rejecting("A", (unschedulable, ["n1"], "a")),
                rejecting("B", (unresolvable, ["n1", "n2"], "b")),
            ],
            [0],
            [("A", ["n1"], U, "a"), ("B", ["n2"], UU, "b")],
            id="the first plugin is charged",
        ),
        pytest.param(
            [rejecting("A", (unschedulable, ["n0", "n1"], "a"), (unresolvable, ["n1"], "b"))],
            [2],
            [("A", ["n0", "n1"], U, "a"), ("A", ["n1"], UU, "b")],
            id="with all its reasons",
        ),
        pytest.param(
            [
                rejecting("A", (unschedulable, ["n0", "n1", "n2"], "a")),
                rejecting("B", (unschedulable, ["n0"], "b")),
            ],
            [],
            [("A", ["n0", "n1", "n2"], U, "a")],
            id="nobody left",
        ),
        pytest.param(
            [rejecting("A", (pending, ["n0"], "later"))],
            [1, 2],
            [("A", ["n0"], Code.PENDING, "later")],
            id="pending rejects too",
        ),
    ],
)
def test_charges(plugins, feasible, charges, make_framework, cycle, pod, nodes):
    result = make_framework(*plugins).run_filter(cycle, pod, nodes)
    assert (result.feasible.tolist(), told(result.charges, nodes)) == (feasible, charges)
    assert result.errors == []


def test_a_plugin_is_not_asked_when_no_node_is_left(make_framework, cycle, pod, nodes):
    def never(*_):
        raise AssertionError

    everyone = (unschedulable, ["n0", "n1", "n2"], "a")
    framework = make_framework(rejecting("A", everyone), Plugin(name="B", filter=never))
    assert framework.run_filter(cycle, pod, nodes).errors == []


def test_a_node_that_cannot_be_judged_is_an_error_of_that_node(make_framework, cycle, pod, nodes):
    plugin = rejecting("A", (errs, ["n1"], "no idea"))
    result = make_framework(plugin).run_filter(cycle, pod, nodes)
    assert result.feasible.tolist() == [0, 2]
    text = 'running "A" filter plugin: no idea'
    assert told(result.errors, nodes) == [("A", ["n1"], Code.ERROR, text)]


def test_a_plugin_that_raises_could_judge_none_of_its_nodes(make_framework, cycle, pod, nodes):
    def filter(cycle, pod, nodes):
        yield unschedulable(mask(nodes, "n1"), "b")
        raise ZeroDivisionError("oops")

    first = rejecting("A", (unschedulable, ["n0"], "a"))
    result = make_framework(first, Plugin(name="B", filter=filter)).run_filter(cycle, pod, nodes)
    assert result.feasible.tolist() == []
    text = 'running "B" filter plugin: ZeroDivisionError: oops'
    assert told(result.errors, nodes) == [("B", ["n1", "n2"], Code.ERROR, text)]


def test_a_plugin_that_raises_is_counted(make_framework, cycle, pod, nodes, metrics):
    def filter(cycle, pod, nodes):
        raise ZeroDivisionError

    make_framework(Plugin(name="A", filter=filter)).run_filter(cycle, pod, nodes)
    family = metrics.kscheduler_plugin_exceptions_total
    assert family.labels("A", "Filter", "default-scheduler").value == 1


def test_rows_without_a_node_are_neither_feasible_nor_charged(
    make_framework, cycle, pod, make_nodes
):
    nodes = make_nodes("n0", "n1", "n2", gone=("n1",))
    everyone = Plugin(
        name="A", filter=lambda c, p, nodes: [unschedulable(np.ones(len(nodes), bool), "a")]
    )
    assert make_framework().run_filter(cycle, pod, nodes).feasible.tolist() == [0, 2]
    result = make_framework(everyone).run_filter(cycle, pod, nodes)
    assert told(result.charges, nodes) == [("A", ["n0", "n2"], U, "a")]


def test_evaluations_count_the_nodes_a_plugin_decided_about(
    make_framework, cycle, pod, nodes, metrics
):
    plugins = [
        rejecting("A", (unschedulable, ["n0"], "r")),
        rejecting("B", (unschedulable, ["n1"], "r")),
        rejecting("C"),
    ]
    make_framework(*plugins).run_filter(cycle, pod, nodes)
    family = metrics.plugin_evaluation_total
    counted = [family.labels(name, "Filter", "default-scheduler").value for name in "ABC"]
    assert counted == [3, 2, 1]


def test_a_sampled_attempt_times_each_plugin(make_framework, cycle, pod, nodes, metrics):
    cycle.sampled = True
    framework = make_framework(rejecting("A", (unresolvable, ["n0"], "r")), rejecting("B"))
    framework.run_filter(cycle, pod, nodes)
    family = metrics.plugin_execution_duration_seconds
    assert family.labels("A", "Filter", "UnschedulableAndUnresolvable").count == 1
    assert family.labels("B", "Filter", "Success").count == 1


@given(
    size=st.sampled_from([1, 3, NARROW_FROM, 3 * NARROW_FROM]),
    densities=st.lists(st.sampled_from([0.0, 0.1, 0.9, 0.999, 1.0]), min_size=1, max_size=6),
    seed=st.integers(0, 1000),
)
def test_narrowing_changes_no_verdict(make_nodes, make_pod, size, densities, seed):
    """Against the rule said plainly: the first plugin in order that rejects a node."""
    wanted = np.random.default_rng(seed).random((size, len(densities))) < densities
    plugins = [
        Plugin(
            name=str(i), filter=lambda c, p, nodes, i=i: [unschedulable(wanted[nodes.rows, i], "r")]
        )
        for i in range(len(densities))
    ]
    nodes = make_nodes(*(f"n{row}" for row in range(size)))
    filtering = Filtering("default-scheduler", Metrics(), plugins)
    result = filtering.run_filter(CycleState(), make_pod(), nodes)
    charged = {int(row): int(one.plugin) for one in result.charges for row in one.rows}
    assert charged == {row: int(wanted[row].argmax()) for row in range(size) if wanted[row].any()}
    assert result.feasible.tolist() == [row for row in range(size) if row not in charged]
