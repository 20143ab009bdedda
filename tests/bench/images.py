"""Clusters that are filled once and started many times.

Filling 5,000 nodes through an API server takes longer than most measurements. So what etcd wrote
down is kept, and each measurement gets a control plane of its own around a copy: every scheduler
sees the same objects, in the same order, on a server that has done nothing else.
"""

import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, starmap
from pathlib import Path

from tests.bench.processes import Usage
from tests.bench.quick_client import METADATA_LIST, Request, Server
from tests.bench.scenario import MEASURED, PODS, Scenario, Size, create
from tests.bench.workloads import NAMESPACE
from tests.controlplane.plane import ADMIN, ControlPlane

CREATORS = 24
ETCD, API_SERVER = "etcd", "kube-apiserver"
# The scheduler must be the bottleneck, not the server's fairness between users.
SERVER_FLAGS = ("--max-requests-inflight=3000",)
# A server that has just come up goes on working for itself for a while.
QUIET_SHARE = 0.1
LOOK_SECONDS = 0.5
SETTLE_SECONDS = 8.0


@contextmanager
def image(scenario: Scenario, size: Size) -> Iterator[Path]:
    """The folder of a filled etcd that has ended."""
    folder = Path(tempfile.mkdtemp(prefix="bench-image-"))
    plane = ControlPlane(folder, extra_flags=SERVER_FLAGS)
    try:
        try:
            plane.start()
            asyncio.run(_fill(plane, scenario, size))
            plane.kill_api_server()
        finally:
            plane.stop()
        yield folder / ETCD
    finally:
        shutil.rmtree(folder)


async def _fill(plane: ControlPlane, scenario: Scenario, size: Size) -> None:
    server = administration(plane)
    namespace = create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    await server.send_all([namespace], 1)
    await server.send_all(scenario.objects(size), CREATORS)
    await server.send_all(scenario.statuses(size), CREATORS)
    if scenario.controller:
        pods = await _listed(server)
        await server.send_all(chain.from_iterable(starmap(scenario.controller, pods)), CREATORS)


async def _listed(server: Server) -> list[tuple[str, str]]:
    """Names and UIDs of the measured pods."""
    path = f"{PODS}?labelSelector={MEASURED}"
    async with server.connection() as connection:
        told = json.loads(await connection.demand(Request("GET", path), METADATA_LIST))
    return [(item["metadata"]["name"], item["metadata"]["uid"]) for item in told["items"] or ()]


@contextmanager
def started(image: Path) -> Iterator[ControlPlane]:
    """A control plane around a copy of what is in the image."""
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    plane = ControlPlane(folder, extra_flags=SERVER_FLAGS)
    try:
        shutil.copytree(image, folder / ETCD)
        plane.start()
        _settle(plane.processes[API_SERVER].pid)
        yield plane
    finally:
        # Nobody will read what they would still write.
        for process in plane.processes.values():
            process.kill()
            process.wait()
        shutil.rmtree(folder)


def _settle(pid: int) -> None:
    deadline = time.monotonic() + SETTLE_SECONDS
    used = Usage.of(pid).cpu_seconds
    while time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
        before, used = used, Usage.of(pid).cpu_seconds
        if used - before <= QUIET_SHARE * LOOK_SECONDS:
            return


def administration(plane: ControlPlane) -> Server:
    return Server(plane.port, plane.folder / "ca.crt", plane.tokens[ADMIN])
