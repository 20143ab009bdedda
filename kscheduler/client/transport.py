"""Requests to one API server: connections, identity, rate limit, retries; nothing of objects.

Mirrors client-go's rest.Request: 429 and 5xx answers that carry Retry-After are waited out, a GET
whose connection broke is sent again, up to ten times; everything else is for the caller to judge.
"""

import asyncio
import platform
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from kscheduler import logs
from kscheduler.api.duration import SECOND, format_duration
from kscheduler.client.connections import DIAL_SECONDS, connector, failure, proxy_for
from kscheduler.client.credentials import credentials_for
from kscheduler.client.errors import (
    ConnectionReset,
    CredentialsError,
    DeadlineExceeded,
    StatusError,
    TransportError,
    Withheld,
    from_response,
)
from kscheduler.client.fence import Fence, FencedBody, withheld
from kscheduler.client.kubeconfig import RestConfig
from kscheduler.client.observation import Observer, Unobserved
from kscheduler.client.reachability import Reachability
from kscheduler.client.throttle import bucket_for
from kscheduler.client.tls import TlsContexts
from kscheduler.errors import ConfigError
from kscheduler.version import __version__

log = logs.logger(__name__)

JSON = "application/json"
MAX_RETRIES = 10
# How long a GET whose connection broke waits before it is sent again.
BROKEN_PAUSE_SECONDS = 1
# A wait for our own rate limit that is worth a line at -v=3.
LONG_WAIT_SECONDS = 0.05

_GO_NAMES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}


def user_agent(suffix: str, *, commit: str = "unknown") -> str:
    """As upstream names its clients; `suffix` is `scheduler` or `leader-election`."""
    machine = platform.machine()
    system = f"{sys.platform}/{_GO_NAMES.get(machine, machine)}"
    return f"kscheduler/{__version__} ({system}) kubernetes/{commit}/{suffix}"


class _Call(NamedTuple):
    """One request as it is sent, possibly several times."""

    method: str
    url: str
    body: bytes | None
    content_type: str
    subject: str
    streamed: bool = False
    fence: Fence | None = None

    @property
    def request(self) -> str:
        """How Go names it in errors."""
        return f'{self.method.capitalize()} "{self.url}"'

    def fenced_body(self) -> bytes | FencedBody | None:
        if self.fence is None or self.body is None:
            return self.body
        return FencedBody(self.body, self.fence, self.request)

    def may_be_repeated(self, error: TransportError) -> bool:
        """Whether sending it again can do no harm: a broken write may have taken effect."""
        broken = isinstance(error, ConnectionReset)
        return self.method == "GET" and (
            broken or (self.streamed and isinstance(error, DeadlineExceeded))
        )


class Transport:
    """Sends requests to one API server; enter it to open its connection pools.

    `max_connections` bounds requests under way; streams have a pool of their own, so that watches
    never take a connection from a binding. A negative `qps` lifts the rate limit.
    """

    def __init__(
        self,
        config: RestConfig,
        *,
        agent: str,
        qps: float = -1.0,
        burst: int = 0,
        timeout_seconds: float | None = None,
        max_connections: int = 100,
        observer: Observer | None = None,
        reachability: Reachability | None = None,
    ) -> None:
        self.host = config.host
        self._server = config.server
        self._server_name = config.tls.server_name or None
        self._tls = TlsContexts(config.tls) if config.secure else None
        self._credentials = credentials_for(
            config.identity, has_certificate=config.tls.has_certificate
        )
        self._proxy = proxy_for(config.server, config.proxy)
        self._bucket = bucket_for(qps, burst)
        self._timeout_seconds = timeout_seconds
        self._max_connections = max_connections
        self._observer = observer or Unobserved()
        self._reachability = reachability or Reachability()
        self._headers = [
            ("User-Agent", agent),
            ("Accept", "application/json, */*"),
            *config.identity.impersonation.headers(),
        ]
        self._requests: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._requests = self._session(self._max_connections)
        self._streams = self._session(0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for session in (self._requests, self._streams):
            if session is not None:
                await session.close()

    def _session(self, limit: int) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=connector(limit),
            headers=self._headers,
            # Compression would cost both sides more than the loopback or rack-local bytes do.
            skip_auto_headers=("Accept-Encoding", "Content-Type"),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=DIAL_SECONDS),
        )

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        subject: str = "",
        fence: Fence | None = None,
    ) -> bytes:
        """The body of a successful answer; `subject` names the object in errors (`pods p1`).

        With a `fence`, a request that has a body is neither sent nor waited for once that closes.
        """
        call = _Call(method, self._url(path, query), body, content_type, subject, fence=fence)
        started = time.perf_counter()
        received = 0
        await self._wait_for_token(call)
        try:
            async with asyncio.timeout(self._seconds_for(call)):
                response = await self._answered(call)
                answer = await self._read(call, response)
                received = len(answer)
                return answer
        except TimeoutError as error:
            raise DeadlineExceeded(call.request, "context deadline exceeded") from error
        finally:
            seconds = time.perf_counter() - started
            self._observer.finished(method, self.host, seconds, len(body or b""), received)

    def _seconds_for(self, call: _Call) -> float | None:
        """How long the answer may take; no longer than what the request must not outlive."""
        if call.fence is None:
            return self._timeout_seconds
        left = call.fence()
        if left <= 0:
            raise withheld(call.request)
        return left if self._timeout_seconds is None else min(left, self._timeout_seconds)

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        idle_seconds: float | None = None,
        subject: str = "",
    ) -> AsyncIterator[Callable[[], Awaitable[bytes]]]:
        """A reader of an answer that goes on: it gives what has come, and b"" at the end.

        A server that says nothing for `idle_seconds` counts as gone: DeadlineExceeded. Watches are
        not rate limited.
        """
        call = _Call("GET", self._url(path, query), None, JSON, subject, streamed=True)
        response = await self._answered(call, idle_seconds)

        async def read() -> bytes:
            try:
                return await response.content.readany()
            except (aiohttp.ClientError, OSError) as error:
                raise failure(call.request, self._server, error) from error

        try:
            yield read
        finally:
            # Closed, not released: what is still to come would hold up the connection's next user.
            response.close()

    async def _answered(
        self, call: _Call, idle_seconds: float | None = None
    ) -> aiohttp.ClientResponse:
        """The first answer that is good, having waited out those that said "later"."""
        previous: TransportError | None = None
        for attempt in range(MAX_RETRIES + 1):
            last = attempt == MAX_RETRIES
            try:
                response = await self._sent(call, idle_seconds)
            except Withheld:
                raise
            except TransportError as error:
                self._observer.attempted(call.method, self.host, "<error>", again=attempt > 0)
                self._reachability.failed(error)
                if last or not call.may_be_repeated(error):
                    raise (error.after(previous) if previous else error) from error.__cause__
                previous, pause = error, BROKEN_PAUSE_SECONDS
            else:
                code = str(response.status)
                self._observer.attempted(call.method, self.host, code, again=attempt > 0)
                self._reachability.answered()
                if 200 <= response.status <= 206:
                    return response
                wanted = _retry_after(response)
                if last or wanted is None:
                    raise await self._refusal(call, response)
                pause = wanted
                response.release()
            log.v(4).info(
                "Got a Retry-After response", delay=f"{pause}s", attempt=attempt + 1, url=call.url
            )
            await asyncio.sleep(pause)
            if not call.streamed:
                await self._wait_for_token(call)
        raise AssertionError("the last attempt returns or raises")

    async def _sent(self, call: _Call, idle_seconds: float | None) -> aiohttp.ClientResponse:
        session = self._streams if call.streamed else self._requests
        assert session is not None, "the transport has not been entered"
        try:
            header = await self._credentials.authorization()
            tls = self._tls and self._tls.context(
                time.monotonic(), await self._credentials.certificate()
            )
        except ConfigError as error:
            raise CredentialsError(call.request, f"getting credentials: {error}") from error
        headers = {} if header is None else {"Authorization": header}
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        body = call.fenced_body()
        try:
            response = await session.request(
                call.method,
                URL(call.url, encoded=True),
                data=body,
                headers=headers,
                ssl=tls or False,
                server_hostname=self._server_name,
                proxy=self._proxy,
                timeout=_stream_timeout(idle_seconds) if call.streamed else None,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if isinstance(body, FencedBody) and body.refusal is not None:
                raise body.refusal from error
            raise failure(call.request, self._server, error) from error
        if response.status == 401:
            self._credentials.rejected(header)
        return response

    async def _refusal(self, call: _Call, response: aiohttp.ClientResponse) -> StatusError:
        body = await self._read(call, response)
        return from_response(
            response.status,
            body,
            method=call.method,
            subject=call.subject,
            text=response.content_type.startswith("text/"),
            retry_after=_retry_seconds(response),
        )

    async def _read(self, call: _Call, response: aiohttp.ClientResponse) -> bytes:
        try:
            return await response.read()
        except (aiohttp.ClientError, OSError) as error:
            raise failure(call.request, self._server, error) from error

    async def _wait_for_token(self, call: _Call) -> None:
        if self._bucket is None:
            return
        wait = self._bucket.reserve(time.monotonic())
        if wait > 0:
            try:
                await asyncio.sleep(wait)
            except asyncio.CancelledError:
                self._bucket.give_back()
                raise
        if wait > LONG_WAIT_SECONDS:
            log.v(3).info(
                "Waited before sending request",
                delay=format_duration(int(wait * SECOND)),
                reason="client-side throttling, not priority and fairness",
                verb=call.method,
                URL=call.url,
            )
        self._observer.held_back(call.method, self.host, wait)

    def _url(self, path: str, query: Mapping[str, str] | None) -> str:
        parameters = dict(query or ())
        if self._timeout_seconds is not None:
            parameters["timeout"] = format_duration(int(self._timeout_seconds * SECOND))
        if not parameters:
            return self._server + path
        return f"{self._server}{path}?{urlencode(sorted(parameters.items()))}"


def _stream_timeout(idle_seconds: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, sock_connect=DIAL_SECONDS, sock_read=idle_seconds)


def _retry_after(response: aiohttp.ClientResponse) -> int | None:
    """Seconds to wait before trying again, if the server asks for that."""
    if response.status == 429 or response.status >= 500:
        return _retry_seconds(response)
    return None


def _retry_seconds(response: aiohttp.ClientResponse) -> int | None:
    text = response.headers.get("Retry-After", "")
    return int(text) if text.isascii() and text.isdecimal() else None
