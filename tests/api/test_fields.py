import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.fields import FieldRequirement, FieldSelector, parse_field_selector
from kscheduler.api.labels import SelectorError

FIELDS = st.sampled_from(["spec.nodeName", "status.phase", "metadata.name"])
VALUES = st.text(st.sampled_from("ab,=\\!"), max_size=4)
field_requirements = st.builds(FieldRequirement, FIELDS, VALUES, st.booleans())


@given(st.lists(field_requirements, max_size=3))
def test_what_is_printed_is_read_back(items):
    parsed = parse_field_selector(str(FieldSelector(tuple(items))))
    assert set(parsed.requirements) == set(items)


@pytest.mark.parametrize(
    ("text", "fields", "want"),
    [
        ("", {}, True),
        ("=", {"a": "x"}, True),
        ("spec.nodeName=", {}, True),
        ("spec.nodeName=n1", {"spec.nodeName": "n1"}, True),
        ("spec.nodeName==n1", {"spec.nodeName": "n2"}, False),
        ("status.phase!=Succeeded,status.phase!=Failed", {"status.phase": "Running"}, True),
        ("status.phase!=Succeeded,status.phase!=Failed", {"status.phase": "Failed"}, False),
        ("metadata.name!=x", {}, True),
        (r"metadata.name=a\,b", {"metadata.name": "a,b"}, True),
    ],
)
def test_queries_match(text, fields, want):
    assert parse_field_selector(text).matches(fields) is want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        ("b=1,a", "invalid selector: 'b=1,a'; can't understand 'a'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        (r"a=\b", r"invalid field selector: invalid escape sequence: \b"),
        ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
    ],
)
def test_errors_are_worded_as_upstream(text, want):
    with pytest.raises(SelectorError) as caught:
        parse_field_selector(text)
    assert str(caught.value) == want
