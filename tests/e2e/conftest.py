"""Clusters to test against: the embedded one, and a real etcd and kube-apiserver.

One server per run, however many processes share the run; one namespace per test. Nodes have no
namespace, so a test has the real server to itself.
"""

import fcntl
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.controlplane import binaries, build
from tests.controlplane.plane import START_SECONDS
from tests.e2e.api import Api
from tests.e2e.cluster import USER, Cluster

BUILD_VARIABLE = "KSCHEDULER_BUILD_CONTROLPLANE"
REAL = "kube-apiserver"
SANDBOX = "sandbox"
HERE = Path(__file__).parent


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory) -> Path:
    """The same for all processes of a run."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def control_plane(run_folder) -> Path:
    """The folder of a running control plane, which ends with the run."""
    _wanted_or_skip()
    if binaries.missing():
        _build_or_skip()
    folder = run_folder / "controlplane"
    with locked(run_folder / "controlplane.lock"):
        if not (folder / "up.pid").exists():
            _start_control_plane(folder)
    return folder


def _wanted_or_skip() -> None:
    """What an ordinary run tests does not depend on what was once built on this machine."""
    if not (os.environ.get(binaries.ASSETS_VARIABLE) or os.environ.get(BUILD_VARIABLE)):
        pytest.skip(
            "NOT TESTED against a real API server: `make e2e` does that, "
            f"and so does any run with {binaries.ASSETS_VARIABLE} set."
        )


def _build_or_skip() -> None:
    if os.environ.get(binaries.ASSETS_VARIABLE) or not os.environ.get(BUILD_VARIABLE):
        lacking = " and ".join(binaries.missing())
        pytest.skip(f"NOT TESTED against a real API server: no {lacking}. {binaries.INSTEAD}")
    build.build()


def _start_control_plane(folder: Path) -> None:
    run = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    script = HERE.parent / "controlplane" / "up.py"
    command = [sys.executable, script, "--dir", folder, "--detach", "--while-alive", str(run)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=2 * START_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory) -> Iterator[Path]:
    """The folder of a running embedded cluster."""
    folder = tmp_path_factory.mktemp("sandbox")
    process = subprocess.Popen(
        [sys.executable, HERE / "sandbox_server.py", folder], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        yield folder
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


@pytest.fixture(params=[REAL, SANDBOX])
async def cluster(request, run_folder, tmp_path) -> AsyncIterator[Cluster]:
    """Each test once on either server; what it leaves in its daemons' logs is looked at."""
    name = request.param
    folder: Path = request.getfixturevalue("control_plane" if name == REAL else SANDBOX)
    lock = run_folder / "controlplane.in-use" if name == REAL else tmp_path / "lock"
    with locked(lock):
        api = Api(folder / "kubeconfig")
        namespace = f"e2e-{uuid.uuid4().hex[:8]}"
        cluster = Cluster(name, api, namespace, tmp_path, folder / f"{USER}.kubeconfig")
        await cluster.grant()
        await api.create("namespaces", {"metadata": {"name": namespace}})
        try:
            yield cluster
            await cluster.end_daemons()
            assert cluster.trouble() == []
        finally:
            await cluster.end_daemons()
            await cluster.clear()
            await api.close()
