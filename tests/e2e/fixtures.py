"""Clusters to test against: the embedded one, and a real etcd and kube-apiserver.

One server per run, however many processes share the run; one namespace per test. Nodes have no
namespace, so a test has the real server to itself.
"""

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.controlplane.binaries import ASSETS_VARIABLE, MissingProgramError, program
from tests.controlplane.fixtures import control_plane, locked, run_folder
from tests.e2e.api import RefusedError, until
from tests.e2e.cluster import Cluster, open_cluster
from tests.kit.manifests import pod_manifest

__all__ = ["control_plane", "run_folder"]

REAL = "kube-apiserver"
SANDBOX = "sandbox"


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory) -> Iterator[Path]:
    """The folder of a running embedded cluster."""
    folder = tmp_path_factory.mktemp("sandbox")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.e2e.sandbox_server", folder],
        stdout=subprocess.PIPE,
        text=True,
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
    real = request.param == REAL
    server: Path = request.getfixturevalue("control_plane" if real else SANDBOX)
    with locked(run_folder / "controlplane.in-use" if real else tmp_path / "lock"):
        async with open_cluster(server, tmp_path) as cluster:
            try:
                yield cluster
            finally:
                await cluster.end_daemons()
                await cluster.clear()


@pytest.fixture
async def priorities(cluster) -> AsyncIterator[dict[str, dict[str, str]]]:
    """What a pod's spec says to be this important."""
    classes = {
        "low": {"value": 10},
        "middle": {"value": 100},
        "high": {"value": 1000},
        "polite": {"value": 1000, "preemptionPolicy": "Never"},
    }
    names = {short: f"{cluster.namespace}-{short}" for short in classes}
    for short, body in classes.items():
        await cluster.api.create("priorityclasses", {"metadata": {"name": names[short]}, **body})
    fields = {short: {"priorityClassName": name} for short, name in names.items()}

    async def admitted() -> bool:
        try:
            body = pod_manifest("probe", **fields["polite"])
            where = f"api/v1/namespaces/{cluster.namespace}/pods"
            await cluster.api.send("POST", where, body, dryRun="All")
        except RefusedError as error:
            if "no PriorityClass with name" not in str(error):
                raise
            return False
        return True

    # A server learns of classes in the order of their making, but not at once.
    await until(admitted, "the last class is known")
    yield fields
    for name in names.values():
        await cluster.api.delete("priorityclasses", name)


def profile_named(scheduler: str) -> str:
    """The part of a configuration file that gives a scheduler its name."""
    return f"profiles: [{{schedulerName: {scheduler}}}]\n"


def real_kube_scheduler() -> Path:
    """The original; without it, the test is skipped."""
    try:
        return program("kube-scheduler")
    except MissingProgramError as error:
        pytest.skip(f"kube-scheduler, which {ASSETS_VARIABLE} lacks: {error}")
