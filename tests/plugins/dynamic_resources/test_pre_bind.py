"""Writes of a pod's claims: their order, what is tried again, and what is undone."""

import asyncio

import pytest

from kscheduler.client.errors import Conflict
from kscheduler.errors import KschedulerError
from kscheduler.plugins.dynamic_resources import pre_bind
from tests.kit.devices import DRIVER, device
from tests.plugins.dynamic_resources.stage import Stage, make_claim, make_class, make_slice, using

GPU = "example.com/gpu"
READY, BROKEN = "example.com/ready", "example.com/broken"
PREPARED = {"bindingConditions": [READY], "bindingFailureConditions": [BROKEN]}
FINALIZER = "resource.kubernetes.io/delete-protection"


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(pre_bind, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(pre_bind, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(pre_bind, "SETTLE_PAUSE_SECONDS", 0.0)


def users_of(claim):
    return [one.name for one in claim.status.reserved_for]


def devices_of(claim):
    allocation = claim.status.allocation
    return None if allocation is None else [one.device for one in allocation.devices.results]


def allocated_to(device_name="gpu-0", pool="n1", users=(), **allocation):
    result = {"request": "r", "driver": DRIVER, "pool": pool, "device": device_name}
    reserved = [{"resource": "pods", "name": one, "uid": one} for one in users]
    return {"allocation": {"devices": {"results": [result]}, **allocation}, "reservedFor": reserved}


async def test_a_claim_gets_finalizer_allocation_and_reservation():
    stage = Stage(make_claim())
    _, status = await stage.bound(using("c"))
    assert status is None
    assert stage.api.made == ["update c", "status c"]
    claim = stage.api.stored()
    assert claim.metadata.finalizers == (FINALIZER,)
    assert (devices_of(claim), users_of(claim)) == (["gpu-0"], ["p"])
    assert claim.status.allocation.allocation_timestamp is not None
    assert len(stage.plugin._devices.claims) == 0


async def test_an_allocated_claim_is_only_reserved():
    stage = Stage(make_claim(status=allocated_to(users=["other"])))
    await stage.bound(using("c"))
    assert stage.api.made == ["status c"]
    assert users_of(stage.api.stored()) == ["other", "p"]


async def test_a_claim_that_is_reserved_for_the_pod_is_taken_as_it_is():
    """As after a scheduler was killed between allocation and binding."""
    stage = Stage(make_claim(status=allocated_to(users=[using("c").uid])))
    _, status = await stage.bound(using("c"))
    assert status is None
    assert stage.api.made == []


async def test_pods_that_share_a_claim_do_not_make_each_other_write_it_again():
    stage = Stage(make_claim(status=allocated_to(users=["other"])))
    stage.api.watched = False
    pods = [using("c", name=name) for name in "pqr"]
    reserved = [(stage.reserved(pod), pod) for pod in pods]
    writes = (stage.plugin.pre_bind(cycle, pod, "n1") for cycle, pod in reserved)
    assert await asyncio.gather(*writes) == [None, None, None]
    assert stage.api.made == ["status c"] * 3
    assert users_of(stage.api.stored()) == ["other", "p", "q", "r"]


async def test_claims_are_written_in_the_order_of_the_pod():
    stage = Stage(make_claim("a"), make_claim("b"), slices=[make_slice("n1", devices=2)])
    await stage.bound(using("b", "a"))
    assert stage.api.made == ["update b", "status b", "update a", "status a"]


async def test_a_claim_under_two_names_is_allocated_once():
    stage = Stage(make_claim())
    _, status = await stage.bound(using("c", "c"))
    assert status is None
    assert stage.api.made == ["update c", "status c"]


async def test_a_claim_that_has_changed_is_read_and_written_again():
    stage = Stage(make_claim())
    pod = using("c")
    cycle = stage.reserved(pod)
    stage.api.watched = False
    stage.api.change(devices=[])
    assert await stage.plugin.pre_bind(cycle, pod, "n1") is None
    assert stage.api.made == ["update c", "get c", "update c", "status c"]


async def test_five_conflicts_are_too_many():
    stage = Stage(make_claim())
    stage.api.failing["status"] = [Conflict("modified") for _ in range(9)]
    _, status = await stage.bound(using("c"))
    assert status.message == "add allocation and reservation to claim default/c: modified"
    assert stage.api.made.count("status c") == 5


async def test_a_claim_that_somebody_else_allocated_is_left_alone():
    stage = Stage(make_claim())
    pod = using("c")
    cycle = stage.reserved(pod)
    stage.api.watched = False
    stage.api.change(**allocated_to("gpu-9"))
    status = await stage.plugin.pre_bind(cycle, pod, "n1")
    assert status.message == "claim default/c got allocated elsewhere in the meantime"


async def test_a_claim_that_lost_its_devices_is_not_reserved():
    stage = Stage(make_claim(status=allocated_to()))
    pod = using("c")
    cycle = stage.reserved(pod)
    stage.api.watched = False
    stage.api.change(allocation=None)
    status = await stage.plugin.pre_bind(cycle, pod, "n1")
    assert status.message == "claim default/c got deallocated elsewhere in the meantime"


async def test_a_claim_that_is_gone_fails_the_attempt_and_leaves_nothing():
    stage = Stage(make_claim())
    pod = using("c")
    cycle = stage.reserved(pod)
    await stage.api.delete_resource_claim(stage.api.stored())
    status = await stage.plugin.pre_bind(cycle, pod, "n1")
    assert status.message == 'add finalizer to claim default/c: resourceclaims "c" not found'
    await stage.undo(cycle, pod)
    assert len(stage.plugin._devices.claims) == 0
    assert not stage.plugin._devices.allocated.uses((DRIVER, "n1"))


async def test_unreserve_takes_the_reservation_back_and_leaves_the_allocation():
    stage = Stage(make_claim())
    pod = using("c")
    cycle, _ = await stage.bound(pod)
    await stage.undo(cycle, pod)
    assert stage.api.made[-1] == "unreserve c"
    assert (devices_of(stage.api.stored()), users_of(stage.api.stored())) == (["gpu-0"], [])


async def test_unreserve_of_what_was_never_written_writes_nothing():
    stage = Stage(make_claim())
    pod, other = using("c"), using("c", name="other")
    cycle = stage.reserved(pod)
    waits = "resource claim default/c is in the process of being allocated"
    assert stage.filtered(other)[1] == waits
    await stage.undo(cycle, pod)
    assert stage.api.made == []
    assert stage.activated == [other]
    assert stage.filtered(other)[1] == {}


async def test_a_write_without_an_answer_keeps_the_devices_until_it_is_known():
    stage = Stage(make_claim())
    pod = using("c")
    lost = KschedulerError("connection reset")
    lost.unsettled = True
    written = stage.api.update_resource_claim_status

    async def lose_the_answer(claim):
        await written(claim)
        raise lost

    stage.api.update_resource_claim_status = lose_the_answer
    stage.api.watched = False
    cycle, status = await stage.bound(pod)
    assert status.message.endswith("connection reset")
    left = stage.plugin.unreserve(cycle, pod, "n1")
    assert stage.plugin._devices.allocated.uses((DRIVER, "n1"))
    await left()
    assert stage.api.made[-2:] == ["get c", "unreserve c"]
    assert stage.plugin._devices.allocated.uses((DRIVER, "n1"))
    assert not stage.plugin._devices.claims.is_in_flight("uid-c")


async def test_a_write_that_is_called_off_keeps_the_devices_until_it_is_known():
    stage = Stage(make_claim())
    pod = using("c")
    started = asyncio.Event()

    async def hang(claim):
        started.set()
        await asyncio.Event().wait()

    stage.api.update_resource_claim_status = hang
    cycle = stage.reserved(pod)
    binding = asyncio.create_task(stage.plugin.pre_bind(cycle, pod, "n1"))
    await started.wait()
    binding.cancel()
    await asyncio.wait([binding])
    left = stage.plugin.unreserve(cycle, pod, "n1")
    assert stage.plugin._devices.claims.is_in_flight("uid-c")
    await left()
    assert not stage.plugin._devices.claims.is_in_flight("uid-c")
    assert not stage.plugin._devices.allocated.uses((DRIVER, "n1"))


def slow_device():
    return make_slice("n1", devices=[device("slow", **PREPARED)])


def reported(stage, *conditions):
    told = [
        {"type": one, "status": "True", "reason": "R", "message": 'said "so"'} for one in conditions
    ]
    entry = {"driver": DRIVER, "pool": "n1", "device": "slow", "conditions": told}
    stage.api.change(devices=[entry])


async def bind_slowly(stage, pod):
    """A PreBind that waits for the device."""
    cycle = stage.reserved(pod)
    binding = asyncio.create_task(stage.plugin.pre_bind(cycle, pod, "n1"))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not binding.done()
    return cycle, binding


async def test_binding_waits_until_the_device_is_ready():
    stage = Stage(make_claim(), slices=[slow_device()])
    _, binding = await bind_slowly(stage, using("c"))
    note = "waiting for binding conditions for device on node n1"
    assert stage.events == [("BindingConditionsPending", note)]
    reported(stage, READY)
    assert await binding is None
    counted = stage.metrics.dra_bindingconditions_allocations_total
    assert counted.labels("default-scheduler", DRIVER, "success").value == 1


async def test_a_device_that_fails_fails_the_binding():
    stage = Stage(make_claim(), slices=[slow_device()])
    pod = using("c")
    cycle, binding = await bind_slowly(stage, pod)
    reported(stage, READY, BROKEN)
    want = r'device binding failed: claim=c, reason=R, message="said \"so\""'
    assert (await binding).message == want
    await stage.undo(cycle, pod)
    # The next attempt finds the claim in the way, and PostFilter takes its device.
    cycle, refusals = stage.filtered(pod)
    lost = "UnschedulableAndUnresolvable: resourceclaim not available on the node"
    assert refusals == {"n1": lost, "n2": lost}
    status = await stage.post_filtered(cycle, pod, refusals)
    assert status.message == "deallocation of ResourceClaim completed"
    claim = stage.api.stored()
    assert (devices_of(claim), claim.status.devices) == (None, ())


async def test_a_device_that_takes_too_long_fails_the_binding():
    stage = Stage(make_claim(), slices=[slow_device()], binding=30.0)
    _, binding = await bind_slowly(stage, using("c"))
    stage.now = 31.0
    assert (await binding).message == "device binding timeout: context deadline exceeded"
    waited = stage.metrics.dra_bindingconditions_allocations_total
    assert waited.labels("default-scheduler", DRIVER, "timeout").value == 1


async def test_a_device_that_was_given_long_ago_is_not_waited_for():
    waiting = allocated_to("slow", allocationTimestamp="2020-01-01T00:00:00Z")
    waiting["allocation"]["devices"]["results"][0] |= PREPARED
    stage = Stage(make_claim(status=waiting), slices=[slow_device()])
    _, refusals = stage.filtered(using("c"))
    assert set(refusals) == {"n1", "n2"}


def extended():
    """A pod that asks for a device by the name of a resource."""
    return using(containers=[{"name": "c", "resources": {"requests": {GPU: "1"}}}])


def by_resource():
    return [make_class(), make_class("by-resource", extendedResourceName=GPU)]


async def test_the_special_claim_is_made_allocated_and_named_in_the_pods_status():
    stage = Stage(classes=by_resource())
    _, status = await stage.bound(extended())
    assert status is None
    name = "p-extended-resources-x"
    assert stage.api.made == ["create", f"update {name}", f"status {name}", f"patch {name}"]
    claim = stage.api.stored(name)
    assert (devices_of(claim), users_of(claim)) == (["gpu-0"], ["p"])
    assert len(stage.plugin._devices.claims) == 0
    assert list(stage.plugin._devices.allocated.uses((DRIVER, "n1"))) == ["gpu-0"]


async def test_the_special_claim_goes_when_the_binding_fails():
    stage = Stage(classes=by_resource())
    pod = extended()
    cycle, _ = await stage.bound(pod)
    await stage.undo(cycle, pod)
    name = "p-extended-resources-x"
    assert stage.api.made[-2:] == [f"update {name}", f"delete {name}"]
    assert not stage.plugin._devices.allocated.uses((DRIVER, "n1"))


async def test_a_special_claim_that_was_left_behind_is_deleted_first():
    pod = extended()
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod.uid, "controller": True}
    marked = {"resource.kubernetes.io/extended-resource-claim": "true"}
    left = make_claim("left", annotations=marked, ownerReferences=[owner])
    stage = Stage(left, classes=by_resource())
    cycle, refusals = stage.filtered(pod)
    refused = "UnschedulableAndUnresolvable: cannot schedule extended resource claim"
    assert refusals == {"n1": refused, "n2": refused}
    status = await stage.post_filtered(cycle, pod, refusals)
    assert status.message == "deletion of ResourceClaim completed"
    assert stage.api.made == ["update left", "delete left"]
    assert stage.filtered(pod)[1] == {}


async def test_a_special_claim_that_cannot_be_made_is_counted():
    stage = Stage(classes=by_resource())
    stage.api.failing["create"] = [Conflict("no")]
    _, status = await stage.bound(extended())
    assert status.message == "create claim for extended resources default/: no"
    made = stage.metrics.dynamic_resource_allocation_resourceclaim_creates_total
    assert made.labels("failure", "false", "", "Pod").value == 1
