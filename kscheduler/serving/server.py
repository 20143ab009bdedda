"""The serving port: accepts connections, tells TLS from plain HTTP by the first byte, and drains
on the way out.

At most `MAX_CONNECTIONS` are open at a time; who comes later waits in the listener's backlog.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket

from aiohttp import web

from kscheduler import logs
from kscheduler.serving.secure_port import SecurePort
from kscheduler.serving.tls_context import context_for

log = logs.logger(__name__)

TLS_HANDSHAKE = 0x16
MAX_CONNECTIONS = 1024
FIRST_BYTE_SECONDS = 10.0
HANDSHAKE_SECONDS = 32.0
# How long a connection may stay without a request, the first one included.
IDLE_SECONDS = 90.0
# Before accepting is tried again when there was no room for another connection.
BUSY_SECONDS = 0.1
DRAIN_SECONDS = 5.0


class Server:
    """Serves an application on a socket that is bound and listening already."""

    def __init__(self, application: web.Application, port: SecurePort) -> None:
        self._runner = web.AppRunner(
            application,
            access_log=None,
            shutdown_timeout=DRAIN_SECONDS,
            keepalive_timeout=IDLE_SECONDS,
        )
        self._listener = port.listener
        self._tls = context_for(port)
        self._greeting = 0

    async def run(self) -> None:
        """Until cancelled; then stop listening, let requests finish, and go."""
        await self._runner.setup()
        self._listener.settimeout(0)
        host, port = self._listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        log.text_info(f"Serving securely on {shown}:{port}")
        try:
            await self._accept_forever()
        finally:
            self._listener.close()
            log.info("[graceful-termination] secure server has stopped listening")
            await self._runner.cleanup()
            log.info("[graceful-termination] secure server is exiting")

    async def _accept_forever(self) -> None:
        async with asyncio.TaskGroup() as greetings:
            while True:
                connection = None if self._full else await self._accept()
                if connection is None:
                    await asyncio.sleep(BUSY_SECONDS)
                else:
                    self._greeting += 1
                    greetings.create_task(self._greet(connection), name="serving/greet")

    async def _accept(self) -> socket.socket | None:
        """The next connection; None if there cannot be one now, for want of descriptors, say."""
        try:
            connection, _ = await asyncio.get_running_loop().sock_accept(self._listener)
        except OSError as error:
            log.error(error, "Accepting a connection failed")
            return None
        return connection

    @property
    def _full(self) -> bool:
        return self._greeting + len(self._http.connections) >= MAX_CONNECTIONS

    @property
    def _http(self) -> web.Server:
        server = self._runner.server
        assert server is not None
        return server

    async def _greet(self, connection: socket.socket) -> None:
        """Hand one connection over to aiohttp, once it has spoken."""
        loop = asyncio.get_running_loop()
        handed_over = False
        try:
            connection.settimeout(0)
            async with asyncio.timeout(FIRST_BYTE_SECONDS):
                first = await _peek(connection)
            if first:
                tls = self._tls if first[0] == TLS_HANDSHAKE else None
                patience = HANDSHAKE_SECONDS if tls else None
                await loop.connect_accepted_socket(
                    self._http, connection, ssl=tls, ssl_handshake_timeout=patience
                )
                handed_over = True
        except OSError as error:  # timeouts and failed handshakes among them
            log.v(5).info("Connection ended before its first request", err=str(error))
        finally:
            self._greeting -= 1
            if not handed_over:
                connection.close()


async def _peek(connection: socket.socket) -> bytes:
    """The first byte, left in the socket for whoever reads it in earnest."""
    loop = asyncio.get_running_loop()
    readable = loop.create_future()

    def wake() -> None:
        with contextlib.suppress(asyncio.InvalidStateError):
            readable.set_result(None)

    loop.add_reader(connection.fileno(), wake)
    try:
        await readable
    finally:
        loop.remove_reader(connection.fileno())
    return connection.recv(1, socket.MSG_PEEK)
