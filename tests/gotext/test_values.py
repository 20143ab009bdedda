import math
import re
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.gotext.fmt import go_syntax
from kscheduler.gotext.json_text import json_float, json_float32, marshal
from kscheduler.gotext.strconv import float32
from kscheduler.gotext.yaml_text import float_key


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (0.1, "0.1"),
        (-2.5, "-2.5"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (2.0**64, "18446744073709552000"),
    ],
)
def test_floats_print_as_in_gos_json(value, text):
    assert json_float(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(math.inf, "+Inf"), (-math.inf, "-Inf"), (math.nan, "NaN")],
)
def test_json_has_no_infinities(value, text):
    with pytest.raises(ValueError, match=re.escape(f"json: unsupported value: {text}")):
        json_float(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [(50.0, "50"), (float32(0.1), "0.1"), (float32(16777217.3), "16777218"), (1e-8, "1e-8")],
)
def test_float32_prints_with_the_fewest_digits(value, text):
    assert json_float32(value) == text


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_printed_float32_reads_back_the_same(value):
    assert struct.pack("f", float(json_float32(value))) == struct.pack("f", value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_printed_float_reads_back_the_same(value):
    assert float(json_float(value)) == value


def test_float_keys_use_the_general_form():
    values = (1.5, 100000.0, 1e6, 1e-5, math.inf, -math.inf, math.nan)
    expected = ["1.5", "100000", "1e+06", "1e-05", ".inf", "-.inf", ".nan"]
    assert [float_key(v) for v in values] == expected


def test_json_is_compact_and_safe_in_html():
    assert marshal({"a": ["<&>", None, True, "\x01\n"]}) == (
        '{"a":["\\u003c\\u0026\\u003e",null,true,"\\u0001\\n"]}'
    )


def test_go_syntax_names_the_types():
    value = {("str", "a"): [1, None, "x"], ("int", 2): 1.5}
    assert go_syntax(value) == (
        'map[interface {}]interface {}{2:1.5, "a":[]interface {}{1, interface {}(nil), "x"}}'
    )
