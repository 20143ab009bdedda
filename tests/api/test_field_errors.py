import pytest

from kscheduler.api import field_errors
from kscheduler.gotext.strconv import quote


def test_a_path_grows_from_nothing():
    path = field_errors.child(field_errors.index(field_errors.child("", "terms"), 0), "key")
    assert path == "terms[0].key"
    assert field_errors.index("", 1) == "[1]"


def test_one_error_stands_alone_and_several_in_brackets():
    assert field_errors.aggregate(["a"]) == "a"
    assert field_errors.aggregate(["a", "b", "a"]) == "[a, b]"


def test_unsupported_values_name_the_supported_ones():
    assert str(field_errors.unsupported("x.operator", "Foo", ["In", "NotIn"])) == (
        'x.operator: Unsupported value: "Foo": supported values: "In", "NotIn"'
    )


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("plain", '"plain"'),
        ('a"b\\c', '"a\\"b\\\\c"'),
        ("a\tb\n", '"a\\tb\\n"'),
        ("é", '"é"'),
        ("\x00\x7f", '"\\x00\\x7f"'),
        ("\u200b", '"\\u200b"'),
        ("\U000e0001", '"\\U000e0001"'),
    ],
)
def test_strings_are_quoted_as_go_does(text, want):
    assert quote(text) == want


def test_lists_are_shown_as_json():
    assert field_errors.shown(None) == "null"
    assert field_errors.shown(("a", "<b>&")) == '["a","\\u003cb\\u003e\\u0026"]'


def test_a_path_that_was_not_given_is_nil():
    assert str(field_errors.invalid("", "x", "is wrong")) == '<nil>: Invalid value: "x": is wrong'
