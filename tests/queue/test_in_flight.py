import pytest

from kscheduler.framework.cluster_event import NODE, Action, ClusterEvent
from kscheduler.metrics import Metrics
from kscheduler.queue.in_flight import InFlight, InFlightEvent
from kscheduler.queue.metrics import QueueMetrics
from kscheduler.queue.queued_pod_info import QueuedPodInfo
from tests.kit.objects import make_pod_info

NODE_ADDED = ClusterEvent(NODE, Action.ADD)


def popped(uid):
    return QueuedPodInfo(make_pod_info(uid=uid), timestamp=0)


def happened(number):
    return InFlightEvent(NODE_ADDED, None, number)


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
def in_flight(metrics):
    return InFlight(QueueMetrics(metrics), max_events=4)


def numbers(in_flight, uid):
    return [happening.new for happening in in_flight.events_since(uid)]


def test_an_event_without_pods_in_flight_is_not_kept(in_flight):
    in_flight.record(happened(1))
    assert in_flight.entries() == []


def test_a_pod_hears_of_the_events_since_it_was_popped(in_flight):
    in_flight.start(popped("a"))
    in_flight.record(happened(1))
    in_flight.start(popped("b"))
    in_flight.record(happened(2))
    in_flight.record(happened(3))
    assert (numbers(in_flight, "a"), numbers(in_flight, "b")) == ([1, 2, 3], [2, 3])


def test_done_of_the_middle_pod_keeps_what_the_older_still_has_to_hear_of(in_flight):
    in_flight.start(popped("pod1"))
    in_flight.record(happened(1))
    in_flight.start(popped("pod2"))
    in_flight.record(happened(2))
    in_flight.start(popped("pod3"))
    in_flight.record(happened(3))
    in_flight.done("pod2")
    assert in_flight.entries() == ["pod1", happened(1), happened(2), "pod3", happened(3)]
    in_flight.done("pod1")
    assert in_flight.entries() == ["pod3", happened(3)]
    in_flight.done("pod3")
    assert in_flight.entries() == []


def test_done_of_an_unknown_pod_is_nothing(in_flight):
    in_flight.start(popped("a"))
    in_flight.done("stranger")
    assert in_flight.entries() == ["a"]


def test_the_gauge_counts_pods_and_events(in_flight, metrics):
    in_flight.start(popped("a"))
    in_flight.record(happened(1))
    in_flight.record(happened(2))
    gauge = metrics.inflight_events
    assert (gauge.labels("PodPopped").value, gauge.labels("NodeAdd").value) == (1, 2)
    in_flight.done("a")
    assert (gauge.labels("PodPopped").value, gauge.labels("NodeAdd").value) == (0, 0)


def test_one_event_too_many_drops_the_oldest_and_tells_the_pods_it_was_for(in_flight, metrics):
    in_flight.start(popped("old"))
    in_flight.record(happened(1))
    in_flight.start(popped("young"))
    for number in range(2, 6):
        in_flight.record(happened(number))
    assert numbers(in_flight, "old") == numbers(in_flight, "young") == [2, 3, 4, 5]
    assert in_flight.missed_events("old")
    assert not in_flight.missed_events("young")
    in_flight.record(happened(6))
    assert in_flight.missed_events("young")
    in_flight.start(popped("newborn"))
    assert not in_flight.missed_events("newborn")
    dropped = metrics.registry.get_sample_value("kscheduler_inflight_events_dropped_total")
    assert dropped == 2
    assert metrics.inflight_events.labels("NodeAdd").value == 4
