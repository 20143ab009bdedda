"""Requests to one API server: connections, identity, rate limit, retries; nothing of objects.

Mirrors client-go's rest.Request: 429 and 5xx answers that carry Retry-After are waited out, a GET
whose connection broke is sent again, up to ten times; everything else is for the caller to judge.
"""

import asyncio
import platform
import re
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self
from urllib.parse import urlencode

import msgspec

from kscheduler import logs
from kscheduler.client.clientcmd.rest_config import RestConfig
from kscheduler.client.credentials import NOT_IN_VALUE, credentials_for
from kscheduler.client.errors import (
    BROKEN,
    ConnectionReset,
    CredentialsError,
    DeadlineExceeded,
    TlsError,
    TransportError,
    Withheld,
    failure,
    from_response,
)
from kscheduler.client.fence import SecondsLeft, ending_when_closed, withheld
from kscheduler.client.http.connection import Connection
from kscheduler.client.http.dial import Route
from kscheduler.client.http.pool import ConnectionPool
from kscheduler.client.http.response import Response
from kscheduler.client.observation import NoObserver, Observer, Reachability
from kscheduler.client.throttle import bucket_for
from kscheduler.client.tls import TlsContexts
from kscheduler.errors import ConfigError
from kscheduler.gotext.duration import SECOND, format_duration
from kscheduler.gotext.strconv import quote
from kscheduler.version import __version__

log = logs.logger(__name__)

JSON = "application/json"
ACCEPTED = "application/json, */*"
MAX_RETRIES = 10
# How long a GET whose connection broke waits before it is sent again.
BROKEN_PAUSE_SECONDS = 1
# Whatever a server says, it is asked again after so long.
MAX_PAUSE_SECONDS = 3600
# A wait for our own rate limit that is worth a line at -v=3.
LONG_WAIT_SECONDS = 0.05

# What may stand in a request line.
_TARGET = re.compile(r"[!-~]+")
# Go takes any number of leading zeros; a bound keeps int() from reading megabytes of them.
_RETRY_AFTER = re.compile(r"[+-]?[0-9]{1,64}", re.ASCII)

_GO_NAMES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}


def user_agent(suffix: str, *, commit: str = "unknown") -> str:
    """The User-Agent, formed as upstream's; `suffix` is `scheduler` or `leader-election`."""
    machine = platform.machine()
    system = f"{sys.platform}/{_GO_NAMES.get(machine, machine)}"
    return f"kscheduler/{__version__} ({system}) kubernetes/{commit}/{suffix}"


class _Call(msgspec.Struct):
    """One request as it is sent, possibly several times."""

    method: str
    server: str
    path: str  # with its query
    body: bytes | None
    content_type: str
    subject: str
    accept: str = ACCEPTED
    streamed: bool = False
    fence: SecondsLeft | None = None
    urgent: bool = False
    was_sent: bool = False

    @property
    def url(self) -> str:
        return self.server + self.path

    @property
    def request(self) -> str:
        """The request as Go names it in errors."""
        return f'{self.method.capitalize()} "{self.url}"'

    def check(self) -> None:
        """Raises when it must not be sent any more."""
        if self.fence is not None and self.fence() <= 0:
            raise withheld(self.request)

    def send(self) -> None:
        """To be called in the step that hands it to the socket."""
        self.check()
        self.was_sent = True

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
        route: Route | None = None,
    ) -> None:
        """`route` is a way to the server that is not the one of its configuration."""
        self.host = config.host
        self._server = config.server
        self._observer = observer or NoObserver()
        self._tls = None
        if config.secure:
            self._tls = TlsContexts(config.tls, self._observer.reloaded_authority)
        self._credentials = credentials_for(
            config.identity, has_certificate=config.tls.has_certificate
        )
        self._route = route or Route(
            config.server, proxy=config.proxy, server_name=config.tls.server_name
        )
        self._bucket = bucket_for(qps, burst)
        self._timeout_seconds = timeout_seconds
        self._reachability = reachability or Reachability()
        self._headers = _lines(
            ("Host", self._route.host_header),
            ("User-Agent", agent),
            *config.identity.impersonation.headers(),
            *self._route.headers,
        )
        self._requests = ConnectionPool(self._route, limit=max_connections)
        self._streams = ConnectionPool(self._route)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._requests.close()
        await self._streams.close()

    @property
    def busy(self) -> bool:
        """Whether requests wait for a connection."""
        return self._requests.full

    async def served(self, since: float) -> None:
        """Returns when the server has served a request after this moment, on any connection."""
        await self._reachability.served(since)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = ACCEPTED,
        subject: str = "",
        fence: SecondsLeft | None = None,
        urgent: bool = False,
    ) -> bytes:
        """The body of a successful answer; `subject` names the object in errors (`pods p1`).

        With a `fence`, a request is not sent once that has closed, nor is its answer waited for
        any longer; as long as the fence is kept open, it is. An `urgent` one goes before others
        that wait for a connection.
        """
        target = self._target(path, query)
        call = _Call(method, self._server, target, body, content_type, subject, accept)
        call.fence, call.urgent = fence, urgent
        started = time.perf_counter()
        received = 0
        await self._wait_for_token(call)
        try:
            async with asyncio.timeout(self._timeout_seconds) as limit:
                if fence is None:
                    answer = await self._exchange(call)
                else:
                    with ending_when_closed(limit, fence):
                        answer = await self._exchange(call)
                received = len(answer)
                return answer
        except TimeoutError as error:
            if not call.was_sent:
                call.check()
            raise DeadlineExceeded(call.request, "context deadline exceeded") from error
        finally:
            seconds = time.perf_counter() - started
            self._observer.finished(method, self.host, seconds, len(body or b""), received)

    async def _exchange(self, call: _Call) -> bytes:
        return await self._read_all(call, await self._answered(call))

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
        target = self._target(path, query)
        call = _Call("GET", self._server, target, None, JSON, subject, streamed=True)
        connection = await self._answered(call, idle_seconds)

        async def read() -> bytes:
            try:
                return await connection.read(idle_seconds=idle_seconds)
            except BROKEN as error:
                raise failure(call.request, error) from error

        try:
            yield read
        finally:
            # A watch in its middle is cut off here: what is still to come has no reader.
            self._streams.release(connection)

    async def _answered(self, call: _Call, idle_seconds: float | None = None) -> Connection:
        """A connection on which a good answer begins; those that ask for a retry are waited out."""
        previous: TransportError | None = None
        for attempt in range(MAX_RETRIES + 1):
            last = attempt == MAX_RETRIES
            try:
                connection = await self._send(call, idle_seconds)
            except Withheld:
                raise
            except TransportError as error:
                self._observer.attempted(call.method, self.host, "<error>", again=attempt > 0)
                self._reachability.failed(error)
                if last or not call.may_be_repeated(error):
                    raise (error.after(previous) if previous else error) from error.__cause__
                previous, pause = error, BROKEN_PAUSE_SECONDS
            else:
                response = connection.response
                code = str(response.status)
                self._observer.attempted(call.method, self.host, code, again=attempt > 0)
                self._reachability.answered(response.status)
                if 200 <= response.status <= 206:
                    return connection
                body = await self._read_all(call, connection, idle_seconds)
                seconds = _retry_seconds(response)
                may_retry = response.status == 429 or response.status >= 500
                if last or seconds is None or not may_retry:
                    raise from_response(
                        response.status,
                        body,
                        method=call.method,
                        subject=call.subject,
                        text=response.text_of(b"content-type").startswith("text/"),
                        retry_after=seconds,
                    )
                pause = seconds
            log.v(4).info(
                "Got a Retry-After response", delay=f"{pause}s", attempt=attempt + 1, url=call.url
            )
            await asyncio.sleep(pause)
            if not call.streamed:
                await self._wait_for_token(call)
        raise AssertionError("the last attempt returns or raises")

    async def _send(self, call: _Call, idle_seconds: float | None) -> Connection:
        """One try, with the credentials and certificates of this moment."""
        context = None
        try:
            header = await self._credentials.authorization()
            if self._tls is not None:
                certificate = await self._credentials.certificate()
                context = self._tls.context(time.monotonic(), certificate)
        except ConfigError as error:
            raise CredentialsError(call.request, f"getting credentials: {error}") from error
        try:
            connection = await self._pool(call).ask(
                self._request_bytes(call, header),
                context,
                check=call.send,
                repeatable=call.method == "GET",
                urgent=call.urgent,
                idle_seconds=idle_seconds,
            )
        except BROKEN as error:
            broken = failure(call.request, error)
            if self._tls is not None and isinstance(broken, TlsError):
                self._tls.failed()
            raise broken from error
        if connection.response.status == 401:
            self._credentials.rejected(header)
        return connection

    def _request_bytes(self, call: _Call, authorization: str | None) -> bytes:
        """The request as it goes over the wire."""
        target = self._route.target_prefix + call.path
        if not _TARGET.fullmatch(target):
            raise ValueError(f"invalid character in URL {target!r}")
        head = f"{call.method} {target} HTTP/1.1\r\n{self._headers}"
        head += _lines(("Accept", call.accept))
        if authorization is not None:
            head += _lines(("Authorization", authorization))
        if call.body is None:
            return f"{head}\r\n".encode()
        size = len(call.body)
        head += f"Content-Type: {call.content_type}\r\nContent-Length: {size}\r\n\r\n"
        return head.encode() + call.body

    async def _read_all(
        self, call: _Call, connection: Connection, idle_seconds: float | None = None
    ) -> bytes:
        try:
            return await connection.read_all(idle_seconds=idle_seconds)
        except BROKEN as error:
            raise failure(call.request, error) from error
        finally:
            self._pool(call).release(connection)

    def _pool(self, call: _Call) -> ConnectionPool:
        return self._streams if call.streamed else self._requests

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
        self._observer.throttled(call.method, self.host, wait)

    def _target(self, path: str, query: Mapping[str, str] | None) -> str:
        parameters = dict(query or ())
        if self._timeout_seconds is not None:
            parameters["timeout"] = format_duration(int(self._timeout_seconds * SECOND))
        return f"{path}?{urlencode(sorted(parameters.items()))}" if parameters else path


def _lines(*headers: tuple[str, str]) -> str:
    for name, value in headers:
        if NOT_IN_VALUE.search(value):
            raise ValueError(f"net/http: invalid header field value for {quote(name)}")
    return "".join(f"{name}: {value}\r\n" for name, value in headers)


def _retry_seconds(response: Response) -> int | None:
    """Seconds as Go's Atoi reads them; None for a date, and for what 64 bits do not hold."""
    found = _RETRY_AFTER.fullmatch(response.text_of(b"retry-after"))
    if found is None:
        return None
    seconds = int(found[0])
    return min(max(seconds, 0), MAX_PAUSE_SECONDS) if abs(seconds) < 1 << 63 else None
