"""Watches: over HTTP, and the watcher on its own."""

import json

from hypothesis import given
from hypothesis import strategies as st

from kscheduler.sandbox.lists import parse_selection
from kscheduler.sandbox.resources import BY_NAME
from kscheduler.sandbox.rest.representation import plain
from kscheduler.sandbox.rest.watch import Watcher
from kscheduler.sandbox.store import Store
from tests.kit.manifests import pod_manifest
from tests.kit.polling import until
from tests.sandbox.rest import NODES, PODS

CONFIG_MAPS = BY_NAME["configmaps"]
ENDS = "k8s.io/initial-events-end"
STREAMED = {
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}


async def test_a_watch_without_a_version_begins_with_what_is_there(rest, objects):
    objects.create(pod_manifest("old"))
    async with rest.watch(PODS) as events:
        assert await events.names(1) == [("ADDED", "old")]
        objects.create(pod_manifest("new"))
        assert await events.names(1) == [("ADDED", "new")]


async def test_a_watch_resumes_after_the_version_it_names(rest, objects):
    first = objects.create(pod_manifest("first"))
    objects.create(pod_manifest("second"))
    version = first["metadata"]["resourceVersion"]
    async with rest.watch(PODS, resourceVersion=version) as events:
        objects.delete("pods", "first")
        assert await events.names(3) == [
            ("ADDED", "second"),
            ("MODIFIED", "first"),
            ("DELETED", "first"),
        ]


async def test_a_deletion_carries_the_version_of_the_deletion(rest, server, objects):
    objects.create(pod_manifest("p"))
    async with rest.watch(PODS) as events:
        await events.next()
        objects.delete("pods", "p")
        await events.next()
        kind, item = await events.next()
    assert (kind, item["metadata"]["resourceVersion"]) == ("DELETED", str(server.store.version))


async def test_an_object_that_leaves_the_selection_is_deleted_for_the_watcher(rest, objects):
    pod = objects.create(pod_manifest("p"))
    selector = "status.phase!=Succeeded,status.phase!=Failed"
    async with rest.watch(PODS, fieldSelector=selector) as events:
        await events.next()
        done = objects.update(
            "pods", "p", lambda p: p["status"].update(phase="Succeeded"), subresource="status"
        )
        kind, item = await events.next()
    assert (kind, item["status"]["phase"]) == ("DELETED", "Pending")
    assert item["metadata"]["resourceVersion"] == done["metadata"]["resourceVersion"]
    assert pod["metadata"]["uid"] == item["metadata"]["uid"]


async def test_an_object_that_enters_the_selection_is_added_for_the_watcher(rest, objects):
    objects.create(pod_manifest("p"))
    async with rest.watch(PODS, labelSelector="tier=web") as events:
        objects.update("pods", "p", lambda p: p["metadata"].update(labels={"tier": "web"}))
        assert await events.names(1) == [("ADDED", "p")]


async def test_a_namespaced_watch_does_not_see_its_neighbours(rest, objects):
    async with rest.watch(PODS) as events:
        objects.create(
            pod_manifest("theirs") | {"metadata": {"name": "x", "namespace": "kube-system"}}
        )
        objects.create(pod_manifest("ours"))
        assert await events.names(1) == [("ADDED", "ours")]


async def test_a_streamed_list_ends_with_its_bookmark(rest, server, objects):
    objects.create(pod_manifest("a"))
    objects.create(pod_manifest("b"))
    async with rest.watch(PODS, **STREAMED) as events:
        assert await events.names(2) == [("ADDED", "a"), ("ADDED", "b")]
        bookmark = await events.next()
    assert bookmark == (
        "BOOKMARK",
        {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {
                "resourceVersion": str(server.store.version),
                "annotations": {"k8s.io/initial-events-end": "true"},
            },
            "spec": {"containers": None},
            "status": {},
        },
    )


async def test_a_watch_from_any_state_tells_where_that_state_ends(rest, objects):
    objects.create(pod_manifest("old"))
    async with rest.watch(PODS, resourceVersion="0", allowWatchBookmarks="true") as events:
        await events.next()
        kind, item = await events.next()
    assert (kind, item["metadata"]["annotations"]) == ("BOOKMARK", {ENDS: "true"})


async def test_a_streamed_list_from_the_future_is_refused(rest):
    async with rest.watch(PODS, **STREAMED, resourceVersion="999999") as events:
        kind, body = await events.next()
    assert (kind, body["code"]) == ("ERROR", 504)
    assert body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


async def test_an_older_server_refuses_to_stream_lists(rest, server):
    server.streams_lists = False
    code, body = await rest.get(PODS, params={"watch": "true", **STREAMED})
    assert (code, body["reason"], body["message"]) == (
        422,
        "Invalid",
        'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is '
        "forbidden for watch unless the WatchList feature gate is enabled",
    )


async def test_a_version_from_before_compaction_is_expired(rest, server, objects):
    version = objects.create(pod_manifest("p"))["metadata"]["resourceVersion"]
    objects.create(pod_manifest("q"))
    server.compact()
    async with rest.watch(PODS, resourceVersion=version) as events:
        kind, status = await events.next()
        assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
        assert status["message"].startswith(f"too old resource version: {version} (")
        assert await events.next() is None


async def test_a_watch_ends_after_its_timeout(rest):
    async with rest.watch(NODES, timeoutSeconds="0.05") as events:
        assert await events.next() is None


async def test_watches_can_be_cut_by_resource(rest, server, objects):
    async with rest.watch(PODS) as pods, rest.watch(NODES) as nodes:
        server.close_watches("pods")
        assert await pods.next() is None
        objects.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
        assert await nodes.names(1) == [("ADDED", "n")]


async def test_a_client_that_goes_away_is_forgotten(rest, server):
    async with rest.watch(PODS):
        assert server.open_watches == 1
    await until(lambda: server.open_watches == 0)


def make_collection():
    store = Store()
    return store, store.add_collection("configmaps", lambda item: {})


def follow(collection, since, selector="", **options):
    selection = parse_selection(CONFIG_MAPS, "", {"labelSelector": selector})
    watcher = Watcher(selection, plain(CONFIG_MAPS), **options)
    watcher.subscribe(collection, since)
    return watcher


def config_map(name, color):
    labels = {"color": color} if color else {}
    return {"metadata": {"name": name, "namespace": "ns", "labels": labels}}


async def test_a_watcher_that_falls_behind_is_cut():
    store, collection = make_collection()
    watcher = follow(collection, store.version, queue=3)
    for number in range(5):
        collection.put(("ns", "a"), config_map("a", str(number)))
    assert watcher.closed
    assert await watcher.batch() == b""


async def test_what_is_there_already_does_not_count_against_the_bound():
    store, collection = make_collection()
    for number in range(1200):
        collection.put(("ns", str(number)), config_map(str(number), "red"))
    selection = parse_selection(CONFIG_MAPS, "", {})
    watcher = Watcher(selection, plain(CONFIG_MAPS), queue=3)
    watcher.send_existing(collection)
    watcher.subscribe(collection, None)
    watcher.bookmark(store.version, ends_initial_events=True)
    lines = b"".join([await watcher.batch() for _ in range(4)]).splitlines()
    assert len(lines) == 1201
    assert lines[-1].startswith(b'{"type":"BOOKMARK"')


steps = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["red", "blue", "", None])), max_size=30
)


@given(steps, st.integers(0, 30))
async def test_a_selective_watcher_ends_up_with_the_selected_state(steps, start):
    store, collection = make_collection()
    selected = {}
    watcher = None
    for position, (name, color) in enumerate([*steps, ("a", "red")]):
        if position == min(start, len(steps)):
            watcher = follow(collection, store.version, "color=red")
            selected = {
                stored.key[1] for stored in collection if stored.labels.get("color") == "red"
            }
        if color is not None:
            collection.put(("ns", name), config_map(name, color))
        elif collection.get(("ns", name)) is not None:
            collection.remove(("ns", name))
    watcher.close()
    followed = set(selected)
    for line in (await watcher.batch()).splitlines():
        event = json.loads(line)
        name = event["object"]["metadata"]["name"]
        assert (name in followed) == (event["type"] != "ADDED")
        followed = followed - {name} if event["type"] == "DELETED" else followed | {name}
    assert followed == {s.key[1] for s in collection if s.labels.get("color") == "red"}
