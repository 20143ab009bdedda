"""Opening connections to a server: sockets that notice when a peer has vanished, proxies, TLS.

A `Route` opens connections to one server, directly, over an HTTP proxy (CONNECT, or relayed for
plain HTTP) or over a SOCKS5 proxy (RFC 1928, passwords by RFC 1929).
"""

import asyncio
import base64
import hashlib
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Address, ip_address
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from aiohappyeyeballs import start_connection

from kscheduler.client.http.connection import Connection
from kscheduler.client.http.proxies import PORTS, proxy_for
from kscheduler.client.http.response import Response
from kscheduler.errors import ConfigError

# Opening a connection takes no longer than these together: one dial, at most two handshakes, and
# what a proxy needs to reach the server.
DIAL_SECONDS = 30.0
TLS_SECONDS = 10.0
TUNNEL_SECONDS = 60.0
# A host with addresses of both families is tried by the next one when the first takes so long.
NEXT_ADDRESS_SECONDS = 0.25
# A peer that vanished without a word is noticed after about 75 s: 30 s of silence, three probes.
_SOCKET_OPTIONS = (
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    (socket.IPPROTO_TCP, "TCP_NODELAY", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 30),
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 15),
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", 3),
    (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", 75_000),
)

VERSION, CONNECT, RESERVED = 5, 1, 0
NO_AUTHENTICATION, PASSWORD, NOTHING_ACCEPTABLE = 0, 2, 0xFF
PASSWORD_VERSION = 1
IPV4, NAME, IPV6 = 1, 3, 4
ADDRESS_BYTES = {IPV4: 4, IPV6: 16}
PORT_BYTES = 2
REPLIES = (
    "succeeded",
    "general SOCKS server failure",
    "connection not allowed by ruleset",
    "network unreachable",
    "host unreachable",
    "connection refused",
    "TTL expired",
    "command not supported",
    "address type not supported",
)


class DialError(Exception):
    """No connection came about with this host and port, of the server or of its proxy."""

    def __init__(self, host: str, address: str, cause: OSError, *, is_proxy: bool) -> None:
        super().__init__(str(cause))
        self.host = host
        self.address = address
        self.cause = cause
        self.is_proxy = is_proxy


class HandshakeTimeoutError(Exception):
    """The other side began to speak TLS and then fell silent."""


class ProxyRefusedError(Exception):
    """The proxy refused to connect us; the text is its own."""


class WrongCertificateError(Exception):
    """The server's certificate is not the one that was announced."""


class Route:
    """The way to one server: opens connections, and knows how request lines name their target.

    `dial`, if given, makes the sockets, which lead to the server by ways of their own and so past
    any proxy. `certificate_sha256` pins the server's certificate: whatever the TLS context checks,
    nothing is sent to a server that shows another.
    """

    def __init__(
        self,
        server: str,
        *,
        proxy: str = "",
        server_name: str = "",
        dial: Callable[[], Awaitable[socket.socket]] | None = None,
        certificate_sha256: str = "",
    ) -> None:
        self._server = urlsplit(server)
        self._problem = ""
        self._dial_instead = dial
        self._certificate_sha256 = certificate_sha256
        try:
            found = "" if dial else proxy or proxy_for(self._server, os.environ)
        except (ConfigError, ValueError) as error:
            found, self._problem = "", str(error)
        self._proxy = urlsplit(found) if found else None
        self._server_name = server_name or self._server.hostname or ""

    @property
    def proxy(self) -> str:
        """The URL of the proxy on the way, or nothing."""
        return self._proxy.geturl() if self._proxy else ""

    @property
    def host_header(self) -> str:
        return self._server.netloc.rpartition("@")[2]

    @property
    def target_prefix(self) -> str:
        """The part of a request line before the path: the whole server for a relaying proxy."""
        if self._is_relayed:
            return f"{self._server.scheme}://{self.host_header}{self._server.path}"
        return self._server.path

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Headers that requests need on this way."""
        return self._proxy_authorization() if self._is_relayed else []

    async def open(self, context: ssl.SSLContext | None) -> Connection:
        """A new connection; `context` is None for a server without TLS.

        Layers come in this order: TCP, SOCKS, TLS to the proxy, CONNECT, TLS to the server.
        """
        if self._problem:
            raise ValueError(self._problem)
        if self._dial_instead is not None:
            opened = await self._dial_instead()
        else:
            opened = await self._dial(self._proxy or self._server)
        if self._has_socks:
            await self._connect_through_socks(opened)
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: Connection(context), sock=opened)
        try:
            if self._proxy is not None and self._proxy.scheme == "https":
                trusted = context or ssl.create_default_context()
                await _secure(connection, trusted, self._proxy.hostname or "")
            if self._proxy is not None and not self._is_relayed and not self._has_socks:
                target = _address(self._server, PORTS[self._server.scheme])
                lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
                lines += [f"{name}: {value}" for name, value in self._proxy_authorization()]
                response = Response(bodiless=True)
                async with asyncio.timeout(TUNNEL_SECONDS):
                    await connection.ask("\r\n".join([*lines, "", ""]).encode(), response)
                if response.status != 200:
                    raise ProxyRefusedError(response.reason.decode(errors="replace"))
            if context is not None:
                await _secure(connection, context, self._server_name)
                self._check_certificate(connection)
        except BaseException:
            connection.abort()
            raise
        return connection

    def _check_certificate(self, connection: Connection) -> None:
        if self._certificate_sha256:
            shown = hashlib.sha256(connection.peer_certificate).hexdigest()
            if shown != self._certificate_sha256:
                raise WrongCertificateError(
                    f"its certificate has the SHA-256 {shown}, not {self._certificate_sha256}"
                )

    @property
    def _has_socks(self) -> bool:
        return self._proxy is not None and self._proxy.scheme in ("socks5", "socks5h")

    @property
    def _is_relayed(self) -> bool:
        return self._proxy is not None and self._server.scheme == "http" and not self._has_socks

    async def _dial(self, hop: SplitResult) -> socket.socket:
        loop = asyncio.get_running_loop()
        host, port = hop.hostname or "", hop.port or PORTS.get(hop.scheme, 0)
        try:
            if hop.scheme not in PORTS:
                raise OSError(f"unsupported scheme {hop.scheme}")
            async with asyncio.timeout(DIAL_SECONDS):
                found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                return await start_connection(
                    found, happy_eyeballs_delay=NEXT_ADDRESS_SECONDS, socket_factory=_open_socket
                )
        except OSError as error:
            is_proxy = hop is self._proxy
            raise DialError(host, _address(hop, port), error, is_proxy=is_proxy) from error

    async def _connect_through_socks(self, opened: socket.socket) -> None:
        proxy, server = self._proxy, self._server
        assert proxy is not None
        port = server.port or PORTS[server.scheme]
        login = None
        if proxy.username is not None:
            login = unquote(proxy.username), unquote(proxy.password or "")
        try:
            async with asyncio.timeout(TUNNEL_SECONDS):
                await connect_through_socks(opened, server.hostname or "", port, login)
        except SocksError as error:
            opened.close()
            way = f"{_address(proxy, PORTS[proxy.scheme])}->{_address(server, port)}"
            raise ProxyRefusedError(f"socks connect tcp {way}: {error}") from error
        except BaseException:
            opened.close()
            raise

    def _proxy_authorization(self) -> list[tuple[str, str]]:
        proxy = self._proxy
        if proxy is None or proxy.username is None:
            return []
        pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        return [("Proxy-Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}")]


async def _secure(connection: Connection, context: ssl.SSLContext, name: str) -> None:
    try:
        await connection.secure(context, name, seconds=TLS_SECONDS)
    except ConnectionAbortedError as error:  # What event loops raise when the time is up.
        raise HandshakeTimeoutError from error


def _open_socket(address: tuple[Any, ...]) -> socket.socket:
    family, kind, protocol, _, _ = address
    opened = socket.socket(family, kind, protocol)
    for level, name, value in _SOCKET_OPTIONS:
        if hasattr(socket, name):
            opened.setsockopt(level, getattr(socket, name), value)
    return opened


def _address(hop: SplitResult, port: int) -> str:
    host = hop.hostname or ""
    return f"[{host}]:{hop.port or port}" if ":" in host else f"{host}:{hop.port or port}"


class SocksError(Exception):
    """The proxy does not let us through; the text is Go's."""


async def connect_through_socks(
    proxy: socket.socket, host: str, port: int, login: tuple[str, str] | None
) -> None:
    """Make the proxy connect this socket to a server, whose name the proxy looks up."""
    methods = [NO_AUTHENTICATION] if login is None else [NO_AUTHENTICATION, PASSWORD]
    await _send(proxy, [VERSION, len(methods), *methods])
    version, method = await _receive(proxy, 2)
    _check_version(version)
    if method == NOTHING_ACCEPTABLE:
        raise SocksError("no acceptable authentication methods")
    if login is not None and method != NO_AUTHENTICATION:
        await _log_in(proxy, method, *login)
    await _send(proxy, [VERSION, CONNECT, RESERVED, *_destination(host), *port.to_bytes(2)])
    version, reply, reserved, kind = await _receive(proxy, 4)
    _check_version(version)
    if reply:
        meaning = REPLIES[reply] if reply < len(REPLIES) else f"unknown code: {reply}"
        raise SocksError(f"unknown error {meaning}")
    if reserved:
        raise SocksError("non-zero reserved field")
    if kind != NAME and kind not in ADDRESS_BYTES:
        raise SocksError(f"unknown address type {kind}")
    size = ADDRESS_BYTES[kind] if kind != NAME else (await _receive(proxy, 1))[0]
    await _receive(proxy, size + PORT_BYTES)


async def _log_in(proxy: socket.socket, method: int, user: str, password: str) -> None:
    if method != PASSWORD:
        raise SocksError(f"unsupported authentication method {method}")
    name, word = user.encode(), password.encode()
    if not 0 < len(name) < 256 or len(word) > 255:
        raise SocksError("invalid username/password")
    await _send(proxy, [PASSWORD_VERSION, len(name), *name, len(word), *word])
    version, status = await _receive(proxy, 2)
    if version != PASSWORD_VERSION:
        raise SocksError("invalid username/password version")
    if status:
        raise SocksError("username/password authentication failed")


def _destination(host: str) -> bytes:
    try:
        address = ip_address(host)
    except ValueError:
        name = host.encode()
        if len(name) > 255:
            raise SocksError("FQDN too long") from None
        return bytes([NAME, len(name)]) + name
    return bytes([IPV4 if isinstance(address, IPv4Address) else IPV6]) + address.packed


def _check_version(version: int) -> None:
    if version != VERSION:
        raise SocksError(f"unexpected protocol version {version}")


async def _send(proxy: socket.socket, data: list[int]) -> None:
    await asyncio.get_running_loop().sock_sendall(proxy, bytes(data))


async def _receive(proxy: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        piece = await asyncio.get_running_loop().sock_recv(proxy, size - len(received))
        if not piece:
            raise SocksError("unexpected EOF" if received else "EOF")
        received += piece
    return received
