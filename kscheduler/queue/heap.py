"""A heap whose items can be found, replaced and removed by key.

Removed and superseded entries stay in the list until they surface or outnumber the live ones, so
every operation is O(log n) on average and the list is never more than about twice the live size.
"""

import heapq
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from kscheduler.queue.queued_pod_info import QueuedPodInfo

# Below this many dead entries rebuilding is not worth the trouble.
SMALL = 64

# [sort key, arrival, serial number, the pod or None once removed]; the serial number is there so
# that pods themselves are never compared.
_Entry = list[Any]


class PodHeap:
    """Pods by key, smallest sort key first; equal ones in the order they came."""

    def __init__(self, sort_key: Callable[[QueuedPodInfo], Any]) -> None:
        self._sort_key = sort_key
        self._heap: list[_Entry] = []
        self._live: dict[str, _Entry] = {}
        self._serials = count()

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, key: str) -> bool:
        return key in self._live

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return (entry[3] for entry in self._live.values())

    def get(self, key: str) -> QueuedPodInfo | None:
        entry = self._live.get(key)
        return entry[3] if entry else None

    def put(self, queued: QueuedPodInfo) -> None:
        """Adds the pod, or moves it to where its present sort key belongs."""
        before = self._live.get(queued.key)
        serial = next(self._serials)
        arrival = before[1] if before else serial
        entry = [self._sort_key(queued), arrival, serial, queued]
        if before is not None:
            before[3] = None
        self._live[queued.key] = entry
        heapq.heappush(self._heap, entry)
        self._trim()

    def remove(self, key: str) -> QueuedPodInfo | None:
        entry = self._live.pop(key, None)
        if entry is None:
            return None
        queued: QueuedPodInfo = entry[3]
        entry[3] = None
        self._trim()
        return queued

    def peek(self) -> QueuedPodInfo | None:
        heap, dead = self._heap, 0
        while heap and heap[0][3] is None:
            heapq.heappop(heap)
            dead += 1
            if dead > max(SMALL, len(self._live) // 8):
                # All dead entries may be on top: 100,000 take 0.4 s one by one, a rebuild 0.05 s.
                heap, dead = self._rebuild(), 0
        return heap[0][3] if heap else None

    def pop(self) -> QueuedPodInfo | None:
        queued = self.peek()
        if queued is not None:
            heapq.heappop(self._heap)
            del self._live[queued.key]
        return queued

    def ahead_of(self, key: str) -> int:
        """How many pods would be popped before this one: a look at each."""
        entry = self._live[key]
        return sum(other < entry for other in self._live.values())

    def _trim(self) -> None:
        dead = len(self._heap) - len(self._live)
        if dead > max(SMALL, len(self._live)):
            self._rebuild()

    def _rebuild(self) -> list[_Entry]:
        """The heap of the live entries only."""
        self._heap = list(self._live.values())
        heapq.heapify(self._heap)
        return self._heap
