"""Who is measured: kube-scheduler, kscheduler, and a client that only binds.

All are processes of their own and the same user, over TLS. Both schedulers get the same
configuration and flags: limits as asked, no leader election, everything else at its default;
kube-scheduler speaks protobuf, as is its default. Their logs go to a file at the default level.
kscheduler runs from byte code, as it does where it is installed by pip.
"""

import atexit
import functools
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.bench.processes import running
from tests.controlplane.binaries import program
from tests.controlplane.plane import ControlPlane, free_port

USER = "kube-scheduler"
OURS, THEIRS, FLOOR = "kscheduler", "kube-scheduler", "bindings only"
# Ours, keeping every other block of its decisions for explanations.
ALTERNATING = "keeping decisions in turn"
THEIR_CONTENT_TYPE = "application/vnd.kubernetes.protobuf"


class Limits(NamedTuple):
    """Requests per second that a scheduler allows itself."""

    qps: int
    burst: int


LIFTED = Limits(5000, 5000)
STOCK = Limits(50, 100)


class Contestant(NamedTuple):
    process: subprocess.Popen[str]
    log: Path


@contextmanager
def contestant(
    who: str, plane: ControlPlane, limits: Limits, told: Mapping[str, object]
) -> Iterator[Contestant]:
    """One that has just been started, and told this beside its connection."""
    log = plane.folder / "contestant.log"
    options = {"env": {**os.environ, **compiled()}} if who in (OURS, ALTERNATING) else {}
    with (
        log.open("wb") as output,
        running(
            command(who, plane, limits, told), stdout=output, stderr=output, **options
        ) as process,
    ):
        yield Contestant(process, log)


@functools.cache
def compiled() -> dict[str, str]:
    """Settings of a Python that finds the project compiled, whatever this process was told."""
    folder = tempfile.mkdtemp(prefix="bench-byte-code-")
    atexit.register(shutil.rmtree, folder)
    settings = {"PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
    code = (
        "import kscheduler.app, kscheduler.cli.daemon, kscheduler.serving.endpoints\n"
        # Plugins are imported when somebody asks for them.
        "from kscheduler.plugins import catalog\n"
        "catalog()\n"
    )
    subprocess.run([sys.executable, "-c", code], env={**os.environ, **settings}, check=True)
    return settings


def command(who: str, plane: ControlPlane, limits: Limits, told: Mapping[str, object]) -> list[str]:
    if who == FLOOR:
        authority = f"--authority={plane.folder / 'ca.crt'}"
        token = f"--token={plane.tokens[USER]}"
        return [sys.executable, "-m", "tests.bench.floor", f"--port={plane.port}", authority, token]
    config = plane.folder / "scheduler.yaml"
    document = configuration(who, plane.folder / f"{USER}.kubeconfig", limits)
    config.write_text(json.dumps(document | told))
    ours = Path(sysconfig.get_path("scripts")) / OURS
    path = program(THEIRS) if who == THEIRS else ours
    port = f"--secure-port={free_port()}"
    program_and_arguments = [str(path)]
    if who == ALTERNATING:
        module = [sys.executable, "-m", "tests.bench.alternating"]
        program_and_arguments = [*module, str(blocks_file(plane))]
    return [*program_and_arguments, f"--config={config}", "--bind-address=127.0.0.1", port]


def blocks_file(plane: ControlPlane) -> Path:
    """Written by the one that keeps decisions in turn."""
    return plane.folder / "blocks.jsonl"


def configuration(who: str, kubeconfig: Path, limits: Limits) -> dict[str, object]:
    connection = {
        "kubeconfig": str(kubeconfig),
        "contentType": THEIR_CONTENT_TYPE if who == THEIRS else "application/json",
        "qps": limits.qps,
        "burst": limits.burst,
    }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": connection,
        "leaderElection": {"leaderElect": False},
    }


def version(who: str) -> str:
    """What it says about itself."""
    ours = str(Path(sysconfig.get_path("scripts")) / OURS)
    path = ours if who == OURS else str(program(who))
    told = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
    return told.stdout.splitlines()[0]
