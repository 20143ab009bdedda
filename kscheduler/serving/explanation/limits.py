"""Limits per asker and in all; beyond them the answer is 429 with a time to come back."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kscheduler.api.small_groups import UserInfo
from kscheduler.rest.status import StatusError

RETRY_SECONDS = 5
# Askers whose requests of the last minute are remembered.
MAX_REMEMBERED = 1024
MINUTE_SECONDS = 60.0


class Limit:
    """How many of something may go on at the same time."""

    def __init__(self, one: str, many: str, in_all: int, per_asker: int) -> None:
        """`one` and `many` are what it is called."""
        self._one, self._many = one, many
        self._in_all = in_all
        self._per_asker = per_asker
        # Askers that have some, so never more than `in_all`.
        self._taken: Counter[str] = Counter()

    @contextmanager
    def taken_by(self, user: UserInfo) -> Iterator[None]:
        """429 if there are too many already."""
        name = user.username
        if self._taken[name] >= self._per_asker:
            raise too_many(self._going_on(self._per_asker, " of yours"), RETRY_SECONDS)
        if self._taken.total() >= self._in_all:
            raise too_many(self._going_on(self._in_all), RETRY_SECONDS)
        self._taken[name] += 1
        try:
            yield
        finally:
            self._taken[name] -= 1
            self._taken += Counter()  # Drops those at zero.

    def _going_on(self, number: int, whose: str = "") -> str:
        if number == 1:
            return f"1 {self._one}{whose} is going on"
        return f"{number} {self._many}{whose} are going on"


class Rate:
    """How many of something an asker may begin per minute."""

    def __init__(
        self, what: str, per_minute: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._what = what
        self._per_minute = per_minute
        self._clock = clock
        # By asker, the times of the last minute; the one that asked longest ago is forgotten first.
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    def count(self, user: UserInfo) -> None:
        """429 if there were too many in the last minute."""
        now = self._clock()
        times = self._times.pop(user.username, None) or deque()
        while times and times[0] <= now - MINUTE_SECONDS:
            times.popleft()
        self._times[user.username] = times
        if len(times) >= self._per_minute:
            wait = int(times[0] + MINUTE_SECONDS - now) + 1
            raise too_many(f"{self._per_minute} {self._what} per minute are answered", wait)
        times.append(now)
        if len(self._times) > MAX_REMEMBERED:
            self._times.popitem(last=False)


def too_many(why: str, retry_seconds: int) -> StatusError:
    message = f"too many requests: {why}; try again in {retry_seconds} s"
    return StatusError(429, "TooManyRequests", message, {"retryAfterSeconds": retry_seconds})
