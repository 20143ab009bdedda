"""The smallest API server a scheduler can start against: lists are empty, watches are quiet."""

import asyncio
import json
import socket

from aiohttp import web

END_OF_LIST = {
    "type": "BOOKMARK",
    "object": {
        "metadata": {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}
    },
}


def serve(listener: socket.socket) -> None:
    asyncio.run(_serve(listener))


async def _serve(listener: socket.socket) -> None:
    application = web.Application()
    application.router.add_get("/{path:.*}", _answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    await asyncio.Event().wait()


async def _answer(request: web.Request) -> web.StreamResponse:
    if request.query.get("watch") not in ("true", "1"):
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    if request.query.get("sendInitialEvents") == "true":
        await response.write(json.dumps(END_OF_LIST).encode() + b"\n")
    await asyncio.Event().wait()
    return response
