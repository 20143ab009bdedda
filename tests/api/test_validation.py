import pytest

from kscheduler.api.validation import (
    dns_label_errors,
    dns_subdomain_errors,
    label_key_errors,
    label_value_errors,
)


@pytest.mark.parametrize(
    "key", ["a", "A.b_c-d", "example.com/a", "1/1", "a" * 63, "x" * 63 + "." + "y" * 63 + "/a"]
)
def test_good_label_keys(key):
    assert label_key_errors(key) == ()


@pytest.mark.parametrize(
    ("key", "want"),
    [
        ("", ["name part must be non-empty", "name part must consist of"]),
        ("a" * 64, ["name part must be no more than 63 bytes"]),
        ("-a", ["name part must consist of"]),
        ("/a", ["prefix part must be non-empty"]),
        ("A/a", ["prefix part a lowercase RFC 1123 subdomain must consist of"]),
        ("x" * 254 + "/a", ["prefix part must be no more than 253 bytes"]),
        ("a/b/c", ["a valid label key must consist of"]),
    ],
)
def test_bad_label_keys(key, want):
    errors = label_key_errors(key)
    assert len(errors) == len(want)
    assert all(error.startswith(start) for error, start in zip(errors, want, strict=True))


def test_a_key_with_two_slashes_is_told_the_whole_rule():
    (error,) = label_key_errors("a/b/c")
    assert error.endswith(
        "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
    )


@pytest.mark.parametrize("value", ["", "a", "1.2-3_4", "x" * 63])
def test_good_label_values(value):
    assert label_value_errors(value) == ()


@pytest.mark.parametrize(
    ("value", "count"), [("-a", 1), ("a b", 1), ("x" * 64, 1), ("é" * 32, 2), ("a\n", 1)]
)
def test_bad_label_values(value, count):
    assert len(label_value_errors(value)) == count


@pytest.mark.parametrize("name", ["a", "a-b", "0", "x" * 63])
def test_good_dns_labels(name):
    assert dns_label_errors(name) == []
    assert dns_subdomain_errors(name) == []


def test_a_dns_label_has_no_dots():
    assert dns_label_errors("a.b") == ["must not contain dots"]
    assert dns_subdomain_errors("a.b") == []


@pytest.mark.parametrize("name", ["", "A", "-a", "a.", "a_b"])
def test_bad_dns_names(name):
    assert dns_label_errors(name)
    assert dns_subdomain_errors(name)
