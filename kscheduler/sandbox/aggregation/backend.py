"""The server behind an APIService: its address, and requests to it in the name of a user.

Mirrors handler_proxy.go of kube-aggregator and ResolveCluster of k8s.io/apiserver.
"""

from __future__ import annotations

import ssl

import aiohttp
import msgspec
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from kscheduler.sandbox.access.credentials import KeyPair, load_pair
from kscheduler.sandbox.access.users import MASTERS, User
from kscheduler.sandbox.kinds.registration import ApiServiceSpec
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.resources import SERVICES
from kscheduler.sandbox.rest.request import Exchange

# The user whose questions are the aggregator's own.
AGGREGATOR = User("system:kube-aggregator", (MASTERS,))
CONNECT_SECONDS = 5.0
# For the aggregator's own questions; those of users may last, as watches do.
FETCH_SECONDS = 5.0
MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
_CHUNK = 64 * 1024
# Headers that are about one connection, and those that the proxy itself sets.
_NOT_PASSED_ON = frozenset(
    {
        "authorization",
        "connection",
        "content-length",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_IDENTITY = ("x-remote-", "impersonate-")


class UnavailableError(Exception):
    """The server cannot be asked; `reason` is that of the condition Available."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Location(msgspec.Struct, frozen=True):
    """An address, and the proof that the server there has to bring."""

    host: str
    port: int
    server_name: str
    ca_bundle: bytes
    verified: bool


def locate(registry: Registry, spec: ApiServiceSpec) -> Location:
    """The address of the Service that an APIService names."""
    wanted = spec.service
    assert wanted is not None, "a local APIService has no backend"
    found = registry.collection(SERVICES).get((wanted.namespace, wanted.name))
    if found is None:
        message = f'service/{wanted.name} in "{wanted.namespace}" is not present'
        raise UnavailableError("ServiceNotFound", message)
    service = found.decode()["spec"]
    if service["type"] != "ExternalName":
        raise UnavailableError(
            "ServiceAccessError",
            f'service/{wanted.name} in "{wanted.namespace}" is of type {service["type"]}: '
            "the sandbox reaches Services of type ExternalName only",
        )
    return Location(
        service["externalName"],
        wanted.port,
        f"{wanted.name}.{wanted.namespace}.svc",
        spec.ca_bundle,
        not spec.insecure_skip_tls_verify,
    )


class Backend:
    """Connections to one server, opened by the front proxy's certificate."""

    def __init__(self, location: Location, proxy: KeyPair) -> None:
        self.location = location
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            if not location.verified:
                self._context.check_hostname = False
                self._context.verify_mode = ssl.CERT_NONE
            elif location.ca_bundle:
                self._context.load_verify_locations(cadata=location.ca_bundle.decode())
            else:
                self._context.load_default_certs()
        except (ssl.SSLError, UnicodeDecodeError) as error:
            raise UnavailableError("FailedDiscoveryCheck", f"spec.caBundle: {error}") from error
        load_pair(self._context, proxy)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def close(self) -> None:
        """End all connections, and with them what is still being answered."""
        await self._session.close()

    async def fetch(self, path: str) -> bytes:
        """A JSON document for the aggregator itself."""
        url = self._url(path)
        headers = CIMultiDict({"Accept": "application/json"})
        _set_identity(headers, AGGREGATOR)
        try:
            async with self._session.get(
                url,
                headers=headers,
                ssl=self._context,
                server_hostname=self.location.server_name,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=FETCH_SECONDS),
            ) as answer:
                if not 200 <= answer.status < 300:
                    raise _failed(url, f"bad status from {url}: {answer.status}")
                document = await answer.content.read(MAX_DOCUMENT_BYTES + 1)
                while not answer.content.at_eof() and len(document) <= MAX_DOCUMENT_BYTES:
                    document += await answer.content.read(MAX_DOCUMENT_BYTES + 1 - len(document))
        except TimeoutError as error:
            raise _failed(url, f"no answer within {FETCH_SECONDS:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise _failed(url, str(error)) from error
        if len(document) > MAX_DOCUMENT_BYTES:
            raise _failed(url, f"more than {MAX_DOCUMENT_BYTES} bytes")
        return document

    async def relay(self, exchange: Exchange, target: str) -> Relay:
        """Pass a request on; `target` is its path with the query, as it came."""
        headers: CIMultiDict[str] = CIMultiDict(
            (name, value)
            for name, value in exchange.headers.items()
            if name.lower() not in _NOT_PASSED_ON and not name.lower().startswith(_IDENTITY)
        )
        _set_identity(headers, exchange.user)
        url = self._url(target)
        try:
            answer = await self._session.request(
                exchange.method,
                url,
                headers=headers,
                data=exchange.body or None,
                ssl=self._context,
                server_hostname=self.location.server_name,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError) as error:
            raise _failed(url, str(error)) from error
        return Relay(answer)

    def _url(self, target: str) -> URL:
        host = self.location.host
        host = f"[{host}]" if ":" in host else host
        return URL(f"https://{host}:{self.location.port}{target}", encoded=True)


class Relay:
    """An answer of the other server, of which only the head has been read."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    @property
    def status(self) -> int:
        return self._answer.status

    async def send(self, request: web.BaseRequest) -> web.StreamResponse:
        """Write the answer as it comes in. One that breaks off, breaks off for the client, too."""
        relayed = web.StreamResponse(status=self.status, reason=self._answer.reason)
        for name, value in self._answer.headers.items():
            if name.lower() not in _NOT_PASSED_ON:
                relayed.headers.add(name, value)
        if length := self._answer.headers.get("Content-Length"):
            relayed.content_length = int(length)
        try:
            await relayed.prepare(request)
            async for chunk in self._answer.content.iter_chunked(_CHUNK):
                await relayed.write(chunk)
            await relayed.write_eof()
        except (aiohttp.ClientError, OSError):
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._answer.close()
        return relayed


def _set_identity(headers: CIMultiDict[str], user: User) -> None:
    headers["X-Remote-User"] = user.name
    for group in user.groups:
        headers.add("X-Remote-Group", group)


def _failed(url: URL, why: str) -> UnavailableError:
    message = f"failing or missing response from {url}: {why}"
    return UnavailableError("FailedDiscoveryCheck", message)
