"""A scheduler in this process, fed by watch lines: every part is the daemon's but the network.

Objects come as the bytes that an API server would send; bindings and patches go to a server that
agrees to everything, and the rig sends back what a server would: the bound pod. Nothing happens by
itself, so that the work of each step can be counted; that of the rig itself is not.
"""

import asyncio
import io
import json
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kscheduler import logs
from kscheduler.api.resources import PODS, RESOURCE_CLAIMS, RESOURCES
from kscheduler.app.scheduler import new_scheduler
from kscheduler.client.events.broadcaster import EventBroadcaster
from kscheduler.client.informers.decoding import DELETED, Lines, decode_change
from kscheduler.client.kube_client import KubeClient
from kscheduler.config.defaults import default_config
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.profiles import complete
from kscheduler.metrics import Metrics
from kscheduler.plugins import catalog, factories
from kscheduler.queue.queued_pod_info import QueuedPodInfo
from tests.adversary.inputs import INNOCENT, NAMESPACE, Json, encoded, feature_labels, pod
from tests.adversary.work import Work, work_of
from tests.bench.workloads import node

RESOURCE_OF_KIND = {resource.kind: resource for resource in RESOURCES if resource.kind != "Event"}
DEFAULTS = {"dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "enableServiceLinks": True}
# What must never be logged, whatever a tenant creates.
TROUBLE = ("failed unexpectedly", "Event handler failed", "Traceback", "Background work failed")


class AgreeingServer:
    """In place of a transport: remembers who was bound where, and says yes.

    `written` is told of each resource claim that the scheduler writes, and stores it.
    """

    busy = False

    def __init__(self, written: Callable[[Json], None]) -> None:
        self.bound: dict[str, str] = {}
        self._written = written

    async def request(self, method: str, path: str, *, body: bytes = b"", **_: Any) -> bytes:
        if path.endswith("/binding"):
            *_, namespace, _, name, _ = path.split("/")
            self.bound[f"{namespace}/{name}"] = json.loads(body)["target"]["name"]
        elif RESOURCE_CLAIMS.plural in path and method in ("POST", "PUT"):
            item = json.loads(body)
            self._written(item)
            return json.dumps(item).encode()
        return b"{}"


class Rig:
    """`log` has all that the scheduler has said."""

    def __init__(self, nodes: int = 50) -> None:
        self.log = io.BytesIO()
        logs.configure(logs.Logging(), stderr=self.log)
        self._runner = asyncio.Runner()
        self._server = AgreeingServer(self._written)
        self._serial = 0
        self._work: Work | None = None
        self._objects: dict[tuple[str, str], Json] = {}
        self._runner.run(self._assemble())
        self.nodes = [f"node-{number:05d}" for number in range(nodes)]
        for number in range(nodes):
            made = node(number)
            made["metadata"]["labels"] |= feature_labels(number)
            self.put(made)
        for name in (NAMESPACE, INNOCENT):
            self.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    async def _assemble(self) -> None:
        gates = FeatureGates.defaults()
        completed = complete(default_config(catalog(), gates), catalog(), gates=gates)
        client: Any = KubeClient(self._server)  # type: ignore[arg-type]
        self.scheduler = new_scheduler(
            completed=completed,
            registry=factories(),
            gates=gates,
            client=client,
            # Nobody sends events here, so only the first few are kept.
            broadcaster=EventBroadcaster(client, queue_size=16),
            metrics=Metrics(),
            max_unschedulable_seconds=300.0,
            rng=random.Random(1),
        )

    def count(self, act: Callable[[], object]) -> Work:
        """The scheduler's part of what happens meanwhile."""
        self._work = Work(0, 0)
        try:
            act()
            return self._work
        finally:
            self._work = None

    def _do(self, step: Callable[[], object]) -> None:
        """A step that is the scheduler's."""
        if self._work is None:
            step()
        else:
            lines, allocated = work_of(step)
            self._work = Work(self._work.lines + lines, self._work.bytes + allocated)

    def age_caches(self) -> None:
        """What half a minute does: whatever nobody has used meanwhile is forgotten."""
        for _ in range(2):
            for cache in self.scheduler.caches():
                cache.age()

    def close(self) -> None:
        self._runner.close()
        logs.configure(logs.Logging())

    @property
    def trouble(self) -> list[str]:
        said = self.log.getvalue().decode(errors="replace")
        return [line for line in said.splitlines() if any(text in line for text in TROUBLE)]

    def put(self, item: Json) -> None:
        """Creates or changes an object."""
        if item["kind"] == "Pod":
            item["spec"] = {**DEFAULTS, **item["spec"]}
            item.setdefault("status", {"phase": "Pending", "qosClass": "Burstable"})
        self._deliver(self._store(item), item)

    def _store(self, item: Json) -> str:
        """The kind of event that tells of it."""
        metadata = item["metadata"]
        self._serial += 1
        metadata.setdefault("name", f"{metadata.get('generateName', '')}{self._serial}")
        metadata |= {
            "resourceVersion": str(self._serial),
            "uid": metadata.get("uid", f"00000000-0000-0000-0000-{self._serial:012d}"),
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
        key = _key(item)
        kind = "MODIFIED" if key in self._objects else "ADDED"
        self._objects[key] = item
        return kind

    def _written(self, item: Json) -> None:
        """The scheduler hears of its own writes while it goes on."""
        informer, line = self._event(self._store(item), item)
        _take(informer, line)

    def delete(self, item: Json) -> None:
        self._deliver(DELETED, self._objects.pop(_key(item)))

    def _deliver(self, kind: str, item: Json) -> None:
        informer, line = self._event(kind, item)
        self._do(lambda: _take(informer, line))

    def _event(self, kind: str, item: Json) -> tuple[Any, bytes]:
        """Who is told of it, and in which words."""
        informers, resource = self.scheduler.informers, RESOURCE_OF_KIND[item["kind"]]
        informer = informers.pods if resource is PODS else informers.lister(resource.struct)
        return informer, b'{"type":"%s","object":%s}\n' % (kind.encode(), encoded(item))

    def popped(self, name: str) -> QueuedPodInfo:
        """This pod, when its turn has come; others that come before are tried meanwhile."""
        while (queued := self.scheduler.queue.pop()) is not None:
            if queued.pod.name == name:
                return queued
            self.attempt(queued)
        raise AssertionError(f"{name} is not in the queue")

    def attempt(self, queued: QueuedPodInfo) -> None:
        """One scheduling attempt with all that follows, until the server has been told."""
        self._do(lambda: self._runner.run(self._attempt(queued)))

    async def _attempt(self, queued: QueuedPodInfo) -> None:
        loop = self.scheduler.loop
        attempt = await loop.schedule_one(queued)
        if attempt is not None:
            await loop._binder.run_binding_cycle(attempt)
        while self.scheduler.writer._unsent:
            await self.scheduler.writer._write(self.scheduler.writer._next())  # type: ignore[arg-type]

    def confirm(self) -> None:
        """Tells the scheduler of the pods that it has bound."""
        for key, where in self._server.bound.items():
            known = self._objects.get(("Pod", key))
            if known is not None:
                self.put({**known, "spec": {**known["spec"], "nodeName": where}})
        self._server.bound.clear()

    def node_of(self, item: Json) -> str:
        """Where a pod was bound, confirmed or not."""
        kind, key = _key(item)
        known: Json = self._objects[kind, key]
        return self._server.bound.get(key) or known["spec"].get("nodeName", "")

    def come(
        self, before: Iterable[Json], pods: Sequence[Json], *, held_back: bool = False
    ) -> None:
        """A scene from its first object to the last decision; gated pods are not decided."""
        for item in before:
            self.put(item)
        for item in pods:
            self.put(item)
            if not held_back and "schedulingGates" not in item["spec"]:
                self.attempt(self.popped(item["metadata"]["name"]))
        self.confirm()

    def go(self, items: Iterable[Json]) -> None:
        for item in items:
            self.delete(item)
        # What a scheduler has made for a pod goes with it.
        for item in [one for one in self._objects.values() if "generateName" in one["metadata"]]:
            self.delete(item)

    def innocent(self, name: str) -> Json:
        return pod(name, namespace=INNOCENT, metadata={"labels": {"app": "innocent"}})


def _take(informer: Any, line: bytes) -> None:
    """As a reflector does it; an object that cannot be decoded is left out."""
    for whole in Lines().feed(line):
        change = decode_change(whole, informer._shape)
        if change.item is None:
            continue
        key = informer._shape.key(change.item)
        if change.type == DELETED:
            informer.remove(key, change.item)
        else:
            informer.put(key, change.item)


def _key(item: Json) -> tuple[str, str]:
    metadata = item["metadata"]
    return item["kind"], f"{metadata.get('namespace', '')}/{metadata['name']}".lstrip("/")
