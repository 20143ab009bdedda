import json

import pytest

from kscheduler.api.core import PersistentVolume, PersistentVolumeClaim, Pod, PodStatus
from kscheduler.api.meta import ObjectMeta
from kscheduler.api.resource import ResourceClaim
from kscheduler.api.resources import LEASES, NODES, PODS
from kscheduler.client.clientcmd.rest_config import RestConfig
from kscheduler.client.errors import (
    ApiError,
    Conflict,
    ConnectionRefused,
    ConnectionReset,
    Forbidden,
    InternalError,
    NotFound,
    Timeout,
)
from kscheduler.client.informers.decoding import WRITTEN_BACK, retaining_json, shape_of
from kscheduler.client.kube_client import MERGE_PATCH, KubeClient
from kscheduler.client.transport import Transport
from tests.client.scripted import Broken, Reply, failing
from tests.kit.ports import free_port

POD = Pod(metadata=ObjectMeta(name="p1", namespace="default", uid="u1", resource_version="7"))
BINDING = "/api/v1/namespaces/default/pods/p1/binding"
STATUS = "/api/v1/namespaces/default/pods/p1/status"
BOUND = Reply(201, {"kind": "Status", "status": "Success", "code": 201})


async def test_binding_is_upstreams_byte_for_byte(server, client):
    server.on("POST", BINDING, BOUND)
    await client.bind(POD, "n1")
    assert server.requests[0].body == (
        b'{"kind":"Binding","apiVersion":"v1","metadata":{"name":"p1","namespace":"default",'
        b'"uid":"u1"},"target":{"kind":"Node","name":"n1"}}'
    )


@pytest.mark.parametrize(
    "hiccup",
    [
        pytest.param(failing(500, "InternalError"), id="500"),
        pytest.param(failing(503, "ServiceUnavailable"), id="503"),
        pytest.param(failing(429, "TooManyRequests", **{"Retry-After": "0"}), id="429"),
    ],
)
async def test_binding_survives_a_hiccup(server, client, hiccup):
    server.on("POST", BINDING, hiccup, BOUND)
    await client.bind(POD, "n1")
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        pytest.param(failing(403, "Forbidden"), Forbidden, id="403"),
        pytest.param(failing(404, "NotFound"), NotFound, id="404"),
        pytest.param(failing(409, "Conflict"), Conflict, id="409"),
    ],
)
async def test_binding_fails_at_once_where_a_retry_could_harm_or_not_help(
    server, client, reply, error
):
    server.on("POST", BINDING, reply)
    with pytest.raises(error):
        await client.bind(POD, "n1")
    assert len(server.requests) == 1


def stored(*, uid="u1", node=""):
    return Reply(200, {"metadata": {"name": "p1", "uid": uid}, "spec": {"nodeName": node}})


UNANSWERED = [
    pytest.param(Broken(), ConnectionReset, id="lost reply"),
    pytest.param(failing(504, "Timeout"), Timeout, id="504"),
]


@pytest.mark.parametrize(("reply", "_error"), UNANSWERED)
async def test_binding_that_took_effect_without_an_answer_is_one(server, client, reply, _error):
    server.on("POST", BINDING, reply)
    server.on("GET", "/api/v1/namespaces/default/pods/p1", Broken(), stored(node="n1"))
    await client.bind(POD, "n1")
    assert [one.method for one in server.requests] == ["POST", "GET", "GET"]


@pytest.mark.parametrize(("reply", "error"), UNANSWERED)
@pytest.mark.parametrize(
    ("answer", "unsettled"),
    [
        pytest.param(stored(), True, id="on no node"),
        pytest.param(stored(node="n2"), False, id="on another node"),
        pytest.param(stored(node="n1", uid="u2"), False, id="another pod of that name"),
        pytest.param(failing(404, "NotFound"), False, id="gone"),
        pytest.param(failing(403, "Forbidden"), True, id="not allowed to look"),
    ],
)
async def test_binding_without_an_answer_that_took_no_effect_fails(
    server, client, reply, error, answer, unsettled
):
    """It is unsettled if it may take effect yet."""
    server.on("POST", BINDING, reply)
    server.on("GET", "/api/v1/namespaces/default/pods/p1", answer)
    with pytest.raises(error) as failed:
        await client.bind(POD, "n1")
    assert failed.value.unsettled == unsettled
    assert [one.method for one in server.requests] == ["POST", "GET"]


@pytest.mark.parametrize(
    "replies",
    [
        pytest.param([failing(403, "Forbidden")], id="refused"),
        pytest.param([failing(409, "Conflict")], id="bound by others"),
        pytest.param([failing(500, "InternalError")], id="the server failed"),
    ],
)
async def test_binding_that_was_answered_is_settled(server, client, replies):
    server.on("POST", BINDING, *replies)
    with pytest.raises(ApiError) as failed:
        await client.bind(POD, "n1")
    assert not failed.value.unsettled


async def test_binding_that_the_store_may_yet_commit_is_unsettled(server, client):
    """Even if the last try failed for another reason."""
    timed_out = failing(500, "InternalError", "etcdserver: request timed out")
    server.on("POST", BINDING, timed_out, failing(503, "ServiceUnavailable"))
    server.on("GET", "/api/v1/namespaces/default/pods/p1", stored())
    with pytest.raises(ApiError) as failed:
        await client.bind(POD, "n1")
    assert failed.value.unsettled


async def test_conflict_with_our_own_earlier_try_is_a_success(server, client):
    server.on("POST", BINDING, failing(500, "InternalError"), failing(409, "Conflict"))
    server.on("GET", "/api/v1/namespaces/default/pods/p1", stored(node="n1"))
    await client.bind(POD, "n1")
    assert [one.method for one in server.requests] == ["POST", "POST", "GET"]


async def test_server_is_asked_until_it_answers(server, client):
    server.on("POST", BINDING, Broken())
    server.on(
        "GET",
        "/api/v1/namespaces/default/pods/p1",
        failing(500, "InternalError"),
        failing(429, "TooManyRequests"),
        failing(503, "ServiceUnavailable"),
        stored(node="n1"),
    )
    await client.bind(POD, "n1")
    assert len(server.requests) == 5


async def test_binding_is_tried_four_times(server, client):
    server.on("POST", BINDING, failing(500, "InternalError"))
    with pytest.raises(InternalError, match=r"^fabricated$"):
        await client.bind(POD, "n1")
    assert len(server.requests) == 4


async def test_refused_connection_is_tried_four_times(monkeypatch):
    pauses = []
    monkeypatch.setattr(
        "kscheduler.client.kube_client.brief_retries", lambda: pauses.append(0) or [0.0] * 3
    )
    closed = f"http://127.0.0.1:{free_port()}"
    async with Transport(RestConfig(closed), agent="x") as transport:
        with pytest.raises(ConnectionRefused):
            await KubeClient(transport).bind(POD, "n1")
    assert len(pauses) == 1


ABOUT = {"name": "x", "namespace": "ns", "uid": "u", "resourceVersion": "7"}
CLAIM = {"metadata": ABOUT, "spec": {"devices": {"requests": []}}}
CLAIM_PATH = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/x"


@pytest.fixture(
    params=[
        pytest.param(
            ("update_volume", PersistentVolume, "/api/v1/persistentvolumes/x"),
            id="volume",
        ),
        pytest.param(
            (
                "update_claim",
                PersistentVolumeClaim,
                "/api/v1/namespaces/ns/persistentvolumeclaims/x",
            ),
            id="volume claim",
        ),
        pytest.param(("update_resource_claim", ResourceClaim, CLAIM_PATH), id="device claim"),
        pytest.param(
            ("update_resource_claim_status", ResourceClaim, f"{CLAIM_PATH}/status"),
            id="status of a device claim",
        ),
    ]
)
def write(request, server, client):
    """Writes an object as it was seen; the server answers so, and then that it has done it."""
    name, kind, path = request.param
    told = {"metadata": {k: v for k, v in ABOUT.items() if k != "namespace" or "ns" in path}}
    told |= {"spec": CLAIM["spec"] if kind is ResourceClaim else {}}
    shape = retaining_json(shape_of(kind, kind.__name__), WRITTEN_BACK[kind])
    seen = shape.decode(json.dumps(told).encode())

    async def send(answer):
        server.on("PUT", path, answer, Reply(200, told))
        return await getattr(client, name)(seen)

    return send


async def test_a_write_at_the_version_seen_survives_a_hiccup(server, write):
    assert (await write(failing(503, "ServiceUnavailable"))).name == "x"
    assert len(server.requests) == 2
    assert server.requests[0].body == server.requests[1].body


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(failing(409, "Conflict"), id="conflict"),
        pytest.param(failing(504, "Timeout"), id="unanswered"),
        pytest.param(
            failing(500, "InternalError", "etcdserver: request timed out"), id="store timed out"
        ),
    ],
)
async def test_a_write_that_may_have_been_done_is_not_repeated(server, write, answer):
    with pytest.raises(ApiError):
        await write(answer)
    assert len(server.requests) == 1


async def test_status_patch_is_retried_on_conflict_too(server, client):
    server.on("PATCH", STATUS, failing(409, "Conflict"), failing(500, "InternalError"), Reply(200))
    await client.patch_pod_status(POD, PodStatus(nominated_node_name="n1"))
    assert [one.body for one in server.requests] == [b'{"status":{"nominatedNodeName":"n1"}}'] * 3
    kind = server.requests[0].headers["Content-Type"]
    assert kind == "application/strategic-merge-patch+json"


async def test_unchanged_status_sends_nothing(server, client):
    await client.patch_pod_status(POD, POD.status)
    assert server.requests == []


async def test_what_devices_add_is_cleared_by_an_explicit_empty_list(server, client):
    server.on("PATCH", STATUS, Reply(200))
    await client.clear_node_allocatable_claims(POD)
    (sent,) = server.requests
    nothing = {"nodeAllocatableResourceClaimStatuses": []}
    assert json.loads(sent.body) == {"metadata": {"uid": POD.uid}, "status": nothing}
    assert sent.headers["Content-Type"] == "application/merge-patch+json"


async def test_pod_is_deleted_with_bare_options(server, client):
    path = "/api/v1/namespaces/default/pods/p1"
    server.on("DELETE", path, Reply())
    await client.delete_pod(POD)
    assert server.requests[0].body == b'{"kind":"DeleteOptions","apiVersion":"v1"}'
    assert server.requests[0].headers["Content-Type"] == "application/json"


LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


async def test_objects_are_read_and_written_as_they_are(server, client):
    body = b'{"kind":"Lease","metadata":{"name":"l","managedFields":[{"manager":"x"}]}}'
    server.on("GET", f"{LEASE}/l", Reply(200, body))
    server.on("POST", LEASE, Reply(201, body))
    server.on("PUT", f"{LEASE}/l", Reply(200, body))
    assert await client.get(LEASES, "l", "kube-system") == body
    assert await client.create(LEASES, body, "kube-system") == body
    assert await client.update(LEASES, "l", body, "kube-system") == body
    assert [one.body for one in server.requests] == [b"", body, body]


async def test_objects_below_objects_have_their_paths(server, client):
    server.on("PUT", "/api/v1/nodes/n1/status", Reply())
    server.on("PATCH", "/api/v1/nodes/n1", Reply())
    server.on("POST", BINDING, Reply())
    await client.update(NODES, "n1", b"{}", subresource="status")
    await client.patch(NODES, "n1", b"{}", kind=MERGE_PATCH)
    await client.create(PODS, b"{}", "default", name="p1", subresource="binding")
    assert [one.path for one in server.requests] == [
        "/api/v1/nodes/n1/status",
        "/api/v1/nodes/n1",
        BINDING,
    ]


async def test_foreign_error_names_the_object(server, client):
    server.on("GET", "/api/v1/nodes/n1", Reply(404, b"", {"Content-Type": "text/plain"}))
    with pytest.raises(NotFound) as raised:
        await client.get(NODES, "n1")
    assert str(raised.value) == "the server could not find the requested resource (get nodes n1)"


async def test_discovery_says_whether_a_group_is_served(server, client):
    server.on("GET", "/apis/events.k8s.io/v1", Reply(200, {"kind": "APIResourceList"}))
    assert await client.serves("events.k8s.io/v1")
    assert not await client.serves("absent.k8s.io/v1")


async def test_list_sends_its_query(server, client):
    server.on("GET", "/api/v1/pods", Reply(200, {"items": []}))
    answer = await client.list(PODS, query={"limit": "500", "resourceVersion": "0"})
    assert json.loads(answer) == {"items": []}
    assert server.requests[0].query == {"limit": "500", "resourceVersion": "0"}
