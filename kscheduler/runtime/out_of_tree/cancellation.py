"""Whose cancellation it was, when a plugin's code waits in a task of ours.

Others may cancel the task: the end of a lease, preemption, a bound on the time. That goes through
the plugin's code, which may clean up but not stay. A plugin that cancels the task by itself, or
raises as if someone had, is just at fault.
"""

from __future__ import annotations

import asyncio
from typing import Any


class Cancellation:
    """Of the current task, from here on.

    Who goes on waiting although it was cancelled has `patience` seconds, and is then left behind
    (`is_over`) because `last` is.
    """

    def __init__(self, patience: float) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task: asyncio.Task[Any] = task
        self._before = task.cancelling()
        self._patience = patience
        self.last = asyncio.timeout(None)

    @property
    def _is_under_way(self) -> bool:
        return self._task.cancelling() > self._before

    def is_over(self) -> bool:
        return self.last.expired()

    def count(self) -> int:
        """Before a step of the plugin's; for `stepped` after it."""
        return self._task.cancelling()

    def stepped(self, count: int) -> None:
        """Nobody but the plugin ran meanwhile: a cancellation that is new is its own."""
        while self._task.cancelling() > count:
            self._task.uncancel()
        if self._is_under_way and self._patience and self.last.when() is None:
            self.last.reschedule(asyncio.get_running_loop().time() + self._patience)

    def pass_on(self) -> None:
        """What others meant to cancel is cancelled, whatever the plugin made of it."""
        if self._is_under_way:
            raise asyncio.CancelledError
