import asyncio
import re
import socket
import time
from contextlib import asynccontextmanager

import msgspec
import pytest

from kscheduler.api.core import ObjectReference, Pod
from kscheduler.api.meta import ObjectMeta
from kscheduler.api.resources import PODS
from kscheduler.client.clientcmd.rest_config import RestConfig
from kscheduler.client.events import broadcaster as module
from kscheduler.client.events.broadcaster import EventBroadcaster, reference_to
from kscheduler.client.kube_client import KubeClient
from kscheduler.client.transport import Transport
from tests.client.scripted import Broken, Reply, Stream, failing, settle
from tests.kit.polling import until
from tests.kit.ports import free_port

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
POD = Pod(metadata=ObjectMeta(name="p1", namespace="default", uid="u1", resource_version="7"))
REGARDING = reference_to(PODS, POD)


@asynccontextmanager
async def running(broadcaster):
    task = asyncio.create_task(broadcaster.run())
    try:
        yield broadcaster
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def say(broadcaster, regarding=REGARDING, note="no fit", **fields):
    told = {"type": "Warning", "reason": "FailedScheduling", "action": "Scheduling", **fields}
    broadcaster.recorder("default-scheduler").record(regarding, note=note, **told)


async def test_event_is_posted_as_upstream_does(server, client):
    server.on("POST", EVENTS, Reply(201))
    async with running(EventBroadcaster(client)) as broadcaster:
        say(broadcaster, note="100% full")
        await broadcaster.drained()
    (seen,) = server.requests
    body = seen.json
    assert re.fullmatch(r"p1\.[0-9a-f]{16}", body["metadata"]["name"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", body["eventTime"])
    del body["metadata"]["name"], body["eventTime"]
    assert body == {
        "kind": "Event",
        "apiVersion": "events.k8s.io/v1",
        "metadata": {"namespace": "default"},
        "reportingController": "default-scheduler",
        "reportingInstance": f"default-scheduler-{socket.gethostname()}",
        "action": "Scheduling",
        "reason": "FailedScheduling",
        "regarding": {
            "kind": "Pod",
            "namespace": "default",
            "name": "p1",
            "uid": "u1",
            "apiVersion": "v1",
            "resourceVersion": "7",
        },
        "note": "100%!f(MISSING)ull",
        "type": "Warning",
        "deprecatedSource": {},
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
    }


async def test_repetitions_are_posted_patched_and_then_kept_silent(server, client):
    server.on("POST", EVENTS, Reply(201))
    async with running(EventBroadcaster(client, workers=1)) as broadcaster:
        say(broadcaster)
        await broadcaster.drained()
        path = f"{EVENTS}/{server.requests[0].json['metadata']['name']}"
        server.on("PATCH", path, Reply(200))
        for _ in range(3):
            say(broadcaster)
        await broadcaster.drained()
    post, patch = server.requests
    assert (post.method, patch.method, patch.path) == ("POST", "PATCH", path)
    assert patch.headers["Content-Type"] == "application/strategic-merge-patch+json"
    assert (list(patch.json), patch.json["series"]["count"]) == (["series"], 2)


async def test_series_that_the_server_lost_is_posted_whole(server, client):
    server.on("POST", EVENTS, Reply(201))
    async with running(EventBroadcaster(client, workers=1)) as broadcaster:
        say(broadcaster)
        say(broadcaster)
        await broadcaster.drained()
    first, _, again = server.requests
    assert [one.method for one in server.requests] == ["POST", "PATCH", "POST"]
    assert "series" not in first.json
    assert again.json["series"]["count"] == 2
    assert again.json["metadata"] == first.json["metadata"]


async def test_object_without_namespace_is_told_of_in_the_default_one(server, client):
    server.on("POST", EVENTS, Reply(201))
    async with running(EventBroadcaster(client)) as broadcaster:
        say(broadcaster, ObjectReference(kind="Node", name="n1", api_version="v1"))
        await broadcaster.drained()
    assert server.requests[0].json["metadata"]["namespace"] == "default"


async def test_rejected_event_is_told_and_dropped(server, client, logged):
    server.on("POST", EVENTS, failing(403, "Forbidden"))
    async with running(EventBroadcaster(client)) as broadcaster:
        say(broadcaster)
        await broadcaster.drained()
    assert len(server.requests) == 1
    (line,) = [one for one in logged.messages if one.startswith("E")]
    assert line.startswith(
        'E "Server rejected event (will not retry!)" err="fabricated" event="default/p1.'
    )


async def test_event_that_exists_is_dropped_without_fuss(server, client, logged):
    server.on("POST", EVENTS, failing(409, "AlreadyExists"))
    async with running(EventBroadcaster(client)) as broadcaster:
        say(broadcaster)
        await broadcaster.drained()
    assert [one[0] for one in logged.messages if "rejected" in one] == ["I"]


async def test_series_whose_event_appears_meanwhile_is_tried_again(server, client):
    server.on("POST", EVENTS, Reply(201), failing(409, "AlreadyExists"), Reply(201))
    async with running(EventBroadcaster(client, workers=1, retry_seconds=0)) as broadcaster:
        say(broadcaster)
        say(broadcaster)
        await broadcaster.drained()
    assert [one.method for one in server.requests] == ["POST", "PATCH", "POST", "PATCH", "POST"]


async def test_broken_connection_is_tried_again_until_it_works(server, client, logged):
    server.on("POST", EVENTS, Broken(), Broken(), Reply(201))
    async with running(EventBroadcaster(client, retry_seconds=0)) as broadcaster:
        say(broadcaster)
        await broadcaster.drained()
    assert len(server.requests) == 3
    assert logged.text.count("Unable to write event (may retry after sleeping)") == 2


async def test_twelve_tries_are_enough(logged):
    closed = f"http://127.0.0.1:{free_port()}"
    async with Transport(RestConfig(closed), agent="x") as transport:
        broadcaster = EventBroadcaster(KubeClient(transport), retry_seconds=0)
        async with running(broadcaster):
            say(broadcaster)
            await broadcaster.drained()
    assert logged.text.count("may retry after sleeping") == 12
    assert "Unable to write event (retry limit exceeded!)" in logged.text


async def test_full_queue_drops_and_counts(client):
    drops = []
    broadcaster = EventBroadcaster(client, queue_size=2, dropped=lambda: drops.append(1))
    for _ in range(5):
        say(broadcaster)
    assert len(drops) == 3


async def test_nothing_is_sent_after_shutdown(server, client):
    server.on("POST", EVENTS, Reply(201))
    broadcaster = EventBroadcaster(client)
    say(broadcaster)
    broadcaster.shutdown()
    say(broadcaster)
    async with running(broadcaster):
        await broadcaster.drained()
    assert server.requests == []


async def test_no_more_requests_than_workers_are_under_way(server, client):
    release = asyncio.Event()
    server.on("POST", EVENTS, Stream(release))
    async with running(EventBroadcaster(client, workers=3)) as broadcaster:
        for number in range(10):
            say(broadcaster, msgspec.structs.replace(REGARDING, name=f"p{number}"))
        await until(lambda: len(server.requests) == 3)
        await settle()
        assert len(server.requests) == 3
        release.set()
        await broadcaster.drained()
    assert len(server.requests) == 10


async def test_running_series_is_refreshed(server, client, monkeypatch):
    monkeypatch.setattr(module, "REFRESH_SECONDS", 0.01)
    server.on("POST", EVENTS, Reply(201))
    async with running(EventBroadcaster(client, workers=1)) as broadcaster:
        say(broadcaster)
        await broadcaster.drained()
        path = f"{EVENTS}/{server.requests[0].json['metadata']['name']}"
        server.on("PATCH", path, Reply(200))
        for _ in range(4):
            say(broadcaster)
        await broadcaster.drained()
        await until(
            lambda: [one for one in server.seen("PATCH", path) if one.json["series"]["count"] == 5]
        )


async def test_series_that_is_over_is_told_a_last_time_and_forgotten(server, client, monkeypatch):
    monkeypatch.setattr(module, "FINISH_SECONDS", 0.01)
    now = [time.time_ns()]
    server.on("POST", EVENTS, Reply(201))
    broadcaster = EventBroadcaster(client, workers=1, wall_clock_ns=lambda: now[0])
    async with running(broadcaster):
        say(broadcaster)
        await broadcaster.drained()
        path = f"{EVENTS}/{server.requests[0].json['metadata']['name']}"
        server.on("PATCH", path, Reply(200))
        for _ in range(6):
            say(broadcaster)
        await broadcaster.drained()
        now[0] += 400 * 10**9
        await until(lambda: len(server.seen("PATCH", path)) == 2)
        assert server.seen("PATCH", path)[-1].json["series"]["count"] == 7
        # It is forgotten once the answer has come, and then the next one is news again.
        await until(lambda: say(broadcaster) or len(server.seen("POST", EVENTS)) == 2)


def test_recording_costs_microseconds():
    async def record_many(count):
        broadcaster = EventBroadcaster(client=None, queue_size=count)
        recorder = broadcaster.recorder("default-scheduler")
        started = time.thread_time()
        for _ in range(count):
            recorder.record(REGARDING, type="Normal", reason="r", action="a", note="n")
        return (time.thread_time() - started) / count

    micros = asyncio.run(record_many(5000)) * 1e6
    print(f"record: {micros:.1f} us per event")
    assert micros < 100


@pytest.mark.parametrize("name", ["default-scheduler", "other"])
async def test_each_profile_reports_under_its_own_name(server, client, name):
    server.on("POST", EVENTS, Reply(201))
    async with running(EventBroadcaster(client)) as broadcaster:
        broadcaster.recorder(name).record(
            REGARDING, type="Normal", reason="Scheduled", action="Binding", note="x"
        )
        await broadcaster.drained()
    assert server.requests[0].json["reportingController"] == name


def about(name):
    return reference_to(PODS, Pod(metadata=ObjectMeta(name=name, namespace="default", uid=name)))


class Counting:
    """A client that holds every event until it is told to let go."""

    def __init__(self):
        self.under_way = []
        self.told = []
        self.let_go = asyncio.Event()

    async def create(self, resource, body, namespace):
        note = msgspec.json.decode(body)["note"]
        self.under_way.append(note)
        await self.let_go.wait()
        self.under_way.remove(note)
        self.told.append(note)


async def test_most_workers_stand_aside_while_there_is_urgent_work(monkeypatch):
    monkeypatch.setattr(module, "ASIDE_SECONDS", 0.01)
    client, urgent = Counting(), True
    broadcaster = EventBroadcaster(client, urgent=lambda: urgent, workers=8)
    async with running(broadcaster):
        for number in range(20):
            say(broadcaster, about(f"p{number}"), note=str(number))
        await until(lambda: client.under_way)
        await settle()
        assert client.under_way == ["0", "1"]
        urgent = False
        await until(lambda: len(client.under_way) == 8)
        client.let_go.set()
        await broadcaster.drained()
    assert sorted(client.told, key=int) == [str(number) for number in range(20)]


async def test_all_workers_go_on_before_notes_get_lost(monkeypatch):
    monkeypatch.setattr(module, "ASIDE_SECONDS", 0.01)
    client = Counting()
    broadcaster = EventBroadcaster(client, urgent=lambda: True, workers=8, queue_size=20)
    async with running(broadcaster):
        for number in range(20):
            say(broadcaster, about(f"p{number}"), note=str(number))
        await until(lambda: len(client.under_way) == 8)


async def test_events_about_one_object_are_told_in_order():
    client = Counting()
    broadcaster = EventBroadcaster(client)
    async with running(broadcaster):
        for number in range(5):
            say(broadcaster, about("p1"), note=f"p1 {number}", reason=f"Reason{number}")
        say(broadcaster, about("p2"), note="p2")
        await until(lambda: len(client.under_way) == 2)
        assert client.under_way == ["p1 0", "p2"]
        client.let_go.set()
        await broadcaster.drained()
    assert [note for note in client.told if note != "p2"] == [f"p1 {n}" for n in range(5)]
