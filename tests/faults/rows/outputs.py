"""Row about a log that cannot be written: the disk is full, nobody listens, nobody reads."""

import fcntl
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tests.faults.rig import Rig
from tests.faults.row import Row
from tests.faults.verdict import Outcome

FULL = "/dev/full"
PATIENCE_SECONDS = 15.0
PODS = 30


@contextmanager
def disk_full() -> Iterator[dict[str, Any]]:
    with open(FULL, "wb") as full:
        yield {"stdout": full, "stderr": full}


@contextmanager
def closed() -> Iterator[dict[str, Any]]:
    yield {"wrapper": ("sh", "-c", 'exec "$@" >&- 2>&-', "sh")}


@contextmanager
def unread() -> Iterator[dict[str, Any]]:
    """A pipe that is full, and whose reader does not read."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    os.set_blocking(writer, True)
    try:
        yield {"stdout": writer, "stderr": writer}
    finally:
        os.close(reader)
        os.close(writer)


OUTPUTS = {
    "disk full": disk_full,
    "stdout and stderr closed": closed,
    "reader stands still": unread,
}


class UnwritableLog(Row):
    """One process after the other with such an output; each must bind the pods that come."""

    number = 27
    title = "log to a full disk, to closed files, to a reader that does not read"

    async def fault(self, rig: Rig) -> None:
        rig.workload.enough.set()
        scheduler = rig.scheduler
        for what, output in OUTPUTS.items():
            with suppress(AssertionError):
                await rig.settled("pods of before are bound", PATIENCE_SECONDS)
            await scheduler.stop(signal.SIGKILL)
            with output() as options:
                await scheduler.start(**options)
                rig.proxy.counts[what] += 1
                for _ in range(PODS):
                    await rig.workload.one_more()
                began = time.monotonic()
                with suppress(AssertionError):
                    await rig.settled("pods are bound", PATIENCE_SECONDS)
                rig.notes[f"{what}: pods not bound"] = len(rig.workload.waiting)
                rig.notes[f"{what}: s"] = round(time.monotonic() - began, 1)
                if not scheduler.note_exit():
                    await scheduler.stop(signal.SIGKILL)
            await scheduler.start()

    async def judge(self, rig: Rig, outcome: Outcome, fault_ended: float) -> None:
        await super().judge(rig, outcome, fault_ended)
        for what in OUTPUTS:
            if rig.notes[f"{what}: pods not bound"]:
                outcome.broken.append(f"nothing is scheduled: {what}")


ROWS = (UnwritableLog(),)
