"""The serving port: accepts connections, tells TLS from plain HTTP by the first byte, and drains
on the way out.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl

from aiohttp import web

from kscheduler import logs
from kscheduler.serving.secure_port import SecurePort
from kscheduler.serving.tls_context import context_for

log = logs.logger(__name__)

TLS_HANDSHAKE = 0x16
MAX_CONNECTIONS = 1024
FIRST_BYTE_SECONDS = 10.0
DRAIN_SECONDS = 5.0


class Server:
    """Serves an application on a socket that is bound and listening already."""

    def __init__(self, application: web.Application, port: SecurePort) -> None:
        self._runner = web.AppRunner(
            application, access_log=None, shutdown_timeout=DRAIN_SECONDS, keepalive_timeout=90
        )
        self._listener = port.listener
        self._tls = context_for(port)
        self._free = asyncio.Semaphore(MAX_CONNECTIONS)

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
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as greetings:
            while True:
                await self._free.acquire()
                connection, _ = await loop.sock_accept(self._listener)
                greetings.create_task(self._greet(connection), name="serving/greet")

    async def _greet(self, connection: socket.socket) -> None:
        """Hand one connection to aiohttp; the slot is for connections that have not spoken yet."""
        loop = asyncio.get_running_loop()
        handler = self._runner.server
        assert handler is not None
        try:
            connection.settimeout(0)
            async with asyncio.timeout(FIRST_BYTE_SECONDS):
                first = await _peek(connection)
            if not first:
                connection.close()
                return
            tls = self._tls if first[0] == TLS_HANDSHAKE else None
            await loop.connect_accepted_socket(handler, connection, ssl=tls)
        except (OSError, TimeoutError, ssl.SSLError):
            connection.close()
        finally:
            self._free.release()


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
