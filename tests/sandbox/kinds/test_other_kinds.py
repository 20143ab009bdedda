"""Nodes, volumes, classes and events as the API server stores and refuses them."""

import pytest

from kscheduler.sandbox import ApiServer, StatusError
from kscheduler.sandbox.controllers.namespaces import expire_events
from tests.sandbox.rest import new_node

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
CORE_EVENTS = "/api/v1/namespaces/default/events"


@pytest.fixture
def objects():
    return ApiServer().objects


def test_a_node_offers_what_it_has(objects):
    node = new_node("n")
    node["status"]["capacity"] = {"cpu": "4000m", "memory": "8192Mi", "pods": 110}
    state = objects.create(node)["status"]
    assert state["allocatable"] == {"cpu": "4", "memory": "8Gi", "pods": "110"}


@pytest.mark.parametrize(
    ("taints", "wrong"),
    [
        pytest.param(
            [{"key": "k", "effect": "Sometimes"}],
            'metadata.taints[0].effect: Unsupported value: "Sometimes": '
            'supported values: "NoExecute", "NoSchedule", "PreferNoSchedule"',
            id="effect",
        ),
        pytest.param([{"key": "k"}], "metadata.taints[0].effect: Required value", id="no effect"),
        pytest.param(
            [
                {"key": "k", "effect": "NoSchedule"},
                {"key": "k", "effect": "NoSchedule", "value": "v"},
            ],
            'metadata.taints[1]: Duplicate value: {"key":"k","effect":"NoSchedule","value":"v"}: '
            "taints must be unique by key and effect pair",
            id="twice",
        ),
    ],
)
def test_a_taint_is_invalid(objects, taints, wrong):
    with pytest.raises(StatusError) as refused:
        objects.create(new_node("n", taints=taints))
    assert str(refused.value) == f'Node "n" is invalid: {wrong}'


def test_new_nodes_are_tainted_when_that_is_switched_on():
    objects = ApiServer(enable_admission=["TaintNodesByCondition"]).objects
    node = objects.create(new_node("n"))
    assert node["spec"]["taints"] == [
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    ]


def claim(**spec):
    resources = {"requests": {"storage": "1024Mi"}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources, **spec},
    }


def storage_class(name, **annotations):
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": annotations},
        "provisioner": "example.com/disk",
    }


def test_a_claim_waits_for_a_volume_of_the_default_class(objects):
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    objects.create(storage_class("slow"))
    objects.create(storage_class("usual", **default))
    created = objects.create(claim())
    assert created["status"] == {"phase": "Pending"}
    assert created["spec"]["storageClassName"] == "usual"
    assert created["spec"]["volumeMode"] == "Filesystem"
    assert created["spec"]["resources"]["requests"] == {"storage": "1Gi"}


def test_a_claim_is_bound_once(objects):
    objects.create(claim(storageClassName="x"))
    objects.update("persistentvolumeclaims", "c", lambda item: item["spec"].update(volumeName="v1"))
    with pytest.raises(StatusError, match="spec is immutable after creation"):
        objects.update(
            "persistentvolumeclaims", "c", lambda item: item["spec"].update(volumeName="v2")
        )


def test_there_is_one_default_priority(objects):
    def make(name):
        return {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": 5,
            "globalDefault": True,
        }

    objects.create(make("a"))
    with pytest.raises(StatusError, match="PriorityClass a is already marked as default"):
        objects.create(make("b"))
    with pytest.raises(StatusError, match="may not be changed in an update"):
        objects.update("priorityclasses.scheduling.k8s.io", "a", lambda item: item.update(value=6))


def test_device_requests_are_filled_in(objects):
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    created = objects.create(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "c"},
            "spec": {"devices": {"requests": [request]}},
        }
    )
    (filled,) = created["spec"]["devices"]["requests"]
    assert filled["exactly"] == {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": 1,
    }
    with pytest.raises(StatusError, match="field is immutable"):
        objects.update("resourceclaims.resource.k8s.io", "c", lambda item: item.update(spec={}))


def event(name="e", **parts):
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-1",
        "action": "Binding",
        "reason": "Scheduled",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p", "uid": "u"},
        "note": "Successfully assigned default/p to n",
        "type": "Normal",
        **parts,
    }


async def test_an_event_is_one_object_in_two_versions(rest):
    code, created = await rest.post(EVENTS, event())
    assert (code, created["apiVersion"], created["note"]) == (
        201,
        "events.k8s.io/v1",
        "Successfully assigned default/p to n",
    )
    assert created["deprecatedFirstTimestamp"] is None
    _, core = await rest.get(f"{CORE_EVENTS}/e")
    assert (core["apiVersion"], core["message"], core["involvedObject"]["name"]) == (
        "v1",
        "Successfully assigned default/p to n",
        "p",
    )
    assert core["reportingComponent"] == "default-scheduler"


async def test_nothing_but_its_series_is_changed_in_an_event(rest):
    await rest.post(EVENTS, event())
    code, body = await rest.patch(f"{EVENTS}/e", {"note": "another"})
    assert (code, body["message"]) == (
        422,
        'Event "e" is invalid: message: Invalid value: "another": field is immutable',
    )


async def test_a_series_is_patched_in(rest):
    await rest.post(EVENTS, event())
    series = {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}
    code, patched = await rest.patch(f"{EVENTS}/e", {"series": series})
    assert (code, patched["series"], patched["note"]) == (200, series, event()["note"])


async def test_events_of_either_version_are_selected_by_what_they_are_about(rest):
    await rest.post(EVENTS, event("a"))
    other = {"kind": "Pod", "namespace": "default", "name": "q"}
    await rest.post(EVENTS, event("b", regarding=other))
    for path, selector in ((EVENTS, "regarding.name=q"), (CORE_EVENTS, "involvedObject.name=q")):
        _, body = await rest.get(path, params={"fieldSelector": selector})
        assert [item["metadata"]["name"] for item in body["items"]] == ["b"]


async def test_both_versions_can_be_watched(rest):
    async with rest.watch(EVENTS) as new, rest.watch(CORE_EVENTS) as old:
        await rest.post(EVENTS, event())
        _, shown = await new.next()
        _, core = await old.next()
    assert (shown["note"], core["message"]) == (event()["note"], event()["note"])


@pytest.mark.parametrize(
    ("parts", "wrong"),
    [
        pytest.param(
            {"note": "ä" * 600},
            'message: Invalid value: "": can have at most 1024 characters',
            id="a note longer than 1024 bytes",
        ),
        pytest.param({"action": ""}, "action: Required value", id="no action"),
        pytest.param({"eventTime": None}, "eventTime: Required value", id="no time"),
    ],
)
async def test_an_event_is_invalid(rest, parts, wrong):
    code, body = await rest.post(EVENTS, event(**parts))
    assert (code, body["message"]) == (422, f'Event "e" is invalid: {wrong}')
    assert body["details"]["kind"] == "Event"


async def test_events_end_after_their_time(server, rest):
    await rest.post(EVENTS, event())
    expire_events(server.registry, now=0, ttl_seconds=60)
    assert server.objects.count("events") == 1
    expire_events(server.registry, now=4e9, ttl_seconds=60)
    assert server.objects.count("events") == 0
