"""Port forwarding over a WebSocket, as a kubelet's end speaks it (`v4.channel.k8s.io`).

Mirrors k8s.io/cri-streaming/pkg/streaming/portforward/websocket.go: each port has a channel for
data (2n) and one for errors (2n + 1); a frame begins with the number of its channel; the first
frame of a channel is the port, 16 bits, little endian. When a pod's connection ends, so does the
WebSocket; a pod that cannot be reached is told on the error channel.
"""

import asyncio
import re
from collections.abc import Callable

from aiohttp import WSMsgType, web

PROTOCOL = "v4.channel.k8s.io"
PIECE_BYTES = 32 << 10
PATHS = re.compile(
    "/portForward/([^/]+)/([^/]+)(?:/[^/]+)?|/api/v1/namespaces/([^/]+)/pods/([^/]+)/portforward"
)

# Host and port where a pod's port can be reached, by namespace, name and port.
Locate = Callable[[str, str, int], tuple[str, int] | None]


class PortForwarding:
    """A handler for aiohttp; `locate` says where pods are, None where there is no such pod.

    The API server asks a kubelet at `/portForward/{namespace}/{pod}` with `?port=`; a client asks
    an API server at `/api/v1/namespaces/{namespace}/pods/{pod}/portforward` with `?ports=`. Either
    is understood, and 404 is the answer to other paths.
    """

    def __init__(self, locate: Locate) -> None:
        self._locate = locate
        # What was asked for: headers are those of the upgrade request.
        self.requests: list[web.BaseRequest] = []

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        if PATHS.fullmatch(request.path) is None:
            raise web.HTTPNotFound
        self.requests.append(request)
        asked = request.query.getall("port", []) + request.query.getall("ports", [])
        ports = [int(port) for text in asked for port in text.split(",")]
        if not ports:
            raise web.HTTPBadRequest(text='query parameter "port" is required')
        answer = web.WebSocketResponse(protocols=[PROTOCOL])
        if not answer.can_prepare(request).ok:
            raise web.HTTPBadRequest(text="only WebSockets are spoken here")
        await answer.prepare(request)
        for number, port in enumerate(ports):
            for channel in (2 * number, 2 * number + 1):
                await answer.send_bytes(bytes([channel]) + port.to_bytes(2, "little"))
        streams = [await self._opened(answer, number, request, p) for number, p in enumerate(ports)]
        writers = [stream[1] if stream else None for stream in streams]
        from_client = asyncio.create_task(_to_pods(answer, writers), name="from client")
        readers = {2 * number: stream[0] for number, stream in enumerate(streams) if stream}
        to_client = asyncio.create_task(_to_client(answer, readers), name="to client")
        try:
            # A client that goes ends it all; so do pods that have nothing more to say.
            await asyncio.wait([from_client, to_client], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (from_client, to_client):
                task.cancel()
            await asyncio.gather(from_client, to_client, return_exceptions=True)
            for writer in filter(None, writers):
                writer.close()
        await answer.close()
        return answer

    async def _opened(
        self, answer: web.WebSocketResponse, number: int, request: web.BaseRequest, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        found = PATHS.fullmatch(request.path)
        assert found is not None
        namespace, pod = filter(None, found.groups())
        where = self._locate(namespace, pod, port)
        try:
            if where is None:
                raise OSError("pod not found")
            return await asyncio.open_connection(*where)
        except OSError as error:
            text = f"error forwarding port {port} to pod {pod}, uid : {error}"
            await answer.send_bytes(bytes([2 * number + 1]) + text.encode())
            return None


async def _to_pods(
    answer: web.WebSocketResponse, writers: list[asyncio.StreamWriter | None]
) -> None:
    async for message in answer:
        if message.type is not WSMsgType.BINARY or not message.data:
            continue
        writer = writers[message.data[0] // 2]
        if writer is not None:
            writer.write(message.data[1:])
            await writer.drain()


async def _to_client(
    answer: web.WebSocketResponse, readers: dict[int, asyncio.StreamReader]
) -> None:
    async def carry(channel: int, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(PIECE_BYTES):
            await answer.send_bytes(bytes([channel]) + data)

    async with asyncio.TaskGroup() as tasks:
        for channel, reader in readers.items():
            tasks.create_task(carry(channel, reader), name=f"to client, channel {channel}")
