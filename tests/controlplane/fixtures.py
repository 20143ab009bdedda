"""The control plane of a test run: one, however many processes share the run.

A folder's conftest imports `run_folder` and `control_plane`; `locked` keeps tests apart that
cannot share.
"""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.controlplane import binaries, build
from tests.controlplane.plane import START_SECONDS

BUILD_VARIABLE = "KSCHEDULER_BUILD_CONTROLPLANE"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory) -> Path:
    """The same for all processes of a run."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if _is_worker() else base


@pytest.fixture(scope="session")
def control_plane(run_folder) -> Path:
    """The folder of a running control plane, which ends with the run."""
    have_programs_or_skip()
    folder = run_folder / "controlplane"
    with locked(run_folder / "controlplane.lock"):
        if not (folder / "up.pid").exists():
            _start_control_plane(folder)
    return folder


def have_programs_or_skip() -> None:
    """What an ordinary run tests does not depend on what was once built on this machine; a run
    that was told to build fails when it cannot.
    """
    if os.environ.get(binaries.ASSETS_VARIABLE):
        if lacking := " and ".join(binaries.missing()):
            pytest.fail(f"{binaries.folder()} has no {lacking}. {binaries.INSTEAD}")
    elif os.environ.get(BUILD_VARIABLE):
        build.build()
    else:
        pytest.skip("a real API server, which `make e2e` builds")


def _start_control_plane(folder: Path) -> None:
    run = os.getppid() if _is_worker() else os.getpid()
    flags = ("--dir", folder, "--detach", "--while-alive", str(run))
    command = [sys.executable, "-m", "tests.controlplane.up", *flags]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=2 * START_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr


def _is_worker() -> bool:
    return "PYTEST_XDIST_WORKER" in os.environ
