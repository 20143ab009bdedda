"""The HTTP client of one extender: a POST per verb, over connections that are kept.

Mirrors the HTTP side of pkg/scheduler/extender.go. Differs: an answer is at most 64 MiB long; a
request that changes nothing is sent once more if the connection ended under it, not only when
that connection had been idle before; redirections are followed where they keep the request as it
is and lead to the same server.

Upstream reads a JSON value off the wire and leaves the rest alone, so an extender that counts its
bytes wrong, or never says that it has finished, is understood all the same (`read_body`). Nor does
it check a URL before the first request; one to which no request can be sent fails then, with the
texts of Go's net/url and net/http (`address`).
"""

import asyncio
import base64
import re
import time
import zlib
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import quote as escape
from urllib.parse import unquote, unquote_to_bytes, urljoin

from kscheduler.client.errors import BROKEN, failure
from kscheduler.client.fence import Fence, SecondsLeft, withheld
from kscheduler.client.http.connection import Connection, ServerClosedError
from kscheduler.client.http.dial import Route
from kscheduler.client.http.pool import ConnectionPool
from kscheduler.client.http.response import MalformedResponseError, Response
from kscheduler.client.tls import TlsConfig, TlsContexts
from kscheduler.client.transport import JSON, user_agent
from kscheduler.errors import ConfigError, KschedulerError
from kscheduler.gotext.strconv import quote
from kscheduler.gotext.url import parse_url

MAX_PORT = 65_535
# What may stand in a path as it is, and what does when the path has to be written anew.
_PATH = re.compile(r"[A-Za-z0-9\-_.~$&+,/:;=@!'()*\[\]%]*")
_KEPT_IN_PATH = "$&+,/:;=@"

# After so much silence in the middle of an answer it is looked at; the next time after twice that.
SILENCE_SECONDS = 0.05
# What makes zlib read gzip.
GZIP_BITS = 16 + zlib.MAX_WBITS
# Whether the bytes that have come hold a complete value, although the head announced more.
IsComplete = Callable[[bytes], bool]
# The loop asks one question at a time, but bindings do so beside it.
MAX_CONNECTIONS = 100
MAX_ANSWER_BYTES = 64 << 20
OK, TEMPORARY_REDIRECT, PERMANENT_REDIRECT = 200, 307, 308
MAX_REDIRECTIONS = 10


class AddressError(KschedulerError):
    """A URL to which no request can be sent."""


class Address(NamedTuple):
    server: str  # scheme and host, as a URL
    target: str  # what is asked for there
    authorization: str  # "" if none
    shown: str  # in quotes, without the password


def address(url: str) -> Address:
    """Raises AddressError."""
    try:
        parts = parse_url(url)
    except ConfigError as error:
        raise AddressError(str(error)) from error
    scheme, path = parts.scheme, parts.path
    userinfo, at, host = parts.authority.rpartition("@")
    host = host.removesuffix(":")
    user, colon, password = userinfo.partition(":")
    if not _PATH.fullmatch(path):
        path = escape(unquote_to_bytes(path), safe=_KEPT_IN_PATH)
    before = f"{scheme}:{parts.opaque}" if scheme else ""
    has_slashes = scheme and url[len(scheme) + 1 :].startswith("//")
    if parts.authority or path.startswith("//") or has_slashes:
        before += f"//{user}{':***' if colon else ''}{at}{host}"
    shown = quote(f"{before}{path}{parts.query}{parts.fragment}")
    if scheme not in ("http", "https"):
        raise AddressError(f"Post {shown}: unsupported protocol scheme {quote(scheme)}")
    if not host:
        raise AddressError(f"Post {shown}: http: no Host in request URL")
    port = host.rpartition(":")[2]
    if port.isdigit() and int(port) > MAX_PORT:
        raise AddressError(f"Post {shown}: dial tcp: address {port}: invalid port")
    pair = f"{unquote(user)}:{unquote(password)}"
    authorization = f"Basic {base64.b64encode(pair.encode()).decode()}" if at else ""
    return Address(f"{scheme}://{host}", f"{path or '/'}{parts.query}", authorization, shown)


async def read_body(connection: Connection, is_complete: IsComplete, *, most_bytes: int) -> bytes:
    """The body, or the bytes that have come of it once these are complete."""
    came = bytearray()
    silence = SILENCE_SECONDS
    while True:
        try:
            came += await connection.read_all(idle_seconds=silence)
            return _decoded(connection, came, most_bytes)
        except BROKEN as error:
            came += connection.response.take()
            body = _decoded(connection, came, most_bytes)
            if is_complete(body):
                return body
            # Silence is no end. A connection that timed out by itself has an error number.
            if not isinstance(error, TimeoutError) or error.errno is not None:
                raise
        silence *= 2


def _decoded(connection: Connection, came: bytearray, most_bytes: int) -> bytes:
    body = bytes(came)
    if connection.response.headers.get(b"content-encoding", b"").lower() == b"gzip":
        decoder = zlib.decompressobj(GZIP_BITS)
        try:
            body = decoder.decompress(body, most_bytes + 1)
        except zlib.error as error:
            raise MalformedResponseError("gzip: invalid header") from error
    if len(body) > most_bytes:
        raise MalformedResponseError(f"an answer of more than {most_bytes} bytes")
    return body


class ExtenderHttpError(KschedulerError):
    """An extender could not be asked, or did not answer as it should.

    It is `unsettled` if a question that changes something was sent and has got no answer.
    """


class ExtenderWithheldError(ExtenderHttpError):
    """A question that changes something was not sent: the fence was closed."""


class ExtenderHttp:
    """Asks the extender at one address; `close` it in the end.

    What changes something is not sent once the `fence` is closed: it waits until that is open
    again, and fails if it will not be.
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
        try:
            server = address(f"{self._url}/").server
        except AddressError:
            server = ""  # Every question fails with that error before it needs a server.
        self._trust = tls if server.startswith("https://") else None
        self._contexts: TlsContexts | None = None
        self._route = Route(server, server_name=tls.server_name)
        self._connections = ConnectionPool(self._route, limit=MAX_CONNECTIONS)
        # What is below zero sets no limit, as in Go.
        self._timeout_seconds = timeout_seconds if timeout_seconds > 0 else None
        self._fence = fence

    async def ask(
        self, verb: str, question: bytes, *, repeatable: bool, is_complete: IsComplete
    ) -> bytes:
        """The body of the answer, which was 200; every failure is a KschedulerError.

        A question is `repeatable` if it changes nothing.
        """
        grant = None if repeatable or self._fence is None else self._fence.grant()
        while True:
            try:
                return await self._ask(
                    verb, question, grant, repeatable=repeatable, is_complete=is_complete
                )
            except ExtenderWithheldError:
                if grant is None or not await grant.reopened():
                    raise

    async def _ask(
        self,
        verb: str,
        question: bytes,
        grant: SecondsLeft | None,
        *,
        repeatable: bool,
        is_complete: IsComplete,
    ) -> bytes:
        url = f"{self._url}/{verb}"
        where = address(url)
        exchange = _Exchange(f"Post {where.shown}", grant)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                connection = await self._answer(exchange, where, question, repeatable=repeatable)
                try:
                    status = connection.response.status
                    if status == OK:
                        return await read_body(connection, is_complete, most_bytes=MAX_ANSWER_BYTES)
                finally:
                    self._connections.release(connection)
        except TimeoutError as error:
            timed_out = ExtenderHttpError(exchange.timed_out())
            timed_out.unsettled = exchange.was_sent and not repeatable
            raise timed_out from error
        except BROKEN as error:
            broken = ExtenderHttpError(exchange.broken(error))
            broken.unsettled = exchange.was_sent and not repeatable
            raise broken from error
        raise ExtenderHttpError(f"failed {verb} with extender at URL {url}, code {status}")

    async def _answer(
        self, exchange: "_Exchange", where: Address, question: bytes, *, repeatable: bool
    ) -> Connection:
        """A connection on which the answer has begun, perhaps at another place of the server."""
        for _ in range(MAX_REDIRECTIONS):
            request = self._request_bytes(where, question)
            try:
                connection = await self._send(exchange, request)
            except ServerClosedError:
                if not repeatable:
                    raise
                connection = await self._send(exchange, request)
            further = _redirected(where, connection.response)
            if further is None:
                return connection
            self._connections.release(connection)
            where = further
        raise ExtenderHttpError(f"{exchange.request}: stopped after {MAX_REDIRECTIONS} redirects")

    async def _send(self, exchange: "_Exchange", request: bytes) -> Connection:
        exchange.is_answered = False
        context = None
        if self._trust is not None:
            # Certificate files that do not match fail the question, not the start: they may change.
            try:
                self._contexts = self._contexts or TlsContexts(self._trust)
            except ConfigError as error:
                raise ExtenderHttpError(f"{exchange.request}: {error}") from error
            context = self._contexts.context(time.monotonic())
        connection = await self._connections.ask(
            request, context, check=exchange.send, most_bytes=MAX_ANSWER_BYTES
        )
        exchange.is_answered = True
        return connection

    def _request_bytes(self, where: Address, question: bytes) -> bytes:
        headers = {
            "Host": self._route.host_header,
            "User-Agent": user_agent("extender"),
            "Content-Type": JSON,
            "Accept-Encoding": "gzip",
            "Content-Length": str(len(question)),
            **({"Authorization": where.authorization} if where.authorization else {}),
            **dict(self._route.headers),
        }
        lines = [f"{name}: {value}" for name, value in headers.items()]
        request_line = f"POST {self._route.target_prefix}{where.target} HTTP/1.1"
        return "\r\n".join([request_line, *lines, "", ""]).encode() + question

    async def close(self) -> None:
        await self._connections.close()


def _redirected(where: Address, response: Response) -> Address | None:
    """The address to repeat the request at; None if the answer is no redirection that keeps it."""
    location = response.text_of(b"location")
    if not location or response.status not in (TEMPORARY_REDIRECT, PERMANENT_REDIRECT):
        return None
    try:
        further = address(urljoin(f"{where.server}{where.target}", location))
    except (AddressError, ValueError):
        return None
    is_same_server = further.server == where.server
    return further._replace(authorization=where.authorization) if is_same_server else None


class _Exchange:
    """Progress of one request, on which the text of its failure depends."""

    def __init__(self, request: str, fence: SecondsLeft | None) -> None:
        self.request = request
        self.was_sent = False
        self.is_answered = False
        self._fence = fence

    def send(self) -> None:
        """To be called in the step that hands it to the socket; raises if it must not be sent."""
        if self._fence is not None and self._fence() <= 0:
            raise ExtenderWithheldError(str(withheld(self.request)))
        self.was_sent = True

    def timed_out(self) -> str:
        """Go's text; once the answer has begun, it comes without the request."""
        text = "context deadline exceeded (Client.Timeout"
        if self.is_answered:
            return f"{text} or context cancellation while reading body)"
        return f"{self.request}: {text} exceeded while awaiting headers)"

    def broken(self, error: Exception) -> str:
        """Go's text for any other failure."""
        if self.is_answered and isinstance(error, MalformedResponseError):
            return str(error)
        known = failure(self.request, error)
        return known.cause if self.is_answered else str(known)
