from kscheduler.framework.cluster_event import (
    ANY_CHANGE,
    NODE,
    TARGET_POD,
    Action,
    ClusterEvent,
    EventWithHint,
    Hint,
)

NOW = 1_700_000_000.0
PROFILE = "default-scheduler"
NODE_ADDED = ClusterEvent(NODE, Action.ADD)


def queue(pod, old, new):
    return Hint.QUEUE


ON_NODE_ADDED = {"fit": [EventWithHint(NODE_ADDED, queue)]}


def test_every_entry_into_a_queue_is_counted_with_its_cause(make_queue, make_pod):
    h = make_queue(events=ON_NODE_ADDED)
    parked = h.parked(make_pod("parked"), now=NOW)
    h.parked(make_pod("error"), by=[], now=NOW)
    h.queue.flush_backoff_completed(NOW + 2)
    h.queue.done(h.pop("error").uid)
    h.queue.flush_unschedulable_leftover(NOW + 400)
    h.fail(h.pop("parked"), by=["fit"], now=NOW + 400)
    h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, None, NOW + 400)
    h.pop("parked")
    h.fail(parked, by=["fit"], now=NOW + 401)
    h.queue.activate([parked.pod], NOW + 401)
    assert h.series("queue_incoming_pods_total") == {
        ("active", "UnscheduledPodAdd"): 2,
        ("unschedulable", "ScheduleAttemptFailure"): 3,
        ("backoff", "ScheduleAttemptFailure"): 1,
        ("active", "BackoffComplete"): 1,
        ("active", "UnschedulableTimeout"): 1,
        ("backoff", "NodeAdd"): 1,
        ("active", "PopFromBackoffQ"): 1,
        ("active", "ForceActivate"): 1,
    }


def test_an_entity_counts_only_where_its_verdict_did_not_send_it(make_queue, make_pod):
    h = make_queue(events=ON_NODE_ADDED)
    h.parked(make_pod(), now=NOW)
    h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, None, NOW)
    h.fail(h.pop(), by=["fit"], now=NOW)
    h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, None, NOW + 100)
    assert h.series("queue_incoming_entities_total") == {
        ("active", "UnscheduledPodAdd", "pod"): 1,
        ("active", "PopFromBackoffQ", "pod"): 1,
        ("active", "NodeAdd", "pod"): 1,
    }


def test_all_places_are_exported_from_the_start(make_queue):
    h = make_queue()
    exported = {
        place: h.metrics.registry.get_sample_value("scheduler_pending_pods", {"queue": place})
        for place in ("active", "backoff", "unschedulable", "gated", "incomplete", "pending")
    }
    assert set(exported.values()) == {0}


def test_pods_count_against_their_rejectors_while_they_wait(make_queue, make_pod):
    h = make_queue()
    pod = h.parked(make_pod(), by=["fit"], pending=["gang"], now=NOW)
    assert h.series("unschedulable_pods") == {("fit", PROFILE): 1, ("gang", PROFILE): 1}
    h.queue.activate([pod.pod], NOW)
    assert h.series("unschedulable_pods") == {("fit", PROFILE): 1, ("gang", PROFILE): 1}
    h.pop()
    assert h.series("unschedulable_pods") == {}


def test_a_gate_that_stays_closed_counts_once_and_two_gates_in_turn_count_each(
    make_queue, make_pod
):
    closed = {"one"}
    gates = {name: lambda pod, name=name: name in closed for name in ("one", "two")}
    lifted = ClusterEvent(TARGET_POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    h = make_queue(events={"one": [EventWithHint(lifted)]}, gates=gates)
    gated, open_ = make_pod(gates=["g"]), make_pod(version="2")
    h.queue.add(gated, NOW)
    h.queue.move_all_to_active_or_backoff_queue(ANY_CHANGE, None, None, NOW)
    assert h.series("unschedulable_pods") == {("one", PROFILE): 1}
    assert h.series("pending_pods") == {("gated",): 1}
    closed.add("two")
    closed.remove("one")
    h.queue.update(gated, open_, NOW)
    assert h.series("unschedulable_pods") == {("one", PROFILE): 1, ("two", PROFILE): 1}
    closed.clear()
    h.queue.activate([open_], NOW)
    h.pop()
    assert h.series("unschedulable_pods") == {}


def test_hints_are_timed_by_plugin_event_and_answer(make_queue, make_pod):
    h = make_queue(events=ON_NODE_ADDED)
    h.parked(make_pod(), now=NOW)
    h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, None, NOW)
    timed = h.metrics.queueing_hint_execution_duration_seconds.labels("fit", "NodeAdd", "Queue")
    assert timed.count == 1
