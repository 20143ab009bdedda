"""What alpha gates add: compatibility groups, lists, derived attributes, skipped operations."""

import pytest

from tests.dra.inventory import Inventory, make_claim, make_class, make_slice
from tests.kit.devices import DRIVER, OF_DRIVER, device, request
from tests.kit.objects import make_node

CANNOT = "cannot allocate all claims"
ROOM = [{"name": name, "counters": {"slots": {"value": "10"}}} for name in ("set", "other")]


def grouped(name, *groups, of=("set",), **fields):
    """A device that draws on counter sets, in these compatibility groups."""
    consumed = [
        {
            "counterSet": one,
            "counters": {"slots": {"value": "1"}},
            "compatibilityGroups": list(groups),
        }
        for one in of
    ]
    return device(name, consumesCounters=consumed, **fields)


def partitions(*devices, **features):
    pool = {"pool": "p", "node": "n1", "slices": 2}
    return Inventory(
        make_slice("a", devices=list(devices), **pool),
        make_slice("b", devices=[], sharedCounters=ROOM, **pool),
        compatibility_groups=features.pop("compatibility_groups", True),
        **features,
    )


class TestCompatibilityGroups:
    def test_devices_on_one_counter_set_need_a_common_group(self):
        cluster = partitions(grouped("x", "a"), grouped("y", "b"), grouped("z", "a", "c"))
        assert cluster.picks(make_claim("c", request(count=2))) == [["x", "z"]]

    def test_all_of_them_need_the_same_one(self):
        cluster = partitions(grouped("x", "a", "b"), grouped("y", "b", "c"), grouped("z", "a", "c"))
        assert cluster.refusal(make_claim("c", request(count=3))) == CANNOT

    def test_devices_without_groups_combine_with_their_like_only(self):
        cluster = partitions(grouped("x"), grouped("y", "a"), grouped("z"))
        assert cluster.picks(make_claim("c", request(count=2))) == [["x", "z"]]

    def test_allocated_devices_count(self):
        cluster = partitions(grouped("x", "a"), grouped("y", "b"), grouped("z", "a"))
        cluster.take(make_claim("first"))
        assert cluster.picks(make_claim("second")) == [["z"]]

    def test_each_counter_set_has_its_own(self):
        cluster = partitions(
            grouped("x", "a"), grouped("y", "b", of=("other",)), grouped("z", "b", of=("set",))
        )
        assert cluster.picks(make_claim("c", request(count=2))) == [["x", "y"]]

    def test_a_device_that_is_refused_for_its_taint_leaves_no_trace(self):
        tainted = [{"key": "bad", "effect": "NoSchedule"}]
        cluster = partitions(grouped("x", "a", taints=tainted), grouped("y", "b"))
        assert cluster.picks(make_claim("c")) == [["y"]]

    def test_without_the_gate_a_pool_with_groups_is_incomplete(self):
        cluster = partitions(grouped("x", "a"), compatibility_groups=False)
        assert cluster.refusal(make_claim("c")) == CANNOT
        everything = make_claim("c", request(allocationMode="All"))
        assert cluster.refusal(everything) == (
            "claim default/c, request r: asks for all devices, but resource pool "
            f"{DRIVER}/p is currently being updated"
        )


def with_nodes(*numas, **features):
    """Devices gpu-0, gpu-1, … that are near these NUMA nodes."""
    devices = [
        device(f"gpu-{number}", attributes={"numa": one}) for number, one in enumerate(numas)
    ]
    lists = features.pop("list_type_attributes", True)
    return Inventory(make_slice("n1", devices=devices), list_type_attributes=lists, **features)


def near(kind, count=2):
    return make_claim("c", request(count=count), constraints=[{kind: f"{DRIVER}/numa"}])


class TestLists:
    def test_match_when_they_have_a_common_element(self):
        cluster = with_nodes({"ints": [0, 1]}, {"ints": [2]}, {"ints": [1, 3]})
        assert cluster.picks(near("matchAttribute")) == [["gpu-0", "gpu-2"]]

    def test_must_have_one_in_common_and_not_pair_by_pair(self):
        cluster = with_nodes({"ints": [0, 1]}, {"ints": [1, 2]}, {"ints": [2, 0]})
        assert cluster.refusal(near("matchAttribute", count=3)) == CANNOT

    def test_scalars_are_lists_of_one_element(self):
        cluster = with_nodes({"ints": [0, 1]}, {"int": 2}, {"int": 1})
        assert cluster.picks(near("matchAttribute")) == [["gpu-0", "gpu-2"]]

    def test_of_another_type_have_nothing_in_common(self):
        cluster = with_nodes({"ints": [0, 1]}, {"strings": ["0"]}, {"bools": [True]})
        assert cluster.refusal(near("matchAttribute")) == CANNOT
        assert cluster.picks(near("distinctAttribute", count=3)) == [["gpu-0", "gpu-1", "gpu-2"]]

    def test_are_distinct_when_no_two_have_a_common_element(self):
        cluster = with_nodes({"ints": [0, 1]}, {"ints": [1]}, {"ints": [2, 3]})
        assert cluster.picks(near("distinctAttribute")) == [["gpu-0", "gpu-2"]]

    def test_shrink_back_when_a_device_is_given_up(self):
        # gpu-1 narrows what is common to 1, with which the third request finds nothing.
        cluster = with_nodes({"ints": [0, 1]}, {"ints": [1]}, {"ints": [0]}, {"ints": [0, 5]})
        last = [{"cel": {"expression": f'5 in device.attributes["{DRIVER}"].numa'}}]
        claim = make_claim(
            "c",
            request("two", count=2),
            request("last", selectors=last),
            constraints=[{"matchAttribute": f"{DRIVER}/numa"}],
        )
        assert cluster.picks(claim) == [["gpu-0", "gpu-2", "gpu-3"]]

    def test_without_the_gate_have_no_type_which_only_a_first_device_may_lack(self):
        cluster = with_nodes({"ints": [0]}, {"ints": [0]}, list_type_attributes=False)
        assert cluster.picks(near("matchAttribute", count=1)) == [["gpu-0"]]
        assert cluster.refusal(near("matchAttribute")) == CANNOT


def derived(name, expression):
    return [{"name": f"{DRIVER}/{name}", "expression": expression}]


class TestDerivedAttributes:
    def of(self, *models, **features):
        devices = [
            device(f"gpu-{number}", attributes={"model": {"string": model}})
            for number, model in enumerate(models)
        ]
        on = features.pop("derived_attributes", True)
        return Inventory(make_slice("n1", devices=devices), derived_attributes=on, **features)

    def claim(self, expression, count=2):
        asked = request(count=count, derivedAttributes=derived("family", expression))
        return make_claim("c", asked, constraints=[{"matchAttribute": f"{DRIVER}/family"}])

    def test_are_compared_by_constraints(self):
        cluster = self.of("a100", "h100", "a30")
        family = f'device.attributes["{DRIVER}"].model.substring(0, 1)'
        assert cluster.picks(self.claim(family)) == [["gpu-0", "gpu-2"]]

    def test_that_cannot_be_evaluated_end_the_attempt(self):
        cluster = self.of("a100")
        assert cluster.refusal(self.claim(f'device.attributes["{DRIVER}"].nothing', count=1)) == (
            f"evaluate derived attribute {DRIVER}/family on device {DRIVER}/n1/gpu-0 failed: "
            "no such key: nothing"
        )

    def test_of_other_types_do_not_compile(self):
        text = self.of("a100").refusal(self.claim("1.5", count=1))
        assert text == (
            f"compile derived attribute {DRIVER}/family failed: must evaluate to a primitive "
            "scalar (string, integer, boolean, semver) or a list of these scalars, not double"
        )

    def test_are_refused_without_the_gate(self):
        cluster = self.of("a100", derived_attributes=False)
        assert cluster.refusal(self.claim("1", count=1)) == (
            "claim default/c, request r: cannot handle request with derived attributes, "
            "the feature is disabled"
        )


class TestSkippedNodeOperations:
    SKIPPED = ("Prepare",)

    def cluster(self, *, on=True, declared=("DRAOptionalNodeOperations",)):
        slice_ = make_slice("n1", skipNodeOperations=list(self.SKIPPED))
        node = make_node("n1", features=declared)
        # Any alpha gate makes it the experimental allocator, which looks at them.
        return Inventory(
            slice_, nodes=[node], optional_node_operations=on, list_type_attributes=True
        )

    def test_are_told_in_the_result(self):
        [result] = self.cluster().allocate(make_claim("c"))
        assert result.devices.results[0].skip_node_operations == self.SKIPPED

    @pytest.mark.parametrize("asked", [{}, {"allocationMode": "All"}], ids=["one", "all"])
    def test_need_a_node_that_can_skip_them(self, asked):
        claim = make_claim("c", request(**asked))
        assert self.cluster(declared=()).refusal(claim) == CANNOT
        assert self.cluster(on=False).refusal(claim) == CANNOT

    def test_are_not_looked_at_by_the_allocators_before(self):
        cluster = Inventory(make_slice("n1", skipNodeOperations=list(self.SKIPPED)))
        [result] = cluster.allocate(make_claim("c"))
        assert result.devices.results[0].skip_node_operations == ()


def test_the_stable_allocator_tells_expressions_of_no_sharing():
    off = {"consumable_capacity": False, "device_binding_and_status": False}
    shared = make_slice("n1", devices=[device("gpu-0", allowMultipleAllocations=True)])
    selector = make_class("gpu", OF_DRIVER, "device.allowMultipleAllocations")
    assert Inventory(shared, selector, **off).refusal(make_claim("c")) == CANNOT
    assert Inventory(shared, selector).picks(make_claim("c")) == [["gpu-0"]]


def test_the_stable_allocator_knows_no_distinct_attributes():
    off = {"consumable_capacity": False, "device_binding_and_status": False}
    cluster = Inventory(make_slice("n1"), **off)
    claim = make_claim("c", request(), constraints=[{"distinctAttribute": f"{DRIVER}/numa"}])
    assert cluster.refusal(claim) == (
        "claim default/c, constraint #0: empty constraint (unsupported constraint type?)"
    )
