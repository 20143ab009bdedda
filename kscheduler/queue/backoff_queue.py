"""The backoff queue: pods that wait before their next attempt, twice as long after each failure.

Mirrors pkg/scheduler/backend/queue/backoff_queue.go. With windows, the default, waits
end at whole seconds, so that pods of the same second leave together, the most important first.
"""

import math
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import msgspec

from kscheduler.queue.heap import PodHeap
from kscheduler.queue.queued_pod_info import QueuedPodInfo

NANOSECONDS = 1_000_000_000

# The expiry of a pod that has nothing to wait for.
LONG_AGO = -math.inf


def backoff_nanoseconds(count: int, initial: int, maximum: int, *, pods: int = 1) -> int:
    """The wait after `count` failures; several pods that wait as one may wait longer."""
    if pods > 1:
        maximum = int(maximum * math.sqrt(pods))
    doublings = count - 1
    return maximum if initial > maximum >> doublings else initial << doublings


class Backoff(msgspec.Struct, frozen=True):
    """How long pods wait: with `windows` until whole seconds, without to the nanosecond.

    `windows` is the gate SchedulerPopFromBackoffQ.
    """

    initial_seconds: float = 1
    max_seconds: float = 10
    windows: bool = True

    def expiry(self, queued: QueuedPodInfo) -> float:
        """When the wait ends; remembered in the pod until its next failure."""
        expiry = LONG_AGO
        count = queued.consecutive_errors_count or queued.unschedulable_count
        if self.max_seconds and count:
            if queued.backoff_expiration is None:
                initial = int(self.initial_seconds * NANOSECONDS)
                maximum = int(self.max_seconds * NANOSECONDS)
                wait = backoff_nanoseconds(count, initial, maximum) / NANOSECONDS
                queued.backoff_expiration = self._aligned(queued.timestamp + wait)
            expiry = queued.backoff_expiration
        return max(expiry, queued.not_before) if queued.not_before else expiry

    def is_backing_off(self, queued: QueuedPodInfo, now: float) -> bool:
        """Whether the pod waits; a wait that ends within the present second is over after it."""
        return self.expiry(queued) >= self._aligned(now)

    def leaves_at(self, queued: QueuedPodInfo) -> float:
        """The first moment at which the pod is no longer backing off."""
        expiry = self.expiry(queued)
        return self._aligned(expiry) + 1 if self.windows and expiry != LONG_AGO else expiry

    def _aligned(self, time: float) -> float:
        return math.floor(time) if self.windows else time


class BackoffQueue:
    """Two heaps: pods that plugins rejected, and pods whose attempt ended in an error.

    Only the rejected may leave before their time, when no pod is active: after an error it is
    rarely the pod that needs the rest. Pods on which deciding takes too long are with those of the
    errors.
    """

    def __init__(self, backoff: Backoff, sort_key: Callable[[QueuedPodInfo], Any]) -> None:
        def window_and_rank(queued: QueuedPodInfo) -> tuple[float, Any]:
            return backoff.expiry(queued), sort_key(queued)

        self._backoff = backoff
        self._rejected = PodHeap(window_and_rank if backoff.windows else backoff.expiry)
        self._failed = PodHeap(backoff.expiry)

    def __len__(self) -> int:
        return len(self._rejected) + len(self._failed)

    def __contains__(self, key: str) -> bool:
        return key in self._rejected or key in self._failed

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return chain(self._rejected, self._failed)

    @property
    def rejected_count(self) -> int:
        return len(self._rejected)

    def get(self, key: str) -> QueuedPodInfo | None:
        return self._rejected.get(key) or self._failed.get(key)

    def put(self, queued: QueuedPodInfo) -> None:
        """Adds the pod; one that is here already stays in its heap, at its new place."""
        rejected = bool(queued.rejectors) and not queued.not_before
        if queued.key in self._failed or not (rejected or queued.key in self._rejected):
            self._failed.put(queued)
        else:
            self._rejected.put(queued)

    def remove(self, key: str) -> QueuedPodInfo | None:
        return self._rejected.remove(key) or self._failed.remove(key)

    def pop_early(self) -> QueuedPodInfo | None:
        """The rejected pod whose wait ends first, ended or not."""
        return self._rejected.pop()

    def pop_completed(self, now: float) -> Iterator[QueuedPodInfo]:
        """Every pod whose wait is over, taken out one at a time."""
        for heap in (self._rejected, self._failed):
            while (head := heap.peek()) is not None and not self._backoff.is_backing_off(head, now):
                heap.pop()
                yield head
