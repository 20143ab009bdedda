"""A plain HTTP client of the sandbox, and waiting for what it brings about."""

import asyncio
import json
from contextlib import asynccontextmanager

from tests.kit.manifests import node_manifest

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"


def new_node(name="n", **fields):
    """A node as a kubelet registers it: the server says what is allocatable, nobody that it is
    ready.
    """
    node = node_manifest(name, **fields)
    return {**node, "status": {"capacity": node["status"]["capacity"]}}


class Rest:
    """A client that answers with (status, decoded body)."""

    def __init__(self, session, url):
        self.session = session
        self.url = url

    async def call(self, method, path, body=None, *, content_type=None, **options):
        headers = options.pop("headers", {})
        if body is not None:
            options["data"] = body if isinstance(body, (bytes, str)) else json.dumps(body)
            headers = {"Content-Type": content_type or "application/json", **headers}
        url = self.url + path
        async with self.session.request(method, url, headers=headers, **options) as answer:
            text = await answer.text()
            is_json = answer.content_type == "application/json"
            return answer.status, json.loads(text) if is_json else text

    async def get(self, path, **options):
        return await self.call("GET", path, **options)

    async def post(self, path, body, **options):
        return await self.call("POST", path, body, **options)

    async def put(self, path, body, **options):
        return await self.call("PUT", path, body, **options)

    async def delete(self, path, body=None, **options):
        return await self.call("DELETE", path, body, **options)

    async def patch(self, path, body, kind="strategic-merge", **options):
        content_type = f"application/{kind}-patch+json"
        return await self.call("PATCH", path, body, content_type=content_type, **options)

    async def apply(self, path, body, **query):
        return await self.call(
            "PATCH", path, body, content_type="application/apply-patch+yaml", params=query
        )

    @asynccontextmanager
    async def watch(self, path, **query):
        """A queue of (type, object) that is filled until the block ends; None ends the stream."""
        events = asyncio.Queue()

        async def read():
            params = {"watch": "true", **query}
            async with self.session.get(self.url + path, params=params) as answer:
                assert answer.status == 200, await answer.text()
                started.set()
                async for line in answer.content:
                    event = json.loads(line)
                    events.put_nowait((event["type"], event["object"]))
            events.put_nowait(None)

        started = asyncio.Event()
        task = asyncio.create_task(read())
        try:
            await asyncio.wait_for(started.wait(), 30)
            yield Events(events)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class Events:
    """What a watch has delivered."""

    def __init__(self, queue):
        self._queue = queue

    async def next(self):
        return await asyncio.wait_for(self._queue.get(), 30)

    async def names(self, count):
        """(type, name) of the next events."""
        events = [await self.next() for _ in range(count)]
        return [(kind, item["metadata"].get("name")) for kind, item in events]
