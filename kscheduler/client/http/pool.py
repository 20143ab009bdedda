"""Connections to one server, kept for the next request."""

import asyncio
import ssl
import time
from collections.abc import Callable

from kscheduler.client.http.connection import Connection, ServerClosedError
from kscheduler.client.http.dial import Route
from kscheduler.client.http.response import MAX_HELD_BYTES, Response
from kscheduler.client.http.turns import Turns

# Below the 90 s after which kube-apiserver closes an idle connection, so that we close it first.
KEEP_ALIVE_SECONDS = 30.0
CLOSE_SECONDS = 1.0


class ConnectionPool:
    """Connections for at most `limit` exchanges at a time, one each; None means any number.

    The connection that was used last is used next: as many stay open as are needed.
    """

    def __init__(self, route: Route, *, limit: int | None = None) -> None:
        self._route = route
        self._turns = Turns(limit) if limit else None
        self._open: set[Connection] = set()
        # In the order in which they became idle.
        self._idle: list[Connection] = []
        self._sweep: asyncio.TimerHandle | None = None

    @property
    def full(self) -> bool:
        """Whether another request would have to wait for its turn."""
        return self._turns is not None and self._turns.all_taken

    async def ask(
        self,
        request: bytes,
        context: ssl.SSLContext | None = None,
        *,
        check: Callable[[], None] | None = None,
        repeatable: bool = False,
        urgent: bool = False,
        idle_seconds: float | None = None,
        most_bytes: int = MAX_HELD_BYTES,
    ) -> Connection:
        """A connection on which the answer to this request has begun; `release` it in the end.

        A server may close a connection in the same moment in which a request is sent over it. One
        that is `repeatable` is then sent over another connection. `check` is called in the very
        step that hands the request to the socket: what it raises keeps the request from being sent.
        One that is `urgent` need not wait for others that are not.
        """
        if self._turns is not None:
            await self._turns.take(urgent=urgent)
        try:
            while True:
                connection = self._idle_connection(context) or await self._opened(context)
                try:
                    if check is not None:
                        check()
                    response = Response(most_bytes=most_bytes)
                    await connection.ask(request, response, idle_seconds=idle_seconds)
                except (ServerClosedError, ConnectionError):
                    connection.abort()
                    if not (repeatable and connection.kept) or response.begun:
                        raise
                except BaseException:
                    self._put_away(connection)
                    raise
                else:
                    return connection
        except BaseException:
            if self._turns is not None:
                self._turns.give_back()
            raise

    def release(self, connection: Connection) -> None:
        """The exchange is over; what is left of it, if anything, is not read."""
        self._put_away(connection)
        if self._turns is not None:
            self._turns.give_back()

    async def close(self) -> None:
        """Close all connections, exchanges under way included; later requests open new ones."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        self._idle.clear()
        for connection in self._open:
            connection.abort()
        if self._open:
            await asyncio.wait([one.closed for one in self._open], timeout=CLOSE_SECONDS)

    def _idle_connection(self, context: ssl.SSLContext | None) -> Connection | None:
        """The idle connection that was used last, if certificates have not changed since."""
        while self._idle:
            connection = self._idle.pop()
            if connection.free and connection.context is context:
                return connection
            connection.abort()
        return None

    async def _opened(self, context: ssl.SSLContext | None) -> Connection:
        connection = await self._route.open(context)
        self._open.add(connection)
        connection.closed.add_done_callback(lambda _: self._open.discard(connection))
        return connection

    def _put_away(self, connection: Connection) -> None:
        if not connection.free:
            connection.abort()
            return
        connection.kept = True
        connection.idle_since = time.monotonic()
        self._idle.append(connection)
        if self._sweep is None:
            self._sweep_later()

    def _sweep_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweep = loop.call_later(KEEP_ALIVE_SECONDS, self._close_idle)

    def _close_idle(self) -> None:
        horizon = time.monotonic() - KEEP_ALIVE_SECONDS
        old = [one for one in self._idle if one.idle_since <= horizon or not one.free]
        self._idle = [one for one in self._idle if one not in old]
        for connection in old:
            connection.abort()
        self._sweep = None
        if self._idle:
            self._sweep_later()
