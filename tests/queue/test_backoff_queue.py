import pytest

from kscheduler.queue.backoff_queue import Backoff, BackoffQueue, backoff_nanoseconds
from kscheduler.queue.queued_pod_info import QueuedPodInfo

NOW = 1_700_000_000.0
MAX_INT64 = 2**63 - 1
SECOND = 1_000_000_000


def rank(queued):
    return -queued.pod.priority, queued.timestamp


def failed(pod, timestamp=NOW, *, rejections=0, errors=0, by=("fit",)):
    return QueuedPodInfo(
        pod,
        timestamp=timestamp,
        unschedulable_count=rejections,
        consecutive_errors_count=errors,
        unschedulable_plugins=set(by),
    )


def test_failures_of_one_pod_wait_1_2_4_8_10_10_10_seconds(make_pod):
    pod = failed(make_pod())
    waits = []
    for _ in range(7):
        pod.returned(NOW)
        waits.append(Backoff().expiry(pod) - NOW)
    assert waits == [1, 2, 4, 8, 10, 10, 10]


@pytest.mark.parametrize(
    ("count", "initial", "maximum", "pods", "want"),
    [
        pytest.param(1, 1, 32, 1, 1, id="first failure waits the initial time"),
        pytest.param(16, SECOND, 32 * SECOND, 1, 32 * SECOND, id="many failures wait the maximum"),
        pytest.param(5, 3, MAX_INT64, 1, 48, id="doubling is exact"),
        pytest.param(64, 3, MAX_INT64, 1, MAX_INT64, id="nothing overflows"),
        pytest.param(7, 1, 32, 10, 64, id="ten pods double beyond the maximum of one"),
        pytest.param(16, 1, 32, 10, 101, id="ten pods wait the square root of ten longer at most"),
    ],
)
def test_wait_by_number_of_failures(count, initial, maximum, pods, want):
    assert backoff_nanoseconds(count, initial, maximum, pods=pods) == want


def test_errors_in_a_row_count_before_rejections(make_pod):
    pod = failed(make_pod(), rejections=5, errors=16)
    assert Backoff(1, 32).expiry(pod) == NOW + 32


def test_a_pod_never_tried_does_not_wait(make_pod):
    assert not Backoff().is_backing_off(failed(make_pod()), now=0.0)


def test_without_a_maximum_nobody_waits_and_the_remembered_expiry_stays(make_pod):
    pod = failed(make_pod(), rejections=3)
    pod.backoff_expiration = NOW + 7
    assert not Backoff(1, 0).is_backing_off(pod, NOW)
    assert pod.backoff_expiration == NOW + 7
    assert Backoff().expiry(pod) == NOW + 7


@pytest.mark.parametrize(
    ("windows", "failed_at", "released_at"),
    [
        pytest.param(True, 10.3, [(11.0, True), (11.99, True), (12.0, False)], id="windows"),
        pytest.param(True, 10.0, [(11.0, True), (12.0, False)], id="windows, on the second"),
        pytest.param(False, 10.3, [(11.29, True), (11.31, False)], id="no windows"),
    ],
)
def test_a_wait_of_one_second_ends_with_the_second_it_ends_in(
    make_pod, windows, failed_at, released_at
):
    pod = failed(make_pod(), failed_at, rejections=1)
    backoff = Backoff(windows=windows)
    assert [(now, backoff.is_backing_off(pod, now)) for now, _ in released_at] == released_at


@pytest.mark.parametrize(
    ("windows", "want"),
    [
        pytest.param(True, ["pod1", "pod5", "pod4", "pod2", "pod3"], id="within a second by rank"),
        pytest.param(False, ["pod1", "pod5", "pod3", "pod4", "pod2"], id="strictly by time"),
    ],
)
def test_order_of_pods_that_back_off(make_pod, windows, want):
    queue = BackoffQueue(Backoff(windows=windows), rank)
    for name, priority, offset in (
        ("pod1", 0, -1.0),
        ("pod2", 1, 0.30),
        ("pod3", 0, 0.10),
        ("pod4", 1, 0.20),
        ("pod5", 1, 0.05),
    ):
        queue.put(failed(make_pod(name, priority=priority), NOW + offset, rejections=1))
    assert [queue.pop_early().pod.name for _ in want] == want


def test_completed_waits_of_both_kinds_end_and_the_others_go_on(make_pod):
    queue = BackoffQueue(Backoff(), rank)
    queue.put(failed(make_pod("rejected"), NOW, rejections=1))
    queue.put(failed(make_pod("failed"), NOW, errors=1, by=()))
    queue.put(failed(make_pod("rejected-later"), NOW, rejections=4))
    queue.put(failed(make_pod("failed-later"), NOW, errors=4, by=()))
    assert [q.pod.name for q in queue.pop_completed(NOW + 1)] == []
    assert [q.pod.name for q in queue.pop_completed(NOW + 2)] == ["rejected", "failed"]
    assert {q.pod.name for q in queue} == {"rejected-later", "failed-later"}


def test_a_pod_that_failed_by_error_never_leaves_early(make_pod):
    queue = BackoffQueue(Backoff(), rank)
    queue.put(failed(make_pod(), errors=1, by=()))
    assert queue.pop_early() is None
    assert len(queue) == 1


def test_a_pod_put_again_stays_in_its_heap(make_pod):
    queue = BackoffQueue(Backoff(), rank)
    error, rejection = failed(make_pod("e"), errors=1, by=()), failed(make_pod("r"), rejections=1)
    queue.put(error)
    queue.put(rejection)
    error.unschedulable_plugins, rejection.unschedulable_plugins = {"fit"}, set()
    queue.put(error)
    queue.put(rejection)
    assert (len(queue), queue.rejected_count) == (2, 1)
    assert queue.remove("ns/e") is error
    assert queue.get("ns/r") is rejection
