from hypothesis import given
from hypothesis import strategies as st

from kscheduler.state.memo import Memo


@given(st.lists(st.integers(0, 12)))
def test_the_most_recently_used_answers_are_remembered(keys):
    memo, used = Memo(4), []
    for key in keys:
        if memo.get(key) is None:
            assert key not in used[-4:]
            memo.put(key, -key - 1)
        assert memo.get(key) == -key - 1
        used = [other for other in used if other != key] + [key]
        assert len(memo._recent) + len(memo._older) <= 8


def test_a_cleared_memo_knows_nothing():
    memo = Memo(1)
    memo.put("a", 1)
    memo.put("b", 2)
    memo.clear()
    assert (memo.get("a"), memo.get("b")) == (None, None)
