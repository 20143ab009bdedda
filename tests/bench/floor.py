"""Binds all pods that have no node and does nothing else: as fast as an API server can be asked.

    python -m tests.bench.floor --port 6443 --authority ca.crt --token TOKEN

Pods go to the nodes in turn. There is no decision, no event and no watch, and the requests are made
before the first is sent; a scheduler that does all of that can only be slower.
"""

import asyncio
import json
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import click
import uvloop

from tests.bench.judgement import listed
from tests.bench.quick_client import Request, Server
from tests.bench.scenarios import NODES, PODS
from tests.bench.workloads import Json

# As many as kscheduler has requests under way.
CONNECTIONS = 100


async def bind_all(server: Server) -> None:
    async with server.connection() as connection:
        nodes = await listed(connection, NODES)
        pods = await listed(connection, f"{PODS}?fieldSelector=spec.nodeName=")
    await server.send_all(list(bindings(nodes, pods)), CONNECTIONS)
    # Like a scheduler, it stays until it is told to end.
    await asyncio.Event().wait()


def bindings(nodes: list[Json], pods: list[Json]) -> Iterator[Request]:
    names = cycle(node["metadata"]["name"] for node in nodes)
    for pod, node in zip(pods, names, strict=False):
        metadata = {key: pod["metadata"][key] for key in ("name", "namespace", "uid")}
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"kind": "Node", "name": node},
        }
        yield Request("POST", f"{PODS}/{metadata['name']}/binding", json.dumps(body).encode())


@click.command(help=__doc__)
@click.option("--port", type=int, required=True)
@click.option("--authority", type=click.Path(path_type=Path), required=True)
@click.option("--token", required=True)
def main(port: int, authority: Path, token: str) -> None:
    uvloop.run(bind_all(Server(port, authority, token)))


if __name__ == "__main__":
    main()
