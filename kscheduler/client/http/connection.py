"""One HTTP/1.1 connection: a request goes out in one piece, its answer comes in, then the next.

Written by hand because a request with aiohttp's client takes twice the CPU, of the thread that also
decides (docs/dependencies.md). It does what talking to an API server takes, and nothing else.
"""

import asyncio
import ssl
from typing import cast

from kscheduler.client.http.response import MalformedResponseError, Response

# Reading stops, so that the server has to wait, while more than this is there and not asked for.
MAX_UNREAD_BYTES = 512 << 10


class ServerClosedError(Exception):
    """The connection was closed before a byte of the answer came."""


class CutShortError(Exception):
    """The connection was closed in the middle of the answer."""


class Connection(asyncio.Protocol):
    """One exchange after the other: `ask`, then `read` or `read_all`; the next one when `free`."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        # What its TLS was opened with.
        self.context = context
        # Whether it has been kept for another exchange: it may then have been closed meanwhile.
        self.kept = False
        self.idle_since = 0.0
        self.response = Response()
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._failure: Exception | None = None
        self._under_way = False
        self._paused = False
        self.closed: asyncio.Future[None] = self._loop.create_future()

    @property
    def free(self) -> bool:
        """Whether another exchange may follow: all before it have come to a good end."""
        return (
            self._failure is None
            and not self._under_way
            and self._transport is not None
            and not self._transport.get_write_buffer_size()
        )

    async def secure(self, context: ssl.SSLContext, name: str, *, seconds: float) -> None:
        """Goes on in TLS, with a server that has to prove that this is its name."""
        assert self._transport is not None
        transport = await self._loop.start_tls(
            self._transport, self, context, server_hostname=name, ssl_handshake_timeout=seconds
        )
        if transport is None:
            raise ConnectionResetError("closed during the handshake")
        self._transport = transport

    @property
    def peer_certificate(self) -> bytes:
        """The server's certificate as DER; empty without TLS."""
        assert self._transport is not None
        tls = self._transport.get_extra_info("ssl_object")
        return (tls and tls.getpeercert(binary_form=True)) or b""

    async def ask(
        self, request: bytes, response: Response, *, idle_seconds: float | None = None
    ) -> None:
        """Sends a request; returns when the head of its answer is in `response`."""
        assert self._transport is not None
        self.response = response
        self._under_way = True
        if self._failure is None:
            self._transport.write(request)
        while not response.status:
            await self._progress(idle_seconds)

    async def read(self, *, idle_seconds: float | None = None) -> bytes:
        """Bytes of the body that came since the last call; empty at its end."""
        response = self.response
        while not response.held_bytes and not response.complete:
            await self._progress(idle_seconds)
        return response.take()

    async def read_all(self, *, idle_seconds: float | None = None) -> bytes:
        """The whole body."""
        while not self.response.complete:
            await self._progress(idle_seconds)
        return self.response.take()

    def abort(self) -> None:
        """Closes the connection at once; a task that waits for an answer gets an error."""
        if self._transport is not None:
            self._transport.abort()

    async def _progress(self, idle_seconds: float | None) -> None:
        """Waits until something more has come."""
        if self._failure is not None:
            raise self._failure
        if self._paused:
            self._flow(paused=False)
        self._waiter = self._loop.create_future()
        try:
            if idle_seconds is None:
                await self._waiter
            else:
                async with asyncio.timeout(idle_seconds):
                    await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        elif self.response.held_bytes > MAX_UNREAD_BYTES and not self._paused:
            self._flow(paused=True)

    def _flow(self, *, paused: bool) -> None:
        assert self._transport is not None
        self._paused = paused
        if paused:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _fail(self, error: Exception) -> None:
        """Keep the first failure: those after it are its consequences."""
        self._failure = self._failure or error
        self._under_way = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            if not self._under_way:
                raise MalformedResponseError("an answer without a request")
            self.response.feed(data)
        except MalformedResponseError as error:
            self._fail(error)
            self.abort()
        else:
            self._conclude()
        self._wake()

    def eof_received(self) -> None:
        self.response.end()
        self._conclude()
        self._fail(self._closing())
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(error or self._closing())
        self._transport = None
        self.closed.set_result(None)
        self._wake()

    def _conclude(self) -> None:
        if self.response.complete:
            self._under_way = False
            if not self.response.keeps_alive:
                self._fail(ServerClosedError())

    def _closing(self) -> Exception:
        return CutShortError() if self._under_way and self.response.begun else ServerClosedError()
