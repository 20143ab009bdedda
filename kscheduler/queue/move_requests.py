"""Move requests: events put to many waiting pods, in slices.

A cluster event is put to each pod that it may help, some 10 µs a pod. With 100,000 pods waiting
that would hold up the event loop for a second. So the first `SLICE_PODS` pods are visited at once
and the others later, a slice per turn of the event loop, in the order of the requests.

A visit that comes late must find out itself whether it is still wanted: the pod may have been
moved, tried or deleted meanwhile. While requests are under way the informers are held, so that
events do not come faster than they are dealt with; `MAX_REQUESTS` bounds what comes from elsewhere.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from itertools import islice
from typing import NamedTuple

from kscheduler import logs
from kscheduler.queue.queued_pod_info import QueuedPodInfo

log = logs.logger(__name__)

# About 10 ms.
SLICE_PODS = 1000
# Each keeps a list of the pods it still has to visit: 800 KB of 100,000.
MAX_REQUESTS = 32

Step = Callable[[], None]


class _Request(NamedTuple):
    pods: Iterator[QueuedPodInfo]
    visit: Callable[[QueuedPodInfo], None]


class MoveRequests:
    """The requests of one queue; `after_slice` is called after each slice.

    `later` calls a function in the next turn of the event loop. Without it every request is carried
    out in one piece. `hold` stops deliveries from informers until its context is left.
    """

    def __init__(
        self,
        after_slice: Step,
        later: Callable[[Step], object] | None = None,
        hold: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._after_slice = after_slice
        self._later = later
        self._hold = hold
        self._under_way: deque[_Request] = deque()
        self._held = ExitStack()

    def __len__(self) -> int:
        return len(self._under_way)

    def start(self, pods: Iterable[QueuedPodInfo], visit: Callable[[QueuedPodInfo], None]) -> None:
        """Visits each pod, the first ones before this returns."""
        request = _Request(iter(pods), visit)
        done = self._advance(request, None if self._later is None else SLICE_PODS)
        self._after_slice()
        if done or self._later is None:
            return
        if not self._under_way:
            self._held.enter_context(self._hold())
            self._later(self._next_slice)
        elif len(self._under_way) >= MAX_REQUESTS:
            self._advance(self._under_way.popleft(), None)
        self._under_way.append(request)

    def _next_slice(self) -> None:
        """The next slice of the oldest request."""
        assert self._later is not None
        try:
            if self._under_way and self._advance(self._under_way[0], SLICE_PODS):
                self._under_way.popleft()
        except Exception as error:  # The pod that was visited; the others follow.
            stack = traceback.format_exc()
            log.error(error, "Moving a pod to another queue failed", stack=stack)
        if self._under_way:
            self._later(self._next_slice)
        else:
            self._held.close()
        self._after_slice()

    @staticmethod
    def _advance(request: _Request, most: int | None) -> bool:
        """Visits at most so many more pods; whether there may be no others."""
        visited = 0
        for queued in islice(request.pods, most):
            request.visit(queued)
            visited += 1
        return most is None or visited < most
