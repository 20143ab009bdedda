"""Starts a control plane for tests: etcd and kube-apiserver on loopback, nothing else.

    python -m tests.controlplane.up --dir DIR [--port P] [--detach]

Writes DIR/kubeconfig, prints `ready`, and stays until SIGTERM; with --detach it returns then, and
`down --dir DIR` ends it. Programs come from KUBEBUILDER_ASSETS, or are built once (see
`build`).
"""

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.controlplane import build
from tests.controlplane.binaries import MissingProgramError
from tests.controlplane.plane import ControlPlane, ControlPlaneError, alive

CHECK_SECONDS = 0.5
READY = "ready"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dir", type=Path, required=True, help="where everything is kept")
    parser.add_argument("--port", type=int, default=0, help="of kube-apiserver; 0 takes a free one")
    parser.add_argument("--detach", action="store_true", help="return when it is ready")
    parser.add_argument(
        "--while-alive", type=int, metavar="PID", default=0, help="end when this process has ended"
    )
    return parser.parse_args()


def attend(folder: Path, port: int, companion: int) -> int:
    """Runs the control plane until a signal, the companion's end, or a program's own end."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    plane = ControlPlane(folder, port)
    pid_file = folder / "up.pid"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    pid_file.write_text(f"{os.getpid()}\n")
    try:
        plane.start()
        print(READY, flush=True)
        while not stop.wait(CHECK_SECONDS):
            plane.check()
            if companion and not alive(companion):
                break
    finally:
        plane.stop()
        pid_file.unlink(missing_ok=True)
    return 0


def detach(folder: Path) -> int:
    """Leaves a process like this one behind, when it has become ready."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    log = folder / "up.log"
    flags = [word for word in sys.argv[1:] if word != "--detach"]
    command = [sys.executable, "-m", "tests.controlplane.up", *flags]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    while READY not in log.read_text().splitlines():
        if process.poll() is not None:
            raise ControlPlaneError(log.read_text().strip())
        time.sleep(CHECK_SECONDS)
    print(READY, flush=True)
    return 0


def main() -> int:
    given = arguments()
    folder = given.dir.absolute()
    try:
        build.build_unless_named()
        if given.detach:
            return detach(folder)
        return attend(folder, given.port, given.while_alive)
    except (MissingProgramError, ControlPlaneError, build.BuildError) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
