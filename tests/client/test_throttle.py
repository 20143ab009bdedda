import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.client.throttle import Backoff, TokenBucket, brief_retries, bucket_for


def test_burst_is_free_and_then_requests_wait_their_turn():
    bucket = TokenBucket(qps=10.0, burst=3)
    waits = [bucket.reserve(100.0) for _ in range(5)]
    assert waits == pytest.approx([0.0, 0.0, 0.0, 0.1, 0.2])


def test_tokens_come_back_with_time_up_to_the_burst():
    bucket = TokenBucket(qps=10.0, burst=2)
    for _ in range(4):
        bucket.reserve(0.0)
    assert bucket.reserve(0.2) == pytest.approx(0.1)
    assert [bucket.reserve(100.0) for _ in range(3)] == pytest.approx([0.0, 0.0, 0.1])


def test_given_back_token_serves_the_next_request():
    bucket = TokenBucket(qps=1.0, burst=1)
    assert (bucket.reserve(0.0), bucket.reserve(0.0)) == (0.0, 1.0)
    bucket.give_back()
    assert bucket.reserve(0.0) == 1.0


def test_taking_without_waiting_leaves_no_debt():
    bucket = TokenBucket(qps=1.0, burst=1)
    assert [bucket.try_take(t) for t in (0.0, 0.5, 0.9, 1.0)] == [True, False, False, True]


@given(
    qps=st.floats(0.5, 1000),
    burst=st.integers(1, 50),
    gaps=st.lists(st.floats(0, 2), min_size=1, max_size=60),
)
def test_no_window_sees_more_than_burst_and_rate_allow(qps, burst, gaps):
    bucket = TokenBucket(qps, burst)
    now = 0.0
    served = []
    for gap in gaps:
        now += gap
        served.append(now + bucket.reserve(now))
    for first in range(len(served)):
        for last in range(first, len(served)):
            allowed = burst + qps * (served[last] - served[first])
            assert last - first + 1 <= allowed + 1e-6 * (last + 1) + 1e-6


@pytest.mark.parametrize(
    ("qps", "burst", "free"),
    [
        pytest.param(2.0, 3, 3, id="as told"),
        pytest.param(0.0, 0, 10, id="zero means the defaults"),
    ],
)
def test_bucket_of_a_connection(qps, burst, free):
    bucket = bucket_for(qps, burst)
    assert bucket is not None
    assert sum(bucket.reserve(0.0) == 0.0 for _ in range(20)) == free


def test_negative_rate_means_no_throttling():
    assert bucket_for(-1.0, 100) is None


def test_backoff_doubles_to_its_cap_and_starts_over_after_quiet():
    backoff = Backoff(jitter=0.0)
    pauses = [backoff.next(float(t)) for t in range(8)]
    assert pauses == pytest.approx([0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0])
    assert backoff.next(7.0 + 120.0) == pytest.approx(30.0)
    assert backoff.next(7.0 + 120.0 + 120.1) == pytest.approx(0.8)


def test_backoff_is_up_to_doubled_by_chance():
    pauses = [Backoff().next(0.0) for _ in range(200)]
    assert all(0.8 <= pause < 1.6 for pause in pauses)
    assert max(pauses) - min(pauses) > 0.1


def test_brief_retries_are_ten_fifty_and_two_hundred_fifty_milliseconds():
    first, second, third = brief_retries()
    assert 0.010 <= first <= 0.011
    assert 0.050 <= second <= 0.055
    assert 0.250 <= third <= 0.275
