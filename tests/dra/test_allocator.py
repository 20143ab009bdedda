"""The allocator: which devices claims get on a node, and on which nodes they get any."""

import gc

import numpy as np
import pytest

from kscheduler.api.decode import convert
from kscheduler.api.resource import AllocationResult, ResourceClaim
from kscheduler.dra import devices
from tests.dra.inventory import Inventory, first_available, make_claim, make_class, make_slice
from tests.kit.devices import DRIVER, device, request

CANNOT = "cannot allocate all claims"


def test_devices_are_taken_in_the_order_of_their_slice():
    cluster = Inventory(make_slice("n1", devices=3))
    assert cluster.picks(make_claim("c", request(count=2))) == [["gpu-0", "gpu-1"]]


def test_devices_in_use_are_passed_over():
    cluster = Inventory(make_slice("n1", devices=3))
    cluster.take(make_claim("a"))
    assert cluster.picks(make_claim("b")) == [["gpu-1"]]


def test_claims_of_one_pod_get_different_devices():
    cluster = Inventory(make_slice("n1", devices=2))
    assert cluster.picks(make_claim("a"), make_claim("b")) == [["gpu-0"], ["gpu-1"]]


def test_verdicts_tell_nodes_with_enough_devices_from_others():
    few, many = make_slice("n1", devices=1), make_slice("n2", devices=2)
    cluster = Inventory(few, many, nodes=("n1", "n2", "n3"))
    assert cluster.verdicts(make_claim("c", request(count=2))) == [CANNOT, 0, CANNOT]


def test_verdicts_follow_the_devices_that_are_taken_and_freed():
    cluster = Inventory(make_slice("n1"), make_slice("n2"), nodes=("n1", "n2"))
    wanted, holder = make_claim("c"), make_claim("holder")
    cluster.take(holder, on="n2")
    assert cluster.verdicts(wanted) == [0, CANNOT]
    cluster.allocated.remove(holder.uid)
    assert cluster.verdicts(wanted) == [0, 0]


def test_the_first_subrequest_that_can_be_served_is_chosen_and_scores_most():
    few, many = make_slice("n1", devices=1), make_slice("n2", devices=2)
    cluster = Inventory(few, many, nodes=("n1", "n2"))
    claim = make_claim("c", first_available("r", request("two", count=2), request("one")))
    assert cluster.verdicts(claim) == [7, 8]
    assert [one.request for one in cluster.allocate(claim)[0].devices.results] == ["r/one"]


def test_a_device_that_two_claims_hold_is_free_when_one_of_them_lets_it_go():
    cluster = Inventory(make_slice("n1"))
    one, other = make_claim("one"), make_claim("other")
    [allocation] = cluster.allocate(one)
    cluster.allocated.add(one.uid, allocation)
    cluster.allocated.add(other.uid, allocation)
    cluster.allocated.remove(one.uid)
    assert cluster.picks(make_claim("third")) == [["gpu-0"]]
    cluster.allocated.remove(other.uid)
    assert cluster.picks(make_claim("third")) == [["gpu-0"]]


def test_a_claim_that_gives_up_leaves_its_device_to_the_one_it_became():
    cluster = Inventory(make_slice("n1"))
    in_memory, written = make_claim("in-memory"), make_claim("written")
    [allocation] = cluster.allocate(in_memory)
    cluster.allocated.add(in_memory.uid, allocation)
    cluster.allocated.add(written.uid, allocation)
    cluster.allocated.remove(in_memory.uid, gave_up=True)
    assert cluster.refusal(make_claim("third")) == CANNOT


class TestConfiguration:
    def opaque(self, tag):
        return {"opaque": {"driver": DRIVER, "parameters": {"tag": tag}}}

    def test_of_classes_comes_once_and_before_that_of_the_claim(self):
        gpu = make_class("gpu", config=[self.opaque("class")])
        other = make_class("other")
        cluster = Inventory(make_slice("n1", devices=3), gpu, other)
        claim = make_claim(
            "c",
            request("a"),
            request("b"),
            request("c", of="other"),
            config=[
                {"requests": ["b"], **self.opaque("b")},
                {"requests": ["nobody"], **self.opaque("x")},
            ],
        )
        [result] = cluster.allocate(claim)
        assert [(one.source, one.requests) for one in result.devices.config] == [
            ("FromClass", ("a", "b")),
            ("FromClaim", ("b",)),
        ]

    def test_for_all_requests_names_none(self):
        cluster = Inventory(make_slice("n1", devices=2))
        config = [{"requests": ["a", "r/x"], **self.opaque("all")}]
        claim = make_claim("c", request("a"), first_available("r", request("x")), config=config)
        [result] = cluster.allocate(claim)
        assert [(one.source, one.requests) for one in result.devices.config] == [("FromClaim", ())]


@pytest.mark.parametrize(
    ("asked", "features", "text"),
    [
        pytest.param(
            request(of=""), {}, "request r: missing device class name (unsupported request type?)"
        ),
        pytest.param(
            request(of="lost"),
            {},
            "request r: could not retrieve device class lost: "
            'deviceclass.resource.k8s.io "lost" not found',
        ),
        pytest.param(
            request(selectors=[{}]),
            {},
            "request r, selector #0: CEL expression empty (unsupported selector type?)",
        ),
        pytest.param(request(allocationMode="Most"), {}, "request r: unsupported count mode Most"),
        pytest.param(
            request(count=33),
            {},
            "request r: adding 33 devices exceeds the claim limit of 32, "
            "with 0 already accounted for",
        ),
        pytest.param(
            first_available("r", request("s")),
            {"prioritized_list": False},
            "request r: has subrequests, but the DRAPrioritizedList feature is disabled",
        ),
    ],
    ids=["no class", "unknown class", "no expression", "mode", "too many", "subrequests"],
)
def test_a_request_that_cannot_be_served_anywhere_is_an_error(asked, features, text):
    cluster = Inventory(make_slice("n1"), nodes=("n1", "n2"), **features)
    claim = make_claim("c", asked)
    assert cluster.refusal(claim) == f"claim default/c, {text}"
    assert cluster.verdicts(claim) == [f"claim default/c, {text}"] * 2


class TestSelectorsThatFail:
    def claim(self, expression, **fields):
        return make_claim("c", request(selectors=[{"cel": {"expression": expression}}], **fields))

    def test_end_the_attempt_and_name_the_device_of_each_node(self):
        cluster = Inventory(make_slice("n1"), make_slice("n2"), nodes=("n1", "n2"))
        claim = self.claim(f'device.attributes["{DRIVER}"].lost')
        assert cluster.verdicts(claim) == [
            f"claim default/c: selector #0 on device {DRIVER}/{node}/gpu-0: CEL runtime error: "
            "no such key: lost. consider using CEL optional chaining (.? followed by orValue()) "
            "or guarding the check with has() for optional fields"
            for node in ("n1", "n2")
        ]

    def test_do_no_harm_on_devices_that_are_not_reached(self):
        good = device("gpu-0", attributes={"good": {"bool": True}})
        cluster = Inventory(make_slice("n1", devices=[good, device("gpu-1")]))
        expression = f'device.attributes["{DRIVER}"].good'
        assert cluster.picks(self.claim(expression)) == [["gpu-0"]]
        assert "gpu-1" in cluster.refusal(self.claim(expression, allocationMode="All"))

    def test_do_no_harm_on_devices_in_use(self):
        cluster = Inventory(make_slice("n1"))
        cluster.take(make_claim("user"))
        assert cluster.refusal(self.claim(f'device.attributes["{DRIVER}"].lost')) == CANNOT

    def test_to_compile_name_no_device(self):
        text = Inventory(make_slice("n1")).refusal(self.claim("nonsense("))
        assert text.startswith("claim default/c: selector #0: CEL compile error: ")

    def test_of_a_class_name_the_class(self):
        broken = make_class("gpu", "device.lost")
        text = Inventory(make_slice("n1"), broken).refusal(make_claim("c"))
        assert text.startswith("class gpu: selector #0: CEL compile error: ")


def test_a_class_that_changes_changes_the_verdict():
    cluster = Inventory(make_slice("n1"))
    assert cluster.verdicts(make_claim("c")) == [0]
    cluster.put(make_class("gpu", "false"))
    assert cluster.verdicts(make_claim("c")) == [CANNOT]


def test_a_claim_without_requests_gets_an_empty_allocation():
    cluster = Inventory(nodes=("n1", "n2"))
    claim = convert({"metadata": {"namespace": "default", "name": "c"}}, ResourceClaim)
    assert cluster.verdicts(claim) == [0, 0]
    assert cluster.allocate(claim) == [AllocationResult()]


def test_only_positions_that_are_asked_about_are_refused():
    cluster = Inventory(nodes=("n1", "n2"))
    claims, nodes = [make_claim("c")], cluster.nodes
    shape = cluster.allocator.shape_of(claims)
    within = np.array([False, True])
    found = cluster.allocator.verdicts(shape, claims, nodes, within, None)
    assert found.cannot_allocate.tolist() == [False, True]
    backwards = cluster.allocator.verdicts(shape, claims, nodes.take([1, 0]), within, None)
    assert backwards.cannot_allocate.tolist() == [False, True]


def test_a_search_that_takes_too_long_is_an_error_of_the_node():
    # A puzzle: 32 shares of about 30 do not go into 8 devices of 100, in very many ways.
    devices = [
        device(f"gpu-{number}", allowMultipleAllocations=True, capacity={"size": {"value": "100"}})
        for number in range(8)
    ]
    shares = [
        request(f"r{number}", capacity={"requests": {"size": str(27 + number % 7)}})
        for number in range(32)
    ]
    cluster = Inventory(make_slice("n1", devices=devices))
    claims = [make_claim("c", *shares)]
    cluster.clock.step = 1
    shape = cluster.allocator.shape_of(claims)
    found = cluster.allocator.verdicts(shape, claims, cluster.nodes, None, deadline=60)
    assert found.errors == {0: "node n1: timed out trying to allocate devices"}


class TestHostileClaims:
    """Searches that would take upstream ages end within a few thousand steps."""

    def verdict(self, devices, *requests, constraints=(), counters=()):
        pool = {"pool": "p", "node": "n1", "slices": 1 + bool(counters)}
        slices = [make_slice("a", devices=devices, **pool)]
        if counters:
            slices.append(make_slice("b", devices=[], sharedCounters=list(counters), **pool))
        cluster = Inventory(*slices)
        claims = [make_claim("c", *requests, constraints=list(constraints))]
        # A look at the clock is taken every 256 steps.
        cluster.clock.step = 1
        shape = cluster.allocator.shape_of(claims)
        found = cluster.allocator.verdicts(shape, claims, cluster.nodes, None, deadline=1000)
        assert found.errors == {}
        return not found.cannot_allocate[0]

    def unlike(self, count, **fields):
        """Devices of which no two are alike to a constraint; in groups of 31."""
        attributes = [{"id": {"int": n}, "group": {"int": n // 31}} for n in range(count)]
        return [device(f"gpu-{n}", attributes=one, **fields) for n, one in enumerate(attributes)]

    DISTINCT = {"distinctAttribute": f"{DRIVER}/id"}  # noqa: RUF012

    def test_one_device_less_than_wanted(self):
        assert not self.verdict([device(f"gpu-{n}") for n in range(31)], request(count=32))

    def test_one_device_less_than_requests(self):
        requests = [request(f"r{n}") for n in range(32)]
        assert not self.verdict(self.unlike(31), *requests, constraints=[self.DISTINCT])

    def test_groups_that_are_one_device_too_small(self):
        requests = [request(f"r{n}") for n in range(32)]
        constraints = [self.DISTINCT, {"matchAttribute": f"{DRIVER}/group"}]
        assert not self.verdict(self.unlike(124), *requests, constraints=constraints)

    def test_a_last_request_that_nothing_serves(self):
        requests = [request(f"r{n}") for n in range(31)]
        never = request("last", selectors=[{"cel": {"expression": "false"}}])
        assert not self.verdict(self.unlike(128), *requests, never, constraints=[self.DISTINCT])

    def test_counters_for_one_device_less(self):
        drawn = [{"counterSet": "set", "counters": {"slots": {"value": "1"}}}]
        counters = [{"name": "set", "counters": {"slots": {"value": "31"}}}]
        assert not self.verdict(
            self.unlike(64, consumesCounters=drawn),
            request(count=32),
            constraints=[self.DISTINCT],
            counters=counters,
        )

    def test_subrequests_that_only_fit_when_all_are_the_smallest(self):
        asked = [
            first_available(f"r{n}", *[request(f"s{size}", count=size) for size in range(8, 0, -1)])
            for n in range(32)
        ]
        assert self.verdict([device(f"gpu-{n}") for n in range(128)], *asked)


def test_verdicts_outlive_the_types_of_devices_that_are_gone(monkeypatch):
    monkeypatch.setattr(devices, "SPARE_NUMBERS", 2)
    cluster = Inventory(make_slice("n1"), make_slice("n2"), nodes=("n1", "n2"))
    newest = make_claim(
        "c", request(selectors=[{"cel": {"expression": f'device.attributes["{DRIVER}"].id == 19'}}])
    )
    for number in range(20):
        some = [device(f"gpu-{number}", attributes={"id": {"int": number}})]
        cluster.put(make_slice("n1", devices=some), make_slice("n2", devices=some[:number]))
        assert cluster.verdicts(make_claim("any")) == [0, 0 if number else CANNOT]
        answer = 0 if number == 19 else CANNOT
        assert cluster.verdicts(newest) == [answer, answer]
        # Types are held weakly, and the devices of a slice that is gone in a circle.
        gc.collect()
    assert cluster.allocator.slices.types.renumbered
