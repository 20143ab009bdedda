"""Pods that arrive all the time, of every kind that a scheduler treats in a way of its own.

    pool    nodes                        pods
    open    12 of 16 cpu, 3 zones        plain, near (affinity), apart (anti-affinity), spread, with
                                         volumes, with devices: room for all of them
    exact   6 of 4 cpu                   of 1 cpu: as many as there is room for and no more; each
                                         further one takes the place of one that is deleted
    full    6 of 4 cpu, full of victims  of 1 cpu and a high priority: each needs a victim's place

There is room for every pod that is not deleted. In `exact` a place that a scheduler believes to be
taken is a pod that is never bound, and one that it gives away twice is a pod that a kubelet
refuses. Which pods come, and in which order, follows from the seed.
"""

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from tests.e2e.api import Api, Json, RefusedError
from tests.faults.mirror import UNREACHABLE, Mirror, uid_of
from tests.faults.stand_ins import volume_manifest
from tests.kit.devices import claim_manifest, class_manifest, slice_manifest, using
from tests.kit.manifests import HOSTNAME, ZONE, near, node_manifest, pod_manifest, required

POOL = "pool"
OPEN, EXACT, FULL = "open", "exact", "full"
ZONES = ("a", "b", "c")
NODES = {OPEN: 12, EXACT: 6, FULL: 6}
PLACES = 4  # on a node of the pools that are exactly full
DEVICES = 3  # of each node of the open pool
PRIORITY, STATIC, DYNAMIC = "urgent", "static", "dynamic"
PROVISIONERS = {STATIC: "kubernetes.io/no-provisioner", DYNAMIC: "csi.example.com"}
AGAIN_SECONDS = 0.2
GROUP = 6
# How many of each kind come among so many.
SHARES = {
    "plain": 30,
    "near": 10,
    "apart": 10,
    "spread": 12,
    "exact": 18,
    "preempting": 6,
    "static-volume": 4,
    "dynamic-volume": 5,
    "device": 10,
}
# No more of them than there is room for.
MOST = {
    "preempting": NODES[FULL] * PLACES,
    "static-volume": 2 * NODES[OPEN],
    "dynamic-volume": 200,
}


def nodes() -> Iterator[Json]:
    for pool, count in NODES.items():
        for number in range(count):
            labels = {ZONE: ZONES[number % len(ZONES)], POOL: pool}
            taints = [{"key": POOL, "value": pool, "effect": "NoSchedule"}]
            fields: Json = {} if pool == OPEN else {"taints": taints}
            cpu = "16" if pool == OPEN else str(PLACES)
            yield node_manifest(f"{pool}-{number}", cpu=cpu, labels=labels, **fields)


def in_pool(pool: str) -> Json:
    """Of a pod's spec."""
    return {
        "nodeSelector": {POOL: pool},
        "tolerations": [{"key": POOL, "value": pool, "effect": "NoSchedule"}],
    }


def victim(name: str, node: str) -> Json:
    """A pod of the pool which more important ones want to be in, on its node already."""
    fields = {"nodeName": node, "terminationGracePeriodSeconds": 1}
    return pod_manifest(name, cpu="1", **fields, **in_pool(FULL))


def storage_classes() -> Iterator[Json]:
    for name, provisioner in PROVISIONERS.items():
        yield {
            "metadata": {"name": name},
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        }


class Arrival(NamedTuple):
    """A pod that was created."""

    kind: str
    # When the server had agreed to it.
    at: float


class Workload:
    """What has arrived, what has gone again, and who is where."""

    def __init__(self, api: Api, namespace: str, pods: Mirror, seed: int) -> None:
        self.namespace = namespace
        self.arrived: dict[str, Arrival] = {}
        # Of those, the ones that were deleted by this workload.
        self.gone: set[str] = set()
        # By pod, when it was first seen on a node, and all nodes it was ever seen on.
        self.bound_at: dict[str, float] = {}
        self.places: dict[str, list[str]] = {}
        self.enough = asyncio.Event()
        self._api = api
        self._rng = random.Random(seed)
        self._count: Counter[str] = Counter()
        # For how many more there is room, of kinds that do not make room themselves.
        self._room: Counter[str] = Counter(MOST)
        self._victims = 0
        self._turn = asyncio.Lock()
        self._alive: dict[str, deque[str]] = {"exact": deque(), "device": deque()}
        pods.listeners.append(self._pod_changed)

    async def prepare(self) -> None:
        """Everything that pods need; what is there from a row before stays as it is."""
        await self._make("namespaces", {"metadata": {"name": self.namespace}})
        await self._make("priorityclasses", {"metadata": {"name": PRIORITY}, "value": 1000})
        await asyncio.gather(
            *(self._make("nodes", node) for node in nodes()),
            *(self._make("storageclasses", one) for one in storage_classes()),
            self._make("deviceclasses", class_manifest()),
            *(
                self._make("resourceslices", slice_manifest(f"open-{number}", devices=DEVICES))
                for number in range(NODES[OPEN])
            ),
            *map(self._make_local_volume, range(MOST["static-volume"])),
        )
        places = [f"{FULL}-{number}" for number in range(NODES[FULL])] * PLACES
        self._victims = len(places)
        victims = (victim(f"victim-{number}", node) for number, node in enumerate(places))
        await asyncio.gather(*(self._make("pods", one, self.namespace) for one in victims))
        # Admission learns of a priority class a moment after it was made.
        probe = pod_manifest("probe", priorityClassName=PRIORITY)
        where = f"api/v1/namespaces/{self.namespace}/pods"
        await self._insist(lambda: self._api.send("POST", where, probe, dryRun="All"))

    async def _make_local_volume(self, number: int) -> None:
        there = {"key": HOSTNAME, "operator": "In", "values": [f"open-{number % NODES[OPEN]}"]}
        terms = [{"matchExpressions": [there]}]
        affinity = {"required": {"nodeSelectorTerms": terms}}
        name = f"{self.namespace}-{number}"
        await self._make("persistentvolumes", volume_manifest(name, STATIC, nodeAffinity=affinity))
        available = {"status": {"phase": "Available"}}
        await self._api.patch("persistentvolumes", name, available, "", "status")

    async def arrive(self, per_second: float) -> None:
        """Pods come at this rate until `enough` is set."""
        begun, number = time.monotonic(), 0
        while not self.enough.is_set():
            await self.one_more()
            number += 1
            await asyncio.sleep(max(0.0, begun + number / per_second - time.monotonic()))

    async def one_more(self, kind: str = "") -> str:
        """A pod of this kind, or of any; its name."""
        async with self._turn:
            return await self._one_more(kind)

    async def replace(self, name: str) -> str:
        """A controller's part: another pod in the place of one that has ended."""
        kind = self.arrived[name].kind
        with suppress(KeyError, ValueError):
            self._alive[kind].remove(name)
        if kind in MOST:
            self._room[kind] += 1
        return await self.one_more(kind)

    async def _one_more(self, kind: str) -> str:
        kinds, weights = zip(*SHARES.items(), strict=True)
        kind = kind or self._rng.choices(kinds, weights)[0]
        if kind in MOST:
            self._room[kind] -= 1
            kind = kind if self._room[kind] >= 0 else "plain"
        self._count[kind] += 1
        name = f"{kind}-{self._count[kind]}"
        if (alive := self._alive.get(kind)) is not None:
            room = NODES[EXACT] * PLACES if kind == "exact" else NODES[OPEN] * DEVICES
            if len(alive) >= room:
                await self.delete(alive.popleft())
            alive.append(name)
        body = await self._pod(kind, name)
        made = await self._make("pods", body, self.namespace)
        self.arrived[name] = Arrival(kind, time.monotonic())
        if kind == "device" and made:
            await self._own_claim(name, made)
        return name

    async def _pod(self, kind: str, name: str) -> Json:
        group = f"{kind}-{self._count[kind] // GROUP}"
        labels = {"app": group}
        size = self._rng.choice(("50m", "100m", "200m"))
        match kind:
            case "near":
                return pod_manifest(
                    name, labels=labels, cpu=size, pod_affinity=required(near(labels))
                )
            case "apart":
                term = near(labels, HOSTNAME)
                return pod_manifest(name, labels=labels, cpu=size, pod_anti_affinity=required(term))
            case "spread":
                constraint = {
                    "maxSkew": 1,
                    "topologyKey": ZONE,
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": labels},
                }
                spec = {"topologySpreadConstraints": [constraint], "nodeSelector": {POOL: OPEN}}
                return pod_manifest(name, labels=labels, cpu=size, **spec)
            case "exact":
                return pod_manifest(name, cpu="1", **in_pool(EXACT))
            case "preempting":
                return pod_manifest(name, cpu="1", priorityClassName=PRIORITY, **in_pool(FULL))
            case "static-volume" | "dynamic-volume":
                claim = {
                    "metadata": {"name": name},
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "storageClassName": kind.removesuffix("-volume"),
                        "resources": {"requests": {"storage": "1Gi"}},
                    },
                }
                await self._make("persistentvolumeclaims", claim, self.namespace)
                mounted = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
                return pod_manifest(name, cpu=size, volumes=[mounted])
            case "device":
                await self._make("resourceclaims", claim_manifest(name), self.namespace)
                return pod_manifest(name, cpu=size, **using(name))
        return pod_manifest(name, cpu=size)

    async def _own_claim(self, name: str, pod: Json) -> None:
        """The claim goes with its pod."""
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid_of(pod)}
        body = {"metadata": {"ownerReferences": [owner]}}
        await self._insist(lambda: self._api.patch("resourceclaims", name, body, self.namespace))

    async def delete(self, name: str) -> None:
        self.gone.add(name)
        await self._insist(lambda: self._api.delete("pods", name, self.namespace))

    async def refill(self, name: str) -> None:
        """A victim in place of a pod that has taken the place of one."""
        await self.delete(name)
        number, self._victims = self._victims, self._victims + 1
        await self._make("pods", victim(f"victim-{number}", self.places[name][0]), self.namespace)
        self._room["preempting"] += 1

    async def _make(self, resource: str, body: Json, namespace: str = "") -> Json | None:
        """The object, or None if there is one of this name already."""
        return await self._insist(lambda: self._api.create(resource, body, namespace))

    async def _insist(self, ask: Callable[[], Awaitable[Json | None]]) -> Json | None:
        """A server that is away, or does not know yet what it will, is asked again."""
        while True:
            try:
                return await ask()
            except RefusedError as error:
                if error.code == 409:
                    return None
                if error.code < 500 and "no PriorityClass" not in str(error):
                    raise
            except UNREACHABLE:
                pass
            await asyncio.sleep(AGAIN_SECONDS)

    def _pod_changed(self, kind: str, pod: Json) -> None:
        about = pod["metadata"]
        node = pod["spec"].get("nodeName")
        if about["namespace"] != self.namespace or not node:
            return
        self.bound_at.setdefault(about["name"], time.monotonic())
        places = self.places.setdefault(about["name"], [])
        if node not in places:
            places.append(node)

    @property
    def waiting(self) -> list[str]:
        """Pods that should be on a node and are not."""
        return [name for name in self.arrived if name not in self.places and name not in self.gone]

    async def clear(self) -> None:
        """The server is as it was before any pod came."""
        for resource in ("pods", "persistentvolumeclaims"):
            await self._api.delete_all(resource, self.namespace)
        await self._api.delete_all("persistentvolumes")
        # The stand-in for their controller may be at them, too; whoever comes second begins anew.
        while claims := await self._api.list("resourceclaims", self.namespace):
            for claim in claims:
                name = claim["metadata"]["name"]
                where = f"apis/resource.k8s.io/v1/namespaces/{self.namespace}/resourceclaims/{name}"
                with suppress(RefusedError):
                    if claim["metadata"].pop("finalizers", None):
                        await self._api.send("PUT", where, claim)
                    await self._api.delete("resourceclaims", name, self.namespace)
