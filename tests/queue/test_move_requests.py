"""MoveRequests of many pods: in slices, with nobody lost and nobody woken by what is long past."""

from contextlib import contextmanager

import pytest

from kscheduler.framework.cluster_event import (
    ANY_CHANGE,
    NODE,
    Action,
    ClusterEvent,
    EventWithHint,
    Hint,
)
from kscheduler.queue import Backoff, move_requests
from kscheduler.queue.heap import PodHeap
from kscheduler.queue.queued_pod_info import QueuedPodInfo

NOW = 1_700_000_000.0
NODE_ADDED = ClusterEvent(NODE, Action.ADD)


class Turns:
    """An event loop by hand, and whether deliveries are held."""

    def __init__(self):
        self.steps = []
        self.held = 0

    @contextmanager
    def hold(self):
        self.held += 1
        yield
        self.held -= 1

    def later(self, step):
        self.steps.append(step)

    def turn(self):
        steps, self.steps = self.steps, []
        for step in steps:
            step()

    def run(self):
        while self.steps:
            self.turn()


@pytest.fixture
def turns(monkeypatch):
    monkeypatch.setattr(move_requests, "SLICE_PODS", 10)
    return Turns()


class Asked:
    """A hint that notes whom it was asked about, per turn."""

    def __init__(self, answer=Hint.QUEUE):
        self.answer = answer
        self.pods = []

    def __call__(self, pod, old, new):
        self.pods.append((pod.name, new))
        return self.answer

    def take(self):
        taken, self.pods = self.pods, []
        return [name for name, _ in taken]


@pytest.fixture
def waiting(make_queue, make_pod, turns):
    """A queue with so many rejected pods, and the hint that is asked about them."""

    def make(count, answer=Hint.QUEUE, **options):
        hint = Asked(answer)
        events = {"fit": [EventWithHint(NODE_ADDED, hint)]}
        h = make_queue(events=events, later=turns.later, hold=turns.hold, **options)
        for number in range(count):
            h.parked(make_pod(f"p{number:02d}"), now=NOW)
        return h, hint

    return make


def names(*numbers):
    return [f"p{number:02d}" for number in numbers]


def test_no_more_than_a_slice_is_visited_in_one_turn(waiting, turns):
    h, hint = waiting(25)
    h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, "node", NOW + 5)
    assert hint.take() == names(*range(10))
    turns.turn()
    assert hint.take() == names(*range(10, 20))
    turns.turn()
    assert hint.take() == names(*range(20, 25))
    turns.run()
    assert hint.take() == []
    assert h.where() == {"active": set(names(*range(25)))}


def test_deliveries_are_held_until_everyone_was_visited(waiting, turns):
    h, _ = waiting(25)
    h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, "a", NOW + 5)
    h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, "b", NOW + 5)
    assert turns.held == 1
    turns.run()
    assert turns.held == 0


def test_few_pods_are_moved_at_once(waiting, turns):
    h, _ = waiting(9)
    h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, "node", NOW + 5)
    assert h.where() == {"active": set(names(*range(9)))}
    assert (turns.steps, turns.held) == ([], 0)


def test_events_are_put_to_pods_in_their_order(waiting, turns):
    h, hint = waiting(15, Hint.SKIP)
    h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, "first", NOW + 5)
    h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, "second", NOW + 5)
    turns.run()
    asked = [new for name, new in hint.pods if name == "p12"]
    assert asked == ["first", "second"]


def test_a_pod_that_left_meanwhile_is_not_visited(waiting, turns, make_pod):
    h, hint = waiting(20)
    h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, "node", NOW + 5)
    hint.take()
    h.queue.delete(make_pod("p12"))
    h.queue.delete(make_pod("p13"))
    h.queue.add(make_pod("p13", uid="another"), NOW + 5)
    turns.run()
    assert set(hint.take()) == {*names(*range(10, 20))} - {"p12", "p13"}


def test_a_pod_that_was_tried_since_the_event_is_not_visited(waiting, turns, make_pod):
    h, hint = waiting(20, Hint.SKIP)
    h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, "node", NOW + 5)
    h.queue.activate([make_pod("p15")], NOW + 5)
    h.fail(h.pop("p15"), by=["fit"], now=NOW + 6)
    hint.take()
    turns.run()
    assert "p15" not in hint.take()


def test_a_pod_in_flight_hears_of_an_event_that_is_still_under_way(waiting, turns, make_pod):
    h, _ = waiting(20)
    h.queue.add(make_pod("late"), NOW + 4)
    tried = h.pop("late")
    h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, "node", NOW + 5)
    h.fail(tried, by=["fit"], now=NOW + 5)
    assert "late" in h.where()["backoff"]
    turns.run()


def test_too_many_moves_end_the_oldest_at_once(waiting, turns, monkeypatch):
    monkeypatch.setattr(move_requests, "MAX_REQUESTS", 3)
    h, hint = waiting(30, Hint.SKIP)
    for number in range(6):
        h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, number, NOW + 5)
    assert len(h.queue._moves) == 3
    turns.run()
    assert len(hint.pods) == 6 * 30


def test_pods_that_waited_too_long_leave_in_slices(waiting, turns):
    h, _ = waiting(25)
    h.queue.flush_unschedulable_leftover(NOW + 301)
    assert len(h.where()["active"]) == 10
    turns.run()
    assert len(h.where()["active"]) == 25


def test_pods_whose_backoff_is_over_leave_in_slices(waiting, turns):
    h, _ = waiting(25, backoff=Backoff(initial_seconds=10, max_seconds=10))
    h.queue.move_all_to_active_or_backoff_queue(ANY_CHANGE, None, None, NOW + 1)
    turns.run()
    assert len(h.where()["backoff"]) == 25
    h.queue.flush_backoff_completed(NOW + 30)
    assert {place: len(pods) for place, pods in h.where().items()} == {"active": 10, "backoff": 15}
    turns.run()
    assert len(h.where()["active"]) == 25


def test_a_visit_that_fails_costs_nobody_else(waiting, turns, log_text):
    h, _ = waiting(30)
    wanted = []

    def check(pod):
        wanted.append(pod.name)
        if pod.name == "p15":
            raise ValueError("boom")
        return True

    h.queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, "node", NOW + 5, check)
    turns.run()
    assert wanted == names(*range(30))
    assert h.where()["unschedulable"] == {"p15"}
    assert turns.held == 0
    assert "Moving a pod to another queue failed" in log_text()


def test_dead_entries_on_top_of_a_heap_are_not_taken_off_one_by_one(make_pod):
    heap = PodHeap(lambda queued: queued.timestamp)
    for number in range(4000):
        heap.put(QueuedPodInfo(make_pod(f"p{number:04d}"), timestamp=number))
    for number in range(1900):
        heap.remove(f"ns/p{number:04d}")
    rebuilt = []
    real = heap._rebuild
    heap._rebuild = lambda: rebuilt.append(len(heap._heap)) or real()
    assert heap.peek().timestamp == 1900
    assert len(rebuilt) == 1
    assert [heap.pop().timestamp for _ in range(3)] == [1900, 1901, 1902]
