"""What limits a choice of devices: counters, capacity, constraints, admin access and taints."""

import pytest

from kscheduler.api.resource import DeviceCapacity, DeviceTaintRule
from kscheduler.dra.capacity import consumption
from kscheduler.dra.errors import AllocationError
from tests.dra.inventory import Inventory, first_available, make_claim, make_rule, make_slice
from tests.kit.devices import DRIVER, device, request

CANNOT = "cannot allocate all claims"
TAINT = {"key": "bad", "value": "very", "effect": "NoSchedule"}


def drawing(name, slots, **fields):
    consumed = [{"counterSet": "set", "counters": {"slots": {"value": str(slots)}}}]
    return device(name, consumesCounters=consumed, **fields)


def partitions(*devices, slots=4, **features):
    pool = {"pool": "p", "node": "n1", "slices": 2}
    counters = [{"name": "set", "counters": {"slots": {"value": str(slots)}}}]
    return Inventory(
        make_slice("a", devices=list(devices), **pool),
        make_slice("b", devices=[], sharedCounters=counters, **pool),
        **features,
    )


def sharing(name="gpu-0", size="10", **fields):
    capacity = {"memory": {"value": size, **fields.pop("policy", {})}}
    return device(name, allowMultipleAllocations=True, capacity=capacity, **fields)


def wanting(amount, name="r", **fields):
    return request(name, capacity={"requests": {"memory": amount}}, **fields)


class TestCounters:
    def test_of_allocated_devices_are_gone(self):
        cluster = partitions(drawing("half", 2), drawing("whole", 4), drawing("other-half", 2))
        assert cluster.take(make_claim("a")) == [["half"]]
        assert cluster.picks(make_claim("b")) == [["other-half"]]

    def test_make_the_search_go_back(self):
        cluster = partitions(drawing("whole", 4), drawing("half", 2), drawing("other-half", 2))
        claim = make_claim("c", request(count=2))
        assert cluster.picks(claim) == [["half", "other-half"]]

    def test_are_released_when_a_taint_refuses_the_device(self):
        cluster = partitions(drawing("whole", 4, taints=[TAINT]), drawing("half", 4))
        assert cluster.picks(make_claim("c")) == [["half"]]

    def test_that_are_overdrawn_block_all_devices_that_draw_on_any(self):
        cluster = partitions(drawing("a", 4), drawing("b", 4), drawing("c", 1), device("d"))
        holder = make_claim("holder", request(count=2))
        [allocation] = partitions(drawing("a", 4), drawing("b", 4), slots=8).allocate(holder)
        cluster.allocated.add(holder.uid, allocation)
        assert cluster.picks(make_claim("c")) == [["d"]]

    def test_are_drawn_on_once_by_all_shares_of_a_device(self):
        cluster = partitions(drawing("shared", 4, allowMultipleAllocations=True))
        cluster.take(make_claim("a"))
        assert cluster.picks(make_claim("b"), make_claim("c")) == [["shared"], ["shared"]]

    def test_that_no_slice_has_make_the_pool_invalid(self):
        cluster = Inventory(make_slice("n1", devices=[drawing("lost", 1)]))
        assert cluster.refusal(make_claim("c")) == "invalid resource pools were encountered"

    def test_are_not_for_a_scheduler_without_the_gate(self):
        devices = [drawing("part", 1), device("whole")]
        cluster = Inventory(make_slice("n1", devices=devices), partitionable_devices=False)
        assert cluster.picks(make_claim("c")) == [["whole"]]


class TestCapacity:
    def test_is_shared_until_it_is_used_up(self):
        cluster = Inventory(make_slice("n1", devices=[sharing("a"), sharing("b")]))
        assert cluster.take(make_claim("one", wanting("6"))) == [["a"]]
        assert cluster.take(make_claim("two", wanting("6"))) == [["b"]]
        assert cluster.picks(make_claim("three", wanting("4"))) == [["a"]]
        assert cluster.refusal(make_claim("four", wanting("5"))) == CANNOT

    def test_counts_requests_of_the_same_pod_together(self):
        cluster = Inventory(make_slice("n1", devices=[sharing("a"), sharing("b")]))
        claim = make_claim("c", wanting("6", "x"), wanting("6", "y"), wanting("4", "z"))
        assert cluster.picks(claim) == [["a", "b", "a"]]

    def test_that_is_not_asked_for_is_taken_whole(self):
        cluster = Inventory(make_slice("n1", devices=[sharing()]))
        [result] = cluster.allocate(make_claim("c"))
        [got] = result.devices.results
        assert got.consumed_capacity == {"memory": "10"}
        assert got.share_id

    def test_of_a_device_that_is_not_shared_is_not_told(self):
        alone = device("gpu-0", capacity={"memory": {"value": "10"}})
        [result] = Inventory(make_slice("n1", devices=[alone])).allocate(
            make_claim("c", wanting("6"))
        )
        [got] = result.devices.results
        assert (got.consumed_capacity, got.share_id) == ({}, None)

    def test_of_another_name_passes_the_device_over(self):
        cluster = Inventory(make_slice("n1", devices=[device("gpu-0"), sharing("gpu-1")]))
        assert cluster.picks(make_claim("c", wanting("1"))) == [["gpu-1"]]

    def test_that_is_left_must_be_enough_on_all_of_all_devices(self):
        cluster = Inventory(make_slice("n1", devices=[sharing("a"), sharing("b")]))
        cluster.take(make_claim("holder", wanting("6")))
        everything = make_claim("c", wanting("6", allocationMode="All"))
        assert cluster.refusal(everything) == CANNOT

    def test_beyond_all_numbers_ends_the_attempt(self):
        policy = {"requestPolicy": {"default": "1", "validRange": {"min": "1", "step": "1"}}}
        cluster = Inventory(make_slice("n1", devices=[sharing(policy=policy)]))
        assert cluster.refusal(make_claim("c", wanting("1e30"))) == (
            f"claim default/c, request r: checking capacity for device {DRIVER}/n1/gpu-0: "
            'capacity "memory": capacity request cannot be represented in the device\'s range '
            "arithmetic: request 1e30 exceeds MaxInt64"
        )

    def test_cannot_be_asked_for_without_the_gate(self):
        cluster = Inventory(make_slice("n1"), consumable_capacity=False)
        assert cluster.refusal(make_claim("c", wanting("1"))) == (
            "claim default/c, request r: has capacity requests, but the DRAConsumableCapacity "
            "feature is disabled"
        )


STEPS = {"validRange": {"min": "200m", "max": "1", "step": "100m"}}
TWOS = {"validRange": {"min": "2", "max": "8", "step": "2"}}
VALUES = {"validValues": ["1", "4", "8"]}


@pytest.mark.parametrize(
    ("policy", "requested", "fractional", "want"),
    [
        pytest.param({}, "3", False, "3", id="without a policy as asked"),
        pytest.param(TWOS, "1", False, "2", id="below the minimum"),
        pytest.param(TWOS, "3", False, "4", id="up to the next step"),
        pytest.param(TWOS, "8", False, "8", id="at the maximum"),
        pytest.param(TWOS, "9", False, None, id="above the maximum"),
        pytest.param(TWOS, "-1", False, "2", id="negative, with a minimum"),
        pytest.param(VALUES, "2", False, "4", id="up to the next value"),
        pytest.param(VALUES, "9", False, None, id="above all values"),
        pytest.param(STEPS, "250m", True, "300m", id="in thousandths"),
        pytest.param(STEPS, "250m", False, "1", id="in whole units without the gate"),
        pytest.param({"default": "5"} | VALUES, None, False, "5", id="a default that is no value"),
        pytest.param({"default": "4"} | VALUES, None, False, "4", id="the default"),
    ],
)
def test_a_request_is_rounded_as_the_device_wants_it(policy, requested, fractional, want):
    cluster = Inventory(
        make_slice("n1", devices=[sharing(policy={"requestPolicy": policy} if policy else {})]),
        fractional_capacity_range=fractional,
    )
    asked = request() if requested is None else wanting(requested)
    if want is None:
        assert cluster.refusal(make_claim("c", asked)) == CANNOT
        return
    [result] = cluster.allocate(make_claim("c", asked))
    assert result.devices.results[0].consumed_capacity == {"memory": want}


def test_an_amount_below_zero_is_an_error():
    with pytest.raises(AllocationError, match='capacity "memory": capacity value is negative'):
        consumption(None, {"memory": DeviceCapacity(value="-1")}, fractional=False)


class TestConstraints:
    def of(self, *roots):
        devices = [
            device(f"gpu-{number}", attributes={"root": root} if root else {})
            for number, root in enumerate(roots)
        ]
        return Inventory(make_slice("n1", devices=devices))

    def claim(self, kind, *requests):
        return make_claim("c", *requests, constraints=[{kind: f"{DRIVER}/root"}])

    def test_match_finds_the_first_group_that_is_large_enough(self):
        one, two = {"string": "one"}, {"string": "two"}
        claim = self.claim("matchAttribute", request("a"), request("b"))
        assert self.of(one, two, None, two).picks(claim) == [["gpu-1", "gpu-3"]]

    def test_match_tells_types_apart(self):
        claim = self.claim("matchAttribute", request(count=2))
        assert self.of({"string": "1"}, {"int": 1}, {"version": "1.0.0"}).refusal(claim) == CANNOT

    def test_distinct_skips_what_it_has_seen(self):
        one, two = {"string": "one"}, {"string": "two"}
        claim = self.claim("distinctAttribute", request(count=2))
        assert self.of(one, one, two).picks(claim) == [["gpu-0", "gpu-2"]]

    def test_that_all_devices_do_not_meet_are_an_error(self):
        claim = self.claim("matchAttribute", request(allocationMode="All"))
        assert self.of({"int": 1}, {"int": 2}).refusal(claim) == (
            f"claim default/c, request r: cannot add device {DRIVER}/n1/gpu-1 because a claim "
            "constraint would not be satisfied"
        )

    def test_of_a_subrequest_leave_the_others_alone(self):
        either = first_available("r", request("same", count=2), request("any", count=2))
        constraints = [{"matchAttribute": f"{DRIVER}/root", "requests": ["r/same"]}]
        claim = make_claim("c", either, constraints=constraints)
        cluster = self.of({"int": 1}, {"int": 2})
        assert [one.request for one in cluster.allocate(claim)[0].devices.results] == ["r/any"] * 2


class TestAdminAccess:
    ADMIN = request("admin", adminAccess=True)

    def test_gets_devices_in_use_and_does_not_take_them(self):
        cluster = Inventory(make_slice("n1"))
        cluster.take(make_claim("user"))
        assert cluster.take(make_claim("one", self.ADMIN)) == [["gpu-0"]]
        assert cluster.picks(make_claim("two", self.ADMIN)) == [["gpu-0"]]

    def test_gets_no_device_twice_for_one_claim(self):
        claim = make_claim("c", self.ADMIN, request("again", adminAccess=True))
        assert Inventory(make_slice("n1")).refusal(claim) == CANNOT

    def test_comes_behind_others_of_the_pod_but_not_before(self):
        cluster = Inventory(make_slice("n1"))
        user, admin = make_claim("user"), make_claim("admin", self.ADMIN)
        assert cluster.picks(user, admin) == [["gpu-0"], ["gpu-0"]]
        assert cluster.refusal(admin, user) == CANNOT

    def test_tolerates_no_taint(self):
        cluster = Inventory(make_slice("n1", devices=[device("gpu-0", taints=[TAINT])]))
        assert cluster.refusal(make_claim("c", self.ADMIN)) == CANNOT

    def test_cannot_be_asked_for_without_the_gate(self):
        cluster = Inventory(make_slice("n1"), admin_access=False)
        assert cluster.refusal(make_claim("c", self.ADMIN)) == (
            "claim default/c, request admin: admin access is requested, but the feature is disabled"
        )


class TestTaints:
    @pytest.mark.parametrize(
        ("toleration", "tolerated"),
        [
            pytest.param({"key": "bad", "value": "very"}, True, id="equal"),
            pytest.param({"key": "bad", "operator": "Equal", "value": "a bit"}, False, id="unlike"),
            pytest.param({"key": "bad", "operator": "Exists"}, True, id="any value"),
            pytest.param({"operator": "Exists"}, True, id="any key"),
            pytest.param({"key": "worse", "operator": "Exists"}, False, id="another key"),
            pytest.param({"operator": "Exists", "effect": "NoExecute"}, False, id="another effect"),
            pytest.param({"key": "bad", "operator": "Like"}, False, id="unknown operator"),
        ],
    )
    def test_are_tolerated_or_not(self, toleration, tolerated):
        cluster = Inventory(make_slice("n1", devices=[device("gpu-0", taints=[TAINT])]))
        claim = make_claim("c", request(tolerations=[toleration]))
        if not tolerated:
            assert cluster.refusal(claim) == CANNOT
            return
        [result] = cluster.allocate(claim)
        assert result.devices.results[0].tolerations[0].key == toleration.get("key", "")

    @pytest.mark.parametrize("effect", ["None", "Unheard"])
    def test_of_other_effects_block_nothing(self, effect):
        tainted = device("gpu-0", taints=[TAINT | {"effect": effect}])
        assert Inventory(make_slice("n1", devices=[tainted])).picks(make_claim("c")) == [["gpu-0"]]

    def test_of_rules_come_and_go_with_the_rules(self):
        cluster = Inventory(make_slice("n1", devices=2))
        rule = make_rule("r", TAINT, driver=DRIVER, pool="n1", device="gpu-0")
        cluster.put(rule)
        assert cluster.picks(make_claim("c")) == [["gpu-1"]]
        cluster.put(make_rule("r", TAINT, driver=DRIVER))
        assert cluster.refusal(make_claim("c")) == CANNOT
        [stored] = cluster.informers.lister(DeviceTaintRule).items()
        cluster.informers.remove(stored)
        assert cluster.verdicts(make_claim("c")) == [0]

    def test_of_rules_for_others_change_nothing(self):
        cluster = Inventory(make_slice("n1"), make_rule("r", TAINT, pool="n2"))
        assert cluster.picks(make_claim("c")) == [["gpu-0"]]

    def test_of_rules_are_not_looked_at_without_the_gate(self):
        rule = make_rule("r", TAINT, driver=DRIVER)
        cluster = Inventory(make_slice("n1"), rule, device_taint_rules=False)
        assert cluster.picks(make_claim("c")) == [["gpu-0"]]
