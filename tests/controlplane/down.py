"""Ends a control plane that `up` has started.

python -m tests.controlplane.down --dir DIR
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.controlplane.plane import STOP_SECONDS, alive

# By the name of the pid file, a pattern its command line must match: the number may belong to
# another process by now. The first one ends the others; they are asked if it could not.
PROGRAMS = {"up": r"\bup(\.py)? ", "kube-apiserver": "kube-apiserver", "etcd": "etcd"}


def end(folder: Path) -> None:
    for name, mark in PROGRAMS.items():
        path = folder / f"{name}.pid"
        try:
            pid = int(path.read_text())
        except FileNotFoundError:
            continue
        if re.search(mark, command_line(pid)):
            end_process(pid)
        path.unlink(missing_ok=True)


def command_line(pid: int) -> str:
    asked = ["ps", "-ww", "-o", "command=", "-p", str(pid)]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout


def end_process(pid: int) -> None:
    """Politely first; the one that ends others needs their time, too."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not alive(pid):
            return
        os.kill(pid, number)
        deadline = time.monotonic() + 3 * STOP_SECONDS
        while alive(pid) and time.monotonic() < deadline:
            time.sleep(0.05)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dir", type=Path, required=True)
    end(parser.parse_args().dir)
    return 0


if __name__ == "__main__":
    sys.exit(main())
