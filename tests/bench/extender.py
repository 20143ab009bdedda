"""An extender as people write them: judges and ranks the nodes it is asked about.

    python -m tests.bench.extender --nodes 5000

Prints its port. The rule is the one of `outside.py`: no node of the last zone, and the emptier the
better. Told whole nodes, it looks at them; told names, at what it knows by itself.
"""

import asyncio
import json
from collections.abc import Mapping

import click
import uvloop
from aiohttp import web

from tests.bench import workloads

MAX_QUESTION_BYTES = 16 << 20
MAX_PRIORITY = 10
EXCLUDED = workloads.ZONES[-1]


class Extender:
    def __init__(self, nodes: int) -> None:
        bodies = [workloads.node(number) for number in range(nodes)]
        self._zones: Mapping[str, str] = {
            body["metadata"]["name"]: body["metadata"]["labels"][workloads.ZONE] for body in bodies
        }

    async def filter(self, request: web.Request) -> web.Response:
        asked = json.loads(await request.read())
        if asked["NodeNames"] is None:
            return web.json_response({"Nodes": {"items": list(filter(suits, nodes_of(asked)))}})
        kept = [name for name in asked["NodeNames"] if self._zones[name] != EXCLUDED]
        return web.json_response({"NodeNames": kept})

    async def prioritize(self, request: web.Request) -> web.Response:
        asked = json.loads(await request.read())
        names = asked["NodeNames"] or [node["metadata"]["name"] for node in nodes_of(asked)]
        return web.json_response([{"Host": name, "Score": MAX_PRIORITY} for name in names])


def nodes_of(asked: workloads.Json) -> list[workloads.Json]:
    nodes: list[workloads.Json] = asked["Nodes"]["items"]
    return nodes


def suits(node: workloads.Json) -> bool:
    return bool(node["metadata"]["labels"][workloads.ZONE] != EXCLUDED)


async def serve(nodes: int) -> None:
    extender = Extender(nodes)
    app = web.Application(client_max_size=MAX_QUESTION_BYTES)
    app.router.add_post("/filter", extender.filter)
    app.router.add_post("/prioritize", extender.prioritize)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


@click.command(help=__doc__)
@click.option("--nodes", default=5000, show_default=True)
def main(nodes: int) -> None:
    uvloop.run(serve(nodes))


if __name__ == "__main__":
    main()
