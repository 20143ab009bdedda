"""Turns of requests that wait for a connection."""

import asyncio
from collections import deque

# While urgent ones wait, one turn in so many is for the others.
URGENT_IN_A_ROW = 7
# Turns at first. Each one that ends makes another; all are there when somebody has waited so long.
FIRST_TURNS = 3
FIRST_WAIT_SECONDS = 0.1


class Turns:
    """At most `limit` at a time, and few at first; who waits gets the next turn in the order of
    arrival, but the urgent before others, which are never left out for long.

    A turn may need a new connection, and the handshakes of many at once hold up the first answers,
    after which fewer are needed.
    """

    def __init__(self, limit: int) -> None:
        self._free = min(FIRST_TURNS, limit)
        self._later = limit - self._free
        self._urgent: deque[asyncio.Future[None]] = deque()
        self._others: deque[asyncio.Future[None]] = deque()
        self._in_a_row = 0
        self._first_wait: asyncio.TimerHandle | None = None

    @property
    def all_taken(self) -> bool:
        return not self._free

    async def take(self, *, urgent: bool) -> None:
        if self._free:
            self._free -= 1
            return
        loop = asyncio.get_running_loop()
        if self._later and self._first_wait is None:
            self._first_wait = loop.call_later(FIRST_WAIT_SECONDS, self._add_all)
        turn = loop.create_future()
        (self._urgent if urgent else self._others).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                # It came in the same moment; somebody else takes it.
                self.give_back()
            raise

    def give_back(self) -> None:
        """The turn is over; whoever waits has the next."""
        if self._later:
            self._add()
        self._pass_on()

    def _add(self) -> None:
        self._later -= 1
        self._pass_on()

    def _add_all(self) -> None:
        """Whatever holds up the first turns, it shall not hold up the others."""
        while self._later:
            self._add()

    def _pass_on(self) -> None:
        waiting = self._next_in_line()
        if waiting is None:
            self._free += 1
        else:
            waiting.set_result(None)

    def _next_in_line(self) -> asyncio.Future[None] | None:
        others_first = self._in_a_row >= URGENT_IN_A_ROW
        queues = (self._others, self._urgent) if others_first else (self._urgent, self._others)
        for queue in queues:
            while queue:
                waiting = queue.popleft()
                if not waiting.cancelled():
                    self._in_a_row = self._in_a_row + 1 if queue is self._urgent else 0
                    return waiting
        return None
