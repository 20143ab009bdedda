import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.state import namespace_sets
from kscheduler.state.namespace_sets import NamespaceBits, Universe, bytes_of_namespaces

NAMES = [f"ns{number}" for number in range(20)]
masks = st.lists(st.booleans(), min_size=20, max_size=20).map(np.array)
names = st.frozensets(st.sampled_from([*NAMES, "unknown", "other"]), max_size=3)


@given(masks, names, st.sampled_from([0, 10, 64]))
def test_a_subset_is_the_same_set_whether_large_or_small(mask, more, few):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(namespace_sets, "FEW_NAMES", few)
        found = Universe(NAMES).subset(mask, more)
    want = {name for name, chosen in zip(NAMES, mask, strict=True) if chosen} | more
    assert sorted(found) == sorted(want)
    assert len(found) == len(want)
    assert {name for name in (*NAMES, "unknown", "other", "none") if name in found} == want
    assert isinstance(found, NamespaceBits) == (np.count_nonzero(mask) > few)


def test_large_sets_are_equal_if_made_at_the_same_time():
    everything = np.ones(1000, np.bool_)
    names = [f"ns{number}" for number in range(1000)]
    universe = Universe(names)
    one, other = universe.subset(everything, frozenset()), universe.subset(everything, frozenset())
    assert (one, hash(one)) == (other, hash(other))
    assert one != universe.subset(everything, frozenset({"unknown"}))
    assert one != Universe(names).subset(everything, frozenset())
    assert one != frozenset(names)


def test_a_large_set_takes_a_bit_for_each_name():
    names = [f"ns{number}" for number in range(8000)]
    everything = Universe(names).subset(np.ones(8000, np.bool_), frozenset())
    assert bytes_of_namespaces(everything) == 1200
