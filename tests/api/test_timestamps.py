from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.timestamps import (
    TimestampError,
    format_micro_time,
    format_micro_time_ns,
    format_time,
    format_time_ns,
    parse_time,
    parse_time_ns,
)

NOON = 1_700_000_000


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("2023-11-14T22:13:20Z", NOON * 10**9),
        ("2023-11-14T22:13:20.5Z", NOON * 10**9 + 500_000_000),
        ("2023-11-14T22:13:20.123456Z", NOON * 10**9 + 123_456_000),
        ("2023-11-14T22:13:20.1234567899Z", NOON * 10**9 + 123_456_789),
        ("2023-11-15T00:13:20+02:00", NOON * 10**9),
        ("2023-11-14T16:43:20-05:30", NOON * 10**9),
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59.5Z", -500_000_000),
    ],
)
def test_times_are_read_to_the_nanosecond(text, want):
    assert parse_time_ns(text) == want
    assert parse_time(text) == want / 10**9


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2023-11-14", "2023-13-14T22:13:20Z", "2023-11-14T22:13:20", "٣"]
)
def test_anything_else_is_refused(text):
    with pytest.raises(TimestampError, match="cannot parse"):
        parse_time(text)


def test_seconds_are_cut_and_microseconds_kept():
    assert format_time(NOON + 0.999) == "2023-11-14T22:13:20Z"
    assert format_micro_time(NOON + 0.5) == "2023-11-14T22:13:20.500000Z"
    assert format_time(-0.5) == "1969-12-31T23:59:59Z"


@given(st.integers(0, 4_000_000_000 * 10**9))
def test_what_is_written_is_read_back(nanoseconds):
    assert parse_time_ns(format_time_ns(nanoseconds)) == nanoseconds // 10**9 * 10**9
    assert parse_time_ns(format_micro_time_ns(nanoseconds)) == nanoseconds // 1000 * 1000


@given(st.datetimes(datetime(1980, 1, 1), datetime(2090, 1, 1)))
def test_times_agree_with_the_standard_library(moment):
    want = moment.replace(tzinfo=UTC)
    assert format_micro_time(want.timestamp()) == want.isoformat(timespec="microseconds").replace(
        "+00:00", "Z"
    )
