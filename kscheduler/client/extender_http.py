"""The wire to one extender: a POST per question, over connections that are kept.

Mirrors the HTTP side of pkg/scheduler/extender.go. Differs: an answer is at most 64 MiB long; a
question that changes nothing is asked once more if the connection ended under it, not only when
that connection had been idle before.
"""

import asyncio
import time

import aiohttp

from kscheduler.client.connections import connector, failure, proxy_for
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
    """Asks the extender at one address; `close` it in the end."""

    def __init__(self, url_prefix: str, tls: TlsConfig, *, timeout_seconds: float) -> None:
        self._url = url_prefix.rstrip("/")
        self._server_name = tls.server_name or None
        self._tls = TlsContexts(tls)
        self._proxy = proxy_for(self._url, "")
        self._timeout_seconds = timeout_seconds
        self._session: aiohttp.ClientSession | None = None

    async def ask(self, verb: str, question: bytes, *, repeatable: bool) -> bytes:
        """The body of the answer, which was 200; every failure is an ExtenderHttpError."""
        url = f"{self._url}/{verb}"
        exchange = _Exchange(f'Post "{url}"')
        try:
            async with asyncio.timeout(self._timeout_seconds):
                try:
                    return await self._exchange(exchange, verb, url, question)
                except aiohttp.ServerDisconnectedError:
                    if not repeatable:
                        raise
                    return await self._exchange(exchange, verb, url, question)
        except TimeoutError as error:
            raise ExtenderHttpError(exchange.timed_out()) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ExtenderHttpError(str(failure(exchange.request, self._url, error))) from error

    async def _exchange(self, exchange: "_Exchange", verb: str, url: str, question: bytes) -> bytes:
        async with self._opened().post(
            url,
            data=question,
            headers={"Content-Type": JSON},
            ssl=self._tls.context(time.monotonic()),
            server_hostname=self._server_name,
            proxy=self._proxy,
        ) as response:
            exchange.is_answered = True
            if response.status != OK:
                raise ExtenderHttpError(
                    f"failed {verb} with extender at URL {url}, code {response.status}"
                )
            return await _read(response)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=connector(MAX_CONNECTIONS),
                headers={"User-Agent": user_agent("extender")},
                cookie_jar=aiohttp.DummyCookieJar(),
                # The time limit is around the whole exchange.
                timeout=aiohttp.ClientTimeout(total=None),
            )
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


class _Exchange:
    """How far a question has come, which its failure tells."""

    def __init__(self, request: str) -> None:
        self.request = request
        self.is_answered = False

    def timed_out(self) -> str:
        """Go's words; once the answer has begun, they come without the request."""
        told = "context deadline exceeded (Client.Timeout"
        if self.is_answered:
            return f"{told} or context cancellation while reading body)"
        return f"{self.request}: {told} exceeded while awaiting headers)"


async def _read(response: aiohttp.ClientResponse) -> bytes:
    answer = bytearray()
    while chunk := await response.content.readany():
        answer += chunk
        if len(answer) > MAX_ANSWER_BYTES:
            raise ExtenderHttpError(f"an answer of more than {MAX_ANSWER_BYTES} bytes")
    return bytes(answer)
