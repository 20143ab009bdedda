import asyncio
from contextlib import asynccontextmanager

import pytest

from kscheduler.api.core import ObjectReference
from kscheduler.client.events.broadcaster import EventBroadcaster
from kscheduler.client.events.legacy import LegacyBroadcaster, broadcaster_for
from tests.client.scripted import Broken, Reply, failing, status_body

EVENTS = "/api/v1/namespaces/kube-system/events"
LEASE = ObjectReference(
    kind="Lease",
    namespace="kube-system",
    name="kube-scheduler",
    uid="u1",
    api_version="coordination.k8s.io/v1",
    resource_version="7",
)


@asynccontextmanager
async def running(broadcaster):
    task = asyncio.create_task(broadcaster.run())
    try:
        yield broadcaster
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def say(broadcaster, note="x became leader"):
    broadcaster.recorder("default-scheduler").record(
        LEASE, type="Normal", reason="LeaderElection", action="", note=note
    )


async def test_repetition_is_posted_and_then_patched(server, client):
    server.on("POST", EVENTS, Reply(201))
    async with running(LegacyBroadcaster(client)) as broadcaster:
        say(broadcaster)
        await broadcaster.drained()
        path = f"{EVENTS}/{server.requests[0].json['metadata']['name']}"
        server.on("PATCH", path, Reply(200))
        say(broadcaster)
        await broadcaster.drained()
    post, patch = server.requests
    assert (post.json["count"], post.json["reportingComponent"]) == (1, "default-scheduler")
    assert (patch.path, patch.json["count"]) == (path, 2)
    assert list(patch.json) == ["count", "lastTimestamp", "message"]


async def test_event_the_server_lost_is_posted_whole(server, client):
    server.on("POST", EVENTS, Reply(201))
    async with running(LegacyBroadcaster(client)) as broadcaster:
        say(broadcaster)
        say(broadcaster)
        await broadcaster.drained()
    assert [one.method for one in server.requests] == ["POST", "PATCH", "POST"]
    assert server.requests[2].json["count"] == 2


async def test_broken_connection_is_tried_again(server, client):
    server.on("POST", EVENTS, Broken(), Reply(201))
    async with running(LegacyBroadcaster(client, retry_seconds=0)) as broadcaster:
        say(broadcaster)
        await broadcaster.drained()
    assert len(server.requests) == 2


TERMINATING = status_body(403, "Forbidden", "no", causes=[{"reason": "NamespaceTerminating"}])


@pytest.mark.parametrize(
    ("reply", "severity"),
    [
        pytest.param(failing(403, "Forbidden"), "E", id="forbidden"),
        pytest.param(failing(409, "AlreadyExists"), "I", id="exists"),
        pytest.param(Reply(403, TERMINATING), "I", id="namespace is going away"),
    ],
)
async def test_rejected_event_is_dropped(server, client, logged, reply, severity):
    server.on("POST", EVENTS, reply)
    async with running(LegacyBroadcaster(client)) as broadcaster:
        say(broadcaster)
        await broadcaster.drained()
    assert [one[0] for one in logged.messages if "Server rejected event" in one] == [severity]
    assert len(server.requests) == 1


async def test_full_queue_drops_counts_and_tells(client, logged):
    drops = []
    broadcaster = LegacyBroadcaster(client, queue_size=1, dropped=lambda: drops.append(1))
    say(broadcaster)
    say(broadcaster)
    assert len(drops) == 1
    assert "Unable to record event: too many queued events, dropped event" in logged.text


async def test_event_after_shutdown_is_lost_with_upstreams_words(server, client, logged):
    broadcaster = LegacyBroadcaster(client)
    say(broadcaster)
    broadcaster.shutdown()
    say(broadcaster, "x stopped leading")
    async with running(broadcaster):
        await broadcaster.drained()
    assert server.requests == []
    assert "Unable to record event (will not retry!)" in logged.text
    assert "Unable to write event (broadcaster is shut down)" in logged.text


@pytest.mark.parametrize(
    ("discovery", "want"),
    [
        pytest.param(Reply(200, {"kind": "APIResourceList"}), EventBroadcaster, id="served"),
        pytest.param(failing(404, "NotFound"), LegacyBroadcaster, id="absent"),
    ],
)
async def test_newest_events_the_server_takes_are_used(server, client, discovery, want):
    server.on("GET", "/apis/events.k8s.io/v1", discovery)
    served = await client.serves("events.k8s.io/v1")
    assert isinstance(broadcaster_for(client, has_events_api=served), want)
