import pytest

from kscheduler.state.nodes import NodeOrder, zone_key

BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"


@pytest.mark.parametrize(
    ("labels", "key"),
    [
        pytest.param({}, "", id="no labels"),
        pytest.param({"app": "x"}, "", id="other labels"),
        pytest.param({ZONE: "z"}, ":\x00:z", id="only a zone"),
        pytest.param({REGION: "r"}, "r:\x00:", id="only a region"),
        pytest.param({ZONE: "z", REGION: "r"}, "r:\x00:z", id="both"),
        pytest.param({ZONE: "z", BETA_ZONE: "old"}, ":\x00:old", id="the deprecated label wins"),
        pytest.param({ZONE: "z", BETA_ZONE: ""}, "", id="even if it is empty"),
        pytest.param(
            {ZONE: "z", BETA_REGION: "old"}, "old:\x00:z", id="deprecated region, current zone"
        ),
    ],
)
def test_zone_key(labels, key):
    assert zone_key(labels) == key


def order_of(zones):
    order = NodeOrder()
    for row, zone in enumerate(zones):
        order.put(row, zone)
    return order


# Zones of upstream's nine nodes: 0 has none, 4 shares the zone of 3, 7 and 8 that of 6.
NINE = ["", "r1", "z2", "r1z2", "r1z2", "r1z3", "r2z2", "r2z2", "r2z2"]


@pytest.mark.parametrize(
    ("zones", "want"),
    [
        pytest.param([], [], id="no nodes"),
        pytest.param(NINE, [0, 1, 2, 3, 5, 6, 4, 7, 8], id="nine nodes in six zones"),
        pytest.param(["b", "b", "a", "a", "a"], [0, 2, 1, 3, 4], id="first seen zone first"),
    ],
)
def test_round_robin_over_zones(zones, want):
    assert order_of(zones).rows().tolist() == want


def test_an_exhausted_zone_comes_last_when_it_comes_back():
    order = order_of(NINE)
    for row in range(4):
        order.remove(row)
    order.put(3, "r1z2")
    assert order.rows().tolist() == [4, 5, 6, 3, 7, 8]


def test_a_node_that_changes_zone_goes_to_the_end_of_the_other():
    order = order_of(["a", "a", "b", "b"])
    order.put(0, "b")
    assert order.rows().tolist() == [1, 2, 3, 0]


def test_a_node_put_again_into_its_zone_stays_in_place():
    order = order_of(["a", "a", "b"])
    order.put(0, "a")
    assert order.rows().tolist() == [0, 2, 1]


def test_an_emptied_zone_loses_its_turn():
    order = order_of(["a", "b", "b"])
    order.remove(0)
    order.put(0, "a")
    assert order.rows().tolist() == [1, 0, 2]
