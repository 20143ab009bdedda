import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.labels import (
    EVERYTHING,
    Operator,
    Requirement,
    Selector,
    SelectorError,
    parse_selector,
)

KEYS = st.sampled_from(["a", "b", "example.com/c", "in", "notin"])
VALUES = st.sampled_from(["x", "y", "", "in", "5"])
requirements = st.one_of(
    st.builds(
        Requirement,
        KEYS,
        st.sampled_from([Operator.IN, Operator.NOT_IN]),
        st.frozensets(VALUES, min_size=1),
    ),
    st.builds(Requirement, KEYS, st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST])),
    st.builds(
        Requirement,
        KEYS,
        st.sampled_from([Operator.GREATER_THAN, Operator.LESS_THAN]),
        st.integers(0, 99).map(lambda number: frozenset((str(number),))),
    ),
)


@given(st.lists(requirements, max_size=4))
def test_what_is_printed_is_read_back(items):
    selector = Selector(items)
    assert parse_selector(str(selector)) is selector


@pytest.mark.parametrize("text", ["", "  ", "\t\n"])
def test_an_empty_query_matches_everything(text):
    assert parse_selector(text) is EVERYTHING


@pytest.mark.parametrize(
    ("text", "labels", "want"),
    [
        ("a=b", {"a": "b"}, True),
        ("a==b", {"a": "b"}, True),
        (" a = b , c ", {"a": "b", "c": ""}, True),
        ("a!=b", {}, True),
        ("a!=b", {"a": "b"}, False),
        ("a in (b,c)", {"a": "c"}, True),
        ("a in(b)", {"a": "b"}, True),
        ("a in ()", {"a": ""}, True),
        ("a in (b,)", {"a": ""}, True),
        ("a in (,b)", {"a": ""}, True),
        ("a notin (b,,c)", {"a": ""}, False),
        ("a notin (b)", {}, True),
        ("a=", {"a": ""}, True),
        ("a=,b", {"a": "", "b": "x"}, True),
        ("a", {"a": "x"}, True),
        ("!a", {"a": "x"}, False),
        ("a>5", {"a": "6"}, True),
        ("a<5", {"a": "6"}, False),
        ("in in (in)", {"in": "in"}, True),
        ("notin", {"notin": ""}, True),
    ],
)
def test_queries_match(text, labels, want):
    assert parse_selector(text).matches(labels) is want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("!a in (b)", "found 'in', expected: ',' or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=(", "unable to parse requirement: found '(', expected: identifier"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (,", "unable to parse requirement: found '', expected: ',', or identifier"),
        (
            "/a",
            'unable to parse requirement: <nil>: Invalid value: "/a": '
            "prefix part must be non-empty",
        ),
        (
            "a>x",
            'unable to parse requirement: values[0]: Invalid value: "x": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
        ),
    ],
)
def test_errors_are_worded_as_upstream(text, want):
    with pytest.raises(SelectorError) as caught:
        parse_selector(text)
    assert str(caught.value) == want


@given(st.text(st.sampled_from("ab5=!(),<> \tin"), max_size=12))
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(SelectorError):
        parse_selector(text).matches({"a": "b"})
