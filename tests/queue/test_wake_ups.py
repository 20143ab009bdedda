"""What wakes a waiting pod: events, its own update, activation, and time."""

import pytest

from kscheduler.framework.cluster_event import (
    ANY_CHANGE,
    ASSIGNED_POD,
    NODE,
    TARGET_POD,
    Action,
    ClusterEvent,
    EventWithHint,
    Hint,
)
from kscheduler.queue import Backoff

NOW = 1_700_000_000.0
MINUTES = 60
NODE_ADDED = ClusterEvent(NODE, Action.ADD)
NODE_GONE = ClusterEvent(NODE, Action.DELETE)
POD_GONE = ClusterEvent(ASSIGNED_POD, Action.DELETE)
RELABELLED = ClusterEvent(TARGET_POD, Action.UPDATE_POD_LABEL)


def queue(pod, old, new):
    return Hint.QUEUE


def skip(pod, old, new):
    return Hint.SKIP


class Gate:
    """A PreEnqueue plugin that can be opened."""

    def __init__(self, *, closed=True):
        self.closed = closed
        self.asked = 0

    def __call__(self, pod):
        self.asked += 1
        return self.closed


class CountingHint:
    def __init__(self, answer=Hint.QUEUE):
        self.answer = answer
        self.asked = 0

    def __call__(self, pod, old, new):
        self.asked += 1
        return self.answer


def test_an_event_moves_only_the_pods_that_it_helps(make_queue, make_pod):
    def only_a(pod, old, new):
        return Hint.QUEUE if pod.name == "a" else Hint.SKIP

    h = make_queue(events={"fit": [EventWithHint(NODE_ADDED, only_a)]})
    for name in ("a", "b"):
        h.parked(make_pod(name), now=NOW)
    h.parked(make_pod("other"), by=["taint"], now=NOW)
    h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, "node", NOW)
    assert h.where() == {"backoff": {"a"}, "unschedulable": {"b", "other"}}


def test_a_pod_whose_backoff_is_over_goes_straight_to_the_active_queue(make_queue, make_pod):
    h = make_queue(events={"fit": [EventWithHint(NODE_ADDED, queue)]})
    h.parked(make_pod(), now=NOW)
    h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, "node", NOW + 2)
    assert h.where() == {"active": {"p"}}


def test_an_event_does_not_visit_pods_that_other_plugins_rejected(make_queue, make_pod):
    visited = []
    h = make_queue(events={"fit": [EventWithHint(NODE_ADDED, skip)]})
    for number in range(100):
        h.parked(make_pod(f"other-{number}"), by=["taint"], now=NOW)
    h.parked(make_pod("mine"), now=NOW)
    h.queue.move_all_to_active_or_backoff_queue(
        NODE_ADDED, None, "node", NOW, lambda pod: visited.append(pod.name) or True
    )
    assert visited == ["mine"]


def test_the_pre_check_is_not_called_when_nobody_wants_the_event(make_queue, make_pod):
    h = make_queue(events={"fit": [EventWithHint(NODE_ADDED, queue)]})
    h.parked(make_pod(), now=NOW)
    h.queue.move_all_to_active_or_backoff_queue(
        NODE_GONE, "node", None, NOW, lambda pod: pytest.fail("called")
    )
    assert h.where() == {"unschedulable": {"p"}}


def test_the_pre_check_chooses_among_the_waiting(make_queue, make_pod):
    h = make_queue(events={"fit": [EventWithHint(NODE_ADDED, queue)]})
    h.parked(make_pod("low", priority=1), now=NOW)
    h.parked(make_pod("high", priority=9), now=NOW)
    h.queue.move_all_to_active_or_backoff_queue(
        NODE_ADDED, None, "node", NOW, lambda pod: pod.priority <= 1
    )
    assert h.where() == {"backoff": {"low"}, "unschedulable": {"high"}}


def test_a_wildcard_moves_everyone(make_queue, make_pod):
    h = make_queue(events={"fit": [EventWithHint(NODE_ADDED, skip)]})
    h.parked(make_pod("a"), now=NOW)
    h.parked(make_pod("b"), by=["taint"], now=NOW - 9)
    h.queue.move_all_to_active_or_backoff_queue(ANY_CHANGE, None, None, NOW)
    assert h.where() == {"backoff": {"a"}, "active": {"b"}}


def test_a_gated_pod_waits_and_keeps_its_nomination(make_queue, make_pod):
    h = make_queue(gates={"gate": Gate()})
    h.queue.add(make_pod(nominated="n1"), NOW)
    assert h.where() == {"unschedulable": {"p"}}
    queued = h.queue.get("ns/p")
    assert (queued.gating_plugin, queued.initial_attempt_timestamp) == ("gate", None)
    assert h.queue.nominator.node_of("p") == "n1"


@pytest.mark.parametrize(
    ("event", "closed", "asked", "place"),
    [
        pytest.param(
            NODE_ADDED, False, 0, "unschedulable", id="the gating plugin does not wait for it"
        ),
        pytest.param(POD_GONE, False, 1, "active", id="the gating plugin waits for it"),
        pytest.param(POD_GONE, True, 0, "unschedulable", id="the gate is still closed"),
    ],
)
def test_a_gated_pod_is_looked_at_only_for_events_of_its_gate(
    make_queue, make_pod, event, closed, asked, place
):
    hint, gate = CountingHint(), Gate(closed=False)
    h = make_queue(
        events={
            "gate": [EventWithHint(POD_GONE, hint)],
            "fit": [EventWithHint(NODE_ADDED, hint)],
        },
        gates={"gate": gate},
    )
    h.parked(make_pod(), by=["fit"], now=NOW)
    gate.closed = True
    h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, None, NOW)
    assert h.queue.get("ns/p").rejectors == {"fit", "gate"}
    hint.asked, gate.closed = 0, closed
    h.queue.move_all_to_active_or_backoff_queue(event, None, None, NOW + 60)
    assert hint.asked == asked
    assert h.where() == {place: {"p"}}


@pytest.mark.parametrize("closed", [True, False])
def test_a_wildcard_asks_the_gate_again(make_queue, make_pod, closed):
    gate = Gate()
    h = make_queue(gates={"gate": gate})
    h.queue.add(make_pod(), NOW)
    gate.closed = closed
    h.queue.move_all_to_active_or_backoff_queue(ANY_CHANGE, None, None, NOW)
    assert gate.asked == 2
    assert h.where() == {"unschedulable" if closed else "active": {"p"}}


def test_a_pod_on_its_way_to_the_active_queue_can_be_stopped_at_the_gate(make_queue, make_pod):
    gate = Gate(closed=False)
    h = make_queue(events={"fit": [EventWithHint(NODE_ADDED, queue)]}, gates={"gate": gate})
    h.parked(make_pod(), now=NOW)
    gate.closed = True
    h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, "node", NOW + 10)
    assert h.where() == {"unschedulable": {"p"}}
    assert h.queue.get("ns/p").unschedulable_plugins == {"fit", "gate"}


def test_the_gate_stands_before_backoff_and_not_behind_it(make_queue, make_pod):
    gate = Gate(closed=False)
    h = make_queue(events={"fit": [EventWithHint(NODE_ADDED, queue)]}, gates={"gate": gate})
    h.parked(make_pod(), now=NOW)
    h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, "node", NOW)
    assert h.where() == {"backoff": {"p"}}
    gate.closed, asked = True, gate.asked
    h.queue.flush_backoff_completed(NOW + 2)
    assert gate.asked == asked
    assert h.where() == {"active": {"p"}}


def test_without_early_pops_the_gate_stands_behind_backoff(make_queue, make_pod):
    gate = Gate(closed=False)
    h = make_queue(
        events={"fit": [EventWithHint(NODE_ADDED, queue)]},
        gates={"gate": gate},
        backoff=Backoff(windows=False),
    )
    h.parked(make_pod(), now=NOW)
    gate.closed = True
    h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, "node", NOW)
    assert h.where() == {"backoff": {"p"}}
    h.queue.flush_backoff_completed(NOW + 2)
    assert h.where() == {"unschedulable": {"p"}}


def test_the_gate_that_closed_last_is_asked_first(make_queue, make_pod):
    first, second = Gate(closed=False), Gate()
    h = make_queue(gates={"first": first, "second": second})
    h.queue.add(make_pod(), NOW)
    assert (first.asked, second.asked) == (1, 1)
    h.queue.move_all_to_active_or_backoff_queue(ANY_CHANGE, None, None, NOW)
    assert (first.asked, second.asked) == (1, 2)


def test_activation_ignores_backoff(make_queue, make_pod):
    h = make_queue()
    parked = h.parked(make_pod("parked"), now=NOW)
    error = h.parked(make_pod("error"), by=[], now=NOW)
    h.queue.add(make_pod("active"), NOW)
    h.queue.activate([parked.pod, error.pod, make_pod("active"), make_pod("unknown")], NOW)
    assert h.where() == {"active": {"parked", "error", "active"}}


def test_activation_of_a_pod_in_flight_is_remembered_for_it_alone(make_queue, make_pod):
    h = make_queue(events={"fit": [EventWithHint(NODE_ADDED, skip)]})
    pods = [make_pod(name) for name in ("meant", "other")]
    for pod in pods:
        h.queue.add(pod, NOW)
    attempts = [h.pop(), h.pop()]
    h.queue.activate([pods[0]], NOW)
    assert h.queue.in_flight.event_count == 1
    for queued in attempts:
        h.fail(queued, by=["fit"], now=NOW)
    assert h.where() == {"backoff": {"meant"}, "unschedulable": {"other"}}


def test_activation_of_a_gated_pod_asks_the_gate(make_queue, make_pod):
    gate = Gate()
    h = make_queue(gates={"gate": gate})
    h.queue.add(make_pod(), NOW)
    h.queue.activate([make_pod()], NOW)
    assert h.where() == {"unschedulable": {"p"}}
    gate.closed = False
    h.queue.activate([make_pod()], NOW)
    assert h.where() == {"active": {"p"}}


@pytest.mark.parametrize(
    ("hint", "seconds", "want"),
    [
        pytest.param(queue, 0, "backoff", id="helps, backing off"),
        pytest.param(queue, 5, "active", id="helps, backoff over"),
        pytest.param(skip, 5, "unschedulable", id="does not help"),
    ],
)
def test_a_waiting_pod_is_woken_by_its_own_update_if_that_helps(
    make_queue, make_pod, hint, seconds, want
):
    h = make_queue(events={"fit": [EventWithHint(RELABELLED, hint)]})
    h.parked(make_pod(), now=NOW)
    relabelled = make_pod(labels={"a": "b"}, version="2")
    h.queue.update(make_pod(), relabelled, NOW + seconds)
    assert h.where() == {want: {"p"}}
    assert h.queue.get("ns/p").pod is relabelled


def test_an_update_that_is_gated_tries_the_next_change(make_queue, make_pod):
    gate = Gate(closed=False)
    hint = CountingHint()
    h = make_queue(
        events={
            "fit": [
                EventWithHint(RELABELLED, hint),
                EventWithHint(ClusterEvent(TARGET_POD, Action.UPDATE_POD_TOLERATION), hint),
            ]
        },
        gates={"gate": gate},
    )
    h.parked(make_pod(), now=NOW)
    gate.closed = True
    h.queue.update(make_pod(), make_pod(labels={"a": "b"}, tolerations=1), NOW + 5)
    assert hint.asked == 2
    assert h.where() == {"unschedulable": {"p"}}


def test_an_update_of_an_unknown_pod_adds_it(make_queue, make_pod):
    gate = Gate(closed=False)
    h = make_queue(gates={"gate": gate})
    h.queue.update(make_pod("open"), make_pod("open", version="2"), NOW)
    gate.closed = True
    h.queue.update(make_pod("closed"), make_pod("closed", version="2"), NOW)
    assert h.where() == {"active": {"open"}, "unschedulable": {"closed"}}


def test_an_update_leaves_active_and_backing_off_pods_where_they_are(make_queue, make_pod):
    h = make_queue(events={"fit": [EventWithHint(NODE_ADDED, queue)]})
    h.parked(make_pod("backing-off"), now=NOW)
    h.parked(make_pod("error"), by=[], now=NOW)
    h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, None, NOW)
    h.queue.add(make_pod("active"), NOW)
    before = h.where()
    for name in ("backing-off", "error", "active"):
        h.queue.update(make_pod(name), make_pod(name, labels={"a": "b"}, version="2"), NOW)
        assert h.queue.get(f"ns/{name}").pod.labels == {"a": "b"}
    assert h.where() == before


def test_an_update_changes_the_rank_of_an_active_pod(make_queue, make_pod):
    h = make_queue()
    for name in ("a", "b"):
        h.queue.add(make_pod(name, priority=1), NOW)
    h.queue.update(make_pod("b", priority=1), make_pod("b", priority=2), NOW)
    assert h.pop().pod.name == "b"


def test_an_update_of_a_pod_in_flight_is_remembered_and_nothing_queued(make_queue, make_pod):
    h = make_queue(events={"fit": [EventWithHint(RELABELLED, queue)]})
    h.queue.add(make_pod(), NOW)
    queued = h.pop()
    relabelled = make_pod(labels={"a": "b"}, version="2")
    h.queue.update(make_pod(), relabelled, NOW)
    assert h.where() == {}
    h.fail(queued, by=["fit"], now=NOW, pod=relabelled)
    assert h.where() == {"backoff": {"p"}}


@pytest.mark.parametrize("place", ["active", "backoff", "unschedulable"])
def test_a_pod_replaced_by_another_of_its_name_starts_anew(make_queue, make_pod, place):
    h = make_queue(events={"fit": [EventWithHint(NODE_ADDED, queue)]})
    old, new = make_pod(uid="old", nominated="n1"), make_pod(uid="new")
    h.queue.add(old, NOW)
    if place != "active":
        h.fail(h.pop(), by=["fit"], now=NOW)
    if place == "backoff":
        h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, None, NOW)
    h.queue.update(old, new, NOW + 1)
    assert h.where() == {"active": {"p"}}
    popped = h.pop()
    assert (popped.uid, popped.attempts, popped.timestamp) == ("new", 1, NOW + 1)
    assert h.queue.nominator.node_of("old") is None


def test_the_signature_follows_every_version_of_the_pod(make_queue, make_pod):
    h = make_queue(events={"fit": [EventWithHint(NODE_ADDED, queue)]})

    def updated(name, version):
        h.queue.update(make_pod(name), make_pod(name, version=version), NOW)
        return h.queue.get(f"ns/{name}").signature

    for name in ("parked", "backing-off"):
        h.parked(make_pod(name), now=NOW)
    h.queue.move_all_to_active_or_backoff_queue(
        NODE_ADDED, None, None, NOW, lambda pod: pod.name == "backing-off"
    )
    h.queue.add(make_pod("active"), NOW)
    assert h.queue.get("ns/active").signature == "ns/active@1"
    assert updated("parked", "2") == "ns/parked@2"
    assert updated("backing-off", "3") == "ns/backing-off@3"
    assert updated("active", "4") == "ns/active@4"


@pytest.mark.parametrize("place", ["active", "backoff", "unschedulable"])
def test_a_deleted_pod_is_gone_from_wherever_it_was(make_queue, make_pod, place):
    h = make_queue(events={"fit": [EventWithHint(NODE_ADDED, queue)]})
    pod = make_pod(nominated="n1")
    h.queue.add(pod, NOW)
    if place != "active":
        h.fail(h.pop(), by=["fit"], now=NOW)
    if place == "backoff":
        h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, None, NOW)
    assert h.where() == {place: {"p"}}
    h.queue.delete(pod)
    assert h.where() == {}
    assert list(h.queue.nominator.nodes) == []


def test_deleting_a_pod_does_not_touch_its_successor_of_the_same_name(make_queue, make_pod):
    h = make_queue()
    h.queue.add(make_pod(uid="new"), NOW)
    h.queue.delete(make_pod(uid="old"))
    assert h.where() == {"active": {"p"}}


def test_deleting_a_pod_in_flight_does_not_end_its_attempt(make_queue, make_pod):
    h = make_queue()
    h.queue.add(make_pod(), NOW)
    h.pop()
    h.queue.delete(make_pod())
    assert "p" in h.queue.in_flight


def test_popping_keeps_the_nomination(make_queue, make_pod):
    h = make_queue()
    h.queue.add(make_pod(nominated="n1"), NOW)
    assert h.queue.nominator.pods_for_node("n1")[0] is h.queue.get("ns/p").pod
    h.pop()
    assert [pod.name for pod in h.queue.nominator.pods_for_node("n1")] == ["p"]


def test_a_pod_that_waited_five_minutes_is_tried_without_an_event(make_queue, make_pod):
    h = make_queue()
    h.parked(make_pod(), now=NOW)
    h.queue.flush_unschedulable_leftover(NOW + 5 * MINUTES)
    assert h.where() == {"unschedulable": {"p"}}
    h.queue.flush_unschedulable_leftover(NOW + 5 * MINUTES + 1)
    assert h.where() == {"active": {"p"}}
    queued = h.pop()
    assert queued.was_flushed_from_unschedulable
    h.fail(queued, by=["fit"], now=NOW + 6 * MINUTES)
    assert not queued.was_flushed_from_unschedulable
    assert queued.flush_timestamp is None


def test_a_timeout_respects_backoff_and_is_remembered_for_pods_in_flight(make_queue, make_pod):
    h = make_queue(backoff=Backoff(1000, 1000))
    h.queue.add(make_pod("in-flight", priority=1), NOW)
    in_flight = h.pop()
    h.parked(make_pod("parked"), now=NOW)
    h.queue.flush_unschedulable_leftover(NOW + 301)
    assert h.where() == {"backoff": {"parked"}}
    h.fail(in_flight, by=["fit"], now=NOW + 301)
    assert h.where() == {"backoff": {"parked", "in-flight"}}


def test_a_gated_pod_is_asked_once_in_five_minutes(make_queue, make_pod):
    gate = Gate()
    h = make_queue(gates={"gate": gate})
    h.queue.add(make_pod(), NOW)
    for seconds in (301, 331, 361, 601):
        h.queue.flush_unschedulable_leftover(NOW + seconds)
    assert gate.asked == 2
    assert not h.queue.get("ns/p").was_flushed_from_unschedulable
    gate.closed = False
    h.queue.flush_unschedulable_leftover(NOW + 602)
    assert h.where() == {"active": {"p"}}
    assert h.queue.get("ns/p").was_flushed_from_unschedulable
    assert h.queue.get("ns/p").initial_attempt_timestamp == NOW + 602
