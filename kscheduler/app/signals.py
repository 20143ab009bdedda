"""What signals do: INT and TERM end the process, USR2 makes it tell what it knows."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine

IMPATIENT = 1


def stop_on_signals(stop: Callable[[], object], *, echo_seconds: float = 0.0) -> None:
    """The first signal calls `stop`, the second ends the process at once.

    What comes within `echo_seconds` is the first one again, by way of a shell or make. A later
    call of this replaces an earlier one.
    """
    loop = asyncio.get_running_loop()
    stopped_at: float | None = None

    def heard() -> None:
        nonlocal stopped_at
        if stopped_at is None:
            stopped_at = loop.time()
            stop()
        elif loop.time() - stopped_at >= echo_seconds:
            os._exit(IMPATIENT)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, heard)


def tell_on_signal(tell: Callable[[], Coroutine[object, object, None]]) -> None:
    """Each signal starts `tell`, unless it is still under way."""
    loop = asyncio.get_running_loop()
    under_way: asyncio.Task[None] | None = None

    def heard() -> None:
        nonlocal under_way
        if under_way is None or under_way.done():
            under_way = loop.create_task(tell(), name="signals/tell")

    loop.add_signal_handler(signal.SIGUSR2, heard)
