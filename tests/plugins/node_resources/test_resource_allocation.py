"""Formulas of fullness and balance, against the numbers of upstream's tables and one by one."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kscheduler.plugins.node_resources.balanced_allocation import balance_gain
from kscheduler.plugins.node_resources.resource_allocation import (
    least_allocated,
    most_allocated,
    requested_to_capacity_ratio,
)


def scored(strategy, requested, allocatable, weights=(1, 1)):
    """Of one node: a number per resource."""
    column = np.array([requested]).T, np.array([allocatable]).T
    return int(strategy(*column, weights)[0])


@pytest.mark.parametrize(
    ("strategy", "requested", "allocatable", "weights", "want"),
    [
        (least_allocated, [3000, 6000], [4000, 10000], (1, 1), 32),
        (least_allocated, [2000, 4000], [6000, 10000], (1, 1), 63),
        (most_allocated, [3000, 6000], [4000, 10000], (1, 1), 67),
        (most_allocated, [2000, 4000], [6000, 10000], (1, 1), 36),
        pytest.param(most_allocated, [75, 50], [100, 100], (1, 2), 58, id="most, weighted"),
        pytest.param(least_allocated, [75, 50], [100, 100], (1, 2), 41, id="least, weighted"),
        pytest.param(most_allocated, [300, 600], [250, 1000], (1, 1), 80, id="most, over capacity"),
        pytest.param(least_allocated, [300, 600], [250, 1000], (1, 1), 20, id="least, the same"),
        pytest.param(least_allocated, [0, 600], [0, 1000], (5, 1), 40, id="a resource is missing"),
        pytest.param(most_allocated, [7, 600], [0, 1000], (5, 1), 60, id="most, the same"),
        pytest.param(least_allocated, [0, 0], [0, 0], (1, 1), 0, id="nothing is there"),
        pytest.param(most_allocated, [50], [100], (3,), 50, id="one resource"),
        pytest.param(least_allocated, [1, 1, 1], [3, 3, 3], (1, 2, 3), 66, id="three resources"),
    ],
)
def test_least_and_most(strategy, requested, allocatable, weights, want):
    assert scored(strategy, requested, allocatable, weights) == want


FALLING, RISING = [(0, 100), (100, 0)], [(0, 0), (100, 100)]


@pytest.mark.parametrize(
    ("shape", "requested", "allocatable", "weights", "want"),
    [
        pytest.param(
            FALLING, [5000, 9000], [4000, 10000], (1, 1), 10, id="nothing scored does not dilute"
        ),
        pytest.param(FALLING, [4000, 7000], [6000, 10000], (1, 1), 32, id="falling"),
        pytest.param(RISING, [5000, 9000], [4000, 10000], (1, 1), 95, id="rising, over capacity"),
        pytest.param(RISING, [4000, 7000], [6000, 10000], (1, 1), 68, id="rising"),
        pytest.param(RISING, [25, 50], [100, 100], (1, 1), 38, id="half is rounded up"),
        pytest.param([(0, 0), (100, 10)], [2, 5], [8, 10], (3, 5), 4, id="rounded down to 4"),
        pytest.param([(0, 0), (100, 10)], [5, 2], [10, 8], (3, 5), 3, id="rounded down to 3"),
        pytest.param([(0, 0), (100, 10)], [8, 5], [8, 10], (3, 5), 7, id="rounded up to 7"),
        pytest.param(RISING, [5, 0], [10, 0], (1, 9), 50, id="a resource is missing"),
        pytest.param(FALLING, [5, 5], [0, 0], (1, 1), 0, id="nothing is there"),
        pytest.param([(0, 0)], [5, 5], [10, 10], (1, 1), 0, id="a shape of zeros"),
    ],
)
def test_requested_to_capacity_ratio(shape, requested, allocatable, weights, want):
    strategy = requested_to_capacity_ratio(shape)
    assert scored(strategy, requested, allocatable, weights) == want


@pytest.mark.parametrize(
    ("shape", "points"),
    [
        pytest.param(
            [(10, 1), (90, 9)],
            {0: 1, 10: 1, 15: 1, 19: 1, 20: 2, 89: 8, 90: 9, 100: 9},
            id="flat at both ends",
        ),
        pytest.param([(0, 10), (3, 0)], {1: 7, 2: 4, 3: 0}, id="falling truncates toward zero"),
        pytest.param([(50, 70)], {0: 70, 50: 70, 51: 70, 100: 70}, id="one point"),
    ],
)
def test_the_curve_between_its_points(shape, points):
    strategy = requested_to_capacity_ratio(shape)
    assert {x: scored(strategy, [x], [100], (1,)) for x in points} == points


@pytest.mark.parametrize(
    ("used", "asked", "allocatable", "want"),
    [
        ([3000, 0], [3000, 5000], [10000, 20000], 73),
        ([3000, 5000], [3000, 5000], [10000, 20000], 74),
        ([3000, 0], [0, 5000], [3000, 5000], 100),
        ([0, 0], [0, 5000], [3000, 5000], 50),
        ([3000, 5000, 3], [0, 0, 1], [3500, 40000, 8], 75),
        ([3000, 5000, 0], [0, 0, 1], [3500, 40000, 8], 76),
        ([0, 0], [3000, 5000], [4000, 10000], 68),
        ([0, 0], [3000, 5000], [6000, 10000], 75),
        pytest.param([0, 0], [3000, 5000], [3000, 10000], 62, id="cpu at capacity"),
        pytest.param([3000, 5000], [3000, 5000], [4000, 10000], 81, id="cpu over capacity"),
        pytest.param([7, 5], [1, 5], [0, 20], 75, id="one resource is always in balance"),
        pytest.param([7, 5], [1, 5], [0, 0], 75, id="so is none"),
        pytest.param([1, 5, 5], [1, 5, 5], [0, 20, 10], 69, id="two of three are there"),
    ],
)
def test_balance_gain(used, asked, allocatable, want):
    columns = [np.array([amounts]).T for amounts in (used, asked, allocatable)]
    assert balance_gain(*columns).tolist() == [want]


amounts = st.integers(0, 50) | st.integers(0, 10**12)


@st.composite
def clusters(draw):
    """(requested, asked, allocatable, weights), the first and third per node and resource."""
    resources = draw(st.integers(1, 4))
    row = st.lists(amounts, min_size=resources, max_size=resources)
    capacity = st.lists(
        st.just(0) | st.integers(1, 60) | st.integers(1, 10**12),
        min_size=resources,
        max_size=resources,
    )
    nodes = draw(st.lists(st.tuples(row, capacity), min_size=1, max_size=5))
    weights = draw(st.lists(st.integers(1, 100), min_size=resources, max_size=resources))
    return [one for one, _ in nodes], draw(row), [other for _, other in nodes], weights


def least(requested, capacity):
    return 0 if requested > capacity else (capacity - requested) * 100 // capacity


def most(requested, capacity):
    return min(requested, capacity) * 100 // capacity


@settings(deadline=None)
@given(clusters())
def test_least_and_most_equal_their_definition(cluster):
    requested, _, allocatable, weights = cluster

    def mean(score, have, capacities):
        parts = [
            (score(one, capacity), weight)
            for one, capacity, weight in zip(have, capacities, weights, strict=True)
            if capacity
        ]
        total = sum(weight for _, weight in parts)
        return sum(points * weight for points, weight in parts) // total if total else 0

    for strategy, score in ((least_allocated, least), (most_allocated, most)):
        got = strategy(np.array(requested).T, np.array(allocatable).T, weights).tolist()
        pairs = zip(requested, allocatable, strict=True)
        assert got == [mean(score, have, capacities) for have, capacities in pairs]


shapes = st.dictionaries(st.integers(0, 100), st.integers(0, 10), min_size=1, max_size=4)


@settings(deadline=None)
@given(clusters(), shapes)
def test_requested_to_capacity_ratio_equals_its_definition(cluster, shape):
    requested, _, allocatable, weights = cluster
    points = [(x, y * 10) for x, y in sorted(shape.items())]

    def curve(p):
        for i, (x, y) in enumerate(points):
            if p <= x:
                if i == 0:
                    return y
                x0, y0 = points[i - 1]
                return y0 + math.trunc((y - y0) * (p - x0) / (x - x0))
        return points[-1][1]

    def score(have, capacities):
        total = weight_sum = 0
        for one, capacity, weight in zip(have, capacities, weights, strict=True):
            if capacity:
                got = curve(100 if one > capacity else one * 100 // capacity)
                if got > 0:
                    total += got * weight
                    weight_sum += weight
        return math.floor(total / weight_sum + 0.5) if weight_sum else 0

    strategy = requested_to_capacity_ratio(points)
    got = strategy(np.array(requested).T, np.array(allocatable).T, weights).tolist()
    assert got == [score(*pair) for pair in zip(requested, allocatable, strict=True)]


@settings(deadline=None)
@given(clusters())
def test_balance_gain_equals_its_definition(cluster):
    used, asked, allocatable, _ = cluster

    def balance(have, capacities):
        fractions = [
            min(float(one) / float(capacity), 1.0)
            for one, capacity in zip(have, capacities, strict=True)
            if capacity
        ]
        std = 0.0
        if len(fractions) == 2:
            std = abs((fractions[0] - fractions[1]) / 2)
        elif len(fractions) > 2:
            mean, squares = 0.0, 0.0
            for one in fractions:
                mean += one
            mean /= len(fractions)
            for one in fractions:
                squares += (one - mean) * (one - mean)
            std = math.sqrt(squares / len(fractions))
        return int((1 - std) * 100.0)

    def gain(have, capacities):
        after = [one + more for one, more in zip(have, asked, strict=True)]
        return 50 + math.trunc((50 + balance(after, capacities) - balance(have, capacities)) / 2)

    columns = np.array(used).T, np.array([asked]).T, np.array(allocatable).T
    want = [gain(*pair) for pair in zip(used, allocatable, strict=True)]
    assert balance_gain(*columns).tolist() == want


def int64(number):
    """As Go computes: what does not fit wraps around."""
    return (number + 2**63) % 2**64 - 2**63


def quotient(number, divisor):
    """As Go divides: towards zero."""
    return int64(abs(number) // abs(divisor) * (1 if (number < 0) == (divisor < 0) else -1))


def go_least(requested, capacity):
    if requested > capacity:
        return 0
    return quotient(int64(int64(capacity - requested) * 100), capacity)


def go_most(requested, capacity):
    return quotient(int64(min(requested, capacity) * 100), capacity)


def go_mean(score, requested, allocatable, weights):
    total = weight_sum = 0
    for one, capacity, weight in zip(requested, allocatable, weights, strict=True):
        if capacity:
            total = int64(total + int64(score(one, capacity) * weight))
            weight_sum += weight
    return quotient(total, weight_sum) if weight_sum else 0


def go_balance(requested, allocatable):
    pairs = zip(requested, allocatable, strict=True)
    fractions = [min(float(one) / float(capacity), 1.0) for one, capacity in pairs if capacity]
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        total = 0.0
        for fraction in fractions:
            total += fraction
        mean, squares = total / len(fractions), 0.0
        for fraction in fractions:
            squares += (fraction - mean) * (fraction - mean)
        deviation = math.sqrt(squares / len(fractions))
    balance = (1 - deviation) * 100
    return int(balance) if abs(balance) < 2**63 else -(2**63)


def go_gain(used, asked, allocatable):
    requested = [int64(one + more) for one, more in zip(used, asked, strict=True)]
    gain = int64(50 + go_balance(requested, allocatable) - go_balance(used, allocatable))
    return 50 + quotient(gain, 2)


any_amount = st.integers(-(2**63), 2**63 - 1) | st.integers(-60, 60) | st.sampled_from([0, 2**62])
any_capacity = st.integers(0, 2**63 - 1) | st.integers(0, 60) | st.integers(9 * 10**16, 2 * 10**17)


@st.composite
def enormous_clusters(draw):
    resources = draw(st.integers(1, 4))
    row = st.lists(any_amount, min_size=resources, max_size=resources)
    capacity = st.lists(any_capacity, min_size=resources, max_size=resources)
    nodes = draw(st.lists(st.tuples(row, capacity), min_size=1, max_size=4))
    weights = draw(st.lists(st.integers(1, 100), min_size=resources, max_size=resources))
    return [one for one, _ in nodes], draw(row), [other for _, other in nodes], weights


@settings(deadline=None, max_examples=300)
@example(([[-1_844_674_407_370_955, 0]], [0, 0], [[1, 1]], [50, 1]))
@example(([[0, 0]], [0, 0], [[2**60, 2**60]], [77, 77]))
@given(enormous_clusters())
def test_scores_wrap_around_and_truncate_as_go_does(cluster):
    requested, asked, allocatable, weights = cluster
    have, capacities = np.array(requested, np.int64).T, np.array(allocatable, np.int64).T
    for strategy, score in ((least_allocated, go_least), (most_allocated, go_most)):
        got = strategy(have, capacities, weights).tolist()
        pairs = zip(requested, allocatable, strict=True)
        assert got == [go_mean(score, *pair, weights) for pair in pairs]
    got = balance_gain(have, np.array([asked], np.int64).T, capacities).tolist()
    pairs = zip(requested, allocatable, strict=True)
    assert got == [go_gain(used, asked, capacity) for used, capacity in pairs]


@settings(deadline=None, max_examples=300)
@given(enormous_clusters(), shapes)
def test_utilisation_wraps_around_as_go_does(cluster, shape):
    requested, _, allocatable, weights = cluster
    points = [(x, y * 10) for x, y in sorted(shape.items())]

    def curve(p):
        if p <= points[0][0]:
            return points[0][1]
        for (x0, y0), (x1, y1) in pairwise(points):
            if p <= x1:
                return y0 + quotient((y1 - y0) * (p - x0), x1 - x0)
        return points[-1][1]

    def score(have, capacities):
        total = weight_sum = 0
        for one, capacity, weight in zip(have, capacities, weights, strict=True):
            if capacity:
                percent = 100 if one > capacity else quotient(int64(one * 100), capacity)
                if (got := curve(percent)) > 0:
                    total, weight_sum = total + got * weight, weight_sum + weight
        return math.floor(total / weight_sum + 0.5) if weight_sum else 0

    have, capacities = np.array(requested, np.int64).T, np.array(allocatable, np.int64).T
    got = requested_to_capacity_ratio(points)(have, capacities, weights).tolist()
    assert got == [score(*pair) for pair in zip(requested, allocatable, strict=True)]


def test_a_node_of_100_petabytes_scores_what_upstream_gives_it():
    """Nodes of 4 CPU with 100P and 4Ei of memory, a pod of 1P; 6 was recorded for the first."""
    requested = np.array([[100, 100], [10**15, 10**15]])
    allocatable = np.array([[4000, 4000], [10**17, 2**62]])
    assert least_allocated(requested, allocatable, (1, 1)).tolist()[0] == 6
