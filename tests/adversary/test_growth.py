"""Cost grows with the size of an input and no faster, and an innocent pod's not at all.

Every row of the table, in process: decoded as the client does, through the event handlers into the
queue, one attempt, assumed, bound, confirmed, deleted. Work is counted, not timed.
"""

import pytest

from tests.adversary.growth import measure
from tests.adversary.inputs import ROWS, Ask, encoded

# One object in etcd is at most 1.5 MiB, as protobuf, which is shorter.
MOST_BYTES = 1_500_000


@pytest.mark.parametrize("name", ROWS)
def test_work_is_linear_in_the_input_and_nobody_else_pays(name):
    assert measure(ROWS[name]).problems() == []


@pytest.mark.parametrize("name", ROWS)
def test_an_input_is_not_larger_than_what_an_api_server_stores(name):
    row = ROWS[name]
    scene = row.build(Ask(row.size, "tagged", [f"node-{i:05d}" for i in range(1000)]))
    assert max(len(encoded(item)) for item in (*scene.before, *scene.pods)) < MOST_BYTES
    assert row.attacks
    assert row.small < row.size
