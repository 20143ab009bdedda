"""A cluster for tests: the sandbox's API server, schedulers beside it, and objects to put in."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from kscheduler.app.daemon import Daemon
from kscheduler.app.startup import setup
from kscheduler.cli.command_line import parse
from kscheduler.errors import KschedulerError
from kscheduler.sandbox import ApiServer, Exchange, User
from tests.kit.checker import Sent
from tests.kit.manifests import pod_manifest
from tests.kit.polling import PATIENCE_SECONDS, until

SCHEDULER = User("system:kube-scheduler").authenticated()

Object = dict[str, Any]


pod = partial(pod_manifest, cpu="100m", namespace="default")


ELECTED = {
    "leaderElect": True,
    "leaseDuration": "60s",
    "renewDeadline": "30s",
    "retryPeriod": "400ms",
}


class Cluster:
    """An API server as tests look at it: who is where, and what was asked of it."""

    def __init__(self, api: ApiServer, folder: Path) -> None:
        self.api = api
        self.folder = folder
        self.sent: list[Sent] = []
        self.bindings = 0  # that were carried out
        api.hooks.append(self._note)

    def _note(self, exchange: Exchange) -> None:
        if exchange.method != "GET":
            self.sent.append(Sent(exchange.method, exchange.path, exchange.body, exchange.status))
            self.bindings += exchange.path.endswith("/binding") and exchange.status == 201

    def create(self, *items: Object) -> None:
        for item in items:
            self.api.objects.create(item)

    def pod(self, name: str, namespace: str = "default") -> Object:
        return self.api.objects.get("pods", name, namespace)

    def pods(self) -> list[Object]:
        return self.api.objects.list("pods")

    def nodes(self) -> list[Object]:
        return self.api.objects.list("nodes")

    def place(self, name: str, namespace: str = "default") -> str | None:
        """The node a pod is bound to, if it is."""
        found = self.api.objects.find("pods", name, namespace)
        return found["spec"].get("nodeName") if found else None

    def places(self) -> dict[str, str | None]:
        return {one["metadata"]["name"]: one["spec"].get("nodeName") for one in self.pods()}

    def waiting(self) -> list[str]:
        return [name for name, where in self.places().items() if where is None]

    def complaint(self, name: str) -> str:
        """What the scheduler says in the pod's status about why it is not placed."""
        return next(
            (
                condition.get("message", "")
                for condition in self.pod(name).get("status", {}).get("conditions", ())
                if condition["type"] == "PodScheduled" and condition["status"] == "False"
            ),
            "",
        )

    def events(self, name: str) -> list[tuple[str, str]]:
        """Reason and text of what was told about a pod."""
        return [
            (event["reason"], event["message"])
            for event in self.api.objects.list("events")
            if event["involvedObject"]["name"] == name
        ]

    def store(self, resource: str, item: Object) -> None:
        """Puts an object in as it is, valid or not."""
        metadata = item["metadata"]
        metadata.setdefault("uid", f"uid-of-{metadata['name']}")
        metadata.setdefault("creationTimestamp", "2026-01-02T03:04:05Z")
        key = (metadata.get("namespace", ""), metadata["name"])
        self.api.store[resource].put(key, item)

    def kubeconfig(self, host: str = "127.0.0.1") -> Path:
        """`host` is the name the server is called by."""
        path = self.folder / f"{len(list(self.folder.iterdir()))}.kubeconfig"
        path.write_text(json.dumps(self.api.kubeconfig()).replace("127.0.0.1", host))
        return path

    def arguments(
        self, *, args: Sequence[str] = (), host: str = "127.0.0.1", **config: Any
    ) -> list[str]:
        """A command line with a config file; `config` holds the file's fields."""
        own = {"kubeconfig": str(self.kubeconfig(host))}
        connection = {**own, **config.pop("clientConnection", {})}
        written = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "podMaxBackoffSeconds": 2,
            **config,
            "clientConnection": {"qps": -1, **connection},
        }
        path = self.folder / f"{len(list(self.folder.iterdir()))}.yaml"
        path.write_text(json.dumps(written))
        return ["--config", str(path), "--secure-port", "0", *args]

    @asynccontextmanager
    async def scheduler(
        self, *, args: Sequence[str] = (), ready: bool = True, **config: Any
    ) -> AsyncIterator["Running"]:
        """A scheduler in this process, in sync if `ready`; it is ended without ceremony."""
        running = Running(self.arguments(args=args, **config))
        try:
            if ready:
                await until(lambda: running.synced)
            yield running
        finally:
            await running.kill()


class Running:
    """A scheduler that runs beside the test."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.daemon: Daemon | None = None
        self.task = asyncio.create_task(self._run(arguments), name="scheduler")

    async def _run(self, arguments: Sequence[str]) -> int:
        options, _ = parse(arguments)
        try:
            async with setup(options, options.gates()) as self.daemon:
                return await self.daemon.run()
        except KschedulerError:
            return 1

    @property
    def synced(self) -> bool:
        if self.task.done():
            self.task.result()
        return self.daemon is not None and self.daemon.synced

    async def stop(self) -> int:
        """As a signal would; returns the exit code."""
        assert self.daemon is not None
        self.daemon.stopping.set()
        return await self.ended()

    async def ended(self) -> int:
        return await asyncio.wait_for(self.task, PATIENCE_SECONDS)

    async def kill(self) -> None:
        self.task.cancel()
        await asyncio.wait({self.task}, timeout=PATIENCE_SECONDS)
        assert self.task.done(), self.task.get_stack()


@asynccontextmanager
async def program(arguments: Sequence[str]) -> AsyncIterator[asyncio.subprocess.Process]:
    """The scheduler as a process of its own, killed at the end if it still runs."""
    started = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from kscheduler.cli import main; main()",
        *arguments,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
        await started.communicate()


def holder(cluster: Cluster) -> str:
    """The identity that holds the scheduler's lease."""
    lease = cluster.api.objects.find("leases.coordination.k8s.io", "kube-scheduler", "kube-system")
    return lease["spec"]["holderIdentity"] if lease else ""
