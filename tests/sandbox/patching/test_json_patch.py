"""JSON patch and JSON merge patch, without a server."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.rest.status import StatusError
from kscheduler.sandbox.patching.json_patch import json_patch, merge_patch

DOCUMENT = {"a": {"b": [1, 2, 3]}, "c/d": "x", "e~f": "y"}


@pytest.mark.parametrize(
    ("operation", "want"),
    [
        ({"op": "add", "path": "/a/n", "value": 1}, {"a": {"b": [1, 2, 3], "n": 1}}),
        ({"op": "add", "path": "/a/b/1", "value": 9}, {"a": {"b": [1, 9, 2, 3]}}),
        ({"op": "add", "path": "/a/b/-", "value": 9}, {"a": {"b": [1, 2, 3, 9]}}),
        ({"op": "remove", "path": "/a/b/0"}, {"a": {"b": [2, 3]}}),
        ({"op": "replace", "path": "/a/b", "value": []}, {"a": {"b": []}}),
        ({"op": "replace", "path": "/c~1d", "value": "z"}, {"c/d": "z"}),
        ({"op": "replace", "path": "/e~0f", "value": "z"}, {"e~f": "z"}),
        ({"op": "copy", "from": "/a/b/0", "path": "/n"}, {"n": 1}),
        ({"op": "test", "path": "/a/b/0", "value": 1}, {}),
    ],
)
def test_an_operation(operation, want):
    assert json_patch(DOCUMENT, [operation]) == DOCUMENT | want


def test_a_move_takes_the_value_along():
    moved = json_patch(DOCUMENT, [{"op": "move", "from": "/a/b", "path": "/b"}])
    assert moved == {"a": {}, "b": [1, 2, 3], "c/d": "x", "e~f": "y"}


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param({"op": "test", "path": "/c~1d", "value": "other"}, id="failed test"),
        pytest.param({"op": "remove", "path": "/none"}, id="nothing to remove"),
        pytest.param({"op": "replace", "path": "/none", "value": 1}, id="nothing to replace"),
        pytest.param({"op": "add", "path": "/a/b/9", "value": 1}, id="beyond the end"),
        pytest.param({"op": "add", "path": "relative", "value": 1}, id="no pointer"),
        pytest.param({"op": "jump", "path": "/a"}, id="no such operation"),
        pytest.param({"path": "/a"}, id="no operation"),
    ],
)
def test_a_patch_that_does_not_apply_changes_nothing(operation):
    first = {"op": "add", "path": "/new", "value": 1}
    with pytest.raises(StatusError, match="the server rejected our request") as refused:
        json_patch(DOCUMENT, [first, operation])
    assert refused.value.code == 422
    assert "new" not in DOCUMENT


def test_something_else_than_a_list_is_no_patch():
    with pytest.raises(StatusError, match="error decoding patch"):
        json_patch(DOCUMENT, {"op": "add"})


json_values = st.recursive(
    st.integers(0, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=8,
)
json_objects = st.dictionaries(st.sampled_from("abc"), json_values)


@given(json_objects, json_objects)
def test_merging_twice_is_merging_once(document, patch):
    once = merge_patch(document, patch)
    assert merge_patch(once, patch) == once


@given(json_objects)
def test_a_merge_of_nothing_changes_nothing(document):
    assert merge_patch(document, {}) == document


def test_null_removes_and_lists_replace():
    assert merge_patch({"a": {"b": 1, "c": [1]}}, {"a": {"b": None, "c": [2]}}) == {"a": {"c": [2]}}
