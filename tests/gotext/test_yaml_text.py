import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.gotext.yaml_text import YamlError, yaml_to_json

SCALARS = {
    "yes": True,
    "Off": False,
    "n": False,
    "~": None,
    "": None,
    "NULL": None,
    "'yes'": "yes",
    "nO": "nO",
    "017": 15,
    "0o17": 15,
    "0x1F": 31,
    "-0b11": -3,
    "+5": 5,
    "08": 8,
    "1_000": 1000,
    "1e3": 1000,
    "1.0": 1,
    ".5": 0.5,
    "1e400": "1e400",
    "18446744073709551615": 18446744073709551615,
    "18446744073709551616": 18446744073709552000,
    "2001-01-01": "2001-01-01",
    "1:30": "1:30",
    "<<": "<<",
    "!!float 3": 3,
    '!!int "5"': 5,
    "!!str 5": "5",
    "!local 5": "5",
    "! 5": "5",
    "!!binary aGVsbG8=": "hello",
}


@pytest.mark.parametrize(("text", "value"), SCALARS.items())
def test_scalars_mean_what_yaml_1_1_says(text, value):
    document, _ = yaml_to_json(f"a: {text}\n".encode())
    assert json.loads(document) == {"a": value}


ERRORS = {
    "a: [1\nb: {": "yaml: line 1: did not find expected ',' or ']'",
    "a: b\n  c: d": "yaml: line 2: mapping values are not allowed in this context",
    "a: b: c": "yaml: mapping values are not allowed in this context",
    "a:\n  - b\n c: d\n": "yaml: line 2: did not find expected key",
    "- a\nb: c": "yaml: line 1: did not find expected '-' indicator",
    'a: "x\n': "yaml: line 2: found unexpected end of stream",
    "x: 1\na: @y": "yaml: line 2: found character that cannot start any token",
    "a: *b": "yaml: unknown anchor 'b' referenced",
    "&a [*a]": "yaml: anchor 'a' value contains itself",
    "<<: 5": "yaml: map merge requires map or sequence of maps as the value",
    "a: !!int abc": "yaml: cannot decode !!str `abc` as a !!int",
    "a: !!binary x": "yaml: !!binary value contains invalid base64 data",
    "? {a: 1}\n: 3": 'yaml: invalid map key: map[interface {}]interface {}{"a":1}',
    "\x01a: b": "yaml: control characters are not allowed",
    "a: .inf": "json: unsupported value: +Inf",
    "a: .nan": "json: unsupported value: NaN",
    "~: x": 'unsupported map key of type: %!s(<nil>), key: <nil>, value: "x"',
}


@pytest.mark.parametrize(("text", "message"), ERRORS.items())
def test_what_is_not_yaml_is_refused_in_go_yamls_words(text, message):
    with pytest.raises(YamlError) as caught:
        yaml_to_json(text.encode())
    assert str(caught.value) == message


def test_only_the_first_document_counts():
    assert yaml_to_json(b"a: 1\n---\n[") == (b'{"a":1}', None)


@pytest.mark.parametrize("text", [b"", b"# nothing\n", b"---\n"])
def test_an_empty_document_is_null(text):
    assert yaml_to_json(text) == (b"null", None)


def test_keys_come_out_sorted_and_as_strings():
    document, _ = yaml_to_json(b"b: 1\n2: x\na: 3\n1.5: v\non: z\n")
    assert document == b'{"1.5":"v","2":"x","a":3,"b":1,"true":"z"}'


def test_repeated_keys_keep_the_last_value_and_are_told_with_their_lines():
    text = b"a: 1\nb:\n  c: 1\n  c: 2\na: 3\n"
    assert yaml_to_json(text) == (
        b'{"a":3,"b":{"c":2}}',
        "yaml: unmarshal errors:\n"
        '  line 4: key "c" already set in map\n'
        '  line 5: key "a" already set in map',
    )


def test_overriding_a_merged_key_counts_as_a_repetition():
    text = b"x: &x {a: 1, b: 2}\nz:\n  <<: *x\n  b: 3\n"
    assert yaml_to_json(text) == (
        b'{"x":{"a":1,"b":2},"z":{"a":1,"b":3}}',
        'yaml: unmarshal errors:\n  line 4: key "b" already set in map',
    )


def test_the_first_of_merged_maps_wins():
    text = b"a: &a {k: 1}\nb: &b {k: 2, l: 3}\nc:\n  <<: [*a, *b]\n"
    document, _ = yaml_to_json(text)
    assert json.loads(document)["c"] == {"k": 1, "l": 3}


def test_a_small_document_cannot_unfold_into_a_huge_one():
    levels = [b"a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    for i in range(1, 9):
        aliases = b", ".join(b"*a%d" % (i - 1) for _ in range(9))
        levels.append(b"a%d: &a%d [%s]" % (i, i, aliases))
    with pytest.raises(YamlError, match="document contains excessive aliasing"):
        yaml_to_json(b"\n".join(levels))


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text("abc -:#{}[]'\"\n"),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abcdef", min_size=1), inner),
    max_leaves=15,
)


@given(PLAIN)
def test_what_a_yaml_library_writes_is_read_back(value):
    document, duplicates = yaml_to_json(yaml.safe_dump({"root": value}).encode())
    assert (json.loads(document), duplicates) == ({"root": value}, None)
