"""All that a row of the matrix works with: a server, a proxy, schedulers, pods and stand-ins.

    async with Rig(server, folder, THEIRS, seed=7) as rig:
        await rig.start_schedulers()
        ...
        with rig.proxy.rule(Rule(Refusal(503), share=0.3)):
            await rig.pause(10)

`server` is a folder with the kubeconfigs of a control plane or of the embedded API server.
"""

import asyncio
import json
import random
import ssl
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import yaml

from tests.controlplane.certificates import Authority, write_certificates, write_private
from tests.controlplane.plane import ControlPlane
from tests.e2e.api import Api, _context
from tests.faults.mirror import Mirror
from tests.faults.proxy import Proxy, Target
from tests.faults.scheduler import Scheduler
from tests.faults.stand_ins import ClaimController, Hands, Kubelets, VolumeController
from tests.faults.workload import Workload
from tests.kit.polling import until

USER = "kube-scheduler"
# Pods per second.
RATE = 15.0
MIRRORED = (
    "pods",
    "nodes",
    "persistentvolumes",
    "persistentvolumeclaims",
    "resourceclaims",
)
WARM_UP_SECONDS = 60.0
LOOK_SECONDS = 0.1
# Between the end of a process and its next start.
RESTART_SECONDS = 1.0


class Rig:
    """One run of one row with one scheduler."""

    def __init__(
        self,
        server: Path,
        folder: Path,
        who: str,
        seed: int,
        *,
        plane: ControlPlane | None = None,
        scale: float = 1.0,
    ) -> None:
        """Durations are multiplied by `scale`. Rows that restart the server need its `plane`."""
        self.who = who
        self.seed = seed
        self.rng = random.Random(f"{seed}/rig")
        self.plane = plane
        self.scale = scale
        self.folder = folder.absolute()
        self.server = server
        self.schedulers: list[Scheduler] = []
        self.notes: dict[str, float] = {}
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[Any]] = []

    async def __aenter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.api = Api(self.server / "kubeconfig")
        self._stack.push_async_callback(self.api.close)
        self.mirrors = {name: Mirror(self.api, name) for name in MIRRORED}
        pods, nodes, volumes, volume_claims, claims = self.mirrors.values()
        self.hands = Hands()
        self.kubelets = Kubelets(self.api, self.hands, pods, nodes)
        VolumeController(self.api, self.hands, volumes, volume_claims)
        ClaimController(self.api, self.hands, pods, claims)
        namespace = f"faults-{self.rng.randrange(1 << 32):08x}"
        self.workload = Workload(self.api, namespace, pods, self.seed)
        self.proxy = self._make_proxy()
        self._stack.push_async_callback(self.proxy.close)
        self._stack.push_async_callback(self._end_schedulers)
        # First of all: the supervisor would start again what has ended.
        self._stack.push_async_callback(self._end_tasks)
        try:
            self.start_task(self.hands.run(), "stand-ins")
            for name, mirror in self.mirrors.items():
                self.start_task(mirror.run(), f"mirror/{name}")
            for mirror in self.mirrors.values():
                await mirror.synced.wait()
            await self.workload.prepare()
            self.slices = await self.api.list("resourceslices")
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.proxy.write_log(self.folder / "proxy.jsonl")
        await self._stack.aclose()

    def start_task(self, work: Any, name: str) -> "asyncio.Task[Any]":
        """Ended with the rig, if it has not ended before."""
        task = asyncio.create_task(work, name=name)
        self._tasks.append(task)
        return task

    async def _end_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _end_schedulers(self) -> None:
        for scheduler in self.schedulers:
            if scheduler.running:
                await scheduler.stop()

    def _make_proxy(self) -> Proxy:
        """Its certificate is by an authority of its own."""
        cluster = yaml.safe_load((self.server / "kubeconfig").read_text())["clusters"][0]["cluster"]
        address = urlsplit(cluster["server"])
        assert address.hostname
        assert address.port
        self.authority = Authority()
        write_certificates(self.folder, {}, self.authority)
        serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        serving.load_cert_chain(self.folder / "apiserver.crt", self.folder / "apiserver.key")
        serving.set_alpn_protocols(["http/1.1"])
        target = Target(address.hostname, address.port, _context(cluster))
        return Proxy(target, serving, random.Random(f"{self.seed}/proxy"))

    async def add_scheduler(
        self,
        configured: Mapping[str, Any] | None = None,
        *,
        flags: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        speaks_json: bool = False,
    ) -> Scheduler:
        """Another replica, with a listener of its own; not started yet."""
        name = f"{self.who}-{len(self.schedulers)}"
        listener = await self.proxy.listen(name)
        direct = self.server / f"{USER}.kubeconfig"
        config = yaml.safe_load(direct.read_text())
        config["clusters"][0]["cluster"] = {
            "server": f"https://127.0.0.1:{listener.port}",
            "certificate-authority": str(self.folder / "ca.crt"),
        }
        token = self.folder / f"{name}.token"
        write_private(token, config["users"][0]["user"].pop("token"))
        config["users"][0]["user"]["tokenFile"] = str(token)
        kubeconfig = self.folder / f"{name}.kubeconfig"
        write_private(kubeconfig, json.dumps(config))
        scheduler = Scheduler(
            self.who,
            name,
            self.folder,
            kubeconfig=kubeconfig,
            direct=direct,
            token=self.api.token,
            configured=configured or {},
            flags=flags,
            environment=environment,
            speaks_json=speaks_json,
        )
        self.schedulers.append(scheduler)
        return scheduler

    @property
    def scheduler(self) -> Scheduler:
        """The only replica, or the first of them."""
        return self.schedulers[0]

    def acting(self) -> Scheduler | None:
        """The replica that decides; rows with leader election know better."""
        return next((one for one in self.schedulers if one.running), None)

    async def warm_up(self) -> None:
        """Until pods are bound: the scheduler is in sync, and past its first decisions."""
        for _ in range(3):
            await self.workload.one_more("plain")
        await self.settled("the first pods are bound", WARM_UP_SECONDS)

    async def settled(self, what: str, seconds: float) -> None:
        """Until every pod that should be on a node is."""

        await until(
            lambda: not self.workload.waiting, what, seconds=seconds, longest_pause=LOOK_SECONDS / 2
        )

    async def supervise(self) -> None:
        """A kubelet's part: a scheduler that has ended by itself is started again."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for scheduler in self.schedulers:
                if scheduler.note_exit():
                    await asyncio.sleep(RESTART_SECONDS)
                    await scheduler.start()

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds * self.scale)

    def bindings(self) -> dict[str, list[str]]:
        """By pod, which scheduler's bindings of it were carried out."""
        found: dict[str, list[str]] = {}
        for entry in self.proxy.entries:
            if entry.what == "pods/binding" and entry.server_status == 201:
                found.setdefault(entry.name, []).append(entry.who)
        return found
