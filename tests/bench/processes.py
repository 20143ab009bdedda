"""Programs that a benchmark runs, and what they use of the machine."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TICKS = os.sysconf("SC_CLK_TCK")
END_SECONDS = 10.0


@dataclass
class Usage:
    """What a process has used so far."""

    cpu_seconds: float
    peak_megabytes: float

    @classmethod
    def of(cls, pid: int) -> "Usage":
        # The name in the second field may contain spaces and parentheses.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        status = Path(f"/proc/{pid}/status").read_text()
        peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        ticks = int(fields[11]) + int(fields[12])
        return cls(ticks / TICKS, int(peak.split()[1]) / 1024)


@contextmanager
def running(command: list[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, text=True, **options)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
