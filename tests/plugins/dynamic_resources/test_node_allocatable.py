"""Devices that add to a pod's requests: how much, where there is room, and who is told."""

import pytest

from kscheduler.api.core import NodeAllocatableResourceClaimStatus, Pod
from kscheduler.api.decode import convert
from kscheduler.errors import KschedulerError
from kscheduler.framework.added_by_devices import AddedByDevices
from kscheduler.plugins.dynamic_resources.pod_level_budget import beyond_pod_level
from tests.kit.devices import DRIVER, device, request
from tests.plugins.dynamic_resources.stage import Stage, make_claim, make_class, make_slice, using
from tests.plugins.topologies import make_pod

GATES = {"DRANodeAllocatableResources": True}
U, UU = "Unschedulable", "UnschedulableAndUnresolvable"
CORES = f"{DRIVER}/cores"
SHARED = "node allocatable resource claim c has a mapped device and cannot be shared across pods"


def mapped(**amounts):
    """Of a device: it is so much of these resources."""
    return {name: {"mapping": {"deviceMultiplier": amount}} for name, amount in amounts.items()}


def by_capacity(multiplier=None):
    mapping = {"capacityKey": CORES} | ({"capacityMultiplier": multiplier} if multiplier else {})
    return {"cpu": {"mapping": mapping}}


def costing(per_pod=None, per_container=None, name="memory"):
    told = {"perPod": per_pod, "perContainer": per_container}
    return {name: {"overhead": {key: value for key, value in told.items() if value is not None}}}


def adding(resources, name="gpu-0", **fields):
    return device(name, nodeAllocatableResources=resources, **fields)


def stage_of(*devices, claims=None, gates=GATES, **fields):
    """Node n1 with the devices, and n2 without any."""
    slices = [make_slice("n1", devices=list(devices))]
    claims = [make_claim()] if claims is None else claims
    return Stage(*claims, slices=slices, gates=gates, **fields)


def container(name="c1", *claims, requests=None, limits=None):
    uses = [{"name": f"as-{one}"} for one in claims]
    resources = {"claims": uses, "requests": requests or {}, "limits": limits or {}}
    return {"name": name, "resources": resources}


def by_user(**fields):
    return using("c", containers=[container("c1", "c")], **fields)


def added(stage, pod, node="n1"):
    """What the devices would add on the node, as JSON-like tuples."""
    cycle, _ = stage.filtered(pod)
    return [
        (
            one.resource_claim_name,
            list(one.containers),
            {mapping.name: mapping.quantity for mapping in one.mapping},
            {more.name: (more.per_pod, more.per_container) for more in one.overhead},
        )
        for one in cycle[AddedByDevices].on(node)
    ]


def refusal(stage, pod, node="n1"):
    _, refusals = stage.filtered(pod)
    return refusals.get(node)


def allocated(name="gpu-0", users=(), **result):
    one = {"request": "r", "driver": DRIVER, "pool": "n1", "device": name, **result}
    reserved = [{"resource": "pods", "name": user, "uid": user} for user in users]
    return {"allocation": {"devices": {"results": [one]}}, "reservedFor": reserved}


@pytest.mark.parametrize(
    ("resources", "mapping", "overhead"),
    [
        pytest.param(mapped(cpu="1"), {"cpu": "1"}, {}, id="so much by device"),
        pytest.param(
            mapped(memory="4Gi", cpu="2"), {"cpu": "2", "memory": "4Gi"}, {}, id="two resources"
        ),
        pytest.param(costing("1Gi", "500Mi"), {}, {"memory": ("1Gi", "500Mi")}, id="overhead"),
        pytest.param(costing("1Gi"), {}, {"memory": ("1Gi", None)}, id="for the pod only"),
        pytest.param(costing(None, "1Gi"), {}, {"memory": (None, "1Gi")}, id="by container only"),
        pytest.param(
            {"cpu": mapped(cpu="2")["cpu"] | costing("1", "500m", "cpu")["cpu"]},
            {"cpu": "2"},
            {"cpu": ("1", "500m")},
            id="both",
        ),
    ],
)
def test_a_device_is_and_costs_resources_of_its_node(resources, mapping, overhead):
    stage = stage_of(adding(resources))
    assert added(stage, by_user()) == [("c", ["c1"], mapping, overhead)]


@pytest.mark.parametrize(
    ("multiplier", "amount"), [(None, "3"), ("1", "3"), ("2", "6"), ("500m", "1500m")]
)
def test_capacity_that_is_consumed_counts_times_the_multiplier(multiplier, amount):
    shared = {"capacity": {CORES: {"value": "10"}}, "allowMultipleAllocations": True}
    three = {"allocationMode": "ExactCount", "count": 1, "capacity": {"requests": {CORES: "3"}}}
    claim = make_claim("c", request(**three))
    stage = stage_of(adding(by_capacity(multiplier), **shared), claims=[claim])
    stage.add_node("n1", allocatable={"cpu": "8"})
    assert added(stage, by_user()) == [("c", ["c1"], {"cpu": amount}, {})]


def test_capacity_that_the_allocation_does_not_mention_is_ignored():
    claim = make_claim(status=allocated(consumedCapacity={f"{DRIVER}/wrong": "4"}))
    assert added(stage_of(adding(by_capacity()), claims=[claim]), by_user()) == []


def test_capacity_of_a_device_that_none_is_consumed_of_is_an_error():
    text = (
        f"claim default/c, device gpu-0: ConsumedCapacity is nil, but Capacity key '{CORES}' is set"
        " in NodeAllocatableResources for resource cpu"
    )
    assert refusal(stage_of(adding(by_capacity())), by_user()) == f"Error: {text}"


def test_devices_of_a_claim_add_up():
    claim = make_claim("c", request(allocationMode="ExactCount", count=2))
    both = mapped(cpu="500m") | costing("1Gi", "256Mi")
    stage = stage_of(adding(both, "gpu-0"), adding(both, "gpu-1"), claims=[claim])
    told = ("c", ["c1"], {"cpu": "1"}, {"memory": ("2Gi", "512Mi")})
    assert added(stage, by_user()) == [told]


def test_claims_are_told_by_name_with_the_containers_that_use_them():
    claims = [make_claim("b"), make_claim("a")]
    stage = stage_of(
        adding(mapped(cpu="1"), "gpu-0"), adding(mapped(cpu="1"), "gpu-1"), claims=claims
    )
    pod = using(
        "b",
        "a",
        initContainers=[container("init", "a")],
        containers=[container("c1", "a", "b"), container("c2", "a"), container("c3")],
    )
    one = {"cpu": "1"}
    assert added(stage, pod) == [("a", ["init", "c1", "c2"], one, {}), ("b", ["c1"], one, {})]


def test_a_claim_that_no_container_uses_counts_all_the_same():
    pod = using("c", containers=[container("c1")])
    assert added(stage_of(adding(mapped(cpu="1"))), pod) == [("c", [], {"cpu": "1"}, {})]


def test_a_device_that_adds_nothing_leaves_the_status_empty():
    stage = stage_of(device("gpu-0"), adding(mapped(cpu="100"), "gpu-1"))
    assert added(stage, by_user()) == []
    assert refusal(stage, by_user()) is None


def test_an_allocated_device_that_is_gone_is_an_error_beside_one_that_adds():
    results = [
        {"request": "r", "driver": DRIVER, "pool": "n1", "device": name}
        for name in ("gpu-0", "gone")
    ]
    claim = make_claim(status={"allocation": {"devices": {"results": results}}})
    stage = stage_of(adding(mapped(cpu="1")), claims=[claim])
    where = f"claim default/c, device gone, driver {DRIVER}"
    text = f"{where}: device gone not found in pool n1 for driver {DRIVER}"
    assert stage.filtered(by_user())[1] == {"n1": f"Error: {text}"}


@pytest.mark.parametrize(
    ("resources", "used", "told"),
    [
        ({"cpu": "4"}, {}, None),
        ({"cpu": "4001m"}, {}, f"{UU}: Insufficient cpu"),
        ({"cpu": "3"}, {"cpu": "2"}, f"{U}: Insufficient cpu"),
        ({"memory": "9Gi"}, {"memory": "8Gi"}, f"{U}: Insufficient memory"),
        ({"ephemeral-storage": "1"}, {}, f"{UU}: Insufficient ephemeral-storage"),
        ({"hugepages-2Mi": "4Mi"}, {}, None),
        ({"hugepages-2Mi": "6Mi"}, {}, f"{UU}: Insufficient hugepages-2Mi"),
        ({"hugepages-1Gi": "1Gi"}, {}, f"{UU}: Insufficient hugepages-1Gi"),
    ],
)
def test_a_node_needs_room_for_what_is_added(resources, used, told):
    stage = stage_of(adding(mapped(**resources)))
    room = {"cpu": "4", "memory": "16Gi", "hugepages-2Mi": "4Mi", "pods": "110"}
    stage.add_node("n1", allocatable=room)
    other = make_pod("other", nodeName="n1", containers=[container(requests=used)])
    stage.cache.add_pod(other)
    assert refusal(stage, by_user()) == told


def test_one_resource_that_evictions_cannot_free_makes_the_node_hopeless():
    stage = stage_of(adding(mapped(cpu="3", memory="32Gi")))
    stage.cache.add_pod(
        make_pod("other", nodeName="n1", containers=[container(requests={"cpu": "2"})])
    )
    cycle, pod = stage.filtered(by_user())[0], by_user()
    found = [
        (code.text, reason)
        for mask, code, reason in stage.plugin.filter(cycle, pod, stage.nodes)
        if mask[stage.nodes.row_of("n1")]
    ]
    assert found == [(UU, "Insufficient cpu"), (UU, "Insufficient memory")]


def test_requests_of_containers_and_per_container_overhead_count_together():
    stage = stage_of(adding(costing("1", "1", "cpu")))
    containers = [container(f"c{n}", "c", requests={"cpu": "500m"}) for n in (1, 2)]
    assert refusal(stage, using("c", containers=containers)) is None
    containers[0]["resources"]["requests"] = {"cpu": "501m"}
    assert refusal(stage, using("c", containers=containers)) == f"{UU}: Insufficient cpu"


def test_without_the_gate_devices_add_nothing():
    stage = stage_of(adding(mapped(cpu="100")), gates={})
    cycle, refusals = stage.filtered(by_user())
    assert "n1" not in refusals
    assert cycle.get(AddedByDevices) is None


@pytest.mark.parametrize(
    ("resources", "users", "told"),
    [
        (mapped(cpu="1"), [], None),
        (mapped(cpu="1"), ["other"], f"{UU}: {SHARED}"),
        (mapped(cpu="1"), ["p"], None),
        (costing("1"), ["other"], None),
        ({"cpu": mapped(cpu="1")["cpu"] | costing("1")["memory"]}, ["other"], f"{UU}: {SHARED}"),
    ],
)
def test_a_claim_with_a_mapped_device_is_for_one_pod(resources, users, told):
    users = [by_user().uid if one == "p" else one for one in users]
    stage = stage_of(adding(resources), claims=[make_claim(status=allocated(users=users))])
    assert refusal(stage, by_user()) == told


def test_a_shared_claim_is_first_of_all_not_available_elsewhere():
    status = allocated(users=["other"])
    on_n1 = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    status["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [on_n1]}
    stage = stage_of(adding(mapped(cpu="1")), claims=[make_claim(status=status)])
    assert stage.filtered(by_user())[1] == {
        "n1": f"{UU}: {SHARED}",
        "n2": f"{UU}: resourceclaim not available on the node",
    }


REQUEST = (
    "pod level request for {} is insufficient to cover the aggregated container and "
    "node-allocatable DRA requests"
)
MAPPED = {"name": "cpu", "quantity": "500m"}
COSTING = {"name": "memory", "perPod": "1Gi", "perContainer": "1Gi"}


@pytest.mark.parametrize(
    ("pod_level", "of_container", "status", "told"),
    [
        pytest.param(None, {"requests": {"cpu": "1"}}, {"mapping": [MAPPED]}, None, id="none"),
        pytest.param(
            {"requests": {"cpu": "1500m"}},
            {"requests": {"cpu": "1"}},
            {"mapping": [MAPPED]},
            None,
            id="enough",
        ),
        pytest.param(
            {"requests": {"cpu": "1", "memory": "2Gi"}},
            {"requests": {"cpu": "800m", "memory": "1Gi"}},
            {"mapping": [MAPPED]},
            REQUEST.format("cpu"),
            id="too little for one",
        ),
        pytest.param(
            {"requests": {"memory": "3Gi"}},
            {"requests": {"memory": "1Gi"}},
            {"overhead": [COSTING]},
            None,
            id="enough with overhead",
        ),
        pytest.param(
            {"requests": {"memory": "2Gi"}},
            {"requests": {"memory": "1Gi"}},
            {"overhead": [COSTING]},
            REQUEST.format("memory"),
            id="too little with overhead",
        ),
        pytest.param(
            {"limits": {"memory": "3Gi"}},
            {"limits": {"memory": "1Gi"}},
            {"overhead": [COSTING]},
            None,
            id="limits enough",
        ),
        pytest.param(
            {"limits": {"memory": "3Gi"}},
            {"limits": {"memory": "1.5Gi"}},
            {"overhead": [COSTING]},
            "pod level limit for memory is insufficient to cover the limit and DRA overhead for "
            "container c1",
            id="limits too low",
        ),
        pytest.param(
            {"limits": {"hugepages-2Mi": "4Mi"}},
            {"limits": {"hugepages-2Mi": "2Mi"}},
            {"mapping": [{"name": "hugepages-2Mi", "quantity": "4Mi"}]},
            "pod level limit for hugepages-2Mi is insufficient to cover the aggregated container "
            "and node-allocatable DRA limits",
            id="hugepages",
        ),
    ],
)
def test_what_is_added_stays_within_the_budget_of_the_pod(pod_level, of_container, status, told):
    spec = {"containers": [container("c1", "c", **of_container)], "resources": pod_level}
    # Overhead of the pod's sandbox comes on top of the budget.
    spec["overhead"] = {"cpu": "500m", "memory": "512Mi"}
    claim = {"resourceClaimName": "c", "containers": ["c1"], **status}
    pod = {"spec": spec, "status": {"nodeAllocatableResourceClaimStatuses": [claim]}}
    assert beyond_pod_level(convert(pod, Pod)) == told


def test_a_budget_that_is_too_small_rejects_the_node():
    stage = stage_of(adding(mapped(cpu="2")))
    pod = by_user(resources={"requests": {"cpu": "1"}})
    assert refusal(stage, pod) == f"{UU}: {REQUEST.format('cpu')}"


def assumed(cycle, pod, node="n1"):
    return pod.assigned_to(node, cycle[AddedByDevices].on(node))


async def test_binding_tells_the_api_server_what_was_added():
    stage = stage_of(adding(mapped(cpu="1") | costing("1Gi", "500Mi")))
    cycle = stage.reserved(by_user())
    assert await stage.plugin.pre_bind(cycle, assumed(cycle, by_user()), "n1") is None
    assert stage.api.made == ["update c", "status c", "patch p"]
    claim = {
        "resourceClaimName": "c",
        "containers": ["c1"],
        "mapping": [{"name": "cpu", "quantity": "1"}],
        "overhead": [{"name": "memory", "perPod": "1Gi", "perContainer": "500Mi"}],
    }
    assert stage.api.patches == [{"nodeAllocatableResourceClaimStatuses": [claim]}]


async def test_a_pod_that_was_assumed_with_something_else_is_not_bound():
    stage = stage_of(adding(mapped(cpu="1")))
    _, status = await stage.bound(by_user())
    assert status.message == "assumed pod status does not match calculated status to be patched"


async def test_a_status_that_cannot_be_written_fails_the_binding():
    stage = stage_of(adding(mapped(cpu="1")))
    stage.api.failing["patch"] = [KschedulerError("no")]
    cycle = stage.reserved(by_user())
    status = await stage.plugin.pre_bind(cycle, assumed(cycle, by_user()), "n1")
    told = "updating pod default/p NodeAllocatableResourceClaimStatuses: no"
    assert status.message == told


@pytest.mark.parametrize("answers", [[], [KschedulerError("gone")]])
async def test_a_pod_that_gives_its_node_up_loses_what_was_added(answers):
    stage = stage_of(adding(mapped(cpu="1")))
    stage.api.failing["clear"] = answers
    cycle = stage.reserved(by_user())
    await stage.undo(cycle, assumed(cycle, by_user()))
    assert stage.api.made == ["clear p"]


async def test_nothing_is_cleared_where_nothing_was_added():
    stage = stage_of(device("gpu-0"), adding(mapped(cpu="1"), "gpu-1"))
    cycle = stage.reserved(by_user())
    await stage.undo(cycle, assumed(cycle, by_user()))
    assert stage.api.made == []


def test_slices_that_come_and_go_are_noticed():
    stage = stage_of(device("gpu-0"))
    part = stage.plugin._node_allocatable
    assert not part.is_needed
    stage.informers.put(make_slice("n1", devices=[adding(mapped(cpu="8"))], version="2"))
    assert refusal(stage, by_user()) == f"{UU}: Insufficient cpu"
    stage.informers.put(make_slice("n1", devices=[device("gpu-0")], version="3"))
    assert not part.is_needed
    assert refusal(stage, by_user()) is None


def test_devices_behind_extended_resources_add_as_well():
    gpu = "example.com/gpu"
    stage = stage_of(
        adding(mapped(cpu="1")), claims=[], classes=[make_class(extendedResourceName=gpu)]
    )
    pod = make_pod(containers=[container(requests={gpu: "1"})])
    assert added(stage, pod) == [("<extended-resources>", [], {"cpu": "1"}, {})]


def test_a_pod_is_assumed_with_what_is_added_on_its_node_and_nothing_older():
    old = NodeAllocatableResourceClaimStatus(resource_claim_name="old")
    pod = by_user(status={"nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "old"}]})
    statuses = "node_allocatable_resource_claim_statuses"
    assert getattr(pod.assigned_to("n1").pod.status, statuses) == (old,)
    assert getattr(pod.assigned_to("n1", ()).pod.status, statuses) == ()


def test_a_device_that_several_nodes_could_reach_counts_for_those_it_is_for():
    """Slices that leave it to their devices to say which nodes they are for."""
    devices = [
        adding(mapped(cpu="8"), "gpu-0", nodeName="n1"),
        adding(mapped(cpu="2"), "gpu-1", nodeName="n2"),
    ]
    spread = make_slice("s", devices=devices, nodeName=None, perDeviceNodeSelection=True)
    stage = Stage(make_claim(), slices=[spread], gates=GATES)
    assert stage.filtered(by_user())[1] == {"n1": f"{UU}: Insufficient cpu"}
    assert added(stage, by_user(), "n2") == [("c", ["c1"], {"cpu": "2"}, {})]


def test_of_two_generations_the_latest_tells_what_a_device_adds():
    slices = [
        make_slice("old", devices=[adding(mapped(cpu="8"))], pool="n1", node="n1"),
        make_slice("new", devices=[adding(mapped(cpu="2"))], pool="n1", node="n1", generation=2),
    ]
    stage = Stage(make_claim(status=allocated()), slices=slices, gates=GATES)
    assert added(stage, by_user()) == [("c", ["c1"], {"cpu": "2"}, {})]
