"""The wire to one extender: a POST per question, over connections that are kept.

Mirrors the HTTP side of pkg/scheduler/extender.go. Differs: an answer is at most 64 MiB long; a
question that changes nothing is asked once more if the connection ended under it, not only when
that connection had been idle before.
"""

import asyncio
import time

from kscheduler.client.connections import Connections
from kscheduler.client.dialling import Route
from kscheduler.client.extender_body import Enough, read_body
from kscheduler.client.failures import BROKEN, failure
from kscheduler.client.fence import Fence, withheld
from kscheduler.client.http_connection import ServerClosedError
from kscheduler.client.http_response import MalformedResponseError
from kscheduler.client.tls import TlsConfig, TlsContexts
from kscheduler.client.transport import JSON, user_agent
from kscheduler.errors import KschedulerError

# The loop asks one question at a time, but bindings do so beside it.
MAX_CONNECTIONS = 100
MAX_ANSWER_BYTES = 64 << 20
OK = 200


class ExtenderHttpError(KschedulerError):
    """An extender could not be asked, or did not answer as it should."""


class ExtenderHttp:
    """Asks the extender at one address; `close` it in the end.

    What changes something is not sent once the `fence` is closed.
    """

    def __init__(
        self,
        url_prefix: str,
        tls: TlsConfig,
        *,
        timeout_seconds: float,
        fence: Fence | None = None,
    ) -> None:
        self._url = url_prefix.rstrip("/")
        self._tls = TlsContexts(tls) if self._url.startswith("https://") else None
        self._route = Route(self._url, server_name=tls.server_name)
        self._connections = Connections(self._route, limit=MAX_CONNECTIONS)
        self._timeout_seconds = timeout_seconds
        self._fence = fence

    async def ask(self, verb: str, question: bytes, *, repeatable: bool, enough: Enough) -> bytes:
        """The body of the answer, which was 200; every failure is an ExtenderHttpError.

        A question is `repeatable` if it changes nothing.
        """
        url = f"{self._url}/{verb}"
        exchange = _Exchange(f'Post "{url}"', None if repeatable else self._fence)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                try:
                    return await self._exchange(exchange, verb, url, question, enough)
                except ServerClosedError:
                    if not repeatable:
                        raise
                    return await self._exchange(exchange, verb, url, question, enough)
        except TimeoutError as error:
            raise ExtenderHttpError(exchange.timed_out()) from error
        except BROKEN as error:
            raise ExtenderHttpError(exchange.broken(error)) from error

    async def _exchange(
        self, exchange: "_Exchange", verb: str, url: str, question: bytes, enough: Enough
    ) -> bytes:
        context = self._tls.context(time.monotonic()) if self._tls is not None else None
        connection = await self._connections.ask(
            self._written(verb, question),
            context,
            check=exchange.check,
            most_bytes=MAX_ANSWER_BYTES,
        )
        try:
            exchange.is_answered = True
            status = connection.response.status
            if status != OK:
                raise ExtenderHttpError(f"failed {verb} with extender at URL {url}, code {status}")
            return await read_body(connection, enough, most_bytes=MAX_ANSWER_BYTES)
        finally:
            self._connections.release(connection)

    def _written(self, verb: str, question: bytes) -> bytes:
        headers = {
            "Host": self._route.host_header,
            "User-Agent": user_agent("extender"),
            "Content-Type": JSON,
            "Accept-Encoding": "gzip",
            "Content-Length": str(len(question)),
            **dict(self._route.headers),
        }
        lines = [f"{name}: {value}" for name, value in headers.items()]
        request_line = f"POST {self._route.target_prefix}/{verb} HTTP/1.1"
        return "\r\n".join([request_line, *lines, "", ""]).encode() + question

    async def close(self) -> None:
        await self._connections.close()


class _Exchange:
    """How far a question has come, which its failure tells."""

    def __init__(self, request: str, fence: Fence | None) -> None:
        self.request = request
        self.is_answered = False
        self._fence = fence

    def check(self) -> None:
        """Whether it may still be sent, asked as late as can be."""
        if self._fence is not None and self._fence() <= 0:
            raise ExtenderHttpError(str(withheld(self.request)))

    def timed_out(self) -> str:
        """Go's words; once the answer has begun, they come without the request."""
        told = "context deadline exceeded (Client.Timeout"
        if self.is_answered:
            return f"{told} or context cancellation while reading body)"
        return f"{self.request}: {told} exceeded while awaiting headers)"

    def broken(self, error: Exception) -> str:
        """The same."""
        if self.is_answered and isinstance(error, MalformedResponseError):
            return str(error)
        told = failure(self.request, error)
        return told.cause if self.is_answered else str(told)
