"""Work that outlives the attempt that caused it: done beside the loop, so much at a time.

Plugins leave work here; the app runs it, and with the app it ends. Work that fails does so alone.
"""

from __future__ import annotations

import asyncio
import traceback
from collections import deque
from collections.abc import Awaitable, Callable

from kscheduler import logs

log = logs.logger(__name__)

# Beyond it work waits its turn.
AT_ONCE = 128

Work = Callable[[], Awaitable[None]]


class Background:
    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._waiting: deque[tuple[str, Work]] = deque()
        self._left = asyncio.Event()

    def add(self, name: str, work: Work) -> None:
        """To be done when there is time, in the order in which it was left."""
        self._waiting.append((name, work))
        self._left.set()

    async def run(self) -> None:
        """Until cancelled; what is under way then is cancelled as well."""
        slots = asyncio.Semaphore(self._at_once)
        async with asyncio.TaskGroup() as tasks:
            while True:
                await slots.acquire()
                name, work = await self._next()
                task = tasks.create_task(_contained(name, work), name=name)
                task.add_done_callback(lambda _: slots.release())

    async def _next(self) -> tuple[str, Work]:
        while not self._waiting:
            self._left.clear()
            await self._left.wait()
        return self._waiting.popleft()


async def _contained(name: str, work: Work) -> None:
    try:
        await work()
    except Exception as error:  # Whoever left it has seen it fail; the others go on.
        log.error(error, "Background work failed", work=name, stack=traceback.format_exc())
