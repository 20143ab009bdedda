"""Work of a decision grows with the claims of the pod, with the volumes and with the nodes."""

import pytest

from tests.adversary.work import work_of
from tests.plugins.machines import make_node
from tests.plugins.volumes import (
    Stage,
    make_claim,
    make_class,
    make_volume,
    reachable_from,
    using,
)

pytestmark = pytest.mark.slow

LOCAL = make_class("wait", "kubernetes.io/no-provisioner")


def everywhere(number):
    return make_volume(f"pv{number}", f"{10 + number % 7}Gi")


def of_a_zone(number):
    affinity = reachable_from(zone="ab"[number % 2])
    return make_volume(f"pv{number}", f"{10 + number % 7}Gi", nodeAffinity=affinity)


def of_a_node(number):
    affinity = reachable_from(host=f"n{number % 100}")
    return make_volume(f"pv{number}", f"{10 + number % 7}Gi", nodeAffinity=affinity)


def mixed(number):
    return (everywhere, of_a_zone, of_a_node)[number % 3](number)


def kept(number):
    return make_volume(f"pv{number}", kept_for=f"c{number}", nodeAffinity=reachable_from(host="n1"))


def work(claims, volumes, nodes, make):
    """Of PreFilter and Filter, for a pod that nobody has seen before."""
    stage = Stage(
        [
            make_node(f"n{number}", labels={"host": f"n{number}", "zone": "ab"[number % 2]})
            for number in range(nodes)
        ],
        LOCAL,
        *(make(number) for number in range(volumes)),
        *(make_claim(f"c{number}", f"{1 + number % 9}Gi") for number in range(claims)),
    )
    pod = using(*(f"c{number}" for number in range(claims)))

    def decide():
        list(stage.plugin.filter(stage.prepared(pod), pod, stage.nodes))

    return work_of(decide)


@pytest.mark.parametrize("make", [everywhere, of_a_zone, of_a_node, mixed, kept])
@pytest.mark.parametrize("larger", [(80, 200, 100), (40, 400, 100), (40, 200, 200)])
def test_twice_as_many_claims_volumes_or_nodes_are_twice_the_work(make, larger):
    # What is made once per process, or per text, is not a matter of size.
    work(*larger, make)
    assert work(*larger, make).ratio(work(40, 200, 100, make)) < 2.5


def test_a_claim_does_not_look_at_volumes_assumed_for_others():
    """After a pod with many claims, the next such pod costs as much again."""
    count = 60
    stage = Stage(
        [make_node("n0")],
        LOCAL,
        *(everywhere(number) for number in range(2 * count)),
        *(make_claim(f"{pod}{number}") for pod in "ab" for number in range(count)),
    )

    def decide(pod):
        return lambda: stage.reserve(using(*(f"{pod}{n}" for n in range(count)), name=pod), "n0")

    first = work_of(decide("a"))
    assert len(stage.plugin._volumes) == count
    assert work_of(decide("b")).ratio(first) < 1.5
