import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.gotext.duration import (
    HOUR,
    MILLISECOND,
    MINUTE,
    SECOND,
    DurationError,
    format_duration,
    parse_duration,
)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("0", 0),
        ("-0", 0),
        ("5s", 5 * SECOND),
        ("1h2m3.5s", HOUR + 2 * MINUTE + 3 * SECOND + 500 * MILLISECOND),
        ("-1.5h", -90 * MINUTE),
        ("+.5s", 500 * MILLISECOND),
        ("1.s", SECOND),
        ("100ms", 100 * MILLISECOND),
        ("1us1µs1μs", 3000),
        ("1s1s", 2 * SECOND),
        ("3.14159265358979323846s", 3_141_592_653),
        ("9223372036854775807ns", 2**63 - 1),
        ("-9223372036854775808ns", -(2**63)),
        ("0.9223372036854775807654321h", 3_320_413_933_267),
    ],
)
def test_durations_are_read_as_go_reads_them(text, want):
    assert parse_duration(text) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", 'time: invalid duration ""'),
        ("abc", 'time: invalid duration "abc"'),
        ("-", 'time: invalid duration "-"'),
        (".s", 'time: invalid duration ".s"'),
        ("5", 'time: missing unit in duration "5"'),
        ("1h5", 'time: missing unit in duration "1h5"'),
        ("5x", 'time: unknown unit "x" in duration "5x"'),
        ("5 s", 'time: unknown unit " s" in duration "5 s"'),
        ("9223372036854775808ns", 'time: invalid duration "9223372036854775808ns"'),
        ("99999999999999999999", 'time: invalid duration "99999999999999999999"'),
        ("9223372036s9223372036s", 'time: invalid duration "9223372036s9223372036s"'),
        ('"é', 'time: invalid duration "\\"\\xc3\\xa9"'),
    ],
)
def test_errors_are_worded_as_go(text, want):
    with pytest.raises(DurationError) as caught:
        parse_duration(text)
    assert str(caught.value) == want


@pytest.mark.parametrize(
    ("nanoseconds", "want"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1100, "1.1µs"),
        (100 * MILLISECOND, "100ms"),
        (2_200_000, "2.2ms"),
        (1_500 * MILLISECOND, "1.5s"),
        (15 * MINUTE, "15m0s"),
        (HOUR, "1h0m0s"),
        (100 * HOUR + 5 * SECOND + 1, "100h0m5.000000001s"),
        (-90 * SECOND, "-1m30s"),
        (-(2**63), "-2562047h47m16.854775808s"),
    ],
)
def test_durations_are_written_as_go_writes_them(nanoseconds, want):
    assert format_duration(nanoseconds) == want


@given(st.integers(0, 2**53))
def test_what_is_written_is_read_back(nanoseconds):
    # Go itself loses a nanosecond now and then: it reads fractions through float64.
    assert abs(parse_duration(format_duration(nanoseconds)) - nanoseconds) <= 1
