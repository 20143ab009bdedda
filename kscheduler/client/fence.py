"""Writes that may only be sent while something still holds: a lease, in the scheduler's case.

A request can be old when its turn comes: it waited for our rate limit or for a connection, or the
whole process was stopped. So the question is asked again in the very step that hands the first
byte to the socket, and a refused request leaves nothing on the wire. What remains is a process
stopped between that question and the system call right behind it.

    open ──time passes──▶ closed ──renewal──▶ open     same term: writes wait for the renewal
    open or closed ──another holder──▶ over            writes of the term are refused for good
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kscheduler.client.errors import Withheld

# For how many more seconds a write may be sent; none, when not positive.
SecondsLeft = Callable[[], float]

# The term of no holder, in which nothing may be written.
NO_TERM = 0


class Fence:
    """Lets writes through while `held` has seconds left.

    `held` returns the term and the seconds; another thread may keep it up to date. `changed` is to
    be called, in the loop's own thread, when the lease was renewed or the term is over: writes may
    be waiting for that.
    """

    def __init__(self, held: Callable[[], tuple[int, float]]) -> None:
        self.held = held
        self._waiting: set[asyncio.Future[None]] = set()

    def grant(self) -> "Grant":
        """The right of a write that begins now."""
        return Grant(self)

    def changed(self) -> None:
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def opened(self) -> None:
        """Return when writes are let through, in whatever term."""
        while self.held()[1] <= 0:
            await self.change()

    async def change(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            await waiter
        finally:
            self._waiting.discard(waiter)


class Grant:
    """The right of one write, decided in one term: what is decided in one is not sent in another,
    because another holder may have decided otherwise in between.
    """

    __slots__ = ("_fence", "_term")

    def __init__(self, fence: Fence) -> None:
        self._fence = fence
        self._term = fence.held()[0]

    def __call__(self) -> float:
        term, seconds = self._fence.held()
        return seconds if term == self._term else 0.0

    async def reopened(self) -> bool:
        """Wait for the renewal that lets the write through; False if the term is over."""
        while True:
            term, seconds = self._fence.held()
            if term == NO_TERM or term != self._term:
                return False
            if seconds > 0:
                return True
            await self._fence.change()


@contextmanager
def ending_when_closed(limit: asyncio.Timeout, left: SecondsLeft) -> Iterator[None]:
    """Within this, `limit` expires when the fence closes: asked again whenever it was about to."""
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None

    def check() -> None:
        nonlocal timer
        seconds = left()
        if seconds > 0:
            timer = loop.call_later(seconds, check)
        elif not limit.expired():
            limit.reschedule(loop.time())

    check()
    try:
        yield
    finally:
        if timer is not None:
            timer.cancel()


def withheld(request: str) -> Withheld:
    return Withheld(request, "not sent, because the lease has run out")
