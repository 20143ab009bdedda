import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.gotext.json_text import JsonSyntaxError, parse_json, plain

SYNTAX_ERRORS = {
    b"": "unexpected end of JSON input",
    b"{": "unexpected end of JSON input",
    b'{"a":': "unexpected end of JSON input",
    b'{"a":-': "unexpected end of JSON input",
    b'{"a":nul': "unexpected end of JSON input",
    b'{"a":1,}': "invalid character '}' looking for beginning of object key string",
    b"{'a'": "invalid character '\\'' looking for beginning of object key string",
    b'{"a" 1}': "invalid character '1' after object key",
    b'{"a":1 "b"}': "invalid character '\"' after object key:value pair",
    b'{"a":01}': "invalid character '1' after object key:value pair",
    b"[1,]": "invalid character ']' looking for beginning of value",
    b"[1 2]": "invalid character '2' after array element",
    b'{"a":tru}': "invalid character '}' in literal true (expecting 'e')",
    b'{"a":-}': "invalid character '}' in numeric literal",
    b'{"a":1.}': "invalid character '}' after decimal point in numeric literal",
    b'{"a":1e}': "invalid character '}' in exponent of numeric literal",
    b'{"a":"\\x"}': "invalid character 'x' in string escape code",
    b'{"a":"\\u12"}': "invalid character '\"' in \\u hexadecimal character escape",
    b'{"a":"b\nc"}': "invalid character '\\n' in string literal",
    b"{} x": "invalid character 'x' after top-level value",
    b"[" * 400: "exceeded max depth",
}


@pytest.mark.parametrize(("text", "message"), SYNTAX_ERRORS.items())
def test_syntax_errors_read_like_go(text, message):
    with pytest.raises(JsonSyntaxError) as caught:
        parse_json(text)
    assert str(caught.value) == message


def test_order_repetition_and_spelling_survive():
    node = parse_json(b'{"b": 1.50, "a": [null], "b": 2}')
    assert [key for key, _ in node.members] == ["b", "a", "b"]
    assert [value.raw for _, value in node.members] == ["1.50", "[null]", "2"]


def test_half_a_surrogate_pair_becomes_the_replacement_character():
    assert parse_json(b'"\\ud83d\\ude00 \\ud800 \xff"').text == "\U0001f600 \ufffd \ufffd"


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)  # fmt: skip


@given(JSON_VALUES)
def test_every_json_value_is_read_back(value):
    text = json.dumps(value).encode("utf-8")
    assert plain(parse_json(text)) == json.loads(text)


def test_number_beyond_all_bounds_is_infinite():
    assert plain(parse_json(b"[-%s, %s.5]" % (b"7" * 5000, b"7" * 5000))) == [-math.inf, math.inf]
