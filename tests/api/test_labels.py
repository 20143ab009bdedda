import gc
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.labels import (
    EVERYTHING,
    NOTHING,
    Operator,
    Requirement,
    Selector,
    SelectorError,
    compile_selector,
    parse_int,
    requirement,
    selector_from_labels,
)
from kscheduler.api.meta import LabelSelector, LabelSelectorRequirement

KEYS = st.sampled_from(["a", "b", "example.com/c"])
VALUES = st.sampled_from(["x", "y", "", "5", "10"])
label_sets = st.dictionaries(KEYS, VALUES)
expressions = st.one_of(
    st.builds(
        LabelSelectorRequirement,
        key=KEYS,
        operator=st.sampled_from(["In", "NotIn"]),
        values=st.lists(VALUES, min_size=1, max_size=3).map(tuple),
    ),
    st.builds(
        LabelSelectorRequirement, key=KEYS, operator=st.sampled_from(["Exists", "DoesNotExist"])
    ),
)
selectors = st.builds(
    LabelSelector,
    match_labels=label_sets,
    match_expressions=st.lists(expressions, max_size=3).map(tuple),
)


def naive_match(selector, labels):
    def holds(item):
        present, found = item.key in labels, labels.get(item.key) in item.values
        return {
            "In": present and found,
            "NotIn": not (present and found),
            "Exists": present,
            "DoesNotExist": not present,
        }[item.operator]

    equal = all(labels.get(key) == value for key, value in selector.match_labels.items())
    return equal and all(holds(item) for item in selector.match_expressions)


@given(selectors, label_sets)
def test_a_selector_means_what_it_says(selector, labels):
    assert compile_selector(selector).matches(labels) == naive_match(selector, labels)


@given(selectors, label_sets)
def test_labels_without_a_needed_key_never_match(selector, labels):
    compiled = compile_selector(selector)
    if any(item.needs_key and item.key not in labels for item in compiled):
        assert not compiled.matches(labels)


@given(selectors)
def test_equal_requirements_are_one_object(selector):
    compiled = compile_selector(selector)
    assert Selector(reversed(compiled.requirements)) is compiled
    assert {compiled: 1}[compile_selector(selector)] == 1


def test_no_selector_matches_nothing():
    assert compile_selector(None) is NOTHING
    assert not NOTHING.matches({})
    assert not NOTHING.matches_everything


def test_an_empty_selector_matches_everything():
    assert compile_selector(LabelSelector()) is EVERYTHING
    assert EVERYTHING.matches({})
    assert EVERYTHING.matches_everything


def test_nothing_and_everything_differ_though_neither_has_requirements():
    assert NOTHING is not Selector()
    assert NOTHING.requirements == EVERYTHING.requirements == ()


def test_an_equality_is_a_set_of_one():
    by_label = compile_selector(LabelSelector(match_labels={"a": "x"}))
    by_set = compile_selector(
        LabelSelector(
            match_expressions=(LabelSelectorRequirement(key="a", operator="In", values=("x",)),)
        )
    )
    assert by_label is by_set is selector_from_labels({"a": "x"})


def test_labels_as_a_selector_are_not_validated():
    assert selector_from_labels({"bad key": "bad value!"}).matches({"bad key": "bad value!"})
    assert selector_from_labels(None) is selector_from_labels({}) is EVERYTHING


def test_keys_are_named_once():
    selector = Selector(
        [
            Requirement("a", Operator.EXISTS),
            Requirement("a", Operator.NOT_IN, frozenset("x")),
            Requirement("b", Operator.DOES_NOT_EXIST),
        ]
    )
    assert selector.keys() == ("a", "b")


def test_unused_selectors_are_forgotten():
    selector = Selector([Requirement("only-here", Operator.EXISTS)])
    alive = weakref.ref(selector)
    del selector
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(
    ("operator", "bound", "label", "want"),
    [
        pytest.param(Operator.GREATER_THAN, "5", "6", True, id="greater"),
        pytest.param(Operator.GREATER_THAN, "5", "5", False, id="equal is not greater"),
        pytest.param(Operator.LESS_THAN, "5", "-4", True, id="less"),
        pytest.param(Operator.LESS_THAN, "5", "5", False, id="equal is not less"),
        pytest.param(Operator.GREATER_THAN, "0204", "0206", True, id="leading zeros"),
        pytest.param(Operator.GREATER_THAN, "5", "abc", False, id="label is no number"),
        pytest.param(Operator.GREATER_THAN, "5", None, False, id="label is absent"),
        pytest.param(Operator.LESS_THAN, "5", None, False, id="label is absent, less"),
        pytest.param(Operator.GREATER_THAN, "5", "9223372036854775808", False, id="too large"),
    ],
)
def test_numbers_compare(operator, bound, label, want):
    labels = {} if label is None else {"k": label}
    assert Selector([requirement("k", operator, (bound,))]).matches(labels) is want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("7", 7),
        ("+7", 7),
        ("-7", -7),
        ("007", 7),
        (str(-(2**63)), -(2**63)),
        (str(2**63), None),
        ("1_0", None),
        (" 1", None),
        ("٣", None),
        ("", None),
        ("9" * 5000, None),
    ],
)
def test_integers_are_plain_64_bit_decimals(text, want):
    assert parse_int(text) == want


KEY_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    "or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        pytest.param(
            ("a", "Gt", ("1",)), '"Gt" is not a valid label selector operator', id="operator"
        ),
        pytest.param(
            ("a", "In", ()),
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
            id="In without values",
        ),
        pytest.param(
            ("a", "Exists", ("x",)),
            'values: Invalid value: ["x"]: values set must be empty for exists and does not exist',
            id="Exists with values",
        ),
        pytest.param(
            ("bad key", "Exists", ()), f'key: Invalid value: "bad key": {KEY_RULE}', id="key"
        ),
        pytest.param(
            ("a", "In", ("{{.bad-value.}}",)),
            f'values[0][a]: Invalid value: "{{{{.bad-value.}}}}": {VALUE_RULE}',
            id="value",
        ),
        pytest.param(
            ("bad key", "In", ("x", "-")),
            f'[key: Invalid value: "bad key": {KEY_RULE}, '
            f'values[1][bad key]: Invalid value: "-": {VALUE_RULE}]',
            id="all problems at once",
        ),
    ],
)
def test_errors_are_worded_as_upstream(expression, want):
    key, operator, values = expression
    selector = LabelSelector(
        match_expressions=(LabelSelectorRequirement(key=key, operator=operator, values=values),)
    )
    with pytest.raises(SelectorError) as caught:
        compile_selector(selector)
    assert str(caught.value) == want


@pytest.mark.parametrize(
    ("operator", "values", "want"),
    [
        pytest.param(
            Operator.GREATER_THAN,
            (),
            "values: Invalid value: null: for 'Gt', 'Lt' operators, exactly one value is required",
            id="no bound",
        ),
        pytest.param(
            Operator.LESS_THAN,
            ("abc",),
            'values[0]: Invalid value: "abc": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
            id="no number",
        ),
    ],
)
def test_bounds_are_checked(operator, values, want):
    with pytest.raises(SelectorError) as caught:
        requirement("a", operator, values)
    assert str(caught.value) == want


def test_a_selector_prints_as_a_query():
    selector = Selector(
        [
            Requirement("a", Operator.IN, frozenset("x")),
            Requirement("b", Operator.IN, frozenset("yx")),
            Requirement("c", Operator.NOT_IN, frozenset("x")),
            Requirement("d", Operator.NOT_IN, frozenset("yx")),
            Requirement("e", Operator.EXISTS),
            Requirement("f", Operator.DOES_NOT_EXIST),
            Requirement("g", Operator.GREATER_THAN, frozenset("5")),
            Requirement("h", Operator.LESS_THAN, frozenset("3")),
        ]
    )
    assert str(selector) == "a=x,b in (x,y),c!=x,d notin (x,y),e,!f,g>5,h<3"
    assert repr(NOTHING) == "NOTHING"
    assert repr(EVERYTHING) == "Selector('')"
