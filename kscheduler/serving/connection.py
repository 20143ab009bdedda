"""One connection: aiohttp speaks HTTP on it, and this keeps the client from taking its time.

A request's header must come within `HEADER_SECONDS` of its first byte and fit `MAX_HEADER_BYTES`;
an answer must be taken within `SEND_SECONDS`; in between a client may be silent for `IDLE_SECONDS`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, Protocol, cast

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from kscheduler.serving import answers
from kscheduler.serving.answers import Handler

HEADER_SECONDS = 32.0
SEND_SECONDS = 30.0
# How long a connection may stay without a request, the first one included.
IDLE_SECONDS = 90.0
# How long the rest of an unread body is drained before the connection is closed.
LINGER_SECONDS = 1.0
MAX_HEADER_BYTES = 64 * 1024
# Larger answers are encrypted and sent piece by piece, each when the client has taken the others.
PIECE_BYTES = 32 * 1024

END_OF_HEADER = b"\r\n\r\n"
TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
    b"431 Request Header Fields Too Large"
)

# aiohttp's complaints about malformed requests: answered to their sender, kept out of our log.
_malformed = logging.getLogger("kscheduler.serving.malformed")
_malformed.disabled = True


class Host(Protocol):
    """The server, as a connection reports to it: opened, waiting for its client, busy with a
    request, closed. Only waiting connections are dropped to make room for others.
    """

    def opened(self, connection: Connection) -> None: ...
    def waiting(self, connection: Connection) -> None: ...
    def busy(self, connection: Connection) -> None: ...
    def closed(self, connection: Connection) -> None: ...


class Speaker(RequestHandler):
    """aiohttp's part of a connection, with Go's answers to what is not HTTP."""

    __slots__ = ("connection",)

    def __init__(self, manager: web.Server, connection: Connection) -> None:
        super().__init__(
            manager,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=IDLE_SECONDS,
            lingering_time=LINGER_SECONDS,
            access_log=None,  # type: ignore[arg-type]
            logger=_malformed,
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
            auto_decompress=False,
        )
        self.connection = connection

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        phrase = "Bad Request" if status == 400 else "Internal Server Error"
        answer = answers.text(f"{status} {phrase}", status=status, headers={})
        answer.force_close()
        return answer


class Connection(asyncio.Protocol):
    """Between the socket and aiohttp."""

    def __init__(self, manager: web.Server, host: Host) -> None:
        self._speaker = Speaker(manager, self)
        self._host = host
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._in_request = False
        self._header_bytes = 0
        self._tail = b""
        self.is_made = False
        self.waiting_since = time.monotonic()

    @property
    def has_place(self) -> bool:
        return True

    def drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def begin(self) -> None:
        """A request has come in whole, but for its body."""
        self._in_request = True
        self._cancel_deadline()
        self._host.busy(self)

    def end(self) -> None:
        """The request has been answered."""
        self._in_request = False
        self._header_bytes = 0
        self._tail = b""
        self.waiting_since = time.monotonic()
        if self._transport is not None:
            self._host.waiting(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.is_made = True
        self.waiting_since = time.monotonic()
        self._host.opened(self)
        self._speaker.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if not self._in_request and not self._header_may_go_on(data):
            return
        self._speaker.data_received(data)

    def eof_received(self) -> bool | None:
        self._speaker.eof_received()
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        self._transport = None
        self._host.closed(self)
        self._speaker.connection_lost(exc)

    def pause_writing(self) -> None:
        self._speaker.pause_writing()

    def resume_writing(self) -> None:
        self._speaker.resume_writing()

    def _header_may_go_on(self, data: bytes) -> bool:
        """False once a header has become too large, which is answered at once."""
        if self._header_bytes == 0:
            loop = asyncio.get_running_loop()
            self._cancel_deadline()
            self._deadline = loop.call_later(HEADER_SECONDS, self.drop)
        seen = self._tail + data
        if END_OF_HEADER in seen:
            self._cancel_deadline()
            self._in_request = True
            return True
        self._tail = seen[-len(END_OF_HEADER) + 1 :]
        self._header_bytes += len(data)
        if self._header_bytes <= MAX_HEADER_BYTES:
            return True
        assert self._transport is not None
        self._transport.write(TOO_LARGE)
        self._transport.close()
        self._in_request = True
        return False

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def answered_in_time(handler: Handler) -> Any:
    """The handler, with its connection marked busy meanwhile and its answer sent within limits."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        speaker = request.protocol
        assert isinstance(speaker, Speaker)
        connection = speaker.connection
        connection.begin()
        try:
            response = await handler(request)
            body = response.body if isinstance(response, web.Response) else None
            if request.method != "HEAD" and isinstance(body, bytes) and len(body) > PIECE_BYTES:
                assert isinstance(response, web.Response)
                response = _InPieces(response, body)
            try:
                async with asyncio.timeout(SEND_SECONDS):
                    await response.prepare(request)
                    await response.write_eof()
            except TimeoutError:
                connection.drop()
            except ConnectionError:
                pass  # The client has left; aiohttp finds that out by itself.
        finally:
            connection.end()
        return response

    return answer


class _InPieces(web.StreamResponse):
    """An answer of known length that is never encrypted as a whole."""

    def __init__(self, whole: web.Response, body: bytes) -> None:
        super().__init__(status=whole.status, headers=whole.headers)
        self.content_length = len(body)
        self._content = memoryview(body)

    async def write_eof(self, data: bytes = b"") -> None:
        for start in range(0, len(self._content), PIECE_BYTES):
            await self.write(self._content[start : start + PIECE_BYTES])
        self._content = self._content[:0]
        await super().write_eof(data)
