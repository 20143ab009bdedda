"""Binds all pods that have no node and does nothing else: as fast as an API server can be asked.

    python -m tests.bench.floor --port 6443 --authority ca.crt --token TOKEN

Pods go to the nodes in turn. There is no decision, no event and no watch, and the requests are made
before the first is sent; a scheduler that does all of that can only be slower. A pod with a claim
costs a scheduler more than the binding, and so it does here: a node is nominated, and the claim
gets a finalizer, then an allocation, of the next device that is free, and a reservation, to which
other pods of the same claim are added. For an extended resource the claim is made before, and the
pod is told of it.

Where hardly a pod waits at the start, more are to come: then it watches pods and claims, and binds
each pod as soon as its claim is there, a scheduler that decides in no time.
"""

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

import click
import uvloop

from tests.bench import devices
from tests.bench.device_scenarios import CLAIMS, SLICES
from tests.bench.judgement import listed
from tests.bench.quick_client import JSON, Request, Server
from tests.bench.scenario import NODES, PODS, create, patch, put
from tests.bench.workloads import Json

# With fewer, and with more, an API server on two cores gets less done.
CONNECTIONS = 64
FINALIZER = "resource.kubernetes.io/delete-protection"

# What is sent for a pod, one after the other.
Steps = tuple[Request, ...]


async def bind_all(server: Server) -> None:
    async with server.connection() as connection:
        nodes = await listed(connection, NODES)
        pods = await listed(connection, f"{PODS}?fieldSelector=spec.nodeName=")
        claims = await listed(connection, CLAIMS)
        slices = await listed(connection, SLICES)
    where = places(nodes, claims, slices)
    if len(pods) < CONNECTIONS:
        await Follower(server, where).run()
    rest = iter([*bindings(pods, where, claims)])

    async def work() -> None:
        async with server.connection() as connection:
            for steps in rest:
                for request in steps:
                    await connection.demand(request)

    async with asyncio.TaskGroup() as tasks:
        for number in range(CONNECTIONS):
            tasks.create_task(work(), name=f"bind/{number}")
    # Like a scheduler, it stays until it is told to end.
    await asyncio.Event().wait()


class Follower:
    """Binds pods with a claim each as they come, and gives their devices to others afterwards."""

    def __init__(self, server: Server, where: Iterator[tuple[str, Json | None]]) -> None:
        self._server = server
        # Devices that were never taken, and those that were given back.
        self._where = where
        self._free: list[tuple[str, Json | None]] = []
        self._held: dict[str, tuple[str, Json | None]] = {}
        self._claims: dict[str, Json] = {}
        self._waiting: dict[str, Json] = {}
        self._steps: asyncio.Queue[Steps] = asyncio.Queue()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow(PODS, self._see_pod), name="watch/pods")
            tasks.create_task(self._follow(CLAIMS, self._see_claim), name="watch/claims")
            for number in range(CONNECTIONS):
                tasks.create_task(self._work(), name=f"bind/{number}")

    async def _follow(self, path: str, see: Callable[[str, Json], None]) -> None:
        async with self._server.connection() as connection:
            async for line in await connection.follow(f"{path}?watch=true", JSON):
                event = json.loads(line)
                see(event["type"], event["object"])

    async def _work(self) -> None:
        async with self._server.connection() as connection:
            while True:
                for request in await self._steps.get():
                    await connection.demand(request)

    def _see_pod(self, kind: str, pod: Json) -> None:
        claim = claim_name(pod)
        if kind == "DELETED" or pod["spec"].get("nodeName") or not claim:
            return
        if claim not in self._held:
            self._waiting[claim] = pod
            self._bind(claim)

    def _see_claim(self, kind: str, claim: Json) -> None:
        name = claim["metadata"]["name"]
        was_allocated = "allocation" in self._claims.get(name, {}).get("status", {})
        self._claims[name] = claim
        if was_allocated and "allocation" not in claim.get("status", {}) and name in self._held:
            self._free.append(self._held.pop(name))
        self._bind(name)

    def _bind(self, claim: str) -> None:
        if claim in self._claims and (pod := self._waiting.pop(claim, None)):
            place = self._free.pop() if self._free else next(self._where)
            self._held[claim] = place
            for steps in bindings([pod], iter([place]), [self._claims[claim]]):
                self._steps.put_nowait(steps)


def places(
    nodes: list[Json], claims: list[Json], slices: list[Json]
) -> Iterator[tuple[str, Json | None]]:
    """Nodes in turn, and a device there that nobody has; none where there are no devices at all."""
    taken = {
        (result["driver"], result["pool"], result["device"])
        for claim in claims
        if (allocation := claim.get("status", {}).get("allocation"))
        for result in allocation["devices"]["results"]
    }
    free: dict[str, list[Json]] = defaultdict(list)
    for spec in (one["spec"] for one in slices):
        for device in spec.get("devices") or ():
            driver, pool, name = spec["driver"], spec["pool"]["name"], device["name"]
            if (driver, pool, name) not in taken:
                found = {"driver": driver, "pool": pool, "device": name}
                free[spec["nodeName"]].append(found)
    for node in cycle(node["metadata"]["name"] for node in nodes):
        if free[node]:
            yield node, free[node].pop()
        elif not slices:
            yield node, None


def bindings(
    pods: list[Json], where: Iterator[tuple[str, Json | None]], claims: list[Json]
) -> Iterator[Steps]:
    by_name = {claim["metadata"]["name"]: claim for claim in claims}
    # Of claims that were allocated here: the node, and the claim as it is then.
    allocated: dict[str, tuple[str, Json]] = {}
    for pod in in_turn(pods):
        metadata = {key: pod["metadata"][key] for key in ("name", "namespace", "uid")}
        name, path = claim_name(pod), f"{PODS}/{metadata['name']}"
        consumer = {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}
        if name in allocated:
            node, claim = allocated[name]
            claim["status"]["reservedFor"].append(consumer)
            steps: Steps = (put(f"{CLAIMS}/{name}/status", claim),)
        elif (place := next(where, None)) is None:
            return
        elif place[1] is None:
            node, steps = place[0], ()
        elif name:
            node, device = place
            claim = with_allocation(by_name[name], node, device)
            claim["status"]["reservedFor"].append(consumer)
            allocated[name] = node, claim
            steps = writes(claim)
        else:
            node, device = place
            steps = for_extended_resource(pod, node, device, consumer)
        if steps:
            nominate = patch(f"{path}/status", {"status": {"nominatedNodeName": node}})
            steps = (nominate, *steps)
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"kind": "Node", "name": node},
        }
        yield (*steps, Request("POST", f"{path}/binding", json.dumps(body).encode()))


def in_turn(pods: list[Json]) -> list[Json]:
    """Pods of which no two neighbours share a claim: its writes must not overtake each other."""
    seen: Counter[str] = Counter()
    turns = []
    for pod in pods:
        name = claim_name(pod)
        turns.append(seen[name] if name else 0)
        seen[name] += 1
    return [pod for _, pod in sorted(zip(turns, pods, strict=True), key=lambda one: one[0])]


def claim_name(pod: Json) -> str:
    """The claim that the pod names, or that was made for it; empty if there is none."""
    made = pod.get("status", {}).get("resourceClaimStatuses", ())
    for found in (*made, *pod["spec"].get("resourceClaims", ())):
        if name := found.get("resourceClaimName"):
            return str(name)
    return ""


def with_allocation(claim: Json, node: str, device: Json) -> Json:
    """The claim as it is written: it has a finalizer, and nobody has reserved it yet."""
    (request,) = claim["spec"]["devices"]["requests"]
    metadata = {**claim["metadata"], "finalizers": [FINALIZER]}
    # Whatever there is now is overwritten.
    metadata.pop("resourceVersion", None)
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    allocation = {
        "devices": {"results": [{"request": request["name"], **device}]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }
    return {**claim, "metadata": metadata, "status": {"allocation": allocation, "reservedFor": []}}


def writes(claim: Json) -> Steps:
    """Both of a claim."""
    path = f"{CLAIMS}/{claim['metadata']['name']}"
    return put(path, claim), put(f"{path}/status", claim)


def for_extended_resource(pod: Json, node: str, device: Json, consumer: Json) -> Steps:
    """The claim's creation and both of its writes, and its name in the pod's status."""
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    (container,) = pod["spec"]["containers"]
    resource = next(key for key in container["resources"]["requests"] if "/" in key)
    request = "container-0-request-0"
    asked = {"name": request, "exactly": {"deviceClassName": "gpu-0", "count": 1}}
    made = devices.claim(
        f"{name}-extended-resources",
        {"devices": {"requests": [asked]}},
        annotations={"resource.kubernetes.io/extended-resource-claim": "true"},
        ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}],
    )
    claim = with_allocation(made, node, device)
    claim["status"]["reservedFor"].append(consumer)
    mapping = {
        "containerName": container["name"],
        "resourceName": resource,
        "requestName": request,
    }
    told = {
        "extendedResourceClaimStatus": {
            "resourceClaimName": made["metadata"]["name"],
            "requestMappings": [mapping],
        }
    }
    return (
        create(CLAIMS, made),
        *writes(claim),
        patch(f"{PODS}/{name}/status", {"status": told}),
    )


@click.command(help=__doc__)
@click.option("--port", type=int, required=True)
@click.option("--authority", type=click.Path(path_type=Path), required=True)
@click.option("--token", required=True)
def main(port: int, authority: Path, token: str) -> None:
    uvloop.run(bind_all(Server(port, authority, token)))


if __name__ == "__main__":
    main()
