"""Who is tried first."""

import pytest

from kscheduler.plugins.priority_sort import PrioritySort
from kscheduler.queue.queued_pod_info import QueuedPodInfo
from tests.plugins.topologies import make_pod


def queued(name, timestamp, **spec):
    return QueuedPodInfo(make_pod(name, **spec), timestamp=timestamp)


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param(
            [queued("low", 1, priority=1), queued("high", 2, priority=2)],
            ["high", "low"],
            id="higher priority first, whenever it came",
        ),
        pytest.param(
            [queued("late", 2, priority=5), queued("early", 1, priority=5)],
            ["early", "late"],
            id="equal priority: who came first",
        ),
        pytest.param(
            [queued("negative", 1, priority=-1), queued("none", 2), queued("zero", 3, priority=0)],
            ["none", "zero", "negative"],
            id="no priority is 0",
        ),
    ],
)
def test_order(pods, want):
    assert [one.pod.name for one in sorted(pods, key=PrioritySort().sort_key)] == want


def test_pods_equal_in_both_share_a_key():
    one, other = queued("a", 1, priority=3), queued("b", 1, priority=3)
    assert PrioritySort().sort_key(one) == PrioritySort().sort_key(other)
