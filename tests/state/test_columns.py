import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.state.columns import Column, Matrix, Rows, mask_of_bits, wrap_int64


@given(st.lists(st.none() | st.integers(0, 9)))
def test_rows_are_taken_lowest_first_and_given_up_at_the_end(steps):
    rows, taken = Rows(), set()
    for step in steps:
        if step is None:
            row = rows.take()
            assert row == min(set(range(len(taken) + 1)) - taken)
            taken.add(row)
        elif step in taken:
            taken.remove(step)
            rows.give_back(step)
        assert rows.length == max(taken, default=-1) + 1


def test_a_column_keeps_its_values_when_it_grows_and_fills_what_is_new():
    column = Column(np.int32, fill=-1)
    column.resize(2)
    column.cells[0] = 7
    column.resize(100)
    assert column.view.tolist() == [7] + [-1] * 99


def test_a_column_starts_with_given_values():
    assert Column(np.int32, fill=-1, values=range(40)).view.tolist() == list(range(40))


def test_a_copied_column_is_on_its_own():
    column = Column(np.int64, values=[1, 2])
    twin = column.copy()
    twin.cells[0] = 9
    assert (column.view.tolist(), twin.view.tolist()) == ([1, 2], [9, 2])


def test_a_matrix_grows_both_ways_and_keeps_columns_contiguous():
    matrix = Matrix(2)
    matrix.resize(1, 2)
    matrix.add(1, 0, 5)
    matrix.resize(50, 3)
    matrix.add(2, 49, 6)
    assert matrix.view.shape == (50, 3)
    assert matrix.view[0].tolist() == [0, 5, 0]
    assert matrix.view[49].tolist() == [0, 0, 6]
    assert matrix.view[:, 1].flags.c_contiguous


def test_a_cell_that_overflows_comes_back_when_the_amount_is_taken_back():
    matrix = Matrix(1)
    matrix.resize(1, 1)
    for amount in (2**63 - 1, 2**63 - 1, -(2**63 - 1), -(2**63 - 1)):
        matrix.add(0, 0, amount)
    assert matrix.view.tolist() == [[0]]


@pytest.mark.parametrize(
    ("number", "wrapped"),
    [
        pytest.param(5, 5, id="small"),
        pytest.param(2**63, -(2**63), id="one above the largest"),
        pytest.param(-(2**63) - 1, 2**63 - 1, id="one below the smallest"),
    ],
)
def test_numbers_wrap_around_at_64_bits(number, wrapped):
    assert wrap_int64(number) == wrapped


def test_readers_cannot_write():
    column = Column(np.int64, values=[1])
    with pytest.raises(ValueError, match="read-only"):
        column.view[0] = 2


@given(st.sets(st.integers(0, 40)), st.integers(41, 64))
def test_bits_become_a_mask(rows, length):
    mask = mask_of_bits(sum(1 << row for row in rows), length)
    assert np.flatnonzero(mask).tolist() == sorted(rows)
    assert len(mask) == length
