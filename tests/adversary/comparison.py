"""Hostile inputs on a real API server, with one scheduler or the other at work on it.

For each input: its objects are created, its pod after them and a plain pod right after that; then
all is deleted again, and another plain pod shows when the scheduler is done with that. A clock
starts when the API server has agreed to a pod and stops when a watch shows it bound or an event
says that it fits nowhere. Objects that a tenant may create are created in the name of a tenant, so
that the server's own rules say that it may.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import msgspec

from kscheduler.api.resources import RESOURCES
from tests.adversary.inputs import (
    INNOCENT,
    NAMESPACE,
    TENANT,
    Ask,
    Hostile,
    Json,
    encoded,
    feature_labels,
    pod,
)
from tests.adversary.outcomes import Outcome
from tests.bench.contestants import LIFTED, OURS, Contestant, contestant
from tests.bench.images import CREATORS, administration
from tests.bench.quick_client import (
    JSON,
    METADATA_LIST,
    METADATA_ONLY,
    RefusedError,
    Request,
    Server,
)
from tests.bench.workloads import node
from tests.controlplane.plane import ControlPlane

RESOURCE_OF_KIND = {resource.kind: resource for resource in RESOURCES if resource.kind != "Event"}
MERGE_PATCH = "application/merge-patch+json"
AT_ONCE = json.dumps({"gracePeriodSeconds": 0, "propagationPolicy": "Background"}).encode()
BOUND = "/api/v1/pods?watch=true&fieldSelector=spec.nodeName!="
EVENTS = "/apis/events.k8s.io/v1/events?watch=true"
REFUSED = "FailedScheduling"
USER = "tenant"
# What the role `edit` is made of; a controller would put it together.
EDIT = "system:aggregate-to-edit"
READY_SECONDS = 120.0
# Objects of different kinds reach a scheduler by different watches; the pod comes after all.
PAUSE_SECONDS = 0.5
LOOK_SECONDS = 0.1
RIGHTS_LOOKS = 300
# So long memory may take to come back; nobody asks it of the original.
MEMORY_SECONDS = {OURS: 10.0}
ENOUGH_MEGABYTES = 32.0


class _Reference(msgspec.Struct, frozen=True):
    name: str = ""


class _Object(msgspec.Struct):
    metadata: _Reference = _Reference()
    reason: str = ""
    regarding: _Reference = _Reference()


class _Event(msgspec.Struct):
    type: str
    object: _Object


_decode = msgspec.json.Decoder(_Event).decode


class Sightings:
    """When pods were first seen bound, and when they were first told that they fit nowhere."""

    def __init__(self) -> None:
        self.bound: dict[str, float] = {}
        self.refused: dict[str, float] = {}

    def decided(self, name: str) -> float | None:
        known = [at[name] for at in (self.bound, self.refused) if name in at]
        return min(known, default=None)

    async def watch(self, server: Server, path: str, accept: str) -> None:
        """Until cancelled; what a server ends is begun anew."""
        while True:
            async with server.connection() as connection:
                async for line in await connection.follow(path, accept):
                    event = _decode(line)
                    if event.type == "ERROR":
                        break
                    self._see(event.object, time.monotonic())

    def _see(self, item: _Object, now: float) -> None:
        if item.reason == REFUSED:
            self.refused.setdefault(item.regarding.name, now)
        elif not item.reason:
            self.bound.setdefault(item.metadata.name, now)


@asynccontextmanager
async def sightings(server: Server) -> AsyncIterator[Sightings]:
    seen = Sightings()
    async with asyncio.TaskGroup() as tasks:
        watches = [
            tasks.create_task(seen.watch(server, BOUND, METADATA_ONLY), name="watch/pods"),
            tasks.create_task(seen.watch(server, EVENTS, JSON), name="watch/events"),
        ]
        yield seen
        for watch in watches:
            watch.cancel()


class Cluster:
    """Nodes, a tenant and somebody else's namespace on a control plane."""

    def __init__(self, plane: ControlPlane, size: int, seen: Sightings) -> None:
        self.plane = plane
        self.size = size
        self.seen = seen
        self.nodes = [f"node-{number:05d}" for number in range(size)]
        self.admin = administration(plane)
        self.tenant = replace(self.admin, impersonated=USER)

    async def fill(self) -> None:
        subject = {"kind": "User", "name": USER, "apiGroup": "rbac.authorization.k8s.io"}
        role = {"kind": "ClusterRole", "name": EDIT, "apiGroup": "rbac.authorization.k8s.io"}
        binding = {"metadata": {"name": USER}, "subjects": [subject], "roleRef": role}
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/rolebindings"
        await send(
            self.admin,
            [
                create({"kind": "Namespace", "metadata": {"name": NAMESPACE}}),
                create({"kind": "Namespace", "metadata": {"name": INNOCENT}}),
                Request("POST", path, encoded(binding)),
            ],
            connections=1,
        )
        await send(self.admin, map(create, self._made_nodes()))
        await self._wait_for_rights()

    def _made_nodes(self) -> Iterator[Json]:
        for number in range(self.size):
            made = node(number)
            made["metadata"]["labels"] |= feature_labels(number)
            yield made

    async def _wait_for_rights(self) -> None:
        """A server hears of a role binding a moment after it was made."""
        probe = pod("probe")
        request = Request("POST", f"{collection(probe)}?dryRun=All", encoded(probe))
        async with self.tenant.connection() as connection:
            for _ in range(RIGHTS_LOOKS):
                if (await connection.exchange(request)).status != 403:
                    return
                await asyncio.sleep(LOOK_SECONDS)
        raise RefusedError(f"{EDIT} does not let {USER} create pods")

    async def create(self, row: Hostile, items: Iterable[Json]) -> float:
        """The moment at which the server had agreed to the last one."""
        server = self.tenant if row.by == TENANT else self.admin
        # What is in a namespace comes after it, and nothing else depends on an order.
        for _, some in groupby(items, key=lambda item: item["kind"]):
            await send(server, map(create, some))
        return time.monotonic()

    async def create_innocent(self, name: str) -> float:
        made = pod(name, namespace=INNOCENT, metadata={"labels": {"app": "innocent"}})
        await send(self.admin, [create(made)])
        return time.monotonic()

    async def clear(self, items: Sequence[Json]) -> None:
        """Everything that was created for an input, and the innocent pods."""
        finalized = [item for item in items if item["metadata"].get("finalizers")]
        free = encoded({"metadata": {"finalizers": None}})
        await send(
            self.admin,
            [Request("PATCH", path_of(item), free, MERGE_PATCH) for item in finalized],
        )
        places = dict.fromkeys(
            collection(item) for item in items if item["metadata"].get("namespace")
        )
        places[collection(pod("any", namespace=INNOCENT))] = None
        others = [path_of(item) for item in items if not item["metadata"].get("namespace")]
        await send(self.admin, (Request("DELETE", path, AT_ONCE) for path in places), METADATA_LIST)
        await send(self.admin, (Request("DELETE", path, AT_ONCE) for path in others))
        namespaces = [item for item in items if item["kind"] == "Namespace"]
        await send(self.admin, map(_finalize, namespaces))


async def send(
    server: Server,
    requests: Iterable[Request],
    accept: str = METADATA_ONLY,
    connections: int = CREATORS,
) -> None:
    """The server must agree to each; RefusedError has the first to which it does not."""
    todo = list(requests)
    try:
        await server.send_all(todo, min(connections, len(todo)), accept)
    except BaseExceptionGroup as group:
        refusals = group.subgroup(RefusedError)
        if refusals is None:
            raise
        raise RefusedError(str(refusals.exceptions[0])) from group


def collection(item: Json) -> str:
    return RESOURCE_OF_KIND[item["kind"]].path(item["metadata"].get("namespace", ""))


def path_of(item: Json) -> str:
    return f"{collection(item)}/{item['metadata']['name']}"


def create(item: Json) -> Request:
    return Request("POST", collection(item), encoded(item))


def _finalize(namespace: Json) -> Request:
    """The namespace controller's part."""
    body = {"metadata": {"name": namespace["metadata"]["name"]}, "spec": {"finalizers": []}}
    return Request("PUT", f"{path_of(namespace)}/finalize", encoded(body))


class Scheduler:
    """One of the two at work; started again when an input has ended it, or holds it up."""

    def __init__(self, who: str, cluster: Cluster, patience_seconds: float) -> None:
        self.who = who
        self._cluster = cluster
        self._patience = patience_seconds
        self._held = ExitStack()
        self._running: Contestant | None = None
        self._started = 0

    async def __aenter__(self) -> "Scheduler":
        return self

    async def __aexit__(self, *_: object) -> None:
        self._held.close()

    async def attack(self, row: Hostile, number: int) -> Outcome:
        process = (await self._ready()).process
        tag = f"{self.who[:2]}{number:03d}x{self._started}"
        scene = row.build(Ask(row.size, tag, self._cluster.nodes))
        # Where the objects themselves are the attack, a plain pod is decided after them.
        hostile = scene.pods or [pod(f"{tag}-plain")]
        decided = [] if row.held_back else [item["metadata"]["name"] for item in hostile]
        innocent = f"{tag}-innocent"
        before = resident_megabytes(process.pid)
        outcome = Outcome(row.name, self._cluster.size, self.who, row.size, megabytes=before)
        try:
            await self._cluster.create(row, scene.before)
            if scene.before and scene.pods:
                await asyncio.sleep(PAUSE_SECONDS)
            created = await self._cluster.create(row, hostile)
            innocent_created = await self._cluster.create_innocent(innocent)
            await self._wait(decided, innocent)
        except RefusedError as error:
            outcome.refused = str(error)[:400]
        else:
            outcome.decided = self._since(created, decided)
            outcome.innocent = self._since(innocent_created, [innocent], bound=True)
        await self._cluster.clear([*scene.before, *hostile])
        if not outcome.refused:
            outcome.afterwards = await self._place_one_more(f"{tag}-afterwards")
        outcome.exit_code = process.poll()
        if outcome.exit_code is None:
            outcome.megabytes_after = await self._memory_back(process.pid, before)
        if outcome.exit_code is not None or not (outcome.refused or outcome.in_time):
            self._stop()
        return outcome

    async def _place_one_more(self, name: str) -> float | None:
        created = await self._cluster.create_innocent(name)
        await self._wait([], name)
        await self._cluster.clear([])
        return self._since(created, [name], bound=True)

    async def _ready(self) -> Contestant:
        """Started, in sync and past its first decisions."""
        if self._running is None:
            self._started += 1
            one = contestant(self.who, self._cluster.plane, LIFTED, {})
            self._running = self._held.enter_context(one)
            names = [f"warm-{self.who}-{self._started}-{i}" for i in range(10)]
            for name in names:
                await self._cluster.create_innocent(name)
            deadline = time.monotonic() + READY_SECONDS
            while not all(name in self._cluster.seen.bound for name in names):
                if time.monotonic() > deadline or self._running.process.poll() is not None:
                    said = self._running.log.read_text(errors="replace")[-2000:]
                    raise NotReadyError(f"{self.who} does not place any pod:\n{said}")
                await asyncio.sleep(LOOK_SECONDS)
            await self._cluster.clear([])
            await asyncio.sleep(1.0)
        return self._running

    def _stop(self) -> None:
        self._held.close()
        self._running = None

    async def _wait(self, decided: list[str], innocent: str) -> None:
        """Until all have been decided about, or patience or the process has come to an end."""
        seen, deadline = self._cluster.seen, time.monotonic() + self._patience
        assert self._running is not None
        while time.monotonic() < deadline and self._running.process.poll() is None:
            if innocent in seen.bound and all(map(seen.decided, decided)):
                return
            await asyncio.sleep(0.01)

    def _since(self, start: float, names: list[str], *, bound: bool = False) -> float | None:
        seen = self._cluster.seen
        moments = [seen.bound.get(name) if bound else seen.decided(name) for name in names]
        known = [moment for moment in moments if moment is not None]
        if len(known) < len(names):
            return None
        return round(max(0.0, max(known, default=start) - start), 3)

    async def _memory_back(self, pid: int, before: float) -> float:
        """What is resident when it is near what it was, or at the end of our patience."""
        deadline = time.monotonic() + MEMORY_SECONDS.get(self.who, 1.0)
        await asyncio.sleep(PAUSE_SECONDS)
        while (now := resident_megabytes(pid)) > before + ENOUGH_MEGABYTES:
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(LOOK_SECONDS)
        return now


class NotReadyError(Exception):
    """Nothing can be measured with a scheduler that does not schedule."""


def resident_megabytes(pid: int) -> float:
    """0 for a process that has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    line = next((line for line in status.splitlines() if line.startswith("VmRSS")), "VmRSS: 0")
    return round(int(line.split()[1]) / 1024, 1)
