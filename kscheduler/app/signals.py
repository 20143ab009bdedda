"""Signals: INT and TERM end the process, USR2 dumps cache and queue into the log."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine

IMPATIENT = 1


def stop_on_signals(
    stop: Callable[[], object],
    *,
    echo_seconds: float = 0.0,
    hang_up: bool = False,
    before_exit: Callable[[], object] = lambda: None,
) -> None:
    """The first signal calls `stop`, the second ends the process at once, after `before_exit`.

    A signal within `echo_seconds` of the first counts as the same one, which a shell or make has
    passed on. With `hang_up`, a closed terminal counts as a signal, too, unless the process was
    started to ignore that (by nohup). A later call of this replaces an earlier one.
    """
    loop = asyncio.get_running_loop()
    stopped_at: float | None = None

    def on_signal() -> None:
        nonlocal stopped_at
        if stopped_at is None:
            stopped_at = loop.time()
            stop()
        elif loop.time() - stopped_at >= echo_seconds:
            before_exit()
            os._exit(IMPATIENT)

    numbers = [signal.SIGINT, signal.SIGTERM]
    if hang_up and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, on_signal)


def dump_on_signal(dump: Callable[[], Coroutine[object, object, None]]) -> None:
    """Each signal starts `dump`, unless it is still under way."""
    loop = asyncio.get_running_loop()
    under_way: asyncio.Task[None] | None = None

    def on_signal() -> None:
        nonlocal under_way
        if under_way is None or under_way.done():
            under_way = loop.create_task(dump(), name="signals/dump")

    loop.add_signal_handler(signal.SIGUSR2, on_signal)
