"""The controllers of a real cluster in a sandbox: kube-controller-manager, started against it.

It does what `ControllerManager` does otherwise, but for volumes: no cluster has a provisioner of
itself, so that binding, making and attaching them stays with the sandbox. Namespaces and service
accounts are the API server's own.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kscheduler.sandbox import Exchange, User
from kscheduler.sandbox.access.users import MASTERS
from kscheduler.sandbox.controllers.cluster_roles import ClusterRoleAggregationController
from kscheduler.sandbox.controllers.volumes import VolumeControllers

if TYPE_CHECKING:
    from kscheduler.sandbox import ApiServer

PROGRAM = "kube-controller-manager"
BUILTIN, REAL = "builtin", "real"
USER = User(f"system:{PROGRAM}", (MASTERS,))
CONTROLLERS = (
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "device-taint-eviction-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "job-controller",
    "node-lifecycle-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "resourceclaim-controller",
    "statefulset-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
)
# Kinds whose status tells which generation of them its controller has seen; and all that it must
# watch before it can be said to have nothing to do.
_OBSERVED = ("daemonsets.apps", "deployments.apps", "replicasets.apps", "statefulsets.apps")
_WATCHED = {
    "/api/v1/pods",
    "/apis/apps/v1/daemonsets",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/replicasets",
    "/apis/apps/v1/statefulsets",
    "/apis/batch/v1/jobs",
}
# Without a write for so long, it rests.
_QUIET_SECONDS = 2.0
_STOP_SECONDS = 10.0


def find_program(wanted: str) -> Path | None:
    """The program that `--controllers` asks for; None for the sandbox's own controllers."""
    if wanted == BUILTIN:
        return None
    found = shutil.which(PROGRAM if wanted == REAL else wanted)
    if found is not None:
        return Path(found)
    if wanted == REAL:
        raise click.UsageError(
            f"--controllers=real needs {PROGRAM} on PATH; --controllers=FILE names it elsewhere"
        )
    raise click.UsageError(
        f"--controllers={wanted}: there is no such program; "
        f"use {BUILTIN}, {REAL}, or the file name of {PROGRAM}"
    )


class RealControllers:
    """kube-controller-manager as a process, in place of `ControllerManager`.

    `folder` gets its kubeconfig and its log.
    """

    def __init__(self, api: ApiServer, program: Path, folder: Path) -> None:
        self._api = api
        self._program = program
        self._folder = folder
        self._watching: set[str] = set()
        self._wrote_at = time.monotonic()
        api.hooks.append(self._note)

    def _note(self, exchange: Exchange) -> None:
        if exchange.user.name != USER.name:
            return
        if exchange.method != "GET":
            self._wrote_at = time.monotonic()
        elif exchange.query.get("watch"):
            self._watching.add(exchange.path)
            self._wrote_at = time.monotonic()

    @property
    def is_idle(self) -> bool:
        """Whether it has seen all workloads and has written nothing for a while."""
        return (
            self._watching >= _WATCHED
            and time.monotonic() - self._wrote_at > _QUIET_SECONDS
            and all(
                (item.get("status") or {}).get("observedGeneration", 0)
                >= item["metadata"].get("generation", 0)
                for resource in _OBSERVED
                for item in self._api.objects.list(resource)
            )
        )

    async def run(self) -> None:
        """Until cancelled, or it ends of itself, which is an error."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(VolumeControllers(self._api.registry).run(), name="sandbox/volumes")
            roles = ClusterRoleAggregationController(self._api.registry)
            tasks.create_task(roles.run(), name=f"sandbox/{roles.name}")
            tasks.create_task(self._run_program(), name=f"sandbox/{PROGRAM}")

    async def _run_program(self) -> None:
        kubeconfig = self._folder / f"{PROGRAM}.kubeconfig"
        self._api.write_kubeconfig(kubeconfig, USER)
        log = self._folder / f"{PROGRAM}.log"
        flags = (
            f"--kubeconfig={kubeconfig}",
            f"--controllers={','.join(CONTROLLERS)}",
            # The sandbox reads protobuf of some kinds only.
            "--kube-api-content-type=application/json",
            "--leader-elect=false",
            "--secure-port=0",
        )
        with log.open("wb") as output:
            # In a session of its own, so that Ctrl-C is for us alone.
            process = await asyncio.create_subprocess_exec(
                self._program, *flags, stdout=output, stderr=output, start_new_session=True
            )
        try:
            code = await process.wait()
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
                with suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), _STOP_SECONDS)
            if process.returncode is None:
                process.kill()
        last = log.read_text(errors="replace").splitlines()[-1:] or ["it said nothing"]
        raise click.ClickException(f"{self._program} ended with code {code}: {last[0]}")
