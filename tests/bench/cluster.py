"""The embedded cluster in a process of its own, told by lines on standard input what to hold.

    {"do": "fill", "nodes": 1000, "pods": 10000}      nodes, and pods that run on them already
    {"do": "backlog", "workload": "plain", "count": 2000}    pods that want a place; answers
                                                              when all of them have one

Each is answered with one line on standard output; the very first line names the server.
"""

import asyncio
import json
import sys
import time
from itertools import islice

import uvloop

from kscheduler.sandbox import ApiServer
from tests.bench import workloads

# Pods made before others get their turn.
BATCH = 100
TIMEOUT_SECONDS = 120.0


class Cluster:
    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._to_go = 0
        self._all_bound = asyncio.Event()
        self._batches = 0
        api.hooks.append(self._count)
        api.objects.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": workloads.NAMESPACE}}
        )

    def _count(self, exchange) -> None:
        if exchange.path.endswith("/binding") and exchange.status == 201:
            self._to_go -= 1
            if not self._to_go:
                self._all_bound.set()

    async def fill(self, nodes: int, pods: int) -> dict:
        names = []
        for number in range(nodes):
            node = self._api.objects.create(workloads.node(number))
            names.append(node["metadata"]["name"])
        for number in range(pods):
            pod = workloads.placed(number, names[number % nodes])
            self._api.objects.create(pod)
            self._api.objects.update(
                "pods",
                pod["metadata"]["name"],
                lambda stored: stored.update(status=workloads.running()),
                workloads.NAMESPACE,
                subresource="status",
            )
        return {"nodes": nodes, "pods": pods}

    async def backlog(self, workload: str, count: int) -> dict:
        """The clock starts when the last pod is there; most of them wait by then."""
        self._batches += 1
        self._to_go = count
        self._all_bound.clear()
        pods = islice(workloads.pods(workload, f"batch-{self._batches}"), count)
        for number, pod in enumerate(pods):
            self._api.objects.create(pod)
            if number % BATCH == BATCH - 1:
                await asyncio.sleep(0)
        started, left = time.monotonic(), self._to_go
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await self._all_bound.wait()
        return {"workload": workload, "count": left, "seconds": time.monotonic() - started}


async def main() -> None:
    reader = asyncio.StreamReader(limit=1 << 20)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    async with ApiServer() as api:
        cluster = Cluster(api)
        print(json.dumps({"url": api.url}), flush=True)
        while line := await reader.readline():
            command = json.loads(line)
            answer = await getattr(cluster, command.pop("do"))(**command)
            print(json.dumps(answer), flush=True)


uvloop.run(main())
