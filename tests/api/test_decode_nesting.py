import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api import decode
from kscheduler.api.decode import UnbalancedError, outline
from tests.adversary.work import work_of

# No numbers, so that those of parts are the only ones.
values = st.recursive(
    st.none() | st.booleans() | st.text('ab"\\[]{},:é', max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text('a"\\{', max_size=3), inner, max_size=3)
    ),
    max_leaves=20,
)


def put_back(value, parts):
    match value:
        case bool():
            return value
        case int():
            return json.loads(parts[value])
        case dict():
            return {key: put_back(item, parts) for key, item in value.items()}
        case list():
            return [put_back(item, parts) for item in value]
    return value


def depth_of(value):
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(map(depth_of, inner), default=0) if isinstance(value, dict | list) else 0


@pytest.mark.parametrize("block_bytes", [1, 7, 1 << 20])
@given(value=values, depth=st.integers(0, 4), indent=st.none() | st.just(1))
def test_nothing_is_lost_and_nothing_is_deeper(block_bytes, value, depth, indent):
    text = json.dumps(value, indent=indent, ensure_ascii=depth % 2 == 0).encode()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(decode, "BLOCK_BYTES", block_bytes)
        cut, parts = outline(text, depth)
    assert depth_of(json.loads(cut)) <= depth
    assert put_back(json.loads(cut), parts) == value


@pytest.mark.parametrize("text", [b"[", b"]", b"][", b'{"a', b'["\\"]', b"[[]"])
def test_text_whose_brackets_do_not_match_is_refused(text):
    with pytest.raises(UnbalancedError):
        outline(text)


def test_work_grows_with_the_text_and_not_with_its_depth():
    def work(levels):
        text = b"[" * levels + b"]" * levels
        return work_of(lambda: outline(text))

    assert work(400_000).ratio(work(200_000)) < 2.5
