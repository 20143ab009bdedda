"""How many nodes a search looks at, what it tells of them, and where the next one starts.

A node that is rejected on the way to one feasible node more than wanted counts, as in upstream's
search with one worker; with more of them upstream leaves it to chance.
"""

import pytest
from hypothesis import given, settings

from tests.cycle.searches import SIZE, Case, cases, expected

EVERYBODY = frozenset(range(SIZE))


@settings(max_examples=300, deadline=None)
@given(cases)
def test_a_search_finds_what_upstream_finds(case):
    assert case.find(3, per_node=False) == expected(case, 3)


@pytest.mark.parametrize("per_node", [False, True])
@pytest.mark.parametrize(
    ("case", "evaluated", "next_start"),
    [
        pytest.param(Case(), 100, 100, id="all are feasible"),
        pytest.param(
            Case(rejected=frozenset(range(100, 120))), 120, 120, id="rejected after the last"
        ),
        pytest.param(
            Case(rejected=frozenset(range(0, SIZE, 2))), 201, 201, id="rejected in between"
        ),
        pytest.param(
            Case(rejected=frozenset(range(100, SIZE))), SIZE, 0, id="there is no other feasible one"
        ),
        pytest.param(
            Case(nominated=300, rejected=frozenset({300})), 101, 101, id="nominated, far away"
        ),
        pytest.param(
            Case(nominated=50, rejected=frozenset({50})), 101, 101, id="nominated, on the way"
        ),
        pytest.param(
            Case(nominated=50, extended=True, failed=frozenset({50})),
            100,
            101,
            id="nominated, feasible but for an extender",
        ),
        pytest.param(Case(scored=False), 1, 1, id="nobody scores"),
        pytest.param(
            Case(scored=False, rejected=frozenset({0, 2})), 3, 3, id="nobody scores, some rejected"
        ),
    ],
)
def test_which_nodes_count_as_evaluated(case, evaluated, next_start, per_node):
    [((_, told), start)] = found = case.find(1, per_node=per_node)
    assert (told, start) == (evaluated, next_start)
    assert found == expected(case, 1)


@pytest.mark.parametrize(
    ("erring", "next_start"),
    [
        pytest.param(5, 5, id="its node does not count"),
        pytest.param(100, 100, id="between the last wanted and the one that ends the search"),
    ],
)
def test_an_error_on_the_way_ends_the_search(erring, next_start):
    rejected = frozenset({101, 102}) if erring == 100 else frozenset()
    case = Case(erring=frozenset({erring}), rejected=rejected)
    found = case.find(1, per_node=False)
    assert found == [('running "Judge" filter plugin: no idea', next_start)]
    assert found == expected(case, 1)


def test_who_rejected_the_node_that_was_tried_first_is_named_for_the_others():
    case = Case(nominated=7, candidates=frozenset({7}), rejected=EVERYBODY)
    [((_, plugins, _, absent), _)] = found = case.find(1, per_node=False)
    assert absent == ("node(s) didn't satisfy plugin(s) [Judge Names]",)
    assert plugins == {"Judge", "Names"}
    assert found == expected(case, 1)
