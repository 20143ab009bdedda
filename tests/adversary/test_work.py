"""The counter itself: it must see what the growth tests rely on."""

import numpy as np
import pytest

from tests.adversary.work import Work, work_of


def pairs(items: list[int]) -> int:
    count = 0
    for one in items:
        for other in items:
            count += one < other
    return count


def outer_sum(size: int) -> int:
    return int((np.arange(size)[:, None] + np.arange(size)).sum())


def test_a_loop_in_a_loop_shows_in_the_lines():
    assert work_of(lambda: pairs(list(range(80)))).ratio(
        work_of(lambda: pairs(list(range(40))))
    ) == pytest.approx(4.0, rel=0.05)


def test_a_square_array_shows_in_the_bytes_though_it_is_gone_at_once():
    small, large = work_of(lambda: outer_sum(500)), work_of(lambda: outer_sum(1000))
    assert large.lines == small.lines
    assert large.ratio(small) == pytest.approx(4.0, rel=0.05)


def test_linear_work_has_a_ratio_of_two():
    def spread(size: int) -> Work:
        return work_of(lambda: [str(number) for number in range(size)])

    assert spread(4000).ratio(spread(2000)) < 2.3
