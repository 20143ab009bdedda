import pytest

from kscheduler.state.change_log import MAX_REMEMBERED, ChangeLog


def logged(*rows):
    log = ChangeLog()
    for row in rows:
        log.add(row)
    return log


def test_a_log_tells_which_rows_changed_since():
    log = logged(1, 2)
    then = log.now
    assert log.since(then) == set()
    log.add(4)
    log.add(3)
    log.add(4)
    assert log.since(then) == {3, 4}
    assert log.since(0) == {1, 2, 3, 4}


def test_after_more_than_single_rows_changed_nothing_can_be_told():
    log = logged(1)
    then = log.now
    log.add_all()
    assert log.since(then) is None
    assert log.since(log.now) == set()


@pytest.mark.parametrize(
    ("rows", "known"),
    [(MAX_REMEMBERED, True), (MAX_REMEMBERED + 1, False), (5 * MAX_REMEMBERED, False)],
)
def test_a_log_is_bounded(rows, known):
    log = logged(*range(rows))
    assert log.since(0) == (set(range(rows)) if known else None)
    assert log.since(log.now - 10) == set(range(rows - 10, rows))
    assert log.now == rows
