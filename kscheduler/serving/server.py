"""A listening port: accepts connections, with TLS or without, and drains on the way out.

A connection that has spoken gets one of `PLACES`, since shaking hands and answering cost memory;
others wait for theirs, up to `MAX_CONNECTIONS` in all. When there is no room, the one that has kept
us waiting longest makes some, so that slow or silent clients cannot shut out the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import time
from collections.abc import Callable, Iterable

import msgspec
from aiohttp import web

from kscheduler import logs
from kscheduler.serving.answers import Handler
from kscheduler.serving.connection import Connection, answered_in_time
from kscheduler.serving.tls_context import TlsContexts

log = logs.logger(__name__)

TLS_HANDSHAKE = 0x16
MAX_CONNECTIONS = 1024
PLACES = 128
FIRST_BYTE_SECONDS = 10.0
HANDSHAKE_SECONDS = 32.0
# How long a client may be kept waiting for a place.
PLACE_SECONDS = 30.0
# A client that has kept us waiting for less is not sent away.
GRACE_SECONDS = 5.0
# Time between two tries to make room when there is none.
BUSY_SECONDS = 0.1
DRAIN_SECONDS = 5.0

NOT_TLS = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"


class _Greeting(msgspec.Struct, eq=False):
    """A connection that has not spoken yet, or is still shaking hands."""

    waiting_since: float
    has_place: bool = False
    drop: Callable[[], object] = lambda: None


_Visitor = _Greeting | Connection


class Server:
    """Serves a handler on a socket that is bound and listening already; `tls` None means plain."""

    def __init__(
        self, handler: Handler, listener: socket.socket, tls: TlsContexts | None = None
    ) -> None:
        self._handler = handler
        self._listener = listener
        self._tls = tls
        self._name = "secure" if tls else "plain"
        # Files this process may have open; half of them are left to the scheduler's own work.
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if descriptors == resource.RLIM_INFINITY:
            descriptors = 2 * MAX_CONNECTIONS
        self._limit = min(MAX_CONNECTIONS, descriptors // 2)
        self._places = asyncio.Semaphore(min(PLACES, self._limit))
        self._without_place = 0
        self._open: set[_Visitor] = set()
        # Those that wait for their client, in the order in which they began to.
        self._waiting: dict[_Visitor, None] = {}

    async def run(self) -> None:
        """Until cancelled; then stop listening, let requests finish, and go."""
        http = web.Server(answered_in_time(self._handler))
        self._listener.settimeout(0)
        host, port = self._listener.getsockname()[:2]
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        how = "securely" if self._tls else "without encryption"
        log.text_info(f"Serving {how} on {address}")
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._make_places(), name="serving/places")
                await self._accept_forever(http, tasks)
        finally:
            self._listener.close()
            log.info(f"[graceful-termination] {self._name} server has stopped listening")
            # As Go does: a connection without a request has nothing to finish.
            for connection in list(self._waiting):
                connection.drop()
            await http.shutdown(DRAIN_SECONDS)
            log.info(f"[graceful-termination] {self._name} server is exiting")

    def opened(self, connection: Connection) -> None:
        self._open.add(connection)
        self.waiting(connection)

    def waiting(self, connection: Connection) -> None:
        self._waiting.pop(connection, None)
        self._waiting[connection] = None

    def busy(self, connection: Connection) -> None:
        self._waiting.pop(connection, None)

    def closed(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._waiting.pop(connection, None)
        self._places.release()

    async def _accept_forever(self, http: web.Server, greetings: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        while True:
            # When full, the connection that has kept us waiting longest makes room.
            if len(self._open) >= self._limit and not self._send_away(self._waiting):
                await asyncio.sleep(BUSY_SECONDS)
                continue
            try:
                connection, _ = await loop.sock_accept(self._listener)
            except OSError as error:  # for want of descriptors, say
                log.error(error, "Accepting a connection failed")
                await asyncio.sleep(BUSY_SECONDS)
                continue
            greeting = _Greeting(time.monotonic())
            self._open.add(greeting)
            self._waiting[greeting] = None
            task = greetings.create_task(
                self._greet(http, connection, greeting), name="serving/greet"
            )
            greeting.drop = task.cancel

    async def _make_places(self) -> None:
        """Frees places for connections that have spoken, while there are none."""
        while True:
            await asyncio.sleep(BUSY_SECONDS)
            for _ in range(self._without_place if self._places.locked() else 0):
                if not self._send_away(one for one in self._waiting if one.has_place):
                    break

    def _send_away(self, candidates: Iterable[_Visitor]) -> bool:
        """The first of them, if it has had its time."""
        longest = next(iter(candidates), None)
        if longest is None or time.monotonic() - longest.waiting_since < GRACE_SECONDS:
            return False
        del self._waiting[longest]
        longest.drop()
        return True

    async def _greet(
        self, http: web.Server, connection: socket.socket, greeting: _Greeting
    ) -> None:
        """Hand one connection over to HTTP, once it has spoken."""
        handed_over = False
        try:
            connection.settimeout(0)
            async with asyncio.timeout(FIRST_BYTE_SECONDS):
                first = await _peek(connection)
            if first and self._tls is not None and first[0] != TLS_HANDSHAKE:
                await _explain(connection, first)
            elif first:
                await self._take_place(greeting)
                handed_over = await self._hand_over(http, connection)
        except OSError as error:  # timeouts and failed handshakes among them
            log.v(5).info("Connection ended before its first request", err=str(error))
        finally:
            self._open.discard(greeting)
            self._waiting.pop(greeting, None)
            if not handed_over:
                connection.close()

    async def _take_place(self, greeting: _Greeting) -> None:
        """Waits for a place; meanwhile the connection does not count as a slow client."""
        self._waiting.pop(greeting, None)
        self._without_place += 1
        try:
            async with asyncio.timeout(PLACE_SECONDS):
                await self._places.acquire()
        finally:
            self._without_place -= 1
        greeting.has_place = True
        greeting.waiting_since = time.monotonic()
        self._waiting[greeting] = None

    async def _hand_over(self, http: web.Server, socket_: socket.socket) -> bool:
        """From when it is made on, a connection gives back its place itself."""
        context = self._tls.current(time.monotonic()) if self._tls else None
        connection = Connection(http, self)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                socket_,
                ssl=context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS if context else None,
            )
        finally:
            if not connection.is_made:
                self._places.release()
        return True


async def _peek(connection: socket.socket) -> bytes:
    """The first byte, left in the socket for the TLS or HTTP parser."""
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


async def _explain(connection: socket.socket, first: bytes) -> None:
    """To a client that seems to speak HTTP: that this is no place for it without TLS."""
    if first.isupper():
        async with asyncio.timeout(FIRST_BYTE_SECONDS):
            await asyncio.get_running_loop().sock_sendall(connection, NOT_TLS)
        connection.shutdown(socket.SHUT_WR)
        # Unread bytes would make the kernel reset the connection before the answer arrives.
        with contextlib.suppress(BlockingIOError):
            connection.recv(65536)
