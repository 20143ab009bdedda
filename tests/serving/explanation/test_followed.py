"""Watches of pending pods, nodes and the scheduler's status, which are looked through."""

import asyncio

import pytest

from kscheduler.sandbox import node_manifest
from kscheduler.serving.explanation import followed, subjects
from kscheduler.serving.explanation.followed import FollowedObjects, Sighting
from tests.serving.explanation.asking import ALL, NODES, TABLE, TENANT

HUGE = "1000"
PODS = {"of": "pendingpods"}


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch):
    monkeypatch.setattr(subjects, "LOOK_SECONDS", 0.02)


async def version_of(asked, resource):
    return (await asked.get(f"/{resource}")).body["metadata"]["resourceVersion"]


async def named(events, kind, name):
    """Events up to this one."""
    while (found := (await events.named(1))[0]) != (kind, name):
        pass
    return found


async def test_pending_pods_come_change_and_go(explained):
    async with explained() as asked:
        await asked.place("old", cpu=HUGE)
        async with asked.watching(**PODS) as events:
            kind, item = await events.next()
            assert (kind, item["metadata"]["name"], item["queue"]) == (
                "ADDED",
                "old",
                "Unschedulable",
            )
            await asked.place("new", cpu=HUGE)
            await named(events, "ADDED", "new")
            asked.api.objects.delete("pods", "old", "default")
            await named(events, "DELETED", "old")


async def test_a_watch_goes_on_where_a_list_ended(explained):
    async with explained() as asked:
        await asked.place("old", "gone", cpu=HUGE)
        version = await version_of(asked, "pendingpods")
        asked.api.objects.delete("pods", "gone", "default")
        await asked.place("new", cpu=HUGE)
        async with asked.watching(f"&resourceVersion={version}", **PODS) as events:
            found = {await events_of(events), await events_of(events)}
            assert found == {("ADDED", "new"), ("DELETED", "gone")}


async def events_of(events):
    """The next event that is no change of a pod that is known, as retries are."""
    while (found := (await events.named(1))[0])[0] == "MODIFIED":
        pass
    return found


async def test_objects_of_a_list_have_versions(explained):
    async with explained() as asked:
        await asked.place("p", cpu=HUGE)
        listed = (await asked.get("/pendingpods")).body
        (item,) = listed["items"]
        assert int(item["metadata"]["resourceVersion"]) <= int(
            listed["metadata"]["resourceVersion"]
        )


async def test_a_version_that_nothing_is_kept_of_is_gone(explained, monkeypatch):
    monkeypatch.setattr(followed, "KEPT_SECONDS", 0.0)
    async with explained() as asked:
        version = await version_of(asked, "pendingpods")
        for number in (version, 1, 99_999_999_999_999_999):
            async with asked.watching(f"&resourceVersion={number}", **PODS) as events:
                kind, status = await events.next()
                assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")


async def test_selectors_and_namespaces_hold(explained):
    async with explained() as asked:
        query = "&fieldSelector=queue=Gated"
        async with (
            asked.watching(query, **PODS) as gated,
            asked.watching(of="namespaces/other/pendingpods") as others,
        ):
            await asked.place("p", cpu=HUGE)
            asked.api.objects.create(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": "held", "namespace": "other"},
                    "spec": {
                        "schedulingGates": [{"name": "example.com/quota"}],
                        "containers": [{"name": "c", "image": "i"}],
                    },
                }
            )
            assert await gated.named(1) == [("ADDED", "held")]
            assert await others.named(1) == [("ADDED", "held")]


async def test_a_watch_shows_what_the_asker_may_see(explained):
    async with explained() as asked:
        async with (
            asked.watching(user=NODES, **PODS) as some,
            asked.watching(user=ALL, **PODS) as everything,
        ):
            await asked.place("theirs", namespace="other", cpu=HUGE)
            await asked.place("mine", cpu=HUGE)
            await named(everything, "ADDED", "theirs")
            assert await some.named(1) == [("ADDED", "mine")]
        for of in ("pendingpods", "nodeinfos"):
            refused = await asked.get(f"/{of}?watch=true", TENANT)
            assert refused.refusal[0] == 403


async def test_nodes_are_watched(explained):
    async with explained(nodes=1) as asked, asked.watching(of="nodeinfos") as events:
        assert await events.named(1) == [("ADDED", "node-0")]
        await asked.place("p", cpu="1")
        kind, item = await events.next()
        assert (kind, item["pods"]) == ("MODIFIED", 1)
        asked.api.objects.create(node_manifest("node-1"))
        await named(events, "ADDED", "node-1")
        asked.api.objects.delete("nodes", "node-1", "")
        await named(events, "DELETED", "node-1")


async def test_the_status_is_watched_as_a_table(explained):
    async with explained() as asked:
        answer = await asked.get("/schedulerstatuses?watch=true&timeoutSeconds=1", accept=TABLE)
        assert '"type":"ADDED"' in answer.text
        assert '"kind":"Table"' in answer.text


async def test_nothing_is_looked_through_when_nobody_watches(explained):
    async with explained() as asked:
        source = asked.daemon.explanations._reader.followed_pods
        async with asked.watching("&timeoutSeconds=1", **PODS) as events:
            assert await events.next() is None
        looks = source._looks
        assert looks
        await asked.place("p", cpu=HUGE)
        assert source._looks == looks


class TestFollowedObjects:
    async def test_what_is_as_before_has_not_changed(self):
        seen = {"a": 1, "b": 1}
        objects = FollowedObjects(
            lambda: iter([Sighting("", name, name, state, None) for name, state in seen.items()])
        )
        await objects.look()
        told, version = [], objects.version
        objects.watch(lambda kind, one: told.append((kind, one.name)))
        await objects.look()
        assert (told, objects.version) == ([], version)
        seen |= {"a": 2, "c": 1}
        del seen["b"]
        await objects.look()
        assert told == [("MODIFIED", "a"), ("ADDED", "c"), ("DELETED", "b")]
        dropped, changed = objects.changes_since(version)
        assert [one.name for one in dropped] == ["b"]
        assert [one.name for one in changed] == ["a", "c"]

    async def test_another_object_of_the_same_name_is_another(self):
        uids = ["1"]
        objects = FollowedObjects(lambda: iter([Sighting("n", "a", uids[0], 0, None)]))
        await objects.look()
        told = []
        objects.watch(lambda kind, one: told.append((kind, one.uid)))
        uids[0] = "2"
        await objects.look()
        assert told == [("DELETED", "1"), ("ADDED", "2")]

    async def test_watches_that_are_due_together_look_once(self):
        looks = []

        def sightings():
            looks.append(1)
            return iter(())

        objects = FollowedObjects(sightings)
        await asyncio.gather(*(objects.look(max_age=60.0) for _ in range(3)))
        assert looks == [1]
