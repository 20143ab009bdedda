"""What nodes lack: over arrays, for one row, and told in sentences."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.framework.status import Code
from kscheduler.plugins.node_resources.fit import (
    MAX_RESOURCES,
    rejections,
    shortages,
    shortages_of_row,
)


class Rows:
    """The columns of a table; each row: valid, pods, places, what is taken, what there is."""

    def __init__(self, *rows):
        valid, pods, places, taken, there = zip(*rows, strict=True)
        self.resources = {"cpu": 0, "memory": 1}
        self.valid = np.array(valid)
        self.pod_count, self.max_pods = np.array(pods), np.array(places)
        self.requested, self.allocatable = np.array(taken), np.array(there)

    def __len__(self):
        return len(self.valid)


def told(wanted, nodes):
    """Per row the sentences about it, with `!` where preemption cannot help."""
    found = [[] for _ in range(len(nodes))]
    for mask, code, reason in rejections(wanted, lambda portion: shortages(portion, nodes)):
        mark = "!" if code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE else ""
        for row in np.flatnonzero(mask):
            found[row].append(reason + mark)
    return found


ROOM, FULL = (True, 0, 9, [0, 0], [4, 9]), (True, 9, 9, [4, 9], [4, 9])


@pytest.mark.parametrize(
    ("wanted", "row", "want"),
    [
        pytest.param((("cpu", 4), ("memory", 9)), ROOM, [], id="fits"),
        pytest.param((), FULL, ["Too many pods"], id="no place"),
        pytest.param(
            (("cpu", 1), ("memory", 1)),
            FULL,
            ["Too many pods", "Insufficient cpu", "Insufficient memory"],
            id="all is taken",
        ),
        pytest.param((("cpu", 5),), ROOM, ["Insufficient cpu!"], id="the node is too small"),
        pytest.param(
            (("memory", 1), ("cpu", 5)),
            FULL,
            ["Too many pods", "Insufficient memory", "Insufficient cpu!"],
            id="taken, too small, in the order asked for",
        ),
        pytest.param((("x.io/gpu", 1),), ROOM, ["Insufficient x.io/gpu!"], id="nobody has it"),
        pytest.param((("cpu", 9),), (False, 0, 0, [0, 0], [0, 0]), [], id="not a node"),
    ],
)
def test_what_is_told(wanted, row, want):
    assert told(wanted, Rows(ROOM, row, ROOM))[1] == want


def test_more_resources_than_bits():
    wanted = tuple((f"x.io/r{number}", 1) for number in range(2 * MAX_RESOURCES + 1))
    sentences = [f"Insufficient {resource}!" for resource, _ in wanted]
    assert told(wanted, Rows(FULL)) == [["Too many pods", *sentences]]


amounts = st.integers(0, 5) | st.sampled_from([-(2**63), 2**62, 2**63 - 1])
rows = st.tuples(
    st.booleans(),
    st.integers(0, 2),
    st.integers(0, 2),
    st.lists(amounts, min_size=2, max_size=2),
    st.lists(amounts, min_size=2, max_size=2),
)
wishes = st.dictionaries(
    st.sampled_from(["cpu", "memory", "x.io/gpu"]), st.integers(1, 6), max_size=3
).map(lambda wanted: tuple(wanted.items()))


@given(wishes, rows)
def test_one_row_is_judged_like_many(wanted, row):
    nodes = Rows(row)
    with np.errstate(all="ignore"):
        expected = shortages(wanted, nodes).tolist()
    found = shortages_of_row(wanted, nodes, 0)
    assert found is None or [found] == expected
    if all(abs(number) < 2**60 for part in row[3:] for number in part):
        assert found is not None
