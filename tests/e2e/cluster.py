"""A cluster as a test sees it: a namespace of its own, nodes that are mere objects, no controllers.

Nobody runs pods here. Where a test needs a kubelet or a controller it plays that part itself.
"""

import contextlib
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e import identity
from tests.e2e.api import PATIENCE_SECONDS, Api, Json, RefusedError, until
from tests.e2e.daemon import Daemon

LOG_LINES_TOLD = 60


@asynccontextmanager
async def open_cluster(server: Path, folder: Path) -> "AsyncIterator[Cluster]":
    """A namespace on the server whose kubeconfigs are in `server`, and the daemon's identity there.

    On the way out the daemons end, and none of them may have complained of anything unexpected.
    """
    api = Api(server / "kubeconfig")
    try:
        kubeconfig = await identity.establish(api, server, folder)
        cluster = Cluster(api, f"e2e-{uuid.uuid4().hex[:8]}", folder, kubeconfig, server)
        await api.create("namespaces", {"metadata": {"name": cluster.namespace}})
        try:
            yield cluster
        finally:
            await cluster.end_daemons()
            cluster.show_logs()
        if trouble := cluster.trouble():
            raise AssertionError("\n".join(("a daemon complained:", *trouble)))
    finally:
        await api.close()


@dataclass
class Cluster:
    api: Api
    namespace: str
    folder: Path
    kubeconfig: Path
    # The folder of the server, with the administrator's kubeconfig.
    server: Path
    daemons: list[Daemon] = field(default_factory=list)
    # Texts that make a line of trouble in a daemon's log one that the test has asked for.
    expected_errors: list[str] = field(default_factory=list)

    async def start_daemon(self, *flags: str, program: Path | None = None) -> Daemon:
        """A scheduler in sync with the cluster; without leader election unless flags ask for it."""
        daemon = await self.launch_daemon("--leader-elect=false", *flags, program=program)
        await daemon.in_sync()
        return daemon

    async def launch_daemon(
        self,
        *flags: str,
        program: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Daemon:
        log = self.folder / f"scheduler-{len(self.daemons)}.log"
        where = self.kubeconfig
        delegation = (
            f"--authentication-kubeconfig={where}",
            f"--authorization-kubeconfig={where}",
        )
        known = (f"--kubeconfig={where}", *delegation, *flags)
        daemon = await Daemon.start(
            log, self.api.token, *known, program=program, environment=environment
        )
        self.daemons.append(daemon)
        return daemon

    def config(self, name: str, text: str, kubeconfig: Path | None = None) -> str:
        """The flag for a configuration file of this content."""
        path = self.folder / f"{name}.yaml"
        path.write_text(
            "apiVersion: kubescheduler.config.k8s.io/v1\n"
            "kind: KubeSchedulerConfiguration\n"
            f"clientConnection: {{kubeconfig: {kubeconfig or self.kubeconfig}}}\n"
            "leaderElection: {leaderElect: false}\n" + text
        )
        return f"--config={path}"

    async def create_nodes(self, *nodes: Json) -> None:
        for node in nodes:
            await self.api.create("nodes", node)

    async def change_node(self, name: str, body: Json) -> None:
        """Patch a node; whatever is done next the daemons hear of later."""
        await self.known("nodes", await self.api.patch("nodes", name, body))

    async def known(self, resource: str, changed: Json) -> None:
        """The daemons have seen what the server has made of this object."""
        for daemon in self.daemons:
            if daemon.running:
                await daemon.knows(resource, changed["metadata"]["resourceVersion"])

    async def create_pods(self, *pods: Json) -> None:
        for pod in pods:
            await self.api.create("pods", pod, self.namespace)

    async def pod(self, name: str) -> Json:
        return await self.api.get("pods", name, self.namespace)

    async def node_of(self, name: str, within: float = PATIENCE_SECONDS) -> str:
        """Where a pod was placed, once it is."""

        async def placed() -> str:
            return (await self.pod(name))["spec"].get("nodeName", "")

        return await until(placed, f"pod {name} is bound", seconds=within)

    async def nodes_of(self, *names: str) -> dict[str, str]:
        return {name: await self.node_of(name) for name in names}

    async def refusal_of(self, name: str) -> str:
        """Why a pod was not placed, as its condition says."""

        async def told() -> Json | None:
            condition = scheduled_condition(await self.pod(name))
            return condition if condition.get("status") == "False" else None

        condition = await until(told, f"pod {name} is found unschedulable")
        assert condition is not None
        return condition["message"]

    async def becomes_refused(self, name: str, start: str) -> None:
        async def told() -> bool:
            return (await self.refusal_of(name)).startswith(start)

        await until(told, f"pod {name} is refused with {start!r}")

    async def events(self, name: str, reason: str) -> list[Json]:
        """Events of a kind about an object, as soon as there is one."""

        async def seen() -> list[Json]:
            events = await self.api.list("events", self.namespace)
            return [e for e in events if e["regarding"]["name"] == name and e["reason"] == reason]

        return await until(seen, f"there is an event {reason} about {name}")

    async def mark(self, name: str, phase: str) -> None:
        """What a kubelet reports when a pod runs or has come to its end."""
        await self.api.patch("pods", name, {"status": {"phase": phase}}, self.namespace, "status")

    async def delete_pod(self, name: str) -> None:
        await self.api.delete("pods", name, self.namespace)

    async def patch_pod(self, name: str, body: Json) -> None:
        await self.api.patch("pods", name, body, self.namespace)

    async def end_daemons(self) -> None:
        for daemon in self.daemons:
            if daemon.running:
                await daemon.stop()

    def trouble(self) -> list[str]:
        """What the daemons complained about that nobody expected; a traceback nobody ever does."""
        excused = (*self.expected_errors, *ALWAYS_EXPECTED)
        return [
            line
            for daemon in self.daemons
            for line in daemon.errors()
            if "Traceback" in line or not any(text in line for text in excused)
        ]

    def show_logs(self) -> None:
        """Told with a test that fails, by pytest."""
        for number, daemon in enumerate(self.daemons):
            print(f"--- scheduler {number} said at last:")
            print("\n".join(daemon.log.splitlines()[-LOG_LINES_TOLD:]))

    async def clear(self) -> None:
        """Leave nothing to the next test that a scheduler would see."""
        for namespace in await self.api.list("namespaces"):
            name: str = namespace["metadata"]["name"]
            if name.startswith(self.namespace):
                await self.remove_namespace(name)
        await self.api.delete_all("nodes")
        await self.api.delete_all("leases", identity.NAMESPACE)

    async def remove_namespace(self, name: str) -> None:
        """The namespace controller's part: empty it, then let it go."""
        await self.api.delete("namespaces", name, options={})
        await self.api.delete_all("pods", name)
        await self.api.delete_all("events", name)
        body: dict[str, Any] = {"metadata": {"name": name}, "spec": {"finalizers": []}}
        with contextlib.suppress(RefusedError):
            await self.api.send("PUT", f"api/v1/namespaces/{name}/finalize", body)


# kube-scheduler calls an error that it has got no manifest of metric labels; and, without leader
# election, that it ends when it is asked to.
ALWAYS_EXPECTED = ("The manifest file is empty, ignoring.", "finished without leader elect")


def scheduled_condition(pod: Json) -> Json:
    conditions = pod["status"].get("conditions", [])
    return next((c for c in conditions if c["type"] == "PodScheduled"), {})
