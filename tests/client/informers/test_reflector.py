import asyncio
import json
import time

import pytest

from kscheduler.client.informers.informer import Informer
from kscheduler.client.informers.pace import Gate
from tests.client.following import following
from tests.client.scripted import (
    CUT,
    HOLD,
    Broken,
    Reply,
    Stream,
    bookmark,
    event,
    failing,
    pod,
    settle,
    status_body,
)
from tests.kit.polling import until

PATH = "/api/v1/pods"


def error(code, reason, message="fabricated"):
    return event("ERROR", status_body(code, reason, message))


def initial(*pods, version=10):
    return (*(event("ADDED", one) for one in pods), bookmark(version, initial_end=True))


def short(query):
    """A query without what is random in it."""
    return {name: value for name, value in query.items() if not name.startswith("timeout")}


STREAMED_LIST = {
    "allowWatchBookmarks": "true",
    "resourceVersionMatch": "NotOlderThan",
    "sendInitialEvents": "true",
    "watch": "true",
}


def watch_from(version):
    return {"allowWatchBookmarks": "true", "resourceVersion": str(version), "watch": "true"}


async def test_streamed_list_fills_the_store_and_goes_on_as_a_watch(server, client):
    server.on(
        "GET",
        PATH,
        Stream(
            *initial(pod("a", 3), pod("b", 5)),
            event("ADDED", pod("c", 11)),
            event("MODIFIED", pod("a", 12)),
            event("DELETED", pod("b", 13)),
            HOLD,
        ),
    )
    async with following(client) as followed:
        await until(lambda: followed.state == {"a": "12", "c": "11"})
    assert followed.story.calls == [
        ("initial", "a", "3"),
        ("initial", "b", "5"),
        ("add", "c", "11"),
        ("update", "a", "12"),
        ("delete", "b", "13"),
    ]
    (request,) = server.requests
    assert short(request.query) == STREAMED_LIST


async def test_what_there_was_no_memory_for_is_listed_again(server, client, monkeypatch):
    server.on("GET", PATH, Stream(*initial(pod("a", 3)), event("ADDED", pod("b", 11)), HOLD))
    put, failures = Informer.put, [MemoryError()]

    def put_or_fail(informer, key, item):
        if item.name == "b" and failures:
            raise failures.pop()
        put(informer, key, item)

    monkeypatch.setattr(Informer, "put", put_or_fail)
    async with following(client) as followed:
        await until(lambda: followed.state == {"a": "3", "b": "11"})
    assert not failures


async def test_watch_asks_for_a_random_end_in_both_forms(server, client):
    server.on("GET", PATH, Stream(*initial(), HOLD))
    async with following(client) as followed:
        await followed.informer.wait_for_sync()
    query = server.requests[0].query
    seconds = int(query["timeoutSeconds"])
    assert 300 <= seconds < 600
    assert query["timeout"] == f"{seconds // 60}m{seconds % 60}s"


async def test_selectors_are_sent_with_every_request(server, client):
    server.on("GET", PATH, failing(422, "Invalid"), Reply(200, {"items": []}), Stream(HOLD))
    async with following(client, selector="status.phase!=Succeeded") as followed:
        await followed.informer.wait_for_sync()
        await until(lambda: len(server.requests) == 3)
    assert {one.query["fieldSelector"] for one in server.requests} == {"status.phase!=Succeeded"}


async def test_store_is_not_synced_before_the_initial_events_end(server, client):
    end = asyncio.Event()
    stream = Stream(event("ADDED", pod("a", 3)), end, bookmark(3, initial_end=True), HOLD)
    server.on("GET", PATH, stream)
    async with following(client) as followed:
        await until(lambda: stream.sent == 1)
        await settle()
        assert (followed.informer.has_synced, len(followed.informer)) == (False, 0)
        end.set()
        await followed.informer.wait_for_sync()
        assert followed.state == {"a": "3"}


async def test_change_during_the_initial_events_is_part_of_the_initial_state(server, client):
    server.on(
        "GET",
        PATH,
        Stream(
            event("ADDED", pod("a", 3)),
            event("ADDED", pod("b", 4)),
            event("MODIFIED", pod("a", 5)),
            event("DELETED", pod("b", 6)),
            bookmark(6, initial_end=True),
            HOLD,
        ),
    )
    async with following(client) as followed:
        await followed.informer.wait_for_sync()
    assert followed.story.calls == [("initial", "a", "5")]


@pytest.mark.parametrize("end", [CUT, None], ids=["cut", "ended"])
async def test_watch_resumes_at_the_last_version(server, client, end):
    steps = (*initial(pod("a", 3)), event("MODIFIED", pod("a", 12)))
    server.on(
        "GET",
        PATH,
        Stream(*steps, *([end] if end else [])),
        Stream(event("ADDED", pod("b", 13)), HOLD),
    )
    async with following(client) as followed:
        await until(lambda: followed.state == {"a": "12", "b": "13"})
    assert short(server.requests[1].query) == watch_from(12)


async def test_line_cut_in_its_middle_is_read_whole_the_next_time(server, client):
    server.on(
        "GET",
        PATH,
        Stream(*initial(), b'{"type":"ADDED","object":{"kind":"Pod","metadata":{"na', CUT),
        Stream(event("ADDED", pod("a", 11)), HOLD),
    )
    async with following(client) as followed:
        await until(lambda: followed.state == {"a": "11"})
    assert short(server.requests[1].query) == watch_from(10)


async def test_line_may_come_in_pieces(server, client):
    server.on(
        "GET",
        PATH,
        Stream(
            *initial(),
            b'{"type":"ADD',
            b'ED","object":{"metadata":{"name":"a",',
            b'"resourceVersion":"11"}}}\n{"type":"DELETED","object":',
            b'{"metadata":{"name":"a","resourceVersion":"12"}}}\n',
            HOLD,
        ),
    )
    async with following(client) as followed:
        await until(lambda: len(followed.story.calls) == 2)
    assert followed.story.calls == [("add", "a", "11"), ("delete", "a", "12")]


async def test_bookmarks_alone_move_the_point_of_resumption(server, client):
    server.on("GET", PATH, Stream(*initial(), bookmark(20), bookmark(30), CUT), Stream(HOLD))
    async with following(client):
        await until(lambda: len(server.requests) == 2)
    assert short(server.requests[1].query) == watch_from(30)


async def test_same_version_twice_is_told_once(server, client):
    server.on(
        "GET",
        PATH,
        Stream(
            *initial(pod("a", 3)),
            event("ADDED", pod("a", 3)),
            event("MODIFIED", pod("a", 3)),
            event("MODIFIED", pod("a", 11)),
            event("DELETED", pod("b", 12)),
            HOLD,
        ),
    )
    async with following(client) as followed:
        await until(lambda: followed.state == {"a": "11"})
    assert followed.story.calls == [("initial", "a", "3"), ("update", "a", "11")]


EXPIRED = [
    pytest.param([failing(410, "Expired")], id="refused with 410"),
    pytest.param([Stream(error(410, "Expired"))], id="expired while watching"),
    pytest.param([Stream(error(410, "Gone"))], id="gone while watching"),
]


@pytest.mark.parametrize("ends", EXPIRED)
async def test_forgotten_version_means_a_fresh_list_at_least_as_new(server, client, ends):
    server.on(
        "GET",
        PATH,
        Stream(*initial(pod("a", 3), pod("b", 4), pod("c", 5)), CUT),
        *ends,
        Stream(*initial(pod("a", 3), pod("b", 21), pod("d", 22), version=25), HOLD),
    )
    async with following(client) as followed:
        await until(lambda: followed.state == {"a": "3", "b": "21", "d": "22"})
    assert followed.story.calls[3:] == [
        ("update", "b", "21"),
        ("add", "d", "22"),
        ("lost", "c", "5"),
    ]
    assert short(server.requests[2].query) == {**STREAMED_LIST, "resourceVersion": "10"}


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(failing(410, "Expired"), id="expired"),
        pytest.param(failing(504, "Timeout", "Too large resource version: 10"), id="too large"),
    ],
)
async def test_streamed_list_at_an_unusable_version_asks_for_the_latest(server, client, refusal):
    server.on(
        "GET",
        PATH,
        Stream(*initial(pod("a", 3)), CUT),
        failing(410, "Expired"),
        refusal,
        Stream(*initial(pod("b", 30), version=30), HOLD),
    )
    async with following(client) as followed:
        await until(lambda: followed.state == {"b": "30"})
    assert short(server.requests[3].query) == STREAMED_LIST


async def test_server_without_streaming_is_listed_and_watched(server, client):
    items = [pod("a", 3), pod("b", 4)]
    server.on(
        "GET",
        PATH,
        failing(422, "Invalid"),
        Reply(200, {"metadata": {"resourceVersion": "9"}, "items": items}),
        Stream(event("ADDED", pod("c", 11)), HOLD),
    )
    async with following(client) as followed:
        await until(lambda: followed.state == {"a": "3", "b": "4", "c": "11"})
    assert [short(one.query) for one in server.requests] == [
        STREAMED_LIST,
        {"limit": "500", "resourceVersion": "0"},
        watch_from(9),
    ]


async def test_relist_without_streaming_is_not_paged(server, client):
    server.on(
        "GET",
        PATH,
        failing(422, "Invalid"),
        Reply(200, {"metadata": {"resourceVersion": "9"}, "items": [pod("a", 3)]}),
        failing(410, "Expired"),
        failing(422, "Invalid"),
        Reply(200, {"metadata": {"resourceVersion": "20"}, "items": []}),
        Stream(HOLD),
    )
    async with following(client) as followed:
        await until(lambda: len(server.requests) == 6)
    assert short(server.requests[4].query) == {"resourceVersion": "9"}
    assert followed.story.calls == [("initial", "a", "3"), ("lost", "a", "3")]


async def test_relist_at_a_forgotten_version_asks_for_the_latest(server, client):
    server.on(
        "GET",
        PATH,
        failing(422, "Invalid"),
        Reply(200, {"metadata": {"resourceVersion": "9"}, "items": []}),
        failing(410, "Expired"),
        failing(422, "Invalid"),
        failing(410, "Expired"),
        Reply(200, {"metadata": {"resourceVersion": "30"}, "items": [pod("z", 30)]}),
        Stream(HOLD),
    )
    async with following(client) as followed:
        await until(lambda: followed.state == {"z": "30"})
    assert short(server.requests[5].query) == {"limit": "500"}


async def test_pages_are_put_together(server, client):
    first = {"metadata": {"resourceVersion": "9", "continue": "t1"}, "items": [pod("a", 1)]}
    second = {"metadata": {"resourceVersion": "9", "continue": "t2"}, "items": [pod("b", 2)]}
    third = {"metadata": {"resourceVersion": "9"}, "items": [pod("c", 3)]}
    server.on(
        "GET",
        PATH,
        failing(422, "Invalid"),
        *(Reply(200, page) for page in (first, second, third)),
        Stream(HOLD),
    )
    async with following(client) as followed:
        await until(lambda: len(server.requests) == 5)
        assert followed.state == {"a": "1", "b": "2", "c": "3"}
    assert [short(one.query) for one in server.requests[1:4]] == [
        {"limit": "500", "resourceVersion": "0"},
        {"limit": "500", "continue": "t1"},
        {"limit": "500", "continue": "t2"},
    ]


async def test_expired_continue_token_means_one_whole_list(server, client):
    first = {"metadata": {"resourceVersion": "9", "continue": "t1"}, "items": [pod("a", 1)]}
    whole = {"metadata": {"resourceVersion": "12"}, "items": [pod("b", 11)]}
    server.on(
        "GET",
        PATH,
        failing(422, "Invalid"),
        Reply(200, first),
        failing(410, "Expired"),
        Reply(200, whole),
        Stream(HOLD),
    )
    async with following(client) as followed:
        await until(lambda: len(server.requests) == 5)
        assert followed.state == {"b": "11"}
    assert short(server.requests[3].query) == {"resourceVersion": "0"}
    assert short(server.requests[4].query) == watch_from(12)


async def test_undecodable_object_is_named_and_skipped(server, client, logged):
    broken = pod("broken", 12)
    broken["spec"] = {"nodeName": {"not": "a string"}}
    server.on(
        "GET",
        PATH,
        Stream(
            *initial(pod("a", 3)),
            event("ADDED", broken),
            event("ADDED", pod("b", 13)),
            CUT,
        ),
        Stream(HOLD),
    )
    async with following(client) as followed:
        await until(lambda: len(server.requests) == 2)
        assert followed.state == {"a": "3", "b": "13"}
    assert 'E "Undecodable object skipped" err=' in "\n".join(logged.messages)
    assert 'type="*v1.Pod" object="default/broken"' in logged.text


async def test_undecodable_object_in_a_list_does_not_hide_the_others(server, client, logged):
    broken = pod("broken", 2)
    broken["spec"] = 7
    items = [pod("a", 1), broken, pod("c", 3)]
    server.on(
        "GET",
        PATH,
        failing(422, "Invalid"),
        Reply(200, {"metadata": {"resourceVersion": "9"}, "items": items}),
        Stream(HOLD),
    )
    async with following(client) as followed:
        await followed.informer.wait_for_sync()
        assert followed.state == {"a": "1", "c": "3"}
    assert 'object="default/broken"' in logged.text


def broken(name, version):
    """A pod that cannot be decoded."""
    return pod(name, version, nodeName={"not": "a string"})


async def test_undecodable_change_leaves_the_last_good_state_until_the_object_goes(server, client):
    go_on = asyncio.Event()
    stream = Stream(
        *initial(pod("a", 3), pod("b", 3)),
        event("MODIFIED", broken("a", 4)),
        event("MODIFIED", broken("b", 5)),
        event("MODIFIED", pod("c", 6)),
        go_on,
        event("DELETED", broken("a", 7)),
        event("MODIFIED", pod("b", 8)),
        HOLD,
    )
    server.on("GET", PATH, stream)
    async with following(client) as followed:
        await until(lambda: "c" in followed.state)
        assert followed.state == {"a": "3", "b": "3", "c": "6"}
        go_on.set()
        await until(lambda: followed.state == {"b": "8", "c": "6"})
        assert followed.story.calls[-2:] == [("delete", "a", "3"), ("update", "b", "8")]


@pytest.mark.parametrize("streamed", [True, False])
async def test_undecodable_object_is_not_taken_for_deleted_by_a_relist(server, client, streamed):
    items = [broken("a", 12), pod("b", 13), broken("new", 14)]
    relist = [Stream(*initial(*items), HOLD)]
    if not streamed:
        page = {"metadata": {"resourceVersion": "15"}, "items": items}
        relist = [failing(422, "Invalid"), Reply(200, page), Stream(HOLD)]
    first = initial(pod("a", 3), pod("b", 4), pod("gone", 5))
    expired = event("ERROR", status_body(410, "Expired", "too old"))
    server.on("GET", PATH, Stream(*first, expired), *relist)
    async with following(client) as followed:
        await until(lambda: followed.state == {"a": "3", "b": "13"})
        assert ("lost", "gone", "5") in followed.story.calls


NESTED = b"[" * 5000 + b"]" * 5000


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(b'{"metadata":{"name":"x"},"spec":%s}' % NESTED, id="nested"),
        pytest.param(b'{"metadata":{"name":"x"},"spec":NaN}', id="not a number"),
        pytest.param(b'{"metadata":{"name":"x\\ud800"}}', id="half a character in its name"),
        pytest.param(b'"[{"', id="a string"),
        pytest.param(b"null", id="null"),
        pytest.param(b'{"metadata":{"name":"\xff"}}', id="not UTF-8"),
        pytest.param(NESTED, id="no object"),
    ],
)
async def test_one_odd_item_does_not_hide_the_rest_of_the_list(server, client, logged, odd):
    a, c = (json.dumps(pod(name, 1)).encode() for name in "ac")
    page = b'{"metadata":{"resourceVersion":"9"},"items":[%s,%s,%s]}' % (a, odd, c)
    server.on("GET", PATH, failing(422, "Invalid"), Reply(200, page), Stream(HOLD))
    async with following(client) as followed:
        await followed.informer.wait_for_sync()
        assert followed.state == {"a": "1", "c": "1"}
    assert "Undecodable object skipped" in logged.text


async def test_nested_answer_that_is_no_list_is_told_and_asked_for_again(server, client, logged):
    good = Reply(200, {"metadata": {"resourceVersion": "9"}, "items": [pod("a", 1)]})
    refused = failing(422, "Invalid")
    server.on("GET", PATH, refused, Reply(200, NESTED), refused, good, Stream(HOLD))
    async with following(client) as followed:
        await until(lambda: followed.state == {"a": "1"})
    assert "malformed list: cannot decode" in logged.text


async def test_nested_object_that_nobody_reads_into_is_followed_like_others(server, client):
    odd = pod("a", 3)
    text = json.dumps(event("ADDED", odd)).encode().replace(b'{"f:spec": {}}', NESTED)
    server.on("GET", PATH, Stream(text + b"\n", *initial(pod("b", 4)), HOLD))
    async with following(client) as followed:
        await followed.informer.wait_for_sync()
        assert followed.state == {"a": "3", "b": "4"}


async def test_managed_fields_are_never_kept(server, client):
    server.on("GET", PATH, Stream(*initial(pod("a", 3)), HOLD))
    async with following(client) as followed:
        await followed.informer.wait_for_sync()
        (item,) = followed.informer.items()
    assert not hasattr(item.metadata, "managed_fields")


async def test_malformed_line_ends_in_a_fresh_list(server, client, logged):
    server.on(
        "GET",
        PATH,
        Stream(*initial(pod("a", 3)), b"rubbish\n", HOLD),
        Stream(*initial(pod("b", 4)), HOLD),
    )
    async with following(client) as followed:
        await until(lambda: followed.state == {"b": "4"})
    assert "unable to decode an event from the watch stream" in logged.text


async def test_too_many_requests_pauses_the_watch_without_a_relist(server, client):
    server.on(
        "GET",
        PATH,
        Stream(*initial(), CUT),
        failing(429, "TooManyRequests"),
        Stream(error(429, "TooManyRequests")),
        Stream(event("ADDED", pod("a", 11)), HOLD),
    )
    async with following(client) as followed:
        await until(lambda: followed.state == {"a": "11"})
    assert [short(one.query) for one in server.requests[1:]] == [watch_from(10)] * 3


async def test_failing_list_is_told_and_tried_again(server, client, logged):
    server.on(
        "GET",
        PATH,
        failing(422, "Invalid"),
        failing(403, "Forbidden", "pods is forbidden"),
        Stream(*initial(pod("a", 3)), HOLD),
    )
    async with following(client) as followed:
        await until(lambda: followed.state == {"a": "3"})
    assert (
        'E "Failed to watch" err="failed to list *v1.Pod: pods is forbidden" '
        'logger="UnhandledError" reflector="k8s.io/client-go/informers/factory.go:161" '
        'type="*v1.Pod" remedy="grant the scheduler\'s user the rights of system:kube-scheduler"'
    ) in logged.messages


async def test_watch_that_ends_at_once_is_followed_by_a_list(server, client, logged, monkeypatch):
    monkeypatch.setattr("kscheduler.client.informers.reflector.SHORT_WATCH_SECONDS", 3600)
    server.on(
        "GET",
        PATH,
        Stream(*initial(), CUT),
        Stream(),
        Stream(*initial(pod("a", 11), version=12), HOLD),
    )
    async with following(client) as followed:
        await until(lambda: followed.state == {"a": "11"})
    assert "very short watch" in logged.text


async def test_streamed_list_that_breaks_off_starts_over(server, client):
    server.on(
        "GET",
        PATH,
        Stream(event("ADDED", pod("a", 3)), CUT),
        Stream(*initial(pod("b", 4)), HOLD),
    )
    async with following(client) as followed:
        await followed.informer.wait_for_sync()
    assert followed.story.calls == [("initial", "b", "4")]


async def test_streamed_list_that_never_ends_is_given_up_for_a_plain_one(server, client):
    endless = Stream(event("ADDED", pod("a", 3)), HOLD)
    server.on(
        "GET",
        PATH,
        endless,
        endless,
        Reply(200, {"metadata": {"resourceVersion": "9"}, "items": [pod("a", 3)]}),
        Stream(HOLD),
    )
    async with following(client, idle_seconds=0.05) as followed:
        await followed.informer.wait_for_sync()
    assert short(server.requests[2].query) == {"limit": "500", "resourceVersion": "0"}


async def test_silent_connection_is_replaced(server, client):
    async def answer(request):
        lists = "sendInitialEvents" in request.query
        steps = initial() if lists else (event("ADDED", pod("a", 11)),)
        return await Stream(*steps, HOLD).send(request)

    server.serve(PATH, answer)
    async with following(client, idle_seconds=0.3) as followed:
        await until(lambda: followed.state == {"a": "11"})
    resumed = [one for one in server.requests if "sendInitialEvents" not in one.query]
    assert short(resumed[0].query) == watch_from(10)


async def test_broken_answer_to_a_watch_is_retried(server, client, monkeypatch):
    monkeypatch.setattr("kscheduler.client.transport.BROKEN_PAUSE_SECONDS", 0)
    server.on("GET", PATH, Broken(), Stream(*initial(pod("a", 3)), HOLD))
    async with following(client) as followed:
        await until(lambda: followed.state == {"a": "3"})


async def test_burst_of_changes_lets_other_tasks_run(server, client):
    many = [event("ADDED", pod(f"p{number}", number)) for number in range(3000)]
    server.on("GET", PATH, Stream(*many, bookmark(3000, initial_end=True), HOLD))
    longest = 0.0  # as this thread counts, which may have to wait for a processor
    async with following(client) as followed:
        followed.informer.add_handler(Slow())
        async with asyncio.timeout(60):
            while not followed.informer.has_synced:
                before = time.thread_time()
                await asyncio.sleep(0)
                longest = max(longest, time.thread_time() - before)
        assert len(followed.informer) == 3000
    assert longest < 0.5


class Slow:
    """Needs some time for each object."""

    def on_add(self, item, *, is_initial):
        sum(range(2000))

    def on_update(self, old, new): ...

    def on_delete(self, item, *, final_state_unknown): ...


async def test_nothing_is_delivered_while_the_gate_is_shut(server, client):
    go_on = asyncio.Event()
    stream = Stream(*initial(pod("a", 3)), go_on, event("ADDED", pod("b", 11)), HOLD)
    server.on("GET", PATH, stream)
    gate = Gate()
    async with following(client, gate=gate) as followed:
        await followed.informer.wait_for_sync()
        with gate.hold():
            with gate.hold():
                go_on.set()
                await until(lambda: stream.sent == 3)
            await settle()
            assert followed.state == {"a": "3"}
        await until(lambda: followed.state == {"a": "3", "b": "11"})
