"""Go's numbers and booleans."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.errors import ConfigError
from kscheduler.gotext.strconv import (
    format_float,
    parse_bool,
    parse_float32,
    parse_int,
    parse_uint,
)


@pytest.mark.parametrize(
    ("text", "want"),
    [("42", 42), ("+7", 7), ("-0x1F", -31), ("010", 8), ("0b11", 3), ("1_000", 1000), ("0", 0)],
)
def test_integers(text, want):
    assert parse_int(text) == want


@pytest.mark.parametrize("text", ["", "abc", "1__0", "_1", "1_", "0x", "08", "1.5", " 1", "--1"])
def test_what_is_no_integer(text):
    with pytest.raises(ConfigError) as refused:
        parse_int(text)
    assert str(refused.value) == f'strconv.ParseInt: parsing "{text}": invalid syntax'


@given(st.integers(-(2**31), 2**31 - 1))
def test_integers_survive_their_text(number):
    assert parse_int(str(number), bits=32) == number


@pytest.mark.parametrize("text", ["2147483648", "-2147483649", "9" * 5000])
def test_integers_out_of_range(text):
    with pytest.raises(ConfigError, match="value out of range"):
        parse_int(text, bits=32)


@pytest.mark.parametrize("text", ["-1", "+1", "high", "0x1", "1_0"])
def test_unsigned_decimal_integers_are_digits_only(text):
    with pytest.raises(ConfigError, match="invalid syntax"):
        parse_uint(text, base=10, bits=31)


def test_unsigned_integers_out_of_range():
    with pytest.raises(ConfigError, match=r"ParseUint.*value out of range"):
        parse_uint("2147483648", base=10, bits=31)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("50", "50"),
        ("11.5", "11.5"),
        ("0.1", "0.1"),
        ("1e6", "1e+06"),
        ("-3", "-3"),
        ("1e-5", "1e-05"),
        ("0", "0"),
        ("Inf", "+Inf"),
        ("1_0.2_5", "10.25"),
        ("0x1.8p1", "3"),
        ("-0x_1p4", "-16"),
        ("0X.8P+0_1", "1"),
    ],
)
def test_floats_print_as_go_prints_them(text, want):
    assert format_float(parse_float32(text)) == want


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x", "invalid syntax"),
        ("", "invalid syntax"),
        ("0x10", "invalid syntax"),
        ("1_.5", "invalid syntax"),
        ("1e_5", "invalid syntax"),
        ("_1", "invalid syntax"),
        ("٣", "invalid syntax"),
        ("1e99", "out of range"),
        ("0x1p9999", "out of range"),
    ],
)
def test_what_is_no_float(text, why):
    with pytest.raises(ConfigError, match=why):
        parse_float32(text)


def test_booleans():
    assert [parse_bool(text) for text in ("1", "T", "true", "0", "F", "False")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="ParseBool"):
        parse_bool("yes")
