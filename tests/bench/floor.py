"""Binds all pods that have no node and does nothing else: as fast as an API server can be asked.

    python -m tests.bench.floor --port 6443 --authority ca.crt --token TOKEN

Pods go to the nodes in turn. There is no decision, no event and no watch, and the requests are made
before the first is sent; a scheduler that does all of that can only be slower. A pod with a claim
costs a scheduler more than the binding, and so it does here: a node is nominated, and the claim
gets a finalizer, then an allocation, of the next device that is free, and a reservation.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import click
import uvloop

from tests.bench.device_scenarios import CLAIMS, SLICES
from tests.bench.judgement import listed
from tests.bench.quick_client import Request, Server
from tests.bench.scenario import NODES, PODS, patch, put
from tests.bench.workloads import Json

# As many as kscheduler has requests under way.
CONNECTIONS = 100
FINALIZER = "resource.kubernetes.io/delete-protection"

# What is sent for a pod, one after the other.
Steps = tuple[Request, ...]


async def bind_all(server: Server) -> None:
    async with server.connection() as connection:
        nodes = await listed(connection, NODES)
        pods = await listed(connection, f"{PODS}?fieldSelector=spec.nodeName=")
        claims = await listed(connection, CLAIMS)
        slices = await listed(connection, SLICES)
    rest = iter([*bindings(pods, places(nodes, claims, slices), claims)])

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
    for pod, (node, device) in zip(pods, where, strict=False):
        metadata = {key: pod["metadata"][key] for key in ("name", "namespace", "uid")}
        path = f"{PODS}/{metadata['name']}"
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"kind": "Node", "name": node},
        }
        bind = Request("POST", f"{path}/binding", json.dumps(body).encode())
        if device is None:
            yield (bind,)
            continue
        nominate = patch(f"{path}/status", {"status": {"nominatedNodeName": node}})
        (known,) = pod["status"]["resourceClaimStatuses"]
        claim = by_name[known["resourceClaimName"]]
        yield (nominate, *allocation(claim, device, node, metadata), bind)


def allocation(claim: Json, device: Json, node: str, pod: Json) -> Steps:
    """Both writes of a claim."""
    (request,) = claim["spec"]["devices"]["requests"]
    metadata = {**claim["metadata"], "finalizers": [FINALIZER]}
    # Whatever there is now is overwritten.
    del metadata["resourceVersion"]
    claim = {**claim, "metadata": metadata}
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    status = {
        "allocation": {
            "devices": {"results": [{"request": request["name"], **device}]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        },
        "reservedFor": [{"resource": "pods", "name": pod["name"], "uid": pod["uid"]}],
    }
    path = f"{CLAIMS}/{metadata['name']}"
    return put(path, claim), put(f"{path}/status", {**claim, "status": status})


@click.command(help=__doc__)
@click.option("--port", type=int, required=True)
@click.option("--authority", type=click.Path(path_type=Path), required=True)
@click.option("--token", required=True)
def main(port: int, authority: Path, token: str) -> None:
    uvloop.run(bind_all(Server(port, authority, token)))


if __name__ == "__main__":
    main()
