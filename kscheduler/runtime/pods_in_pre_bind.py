"""Pods whose plugins are at work before binding; preemption may call that work off.

Calling off cancels the task that binds the pod, once, while it is in PreBind. `run_pre_bind` turns
this into an Error that carries the message; a cancellation from anywhere else goes its way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class PodInPreBind:
    """Between registration and binding: either called off or prebound, whichever is first."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task = task
        self._prebound = False
        self._called_off: str | None = None

    @property
    def called_off(self) -> str | None:
        """Why, if the work was called off."""
        return self._called_off

    def cancel(self, message: str) -> bool:
        """False if it is too late: the pod is being bound."""
        if self._prebound:
            return False
        if self._called_off is None:
            self._called_off = message
            self._task.cancel()
        return True

    def mark_prebound(self) -> bool:
        """False if the work was called off and the pod must not be bound."""
        if self._called_off is not None:
            return False
        self._prebound = True
        return True

    def was_cancelled_only_by_us(self) -> bool:
        """For the code that caught the cancellation: True ends it there, False must pass it on."""
        return self._called_off is not None and self._task.uncancel() == 0


class PodsInPreBind:
    """By uid; shared by all profiles."""

    def __init__(self) -> None:
        self._pods: dict[str, PodInPreBind] = {}

    def get(self, uid: str) -> PodInPreBind | None:
        return self._pods.get(uid)

    @contextmanager
    def registered(self, uid: str) -> Iterator[PodInPreBind]:
        """While inside, the current task can be called off."""
        task = asyncio.current_task()
        assert task is not None
        self._pods[uid] = PodInPreBind(task)
        try:
            yield self._pods[uid]
        finally:
            del self._pods[uid]
