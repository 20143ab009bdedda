"""Port forwarding: a stream to a port of a pod, through the API server and the pod's kubelet.

Speaks `v4.channel.k8s.io` over a WebSocket: frames begin with a channel, 0 for data and 1 for what
the kubelet has to say about failures, and the first frame of either is the port. A stream is
handed over as one end of a pair of sockets, so that whatever is spoken over it, TLS to begin with,
is spoken as over any other socket. A port that listens on this machine, as kubectl opens it, was
the alternative; others on the machine could use it, too.

aiohttp's client does the WebSocket: it is imported only where a port is forwarded.
"""

import asyncio
import socket
import ssl
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self
from urllib.parse import quote, urlencode

from kscheduler.client.clientcmd.rest_config import RestConfig
from kscheduler.client.credentials import credentials_for
from kscheduler.client.http.dial import DIAL_SECONDS, ProxyRefusedError, Route
from kscheduler.client.tls import TlsContexts
from kscheduler.errors import ConfigError

if TYPE_CHECKING:
    from aiohttp import ClientSession, ClientWebSocketResponse

PROTOCOL = "v4.channel.k8s.io"
DATA, FAILURE = 0, 1
PORT_BYTES = 2
PIECE_BYTES = 32 << 10
CLOSE_SECONDS = 1.0
# A kubelet's complaint is a line; more is not kept.
MAX_FAILURE_BYTES = 4 << 10

MEANINGS = {
    401: "the API server does not accept the credentials",
    403: "it takes the rights to get and to create pods/portforward there",
    404: "there is no such pod",
}


class PortForward:
    """Opens streams to one port of one pod; enter it, and leave it to close them all.

    `failure` is what the kubelet said about a stream that ended, or could not begin.
    """

    def __init__(self, config: RestConfig, namespace: str, pod: str, port: int) -> None:
        self._config = config
        self._what = f"port {port} of pod {namespace}/{pod}"
        query = urlencode({"ports": port})
        path = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(pod)}/portforward?{query}"
        self._url = config.server + path
        self._tls = TlsContexts(config.tls) if config.secure else None
        self._credentials = credentials_for(
            config.identity, has_certificate=config.tls.has_certificate
        )
        self._session: ClientSession | None = None
        self._pumps: set[asyncio.Task[None]] = set()
        self.failure = ""

    async def __aenter__(self) -> Self:
        from aiohttp import ClientSession, ClientTimeout, DummyCookieJar

        timeout = ClientTimeout(connect=DIAL_SECONDS)
        self._session = ClientSession(timeout=timeout, cookie_jar=DummyCookieJar())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._session is not None
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        await self._session.close()

    async def dial(self) -> socket.socket:
        """A new stream, as a socket; ProxyRefusedError if none comes about, or if the kubelet has
        complained about the last one.
        """
        if self.failure:
            raise ProxyRefusedError(f"{self._what} cannot be forwarded: {self.failure}")
        channel = await self._connected()
        near, far = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=far)
        pump = asyncio.create_task(
            self._pump(channel, reader, writer), name=f"forward {self._what}"
        )
        self._pumps.add(pump)
        pump.add_done_callback(self._pumps.discard)
        # Also if it is cancelled before it begins.
        pump.add_done_callback(lambda _: writer.close())
        return near

    async def _connected(self) -> "ClientWebSocketResponse":
        from aiohttp import ClientError, ClientWSTimeout, WSServerHandshakeError

        assert self._session is not None
        proxy = Route(self._config.server, proxy=self._config.proxy).proxy
        if proxy.startswith("socks"):
            raise ProxyRefusedError(f"{self._what} cannot be forwarded over a SOCKS proxy")
        try:
            authorization = await self._credentials.authorization()
            certificate = await self._credentials.certificate()
            context: ssl.SSLContext | bool = True
            if self._tls is not None:
                context = self._tls.context(time.monotonic(), certificate)
            headers = self._config.identity.impersonation.headers()
            headers += [("Authorization", authorization)] if authorization else []
            return await self._session.ws_connect(
                self._url,
                protocols=[PROTOCOL],
                headers=headers,
                ssl=context,
                server_hostname=self._config.tls.server_name or None,
                proxy=proxy or None,
                timeout=ClientWSTimeout(ws_close=CLOSE_SECONDS),
            )
        except WSServerHandshakeError as error:
            meaning = MEANINGS.get(error.status, error.message)
            raise ProxyRefusedError(
                f"{self._what} cannot be forwarded: {error.status}, {meaning}"
            ) from error
        except (ClientError, TimeoutError, ConfigError) as error:
            raise ProxyRefusedError(
                f"{self._what} cannot be forwarded: {error or 'the API server does not answer'}"
            ) from error

    async def _pump(
        self,
        channel: "ClientWebSocketResponse",
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Carries bytes both ways until either side has no more."""
        ways = [
            asyncio.create_task(_send(reader, channel), name=f"to {self._what}"),
            asyncio.create_task(self._receive(channel, writer), name=f"from {self._what}"),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            await channel.close()

    async def _receive(
        self, channel: "ClientWebSocketResponse", writer: asyncio.StreamWriter
    ) -> None:
        from aiohttp import WSMsgType

        # Bytes of the port that each channel begins with, still to come.
        before = {DATA: PORT_BYTES, FAILURE: PORT_BYTES}
        async for message in channel:
            if message.type is not WSMsgType.BINARY or not message.data:
                continue
            number, data = message.data[0], message.data[1:]
            if number not in before:
                continue
            skipped = min(before[number], len(data))
            before[number] -= skipped
            data = data[skipped:]
            if number == DATA:
                writer.write(data)
                await writer.drain()
            elif data:
                text = (self.failure + data.decode(errors="replace"))[:MAX_FAILURE_BYTES]
                self.failure = text


async def _send(reader: asyncio.StreamReader, channel: "ClientWebSocketResponse") -> None:
    while data := await reader.read(PIECE_BYTES):
        await channel.send_bytes(bytes([DATA]) + data)
