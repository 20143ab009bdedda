"""For one node plain arithmetic says what arrays say, or nothing."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.plugins.node_resources.balanced_allocation import balance_gain, balance_gain_of_one
from kscheduler.plugins.node_resources.resource_allocation import (
    LARGEST,
    least_allocated,
    least_allocated_of_one,
    most_allocated,
    most_allocated_of_one,
)

usual = st.integers(0, 10_000) | st.integers(0, 1 << 40)
odd = st.sampled_from([-1, 0, 1, LARGEST - 1, LARGEST, (1 << 63) - 1])
amounts = st.lists(usual | odd, min_size=2, max_size=2)
weights = st.tuples(st.integers(1, 100), st.integers(1, 100)) | st.just((1, 1))


def column(numbers):
    return np.array([numbers], np.int64).T


def agree(of_one, of_many):
    assert of_one is None or of_one == int(of_many[0])


@given(amounts, amounts, weights)
def test_least_and_most(requested, allocatable, weights):
    for one, many in (
        (least_allocated_of_one, least_allocated),
        (most_allocated_of_one, most_allocated),
    ):
        with np.errstate(all="ignore"):
            expected = many(column(requested), column(allocatable), weights)
        agree(one(requested, allocatable, weights), expected)


@given(amounts, st.lists(usual, min_size=2, max_size=2), amounts)
def test_balance(used, asked, allocatable):
    with np.errstate(all="ignore"):
        expected = balance_gain(column(used), column(asked), column(allocatable))
    agree(balance_gain_of_one(used, asked, allocatable), expected)


@given(st.lists(usual, min_size=2, max_size=2), st.integers(1, 1 << 40), st.integers(1, 1 << 40))
def test_usual_numbers_are_answered(used, cpu, memory):
    assert least_allocated_of_one(used, [cpu, memory], (1, 1)) is not None
    assert most_allocated_of_one(used, [cpu, memory], (1, 1)) is not None
    assert balance_gain_of_one(used, [1, 1], [cpu, memory]) is not None
