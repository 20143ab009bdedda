"""Cost grows with the size of an input and no faster, and an innocent pod's not at all.

Every row of the table, in process: decoded as the client does, through the event handlers into the
queue, one attempt, assumed, bound, confirmed, deleted. Work is counted, not timed.
"""

import pytest

from tests.adversary.growth import Measured, measure
from tests.adversary.inputs import ROWS, Ask, encoded

LINEAR = 2.5
FLAT = 1.3
# One object in etcd is at most 1.5 MiB, as protobuf, which is shorter.
MOST_BYTES = 1_500_000


@pytest.fixture(scope="module", params=ROWS)
def measured(request) -> Measured:
    return measure(ROWS[request.param])


def test_work_grows_no_faster_than_the_input(measured):
    for part in ("coming", "going", "news"):
        flat = measured.increase(part) < FLAT
        assert flat or measured.growth(part) < LINEAR, measured.told(part)


def test_an_innocent_pod_does_not_pay_for_it(measured):
    """Unless the row says that it has to, in proportion."""
    if measured.row.innocent_pays:
        assert measured.growth("innocent") < LINEAR, measured.told("innocent")
    else:
        assert measured.increase("innocent") < FLAT, measured.told("innocent")


def test_nothing_of_it_is_left_to_pay_for_afterwards(measured):
    assert measured.increase("afterwards") < FLAT, measured.told("afterwards")


@pytest.mark.parametrize("name", ROWS)
def test_an_input_is_not_larger_than_what_an_api_server_stores(name):
    row = ROWS[name]
    scene = row.build(Ask(row.size, "tagged", [f"node-{i:05d}" for i in range(1000)]))
    assert max(len(encoded(item)) for item in (*scene.before, *scene.pods)) < MOST_BYTES
    assert row.attacks
    assert row.small < row.size
