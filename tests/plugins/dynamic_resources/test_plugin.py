"""Claims and devices in a decision: what is refused, in which words, and what wakes a pod."""

import pytest

from kscheduler.framework.cluster_event import Hint
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import ALL_ZERO, SKIP
from kscheduler.plugins.dynamic_resources import DynamicResources
from tests.kit.devices import DRIVER, request
from tests.plugins.dynamic_resources.stage import Stage, make_claim, make_class, make_slice, using
from tests.plugins.topologies import make_pod

ON_N1 = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
ALLOCATED = {
    "allocation": {
        "devices": {
            "results": [{"request": "r", "driver": DRIVER, "pool": "n1", "device": "gpu-0"}]
        },
        "nodeSelector": {"nodeSelectorTerms": [ON_N1]},
    }
}


def test_a_pod_without_claims_is_passed_over():
    stage = Stage()
    cycle, pod = CycleState(), make_pod()
    assert stage.plugin.pre_enqueue(pod) is None
    assert stage.plugin.pre_filter(cycle, pod, stage.nodes) is SKIP
    assert stage.plugin.score(cycle, pod, stage.nodes) is ALL_ZERO
    assert stage.plugin.reserve(cycle, pod, "n1") is None
    assert not stage.plugin.pre_bind_pre_flight(cycle, pod, "n1").has_work
    assert stage.plugin.unreserve(cycle, pod, "n1") is None
    assert stage.plugin.sign(pod) == {}


def from_template(*told, name="as-c", **fields):
    """A pod with a claim from a template; `told` is in its status."""
    entry = {"name": name, "resourceClaimTemplateName": "t"}
    return make_pod(resourceClaims=[entry], status={"resourceClaimStatuses": list(told)}, **fields)


def owned_by(pod):
    return [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod.uid, "controller": True}]


@pytest.mark.parametrize(
    ("pod", "claims", "text"),
    [
        pytest.param(using("c"), [], 'could not find ResourceClaim "default/c"', id="missing"),
        pytest.param(
            using("c"),
            [make_claim(deletionTimestamp="2026-01-01T00:00:00Z")],
            'resourceclaim "c" is being deleted',
            id="deleted",
        ),
        pytest.param(
            from_template(), [], 'pod "default/p": ResourceClaim not created yet', id="not made"
        ),
        pytest.param(
            from_template({"name": "as-c", "resourceClaimName": "c"}),
            [make_claim()],
            "ResourceClaim default/c was not created for Pod default/p (Pod is not owner)",
            id="another pod's",
        ),
        pytest.param(
            make_pod(resourceClaims=[{"name": "x"}]),
            [],
            'pod "default/p", spec.resourceClaim "x": none of the supported fields are set',
            id="neither name nor template",
        ),
        pytest.param(from_template({"name": "as-c"}), [], None, id="a claim that is not needed"),
        pytest.param(
            from_template({"name": "as-c", "resourceClaimName": "c"}),
            [make_claim(ownerReferences=owned_by(from_template()))],
            None,
            id="its own",
        ),
    ],
)
def test_a_pod_waits_for_its_claims(pod, claims, text):
    status = Stage(*claims).plugin.pre_enqueue(pod)
    assert (status and status.message) == text


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        (make_claim("c", request(of="none")), "request r: device class none does not exist"),
        (
            make_claim(
                "c", {"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "x"}]}
            ),
            "request r/s: device class x does not exist",
        ),
        (
            make_claim("c", {"name": "r"}),
            "resource claim default/c, request r: unknown request type",
        ),
        (make_claim("c", request(of="")), "request r: unsupported request type"),
    ],
)
def test_requests_that_no_node_can_serve_end_the_attempt(claim, text):
    assert Stage(claim).filtered(using("c"))[1] == text


def test_an_allocated_claim_is_available_where_its_devices_are():
    refused = "UnschedulableAndUnresolvable: resourceclaim not available on the node"
    assert Stage(make_claim(status=ALLOCATED)).filtered(using("c"))[1] == {"n2": refused}


def test_a_claim_that_cannot_be_allocated_hides_another_that_is_not_available():
    """Upstream looks for devices first, so nothing is deallocated in vain."""
    stage = Stage(make_claim("a", status=ALLOCATED), make_claim("b"), slices=[make_slice("n1")])
    refused = "UnschedulableAndUnresolvable: cannot allocate all claims"
    assert stage.filtered(using("a", "b"))[1] == {"n1": refused, "n2": refused}


@pytest.mark.parametrize(("users", "goes"), [([], True), (["uid-p"], True), (["x"], False)])
async def test_a_claim_in_the_way_loses_its_devices_if_nobody_else_uses_it(users, goes):
    reserved = [{"resource": "pods", "name": one, "uid": one} for one in users]
    stage = Stage(make_claim(status={**ALLOCATED, "reservedFor": reserved}))
    pod = using("c")
    cycle, refusals = stage.filtered(pod)
    status = await stage.post_filtered(cycle, pod, refusals)
    assert status.message == ("deallocation of ResourceClaim completed" if goes else "")
    assert (stage.api.stored().status.allocation is None) is goes


async def test_a_claim_is_kept_if_other_plugins_refused_the_nodes():
    stage = Stage(make_claim(status=ALLOCATED))
    cycle, _ = stage.filtered(using("c"))
    assert (await stage.post_filtered(cycle, using("c"), {})).message == ""
    assert stage.api.made == []


def test_without_a_filter_there_is_nothing_to_reserve():
    stage = Stage(make_claim())
    cycle, pod = CycleState(), using("c")
    stage.plugin.pre_filter(cycle, pod, stage.nodes)
    status = stage.plugin.reserve(cycle, pod, "n1")
    assert status.message == "claim allocation not found for node"


def test_the_first_alternative_scores_most():
    alternatives = [
        {"name": "big", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2},
        {"name": "small", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
    ]
    slices = [make_slice("n1", devices=2), make_slice("n2", devices=1)]
    stage = Stage(make_claim("c", {"name": "r", "firstAvailable": alternatives}), slices=slices)
    pod = using("c")
    cycle, refusals = stage.filtered(pod)
    assert refusals == {}
    scores = stage.plugin.score(cycle, pod, stage.nodes)
    assert scores.tolist() == [8, 7]
    assert stage.plugin.normalize(cycle, pod, scores, stage.nodes).tolist() == [100, 87]


def test_a_pod_with_claims_shares_no_decision():
    status = Stage().plugin.sign(using("c"))
    assert status.message == "pods with dra resource claims are not signable"


def test_profiles_share_what_is_in_flight():
    stage = Stage(make_claim())
    stage.reserved(using("c"))
    other = DynamicResources(stage.args, stage.handle)
    cycle = CycleState()
    status = other.pre_filter(cycle, using("c", name="q"), stage.nodes)
    assert status.message == "resource claim default/c is in the process of being allocated"


def changed(stage, pod, old, new):
    if new is not None:
        stage.api.store(new)
    return stage.plugin._events.claim_changed(pod, old, new)


CREATED = make_claim(resourceVersion="2")


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        pytest.param(None, CREATED, Hint.QUEUE, id="created"),
        pytest.param(CREATED, make_claim(labels={"a": "b"}), Hint.SKIP, id="status as before"),
        pytest.param(CREATED, make_claim(status=ALLOCATED), Hint.QUEUE, id="allocated"),
        pytest.param(make_claim(status=ALLOCATED), CREATED, Hint.QUEUE, id="deallocated"),
        pytest.param(CREATED, None, Hint.SKIP, id="deleted"),
        pytest.param(make_claim(status=ALLOCATED), None, Hint.QUEUE, id="deleted with devices"),
        pytest.param(None, make_claim("other"), Hint.SKIP, id="another pod's"),
        pytest.param(
            make_claim("other", status=ALLOCATED),
            make_claim("other"),
            Hint.QUEUE,
            id="devices of another pod's",
        ),
    ],
)
def test_claims_that_wake_a_pod(old, new, hint):
    assert changed(Stage(make_claim()), using("c"), old, new) is hint


def test_a_pod_that_misses_another_claim_is_not_woken():
    assert changed(Stage(), using("c", "d"), None, CREATED) is Hint.SKIP


def test_a_claim_concerns_the_pods_that_name_it_unless_it_gives_devices_back():
    stage = Stage(make_claim())
    for pod in (using("c"), using("d", name="q"), make_pod("plain")):
        stage.informers.put(pod.pod)
    concerned = stage.plugin._events.pods_concerned
    assert concerned(None, make_claim()) == ["default/p"]
    assert concerned(make_claim(), make_claim(status=ALLOCATED)) == ["default/p"]
    assert concerned(make_claim(), None) == ["default/p"]
    assert concerned(make_claim(status=ALLOCATED), make_claim()) is None
    assert concerned(make_claim(status=ALLOCATED), None) is None


def test_a_pod_is_woken_when_it_is_told_of_its_claim():
    waiting = from_template()
    told = from_template({"name": "as-c", "resourceClaimName": "c"})
    claim = make_claim(ownerReferences=owned_by(waiting))
    hint = Stage(claim).plugin._events.pod_changed
    assert hint(waiting, waiting, waiting) is Hint.SKIP
    assert hint(waiting, waiting, told) is Hint.QUEUE


def test_extended_resources_come_from_the_node_or_from_devices():
    gpu = "example.com/gpu"
    pod = make_pod(containers=[{"name": "c", "resources": {"requests": {gpu: "1"}}}])
    classes = [make_class("by-resource", extendedResourceName=gpu)]
    stage = Stage(classes=classes, slices=[make_slice("n1")])
    stage.add_node("n3", allocatable={gpu: "4", "pods": "10"})
    refused = "UnschedulableAndUnresolvable: cannot allocate all claims"
    cycle, refusals = stage.filtered(pod)
    assert refusals == {"n2": refused}
    assert stage.plugin.reserve(cycle, pod, "n3") is None
    assert len(stage.plugin._devices.claims) == 0
