"""Pauses of the informers: to let other tasks of the thread run, and to hold deliveries up.

A burst of a thousand changes would otherwise hold up binds and health checks; and a cycle that
waits for an extender must not see the cluster move meanwhile.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

# How long changes are applied without a break.
BUDGET_SECONDS = 0.004


class Gate:
    """A gate for deliveries: open, or held shut by a cycle that needs an unmoving cluster.

    Nothing queues up in memory behind a gate that is shut: reflectors stop reading, their sockets
    fill, and the server waits, or ends a watch that is then resumed where it stopped. A hold is
    therefore bounded by the pipe: at most one read buffer (512 KiB) per watch stays undelivered.
    """

    def __init__(self) -> None:
        self._holds = 0
        self._open = asyncio.Event()
        self._open.set()

    @property
    def shut(self) -> bool:
        return self._holds > 0

    @contextmanager
    def hold(self) -> Iterator[None]:
        self._holds += 1
        self._open.clear()
        try:
            yield
        finally:
            self._holds -= 1
            if not self._holds:
                self._open.set()

    async def passed(self) -> None:
        while self.shut:
            await self._open.wait()


class Pace:
    """The budget of one reflector: `due` is asked before each change, `rest` is awaited when it is.

    After any other await, call `begin` before going on: the gate may have been shut meanwhile.
    """

    __slots__ = ("_gate", "_until")

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._until = 0.0

    def due(self) -> bool:
        """Whether to rest: the budget is used up, or the gate shut, which takes effect at once."""
        return self._gate.shut or time.perf_counter() >= self._until

    async def begin(self) -> None:
        await self._gate.passed()
        self._until = time.perf_counter() + BUDGET_SECONDS

    async def rest(self) -> None:
        await asyncio.sleep(0)
        await self.begin()
