"""Watches of decisions: changes as they happen, versions, selectors, and an end in order."""

import asyncio

from kscheduler.decisions import decision_log
from kscheduler.serving.explanation import limits, watch
from kscheduler.serving.explanation.subjects import Decisions
from tests.kit.polling import until
from tests.serving.explanation.asking import ALL, NODES, TABLE, TENANT

HUGE = "1000"


async def test_a_watch_begins_with_what_there_is_and_goes_on(explained):
    async with explained() as asked:
        await asked.place("old")
        async with asked.watching() as events:
            assert await events.named(1) == [("ADDED", "old")]
            await asked.place("new")
            assert await events.named(1) == [("ADDED", "new")]


async def test_a_watch_goes_on_where_a_list_ended(explained):
    async with explained() as asked:
        await asked.place("old")
        version = (await asked.get("/decisions")).body["metadata"]["resourceVersion"]
        await asked.place("new")
        async with asked.watching(f"&resourceVersion={version}") as events:
            assert await events.named(1) == [("ADDED", "new")]


async def test_a_version_that_is_too_old_or_of_another_instance_is_gone(explained):
    async with explained() as asked:
        await asked.place("old")
        for version in (1, 99_999_999_999_999_999):
            async with asked.watching(f"&resourceVersion={version}") as events:
                kind, status = await events.next()
                assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
                assert await events.next() is None


async def test_decisions_that_fall_out_of_the_log_are_deleted(explained):
    async with explained() as asked:
        await asked.place("first")
        async with asked.watching() as events:
            assert await events.named(1) == [("ADDED", "first")]
            version = (await asked.get("/decisions")).body["metadata"]["resourceVersion"]
            asked.daemon.scheduler.decisions.max_bytes = 1
            asked.api.objects.delete("pods", "first", "default")
            await asked.place("second")
            assert sorted(await events.named(2)) == [("ADDED", "second"), ("DELETED", "first")]
        async with asked.watching(f"&resourceVersion={version}") as events:
            assert sorted(await events.named(2)) == [("ADDED", "second"), ("DELETED", "first")]


async def test_changes_that_are_forgotten_make_a_version_too_old(explained, monkeypatch):
    monkeypatch.setattr(decision_log, "MAX_DROPPED", 1)
    async with explained() as asked:
        await asked.place("first")
        version = (await asked.get("/decisions")).body["metadata"]["resourceVersion"]
        asked.daemon.scheduler.decisions.max_bytes = 1
        for name in ("second", "third"):
            await asked.place(name)
        async with asked.watching(f"&resourceVersion={version}") as events:
            kind, status = await events.next()
            assert (kind, status["code"]) == ("ERROR", 410)


async def test_a_decision_that_no_longer_matches_is_deleted(explained):
    async with explained(nodes=0) as asked:
        await asked.place("p")
        async with asked.watching("&fieldSelector=outcome=Unschedulable") as events:
            assert await events.named(1) == [("ADDED", "p")]
            asked.api.objects.create(
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": "n"},
                    "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
                }
            )
            kind, name = (await events.named(1))[0]
            while kind == "MODIFIED":
                kind, name = (await events.named(1))[0]
            assert (kind, name) == ("DELETED", "p")


async def test_a_watch_shows_what_the_asker_may_see(explained):
    async with explained() as asked:
        async with (
            asked.watching(user=NODES) as some,
            asked.watching(user=ALL) as everything,
        ):
            await asked.place("theirs", namespace="other")
            await asked.place("mine", cpu=HUGE)
            assert await everything.named(2) == [("ADDED", "theirs"), ("ADDED", "mine")]
            assert await some.named(1) == [("ADDED", "mine")]
        refused = await asked.get("/decisions?watch=true", TENANT)
        assert refused.refusal[0] == 403


async def test_bookmarks_and_time_limits_are_kept(explained):
    async with explained() as asked:
        query = "&allowWatchBookmarks=true&timeoutSeconds=1"
        async with asked.watching(query) as events:
            kind, item = await events.next()
            assert (kind, item["kind"]) == ("BOOKMARK", "Decision")
            version = int(item["metadata"]["resourceVersion"])
            assert version == asked.daemon.scheduler.decisions.version
            assert await events.next() is None


async def test_tables_are_watched_as_well(explained):
    async with explained() as asked:
        await asked.place("p")
        query = "/decisions?watch=true&timeoutSeconds=1"
        answer = await asked.get(query, accept=TABLE)
        assert '"kind":"Table"' in answer.text
        assert '"cells":["p","Scheduled"' in answer.text


async def test_watches_end_when_the_scheduler_stops(explained):
    async with explained() as asked, asked.watching() as events:
        await until(lambda: asked.daemon.explanations._watches._open)
        asked.daemon.stopping.set()
        assert await events.next() is None


async def test_watches_are_bounded(explained, monkeypatch):
    monkeypatch.setattr(watch, "MAX_WATCHES_PER_ASKER", 1)
    monkeypatch.setattr(watch, "MAX_WATCHES", 2)
    async with explained() as asked:
        async with asked.watching() as _, asked.watching(user=ALL) as _:
            for user in (ALL, NODES):
                refused = await asked.get("/decisions?watch=true", user)
                assert refused.refusal[:2] == (429, "TooManyRequests")
                assert refused.headers["Retry-After"] == str(limits.RETRY_SECONDS)
        open_watches = asked.daemon.explanations._watches._open
        monkeypatch.setattr(watch, "LOOK_SECONDS", 0.01)
        await asked.place("p")
        await until(lambda: not open_watches)
        async with asked.watching(user=ALL) as events:
            assert await events.named(1) == [("ADDED", "p")]


async def test_a_client_that_falls_behind_is_cut_off(explained, monkeypatch):
    monkeypatch.setattr(watch, "MAX_BEHIND", 3)
    async with explained() as asked:
        subject = Decisions(asked.daemon.explanations._reader, None, per_node=False)
        changes = watch.Changes(subject, watch.Selection())
        await asked.place(*"abcd")
        await asyncio.sleep(0)
        assert changes.is_over
        assert changes.batch() == []
