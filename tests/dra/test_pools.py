"""Pools: which devices a node can reach, in which order, and when it must wait for slices."""

import pytest

from kscheduler.api.resource import ResourceSlice
from tests.dra.inventory import Inventory, make_claim, make_slice
from tests.kit.devices import DRIVER, device, request
from tests.kit.objects import make_node

CANNOT = "cannot allocate all claims"
INVALID = "invalid resource pools were encountered"
EVERYTHING = make_claim("c", request(allocationMode="All"))


def in_zone(*zones):
    expressions = [{"key": "zone", "operator": "In", "values": list(zones)}]
    return {"nodeSelectorTerms": [{"matchExpressions": expressions}]}


def test_pools_are_tried_by_driver_and_name_and_slices_by_name():
    cluster = Inventory(
        make_slice("z", pool="b", node="n1", devices=[device("of-b")]),
        make_slice("y", pool="a", node="n1", devices=[device("second")], slices=2),
        make_slice("x", pool="a", node="n1", devices=[device("first")], slices=2),
    )
    assert cluster.picks(make_claim("c", request(count=3))) == [["first", "second", "of-b"]]


def test_pools_with_binding_conditions_come_last():
    conditions = {"bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}
    cluster = Inventory(
        make_slice("a", node="n1", devices=[device("slow", **conditions)]),
        make_slice("b", node="n1", devices=[device("quick")]),
    )
    [result] = cluster.allocate(make_claim("c", request(count=2)))
    quick, slow = result.devices.results
    assert (quick.device, quick.binding_conditions) == ("quick", ())
    assert (slow.device, slow.binding_conditions) == ("slow", ("ready",))
    assert slow.binding_failure_conditions == ("failed",)


def test_devices_with_binding_conditions_need_the_gate():
    slow = device("slow", bindingConditions=["ready"])
    cluster = Inventory(make_slice("n1", devices=[slow]), device_binding_and_status=False)
    assert cluster.refusal(make_claim("c")) == CANNOT


class TestIncompletePools:
    def test_serve_nobody(self):
        cluster = Inventory(make_slice("a", pool="p", node="n1", slices=2))
        assert cluster.refusal(make_claim("c")) == CANNOT

    def test_make_all_devices_an_error(self):
        cluster = Inventory(make_slice("a", pool="p", node="n1", slices=2))
        assert cluster.refusal(EVERYTHING) == (
            "claim default/c, request r: asks for all devices, but resource pool "
            f"{DRIVER}/p is currently being updated"
        )

    def test_are_complete_with_slices_of_other_nodes(self):
        cluster = Inventory(
            make_slice("a", pool="p", node="n1", slices=2),
            make_slice("b", pool="p", node="n2", slices=2, devices=[device("far")]),
            nodes=("n1", "n2"),
        )
        assert cluster.picks(EVERYTHING) == [["gpu-0"]]
        assert cluster.picks(EVERYTHING, on="n2") == [["far"]]

    def test_become_complete_when_the_slice_comes(self):
        cluster = Inventory(make_slice("a", pool="p", node="n1", slices=2))
        assert cluster.verdicts(make_claim("c")) == [CANNOT]
        cluster.put(make_slice("b", pool="p", node="n1", slices=2, devices=[device("late")]))
        assert cluster.verdicts(make_claim("c")) == [0]


class TestGenerations:
    def test_before_the_last_are_ignored(self):
        cluster = Inventory(
            make_slice("old", pool="p", node="n1", devices=[device("old")]),
            make_slice("new", pool="p", node="n1", devices=[device("new")], generation=2),
        )
        assert cluster.picks(EVERYTHING) == [["new"]]

    def test_that_are_being_replaced_elsewhere_count_while_they_are_whole(self):
        cluster = Inventory(
            make_slice("here", pool="p", node="n1"),
            make_slice("there", pool="p", node="n2", generation=2),
            nodes=("n1", "n2"),
        )
        assert cluster.picks(make_claim("c")) == [["gpu-0"]]

    def test_that_are_being_replaced_and_not_whole_are_as_if_they_were_not(self):
        cluster = Inventory(
            make_slice("here", pool="p", node="n1", slices=2),
            make_slice("there", pool="p", node="n2", generation=2, slices=2),
            nodes=("n1", "n2"),
        )
        # The pool does not keep n1 from knowing all of its devices, of which there are none.
        assert cluster.refusal(EVERYTHING) == CANNOT


class TestInvalidPools:
    TWICE = (
        make_slice("a", pool="p", node="n1", slices=2),
        make_slice("b", pool="p", node="n1", slices=2),
    )

    def test_have_a_device_twice(self):
        assert Inventory(*self.TWICE).refusal(make_claim("c")) == INVALID

    def test_do_no_harm_if_another_pool_serves_the_claim(self):
        cluster = Inventory(*self.TWICE, make_slice("n1"))
        assert cluster.picks(make_claim("c")) == [["gpu-0"]]

    def test_make_all_devices_an_error(self):
        text = Inventory(*self.TWICE).refusal(EVERYTHING)
        assert text.endswith(f"resource pool {DRIVER}/p is currently invalid")


class TestDevicesOfSeveralNodes:
    def nodes(self):
        return [make_node("n1", labels={"zone": "a"}), make_node("n2", labels={"zone": "b"})]

    def test_are_reached_from_nodes_that_the_slice_selects(self):
        net = make_slice("net", nodeSelector=in_zone("a"))
        cluster = Inventory(net, nodes=self.nodes())
        assert cluster.verdicts(make_claim("c")) == [0, CANNOT]
        [result] = cluster.allocate(make_claim("c"))
        [term] = result.node_selector.node_selector_terms
        assert term.match_expressions[0].values == ("a",)

    def test_follow_the_labels_of_nodes(self):
        cluster = Inventory(make_slice("net", nodeSelector=in_zone("a")), nodes=self.nodes())
        assert cluster.verdicts(make_claim("c")) == [0, CANNOT]
        cluster.cache.update_node(make_node("n2", labels={"zone": "a"}))
        assert cluster.verdicts(make_claim("c")) == [0, 0]

    def test_are_taken_for_all_nodes_at_once(self):
        cluster = Inventory(make_slice("net", allNodes=True), nodes=self.nodes())
        assert cluster.verdicts(make_claim("c")) == [0, 0]
        [result] = cluster.allocate(make_claim("first"))
        assert result.node_selector is None
        cluster.take(make_claim("first"))
        assert cluster.verdicts(make_claim("c")) == [CANNOT, CANNOT]

    def test_each_for_its_own_nodes(self):
        devices = [device("far", nodeName="n2"), device("near", nodeSelector=in_zone("a"))]
        mixed = make_slice("net", allNodes=None, devices=devices, perDeviceNodeSelection=True)
        cluster = Inventory(mixed, nodes=self.nodes())
        assert cluster.picks(EVERYTHING) == [["near"]]
        assert cluster.picks(EVERYTHING, on="n2") == [["far"]]

    def test_that_bind_to_a_node_pin_the_claim_to_it(self):
        net = make_slice("net", allNodes=True, devices=[device("fabric", bindsToNode=True)])
        [result] = Inventory(net, nodes=self.nodes()).allocate(make_claim("c"), on="n2")
        [term] = result.node_selector.node_selector_terms
        assert term.match_fields[0].values == ("n2",)

    def test_of_several_terms_cannot_be_written_down(self):
        terms = in_zone("a")["nodeSelectorTerms"] * 2
        net = make_slice("net", nodeSelector={"nodeSelectorTerms": terms})
        assert Inventory(net, nodes=self.nodes()).refusal(make_claim("c")) == (
            "create NodeSelector for claim c: unsupported ResourceSlice.NodeSelector with 2 terms"
        )


@pytest.mark.parametrize("moved", ["removed", "moved"])
def test_a_slice_that_leaves_a_node_takes_its_devices_along(moved):
    cluster = Inventory(make_slice("s", node="n1"), nodes=("n1", "n2"))
    assert cluster.verdicts(make_claim("c")) == [0, CANNOT]
    if moved == "moved":
        cluster.put(make_slice("s", node="n2"))
        assert cluster.verdicts(make_claim("c")) == [CANNOT, 0]
    else:
        [stored] = cluster.informers.lister(ResourceSlice).items()
        cluster.informers.remove(stored)
        assert cluster.verdicts(make_claim("c")) == [CANNOT, CANNOT]
