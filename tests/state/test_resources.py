"""Columns follow what nodes have, whatever pods name; a dictionary by row is the model."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.state.resources import FEW_COLUMNS, PERMANENT, Resources
from tests.adversary.work import work_of

ROWS = 3
names = st.sampled_from(["cpu", "a.io/x", "b.io/x", "c.io/x"])
amounts = st.dictionaries(names, st.integers(0, 4) | st.just(2**63 - 1), max_size=4)
changes = st.lists(st.tuples(st.booleans(), st.integers(0, ROWS - 1), amounts), max_size=25)


@given(changes)
def test_columns_show_what_nodes_have_and_what_pods_ask_for(steps):
    resources = Resources()
    resources.resize(ROWS)
    have = [{} for _ in range(ROWS)]
    asked = [Counter() for _ in range(ROWS)]
    for is_node, row, named in steps:
        if is_node:
            resources.put_allocatable(row, have[row], named)
            have[row] = named
        else:
            resources.add_requests(named, row, 1)
            asked[row].update(named)
        there = {name for node in have for name, amount in node.items() if amount}
        assert set(resources.columns) == there | set(PERMANENT)
        for name, column in resources.columns.items():
            shown = resources.allocatable.view[:, column].tolist()
            assert shown == [node.get(name, 0) for node in have]
            shown = resources.requested.view[:, column].tolist()
            assert [number % 2**64 for number in shown] == [one[name] % 2**64 for one in asked]


def many(count, amount=1):
    return {f"vendor{number}.io/device": amount for number in range(count)}


def test_what_no_node_has_takes_no_column_and_nothing_is_left_of_it():
    resources = Resources()
    resources.resize(5)
    resources.add_requests(many(1000), 2, 1)
    assert resources.requested.view.shape == (5, 3)
    resources.add_requests(many(1000), 2, -1)
    assert not resources._aside


def test_columns_that_no_node_needs_any_more_are_given_back():
    resources = Resources()
    resources.resize(5)
    resources.put_allocatable(0, {}, {"cpu": 4, "z.io/x": 7} | many(200))
    resources.add_requests({"cpu": 1, "z.io/x": 2, "vendor0.io/device": 1}, 0, 1)
    assert resources.allocatable.view.shape == (5, 204)
    before = resources.shape
    resources.put_allocatable(0, {"cpu": 4, "z.io/x": 7} | many(200), {"cpu": 4, "z.io/x": 7})
    assert set(resources.columns) == {*PERMANENT, "z.io/x"}
    assert resources.allocatable.view.shape[1] <= FEW_COLUMNS
    assert resources.requested._array.nbytes < 10_000
    assert resources.shape > before
    assert resources.allocatable.view[0, resources.columns["z.io/x"]] == 7
    assert resources.requested.view[0, resources.columns["z.io/x"]] == 2
    resources.put_allocatable(0, {"cpu": 4, "z.io/x": 7}, many(1, amount=3))
    assert resources.requested.view[0, resources.columns["vendor0.io/device"]] == 1


@pytest.mark.parametrize("amount", [0, 1])
def test_a_pod_costs_what_it_names_however_many_rows_there_are(amount):
    def enter_and_leave(count, rows):
        resources = Resources()
        resources.resize(rows)

        def call():
            resources.add_requests(many(count, amount), 0, 1)
            resources.add_requests(many(count, amount), 0, -1)

        return work_of(call)

    small = enter_and_leave(200, 500)
    assert enter_and_leave(400, 500).ratio(small) < 2.5
    assert enter_and_leave(200, 5000).ratio(small) < 1.1


def test_columns_come_and_go_in_time_linear_in_their_number():
    def come_and_go(count):
        resources = Resources()
        resources.resize(100)
        resources.put_allocatable(0, {}, many(count))
        resources.put_allocatable(0, many(count), {})

    small = work_of(lambda: come_and_go(200))
    assert work_of(lambda: come_and_go(400)).ratio(small) < 2.5
