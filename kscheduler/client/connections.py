"""Sockets towards the API server: how they are opened and kept alive, and why they failed."""

import errno
import os
import socket
import ssl
import urllib.request
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from kscheduler.client import files
from kscheduler.client.errors import (
    ConnectionRefused,
    ConnectionReset,
    DeadlineExceeded,
    HostNotFound,
    TlsError,
    TransportError,
)

DIAL_SECONDS = 30.0
# Below the 90 s after which kube-apiserver closes an idle connection, so that we close it first.
KEEP_ALIVE_SECONDS = 30.0
# A peer that vanished without a word is noticed after about 75 s: 30 s of silence, three probes.
_SOCKET_OPTIONS = (
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 30),
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 15),
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", 3),
    (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", 75_000),
)


def connector(limit: int) -> aiohttp.TCPConnector:
    """A pool of at most `limit` connections; 0 means as many as are asked for."""
    return aiohttp.TCPConnector(
        limit=limit,
        keepalive_timeout=KEEP_ALIVE_SECONDS,
        socket_factory=_open_socket,
    )


def _open_socket(address: tuple[Any, ...]) -> socket.socket:
    family, kind, protocol, _, _ = address
    opened = socket.socket(family, kind, protocol)
    for level, name, value in _SOCKET_OPTIONS:
        if hasattr(socket, name):
            opened.setsockopt(level, getattr(socket, name), value)
    return opened


def proxy_for(server: str, configured: str) -> str | None:
    """The proxy of the kubeconfig, or the environment's as Go understands it."""
    if configured:
        return configured
    parts = urlsplit(server)
    host = parts.hostname or ""
    if host == "localhost" or host.startswith("127.") or host == "::1":
        return None
    proxies = urllib.request.getproxies_environment()
    if urllib.request.proxy_bypass(parts.netloc):
        return None
    return proxies.get(parts.scheme)


def failure(request: str, server: str, error: BaseException) -> TransportError:
    """What a failed exchange means, in Go's words; `request` is like `Get "https://…"`."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            name = urlsplit(server).hostname
            return HostNotFound(request, f"dial tcp: lookup {name}: no such host")
        case aiohttp.ClientSSLError() | ssl.SSLError():
            return TlsError(request, _tls_cause(error))
        case aiohttp.ClientConnectorError(os_error=cause):
            return _dial_failure(request, server, cause)
        case TimeoutError():
            return DeadlineExceeded(request, "context deadline exceeded")
        case aiohttp.ClientPayloadError():
            return ConnectionReset(request, "unexpected EOF")
        case aiohttp.ServerDisconnectedError():
            return ConnectionReset(request, "EOF")
        case aiohttp.ClientResponseError():
            return TransportError(request, f"net/http: malformed HTTP response: {error.message}")
        case OSError():
            return _broken_off(request, error)
        case _:
            return TransportError(request, str(error) or type(error).__name__)


def _dial_failure(request: str, server: str, cause: OSError) -> TransportError:
    parts = urlsplit(server)
    address = parts.netloc if parts.port else f"{parts.netloc}:{443 if 's' in parts.scheme else 80}"
    dialled = f"dial tcp {address}"
    if isinstance(cause, ConnectionRefusedError):
        return ConnectionRefused(request, f"{dialled}: connect: connection refused")
    if isinstance(cause, ConnectionResetError):
        # Accepted and dropped at once, before a request was sent: a server that is going down.
        return ConnectionReset(request, "read: connection reset by peer")
    if isinstance(cause, TimeoutError):
        return DeadlineExceeded(request, f"{dialled}: i/o timeout")
    reason = files.reason(cause) if cause.errno else str(cause)
    return TransportError(request, f"{dialled}: connect: {reason}")


def _broken_off(request: str, error: OSError) -> TransportError:
    if error.errno in (errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED):
        return ConnectionReset(request, files.reason(error))
    if error.errno == errno.ETIMEDOUT:
        return DeadlineExceeded(request, "connection timed out")
    return TransportError(request, files.reason(error) if error.errno else str(error))


def _tls_cause(error: BaseException) -> str:
    """OpenSSL's verdict, with Go's name for the usual ones."""
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    if isinstance(cause, ssl.SSLCertVerificationError):
        said = cause.verify_message
        if "self-signed" in said or "unable to get" in said:
            said = "certificate signed by unknown authority"
        return f"tls: failed to verify certificate: x509: {said}"
    reason = getattr(cause, "reason", None) or os.strerror(getattr(cause, "errno", 0) or 0)
    if reason == "WRONG_VERSION_NUMBER":
        return "http: server gave HTTP response to HTTPS client"
    return f"remote error: tls: {str(reason).lower().replace('_', ' ')}"
