"""Pods that are popped, tried, and come back."""

import pytest

from kscheduler.framework.cluster_event import NODE, Action, ClusterEvent, EventWithHint, Hint
from kscheduler.queue import Backoff

NOW = 1_700_000_000.0
NODE_ADDED = ClusterEvent(NODE, Action.ADD)
NODE_GONE = ClusterEvent(NODE, Action.DELETE)


def queue(pod, old, new):
    return Hint.QUEUE


def skip(pod, old, new):
    return Hint.SKIP


def on_node_added(hint):
    return [EventWithHint(NODE_ADDED, hint)]


def test_higher_priority_first_then_whoever_waits_longer(make_queue, make_pod):
    h = make_queue()
    for name, priority in (("low", 1), ("high", 9), ("low-later", 1), ("none", None)):
        h.queue.add(make_pod(name, priority=priority), NOW)
    assert [h.pop().pod.name for _ in range(4)] == ["high", "low", "low-later", "none"]
    assert h.queue.pop() is None


def test_a_retried_pod_comes_after_pods_of_its_priority_never_tried(make_queue, make_pod):
    h = make_queue()
    h.queue.add(make_pod("retried"), NOW)
    retried = h.pop()
    h.queue.add(make_pod("fresh"), NOW + 1)
    h.fail(retried, by=["fit"], now=NOW + 2)
    h.queue.activate([retried.pod], NOW + 3)
    assert [h.pop().pod.name, h.pop().pod.name] == ["fresh", "retried"]


def test_a_pod_that_keeps_failing_does_not_block_a_newer_one(make_queue, make_pod):
    h = make_queue(events={"fit": on_node_added(queue)})
    h.queue.add(make_pod("failing"), NOW)
    for attempt in range(1, 4):
        now = NOW + attempt * 100
        h.fail(h.pop("failing"), by=["fit"], now=now)
        h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, None, now + 50)
    h.queue.add(make_pod("newer"), NOW + 250)
    assert h.pop().pod.name == "newer"


def test_with_nobody_active_the_first_to_end_its_backoff_is_tried_early(make_queue, make_pod):
    h = make_queue(events={"fit": on_node_added(queue)})
    for name in ("a", "b"):
        h.parked(make_pod(name), now=NOW)
    h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, None, NOW)
    assert h.where() == {"backoff": {"a", "b"}}
    assert h.queue.ready
    assert h.pop().pod.name == "a"


def test_nobody_is_tried_early_while_failures_are_being_reported(make_queue, make_pod):
    reporting, heard = [], []
    h = make_queue(events={"fit": on_node_added(queue)}, is_reporting=lambda: bool(reporting))
    for name in ("a", "b", "c"):
        h.parked(make_pod(name), now=NOW)
    h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, None, NOW)
    h.queue.on_ready = lambda: heard.append(len(reporting))
    reporting.append("a failure")
    assert not h.queue.ready
    assert h.queue.pop() is None
    h.queue.add(make_pod("new"), NOW)
    assert h.pop().pod.name == "new"
    heard.clear()
    reporting.clear()
    h.queue.reported()
    assert heard == [0]
    assert h.pop().pod.name == "a"
    reporting.append("another")
    h.queue.flush_backoff_completed(NOW + 20)
    assert h.pop().pod.name == "b"  # Its time has come anyway.


def test_without_early_pops_an_empty_active_queue_has_nobody(make_queue, make_pod):
    h = make_queue(events={"fit": on_node_added(queue)}, backoff=Backoff(windows=False))
    h.parked(make_pod(), now=NOW)
    h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, None, NOW)
    assert h.where() == {"backoff": {"p"}}
    assert not h.queue.ready
    assert h.queue.pop() is None


def test_a_pod_that_failed_by_error_is_not_tried_early(make_queue, make_pod):
    h = make_queue()
    h.parked(make_pod(), by=[], now=NOW)
    assert h.where() == {"backoff": {"p"}}
    assert h.queue.pop() is None
    h.queue.flush_backoff_completed(NOW + 2)
    assert h.pop("p").consecutive_errors_count == 1


def test_whoever_waits_for_a_pod_hears_of_one(make_queue, make_pod):
    h = make_queue(events={"fit": on_node_added(queue)})
    calls = []
    h.queue.on_ready = lambda: calls.append(h.where())
    h.queue.add(make_pod(), NOW)
    assert calls == [{"active": {"p"}}]
    h.fail(h.pop(), by=["fit"], now=NOW)
    assert len(calls) == 1
    h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, None, NOW)
    assert calls[-1] == {"backoff": {"p"}}


def test_an_event_that_no_plugin_wants_is_not_kept_for_pods_in_flight(make_queue, make_pod):
    h = make_queue(events={"fit": on_node_added(queue)})
    h.queue.add(make_pod(), NOW)
    h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, None, NOW)
    assert h.queue.in_flight.entries() == []
    h.pop()
    h.queue.move_all_to_active_or_backoff_queue(NODE_GONE, None, None, NOW)
    assert h.queue.in_flight.entries() == ["p"]
    h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, None, NOW)
    assert h.queue.in_flight.event_count == 1


@pytest.mark.parametrize(
    ("hints", "by", "pending", "want"),
    [
        pytest.param({"fit": skip}, [], [], "backoff", id="an error never waits for an event"),
        pytest.param({"fit": skip}, ["fit"], [], "unschedulable", id="the event does not help"),
        pytest.param({"fit": queue}, ["taint"], [], "unschedulable", id="nobody asked for it"),
        pytest.param({"fit": queue}, ["fit"], [], "backoff", id="it may help"),
        pytest.param({"fit": queue}, [], ["fit"], "active", id="it may help a pending plugin"),
        pytest.param(
            {"fit": queue, "gang": queue}, ["fit"], ["gang"], "active", id="the pending one wins"
        ),
        pytest.param(
            {"fit": queue, "gang": skip}, ["fit"], ["gang"], "backoff", id="the pending one skips"
        ),
    ],
)
def test_where_a_pod_returns_to_after_an_event_during_its_attempt(
    make_queue, make_pod, hints, by, pending, want
):
    h = make_queue(events={plugin: on_node_added(hint) for plugin, hint in hints.items()})
    h.queue.add(make_pod(), NOW)
    queued = h.pop()
    h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, "node", NOW)
    h.fail(queued, by=by, pending=pending, now=NOW)
    assert h.where() == {want: {"p"}}


def test_an_event_before_the_pop_is_none_of_the_pods_business(make_queue, make_pod):
    h = make_queue(events={"fit": on_node_added(queue)})
    for name in ("first", "second"):
        h.queue.add(make_pod(name), NOW)
    first = h.pop("first")
    h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, "node", NOW)
    second = h.pop("second")
    h.fail(second, by=["fit"], now=NOW)
    h.fail(first, by=["fit"], now=NOW)
    assert h.where() == {"unschedulable": {"second"}, "backoff": {"first"}}


def test_a_pod_whose_events_were_dropped_is_tried_again_after_backoff(make_queue, make_pod):
    h = make_queue(events={"fit": on_node_added(skip)}, max_in_flight_events=2)
    h.queue.add(make_pod("long"), NOW)
    h.queue.add(make_pod("short"), NOW)
    long = h.pop("long")
    for _ in range(3):
        h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, None, NOW)
    short = h.pop("short")
    h.fail(long, by=["fit"], now=NOW)
    h.fail(short, by=["fit"], now=NOW)
    assert h.where() == {"backoff": {"long"}, "unschedulable": {"short"}}


def test_dropped_events_do_not_hide_one_that_ends_the_wait_at_once(make_queue, make_pod):
    h = make_queue(events={"gang": on_node_added(queue)}, max_in_flight_events=2)
    h.queue.add(make_pod(), NOW)
    queued = h.pop()
    for _ in range(3):
        h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, None, NOW)
    h.fail(queued, pending=["gang"], now=NOW)
    assert h.where() == {"active": {"p"}}


def test_a_pod_in_flight_that_is_popped_again_is_discarded(make_queue, make_pod):
    h = make_queue()
    h.queue.add(make_pod("twice"), NOW)
    h.pop("twice")
    h.queue.add(make_pod("twice"), NOW)
    h.queue.add(make_pod("next"), NOW)
    assert h.pop().pod.name == "next"
    h.queue.done("twice")
    h.queue.done("next")
    assert h.queue.in_flight.entries() == []
    assert h.where() == {}


def test_a_popped_pod_keeps_the_names_of_its_rejectors(make_queue, make_pod):
    h = make_queue()
    pod = h.parked(make_pod(), by=["fit"], pending=["gang"], now=NOW)
    h.queue.activate([pod.pod], NOW)
    popped = h.pop()
    assert (popped.unschedulable_plugins, popped.pending_plugins) == ({"fit"}, {"gang"})
    assert popped.attempts == 2


def test_counters_of_a_pod_that_fails_in_turn_by_rejection_and_error(make_queue, make_pod):
    h = make_queue()
    h.queue.add(make_pod(), NOW)
    counts = []
    for number, by in enumerate((["fit"], [], [], ["fit"]), start=1):
        queued = h.fail(h.pop(), by=by, now=NOW + number)
        counts.append((queued.unschedulable_count, queued.consecutive_errors_count))
        assert (queued.timestamp, queued.attempts) == (NOW + number, number)
        h.queue.activate([queued.pod], NOW + number)
    assert counts == [(1, 0), (1, 1), (1, 2), (2, 0)]
    assert h.pop().initial_attempt_timestamp == NOW


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("active", "the active queue"),
        ("backoff", "the backoff queue"),
        ("unschedulable", "unschedulable queue"),
    ],
)
def test_a_pod_that_comes_back_to_find_its_name_queued_is_refused(
    make_queue, make_pod, log_text, place, words
):
    h = make_queue(events={"fit": on_node_added(queue)})
    h.queue.add(make_pod(), NOW)
    old = h.pop()
    h.queue.add(make_pod(uid="new"), NOW)
    if place != "active":
        replacement = h.pop()
        if place == "backoff":
            h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, None, NOW)
        h.fail(replacement, by=["fit"], now=NOW)
    h.fail(old, by=["fit"], now=NOW)
    assert f'"Error occurred" err="Pod ns/p is already present in {words}"' in log_text()
    assert "p" not in h.queue.in_flight
    assert h.where() == {place: {"p"}}


def test_a_pod_without_its_mark_in_flight_is_tried_again(make_queue, make_pod):
    h = make_queue()
    h.queue.add(make_pod(), NOW)
    queued = h.pop()
    h.queue.done("p")
    h.fail(queued, by=["fit"], now=NOW)
    assert h.where() == {"backoff": {"p"}}


def test_closing_ends_every_attempt(make_queue, make_pod):
    h = make_queue(events={"fit": on_node_added(queue)})
    for name in ("a", "b"):
        h.queue.add(make_pod(name), NOW)
        h.pop()
        h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, None, NOW)
    h.queue.close()
    assert h.queue.in_flight.entries() == []


def test_the_summary_for_people_who_look(make_queue, make_pod):
    h = make_queue()
    h.parked(make_pod("parked"), now=NOW)
    h.parked(make_pod("error"), by=[], now=NOW)
    h.queue.add(make_pod("new"), NOW)
    pending = h.queue.pending()
    assert pending.summary == "activeQ:1; backoffQ:1; unschedulableEntities:1"
    assert [queued.pod.name for queued in pending.pods] == ["new", "error", "parked"]
    assert h.queue.get("ns/parked").unschedulable_plugins == {"fit"}
