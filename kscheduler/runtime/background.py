"""Background work: outlives the attempt that caused it, and runs beside the scheduling loop.

Plugins add work; the app runs it, a bounded number of pieces at a time, and it ends with the app.
Work that fails does so alone.
"""

from __future__ import annotations

import asyncio
import traceback
from collections import deque
from collections.abc import Awaitable, Callable

from kscheduler import logs

log = logs.logger(__name__)

# Pieces of work that run at the same time; further ones wait in the order they were added.
MAX_CONCURRENT = 128

Work = Callable[[], Awaitable[None]]


class Background:
    def __init__(self, max_concurrent: int = MAX_CONCURRENT) -> None:
        self._max_concurrent = max_concurrent
        self._waiting: deque[tuple[str, Work]] = deque()
        self._added = asyncio.Event()

    def add(self, name: str, work: Work) -> None:
        """Runs the work when there is time, in the order in which it was added."""
        self._waiting.append((name, work))
        self._added.set()

    async def run(self) -> None:
        """Runs until cancelled; work under way is then cancelled as well."""
        slots = asyncio.Semaphore(self._max_concurrent)
        async with asyncio.TaskGroup() as tasks:
            while True:
                await slots.acquire()
                while not self._waiting:
                    self._added.clear()
                    await self._added.wait()
                name, work = self._waiting.popleft()
                task = tasks.create_task(_contained(name, work), name=name)
                task.add_done_callback(lambda _: slots.release())


async def _contained(name: str, work: Work) -> None:
    try:
        await work()
    except Exception as error:  # One that reached the task group would cancel all other work.
        log.error(error, "Background work failed", work=name, stack=traceback.format_exc())
