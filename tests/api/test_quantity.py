import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kscheduler.api.quantity import (
    MAX_INT64,
    Amount,
    Format,
    QuantityError,
    canonical,
    compare,
    milli_value,
    nano_value,
    parse,
    value,
)

SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", 1)},
}
FORMAT_WRONG = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
SUFFIX_WRONG = "unable to parse quantity's suffix"
NUMBER_WRONG = "unable to parse numeric part of quantity"

numbers = st.from_regex(r"[+-]?[0-9]{1,12}(\.[0-9]{0,12})?", fullmatch=True)
exponents = st.builds("{}{}".format, st.sampled_from("eE"), st.integers(-20, 20))
quantities = st.builds("{}{}".format, numbers, st.sampled_from(sorted(SUFFIXES)) | exponents)


def naive(text):
    """A quantity as a fraction, rounded up to nano-units; the definition in a few lines."""
    number = text.rstrip("EPTGMkKmunie")
    if "e" in text or (text[-1].isdigit() and "E" in text):
        exact = Fraction(Decimal(text))
        binary = False
    else:
        suffix = text[len(number) :]
        exact = Fraction(Decimal(number)) * SUFFIXES[suffix]
        binary = suffix.endswith("i")
    nanos = math.ceil(abs(exact) * 10**9)
    nanos = min(nanos, MAX_INT64 * 10**9) if binary else nanos
    return Fraction(nanos if exact >= 0 else -nanos, 10**9)


def away_from_zero(number):
    rounded = math.ceil(abs(number)) * (1 if number >= 0 else -1)
    return max(-(2**63), min(rounded, MAX_INT64))


@given(quantities)
@example("0.1n")
@example("9Ei")
@example("-1.5Gi")
def test_parsing_is_exact(text):
    want = naive(text)
    assert Fraction(nano_value(text), 10**9) == want
    assert value(text) == away_from_zero(want)
    assert milli_value(text) == away_from_zero(want * 1000)


@given(quantities)
def test_canonical_text_means_the_same_and_is_stable(text):
    once = canonical(text)
    assert nano_value(once) == nano_value(text)
    assert canonical(once) == once


@given(quantities, quantities)
def test_order_is_the_order_of_numbers(left, right):
    a, b = naive(left), naive(right)
    assert compare(left, right) == (a > b) - (a < b)
    assert (parse(left) < parse(right)) == (a < b)
    assert (parse(left) == parse(right)) == (a == b)


@given(quantities, quantities)
def test_sums_are_exact(left, right):
    total, difference = parse(left) + parse(right), parse(left) - parse(right)
    assert total.nanos == nano_value(left) + nano_value(right)
    assert difference.nanos == nano_value(left) - nano_value(right)
    assert nano_value(str(total)) == total.nanos or abs(total.nanos) > MAX_INT64 * 10**9


@pytest.mark.parametrize(
    ("text", "whole", "milli"),
    [
        ("0", 0, 0),
        ("1n", 1, 1),
        ("1500m", 2, 1500),
        ("100.5m", 1, 101),
        ("1.5", 2, 1500),
        ("100.5", 101, 100500),
        (".5", 1, 500),
        ("1.", 1, 1000),
        ("0.5Mi", 524288, 524288000),
        ("100.035Ki", 102436, 102435840),
        ("1E", 10**18, MAX_INT64),
        ("1E3", 1000, 10**6),
        ("1e-3", 1, 1),
        ("-1500m", -2, -1500),
        ("12E", MAX_INT64, MAX_INT64),
        ("9Ei", MAX_INT64, MAX_INT64),
        ("1e1000000", MAX_INT64, MAX_INT64),
        (2, 2, 2000),
        (0.5, 1, 500),
        ("Ki", 0, 0),
        ("+", 0, 0),
        (".", 0, 0),
    ],
)
def test_values_round_away_from_zero(text, whole, milli):
    assert (value(text), milli_value(text)) == (whole, milli)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", FORMAT_WRONG),
        (" 1", FORMAT_WRONG),
        ("1 ", FORMAT_WRONG),
        ("1.2.3", FORMAT_WRONG),
        ("0.1am", FORMAT_WRONG),
        ("abc", FORMAT_WRONG),
        ("1e", SUFFIX_WRONG),
        ("1K", SUFFIX_WRONG),
        ("1ki", SUFFIX_WRONG),
        ("1mi", SUFFIX_WRONG),
        ("1i", SUFFIX_WRONG),
        ("+-1", SUFFIX_WRONG),
        ("1e1e1", FORMAT_WRONG),
        ("Pi", NUMBER_WRONG),
        ("9" * 1001, NUMBER_WRONG),
        ("1e" + "9" * 1001, SUFFIX_WRONG),
    ],
)
def test_errors_are_worded_as_upstream(text, error):
    with pytest.raises(QuantityError) as caught:
        parse(text)
    assert str(caught.value) == error


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("0.5", "500m"),
        ("1024Mi", "1Gi"),
        ("1e3", "1e3"),
        ("1E3", "1E3"),
        ("100e1", "1e3"),
        ("1000m", "1"),
        ("1000", "1k"),
        ("1.500", "1.500"),
        ("0.500", "500m"),
        ("+5", "+5"),
        ("0.5Gi", "512Mi"),
        ("0.1Ki", "102400m"),
        ("1.5Ki", "1536"),
        ("8Mi", "8Mi"),
        ("1025Mi", "1025Mi"),
        ("100.035Ki", "102435840m"),
        ("0.00000012345", "124n"),
        ("9Ei", "9223372036854775807"),
        ("0Gi", "0"),
        ("-0", "0"),
        (1, "1"),
    ],
)
def test_canonical_form_is_what_a_server_stores(text, want):
    assert canonical(text) == want


def test_a_sum_takes_the_format_of_its_first_part():
    assert str(parse("1Gi") + parse("1")) == "1073741825"
    assert str(parse("512Mi") + parse("512Mi")) == "1Gi"
    assert str(parse("0") + parse("512Mi")) == "512Mi"
    assert str(parse("1G") - parse("500M")) == "500M"


def test_amounts_compare_by_amount_only():
    assert parse("1Ki") == parse("1024") == Amount(1024 * 10**9, Format.BINARY_SI)
    assert float(parse("250m")) == 0.25
