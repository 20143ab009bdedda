"""The cluster that is given to the tests, as far as it can be looked at without starting it."""

from tests.conformance.rig import NODES, node
from tests.kit.manifests import ZONE


def test_there_are_two_nodes_in_each_of_two_zones():
    zones = [node(number)["metadata"]["labels"][ZONE] for number in range(NODES)]
    assert sorted(zones) == ["zone-0", "zone-0", "zone-1", "zone-1"]


def test_a_node_can_allocate_what_it_has_before_any_kubelet_says_so():
    status = node(0)["status"]
    assert status["allocatable"] == status["capacity"]
    assert "ephemeral-storage" in status["capacity"]
