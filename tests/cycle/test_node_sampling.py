"""Judging nodes slice by slice until there are enough is to find what judging all of them finds."""

import random
from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings

from kscheduler.cycle.attempt import at_once
from kscheduler.cycle.schedule import SchedulingAlgorithm
from kscheduler.framework.status import SKIP, rejected
from kscheduler.framework.views import Views
from kscheduler.metrics import Metrics
from kscheduler.runtime.out_of_tree.per_node import adapted
from tests.cycle.searches import (
    ANY,
    NODES,
    SIZE,
    Case,
    cases,
    make_attempt,
    make_framework,
    make_pod,
)


def make_algorithm():
    return SchedulingAlgorithm(Metrics(), rng=random.Random(1), percentage_of_nodes_to_score=10)


class Shown:
    """A plugin that is asked node by node, shown views as the guard shows them."""

    per_node = True

    def __init__(self, plugin):
        self.name = plugin.name
        self._plugin = adapted(plugin)
        self._views = Views()
        if hasattr(plugin, "pre_filter"):
            self.pre_filter = plugin.pre_filter

    def filter(self, cycle, pod, nodes):
        return self._plugin.filter(cycle, self._views.pod(pod), self._views.nodes(nodes))


@settings(max_examples=150, deadline=None)
@given(cases)
# As many as wanted in the first slice, and after the last of them an error.
@example(Case(rejected=frozenset(range(4)), erring=frozenset({104})))
def test_what_is_found_is_the_same(case):
    assert case.find(2, per_node=True) == case.find(2, per_node=False)


@pytest.mark.parametrize(
    ("case", "asked"),
    [
        pytest.param(Case(), 105, id="one more than wanted, and some to spare"),
        pytest.param(
            Case(rejected=frozenset(range(0, SIZE, 2))), 207, id="as many again if half passed"
        ),
        pytest.param(Case(rejected=frozenset(range(SIZE))), SIZE, id="all if nobody passes"),
        pytest.param(Case(refused=frozenset(range(100, 400))), SIZE, id="all if just enough pass"),
        pytest.param(Case(erring=frozenset({3})), 105, id="no more after an error"),
    ],
)
def test_no_more_nodes_are_asked_about_than_needed(case, asked):
    case.find(1, per_node=True)
    assert len(case.asked) == len(set(case.asked))
    assert len(case.asked) == asked


@pytest.mark.parametrize(
    ("every", "slices"),
    [
        pytest.param(3, 3, id="as many as were needed last time, at once"),
        pytest.param(1, 4, id="not all at once because nobody passed last time"),
    ],
)
def test_the_next_search_goes_by_the_last_one(every, slices):
    case = Case(rejected=frozenset(range(0, SIZE, every)))
    case.find(2, per_node=True)
    assert case.slices == slices


def test_a_plugin_that_fails_fails_once_in_an_attempt():
    asked = []

    def filter_node(cycle, pod, node):
        asked.append(node.name)
        raise ValueError("oops")

    plugin = Shown(SimpleNamespace(name="Judge", filter_node=filter_node))
    algorithm = make_algorithm()
    attempt = make_attempt(make_framework(plugin, ANY), make_pod(), NODES)
    outcome = at_once(algorithm.schedule_pod(attempt))
    assert outcome.status.message == 'running "Judge" filter plugin: ValueError: oops'
    assert asked == ["n0"]
    assert algorithm.next_start_node_index == 0


def test_a_plugin_that_takes_no_part_does_not_change_how_nodes_are_judged():
    asked = []

    def count(cycle, pod, nodes):
        asked.append(len(nodes))
        return ()

    skipping = SimpleNamespace(
        name="Judge", pre_filter=lambda *_: SKIP, filter_node=lambda *_: rejected("no")
    )
    counting = SimpleNamespace(name="Counting", filter=count)
    framework = make_framework(Shown(skipping), counting, ANY)
    at_once(make_algorithm().schedule_pod(make_attempt(framework, make_pod(), NODES)))
    assert asked == [SIZE]
