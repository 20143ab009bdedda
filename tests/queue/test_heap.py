from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.queue.heap import SMALL, PodHeap
from kscheduler.queue.queued_pod_info import QueuedPodInfo


def by_time():
    return PodHeap(lambda queued: queued.timestamp)


def queued(pod, timestamp):
    return QueuedPodInfo(pod, timestamp=timestamp)


def drained(heap):
    return [(found.pod.name, found.timestamp) for found in iter(heap.pop, None)]


def test_smallest_key_first_and_equal_keys_in_order_of_arrival(make_pod):
    heap = by_time()
    for name, time in (("late", 3), ("one", 1), ("two", 1), ("three", 1)):
        heap.put(queued(make_pod(name), time))
    assert [name for name, _ in drained(heap)] == ["one", "two", "three", "late"]


def test_a_pod_put_again_moves_and_keeps_its_arrival(make_pod):
    heap = by_time()
    first = queued(make_pod("first"), 5)
    for pod in (first, queued(make_pod("second"), 2), queued(make_pod("third"), 2)):
        heap.put(pod)
    first.timestamp = 2
    heap.put(first)
    assert len(heap) == 3
    assert [name for name, _ in drained(heap)] == ["first", "second", "third"]


def test_what_was_removed_is_not_found_again(make_pod):
    heap = by_time()
    heap.put(queued(make_pod("p"), 1))
    assert heap.remove("ns/p").pod.name == "p"
    assert (heap.remove("ns/p"), heap.get("ns/p"), heap.peek(), heap.pop()) == (None,) * 4
    assert len(heap) == 0
    assert "ns/p" not in heap


def test_dead_entries_never_outnumber_the_living_by_much(make_pod):
    heap = by_time()
    pod = queued(make_pod("p"), 0)
    for time in range(1000):
        pod.timestamp = time
        heap.put(pod)
    assert len(heap._heap) <= SMALL + 2


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.one_of(st.none(), st.integers(0, 5)))))
def test_any_puts_and_removals_leave_a_sorted_queue(make_pod, steps):
    heap, model = by_time(), {}
    for name, time in steps:
        if time is None:
            removed = heap.remove(f"ns/{name}")
            assert (removed is None) == (model.pop(name, None) is None)
        else:
            heap.put(queued(make_pod(name), time))
            model[name] = time
    assert {found.pod.name: found.timestamp for found in heap} == model
    assert [time for _, time in drained(heap)] == sorted(model.values())
