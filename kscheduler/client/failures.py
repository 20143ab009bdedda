"""Why an exchange with the API server failed, in Go's words."""

import errno
import os
import socket
import ssl

from kscheduler.client.dialling import DialError, HandshakeTimeoutError, ProxyRefusedError
from kscheduler.client.errors import (
    ConnectionRefused,
    ConnectionReset,
    DeadlineExceeded,
    HostNotFound,
    TlsError,
    TransportError,
)
from kscheduler.client.http_connection import CutShortError, ServerClosedError
from kscheduler.client.http_response import MalformedResponseError
from kscheduler.gotext import files

# What exchanges fail with; a ValueError is about a request that cannot be written down.
BROKEN = (
    CutShortError,
    DialError,
    HandshakeTimeoutError,
    MalformedResponseError,
    OSError,
    ProxyRefusedError,
    ServerClosedError,
    ValueError,
)


def failure(request: str, error: Exception) -> TransportError:
    """What a failed exchange means; `request` is like `Get "https://…"`."""
    match error:
        case DialError():
            return _dial_failure(request, error)
        case ssl.SSLError():
            return TlsError(request, _tls_cause(error))
        case TimeoutError():
            return DeadlineExceeded(request, "context deadline exceeded")
        case HandshakeTimeoutError():
            return DeadlineExceeded(request, "net/http: TLS handshake timeout")
        case CutShortError():
            return ConnectionReset(request, "unexpected EOF")
        case ServerClosedError():
            return ConnectionReset(request, "EOF")
        case MalformedResponseError():
            broken = "net/http: HTTP/1.x transport connection broken"
            return TransportError(request, f"{broken}: {error}")
        case OSError():
            return _broken_off(request, error)
        case _:
            return TransportError(request, str(error) or type(error).__name__)


def _dial_failure(request: str, error: DialError) -> TransportError:
    cause = error.cause
    before = "proxyconnect tcp: " if error.is_proxy else ""
    dialled = f"{before}dial tcp {error.address}"
    if isinstance(cause, socket.gaierror):
        return HostNotFound(request, f"{before}dial tcp: lookup {error.host}: no such host")
    if isinstance(cause, ConnectionRefusedError):
        return ConnectionRefused(request, f"{dialled}: connect: connection refused")
    if isinstance(cause, TimeoutError):
        return DeadlineExceeded(request, f"{dialled}: i/o timeout")
    reason = files.reason(cause) if cause.errno else str(cause)
    return TransportError(request, f"{dialled}: connect: {reason}")


def _broken_off(request: str, error: OSError) -> TransportError:
    if isinstance(error, ConnectionResetError):
        return ConnectionReset(request, "read: connection reset by peer")
    if isinstance(error, ConnectionError) and error.errno:
        return ConnectionReset(request, files.reason(error))
    if error.errno == errno.ETIMEDOUT:
        return DeadlineExceeded(request, "connection timed out")
    return TransportError(request, files.reason(error) if error.errno else str(error))


def _tls_cause(error: ssl.SSLError) -> str:
    """OpenSSL's verdict, with Go's name for the usual ones."""
    if isinstance(error, ssl.SSLCertVerificationError):
        said = error.verify_message
        if "self-signed" in said or "unable to get" in said:
            said = "certificate signed by unknown authority"
        return f"tls: failed to verify certificate: x509: {said}"
    reason = error.reason or os.strerror(error.errno or 0)
    if reason == "WRONG_VERSION_NUMBER":
        return "http: server gave HTTP response to HTTPS client"
    return f"remote error: tls: {reason.lower().replace('_', ' ')}"
