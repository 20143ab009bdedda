"""What signals do: INT and TERM end the process, USR2 makes it tell what it knows."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable

IMPATIENT = 1


def stop_on_signals(stop: Callable[[], object]) -> None:
    """The first signal calls `stop`, the second ends the process at once.

    A later call of this replaces an earlier one.
    """
    stopped = False

    def heard() -> None:
        nonlocal stopped
        if stopped:
            os._exit(IMPATIENT)
        stopped = True
        stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, heard)


def tell_on_signal(tell: Callable[[], None]) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, tell)
