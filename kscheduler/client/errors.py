# ruff: noqa: N818 - the names are the reasons the API itself uses.
"""Errors of calls to the API server.

ApiError
├── StatusError             the server answered, and the answer is no
│   ├── BadRequest  Unauthorized  Forbidden  NotFound  MethodNotAllowed  NotAcceptable
│   ├── AlreadyExists  Conflict  Gone  Expired  Invalid  RequestEntityTooLarge
│   ├── UnsupportedMediaType  TooManyRequests  ServerTimeout  Timeout
│   └── InternalError  ServiceUnavailable
├── MalformedAnswer         the server answered yes, and what it sent is no such object
└── TransportError          there was no answer
    ├── ConnectionRefused  ConnectionReset  HostNotFound
    └── TlsError  DeadlineExceeded  CredentialsError  Withheld

The text of an error is client-go's own, since it ends up in events and pod conditions; `remedy`
holds what an operator could try, for the places that speak to one.
"""

import errno
import os
import socket
import ssl
from typing import ClassVar

import msgspec

from kscheduler.api.decode import DecodeError, decoder_for
from kscheduler.api.meta import Status, StatusCause
from kscheduler.client.http.connection import CutShortError, ServerClosedError
from kscheduler.client.http.dial import (
    DialError,
    HandshakeTimeoutError,
    ProxyRefusedError,
    WrongCertificateError,
)
from kscheduler.client.http.response import MalformedResponseError
from kscheduler.errors import ConflictError, KschedulerError, MissingError
from kscheduler.gotext import files

# Proxies answer with whole web pages; so much of one is enough to recognise it.
MAX_FOREIGN_TEXT_BYTES = 2048

_decode_status = decoder_for(Status)
# What exchanges fail with; a ValueError is about a request that cannot be written down, and a
# MemoryError ends the connection that had no room for what came.
BROKEN = (
    CutShortError,
    DialError,
    HandshakeTimeoutError,
    MalformedResponseError,
    MemoryError,
    OSError,
    ProxyRefusedError,
    ServerClosedError,
    ValueError,
    WrongCertificateError,
)


class ApiError(KschedulerError):
    """A call to the API server failed."""

    remedy: str = ""


class StatusError(ApiError):
    """The server answered with a failure."""

    reason: ClassVar[str] = ""

    def __init__(
        self,
        message: str,
        *,
        code: int = 0,
        retry_after: int | None = None,
        causes: tuple[StatusCause, ...] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after
        self.causes = causes

    def has_cause(self, kind: str) -> bool:
        return any(cause.reason == kind for cause in self.causes)


class BadRequest(StatusError):
    reason = "BadRequest"


class Unauthorized(StatusError):
    reason = "Unauthorized"
    remedy = "check the credentials in the kubeconfig, or the service account token"


class Forbidden(StatusError):
    reason = "Forbidden"
    remedy = "grant the scheduler's user the rights of system:kube-scheduler"


class NotFound(StatusError, MissingError):
    reason = "NotFound"


class MethodNotAllowed(StatusError):
    reason = "MethodNotAllowed"


class NotAcceptable(StatusError):
    reason = "NotAcceptable"


class AlreadyExists(StatusError):
    reason = "AlreadyExists"


class Conflict(StatusError, ConflictError):
    reason = "Conflict"


class Gone(StatusError):
    reason = "Gone"


class Expired(Gone):
    reason = "Expired"


class Invalid(StatusError):
    reason = "Invalid"


class RequestEntityTooLarge(StatusError):
    reason = "RequestEntityTooLarge"


class UnsupportedMediaType(StatusError):
    reason = "UnsupportedMediaType"


class TooManyRequests(StatusError):
    reason = "TooManyRequests"


class ServerTimeout(StatusError):
    reason = "ServerTimeout"


class Timeout(StatusError):
    reason = "Timeout"


class InternalError(StatusError):
    reason = "InternalError"


class ServiceUnavailable(StatusError):
    reason = "ServiceUnavailable"


class MalformedAnswer(ApiError):
    """The answer to a request that succeeded is not the object it should be."""

    remedy = "something between us and the API server changes its answers; check for a proxy"


class TransportError(ApiError):
    """No answer came; `cause` is the failure without the request it belongs to."""

    def __init__(self, request: str, cause: str) -> None:
        super().__init__(f"{request}: {cause}")
        self.request = request
        self.cause = cause

    def after(self, previous: "TransportError") -> "TransportError":
        """This failure with the cause of an earlier try added to its text."""
        if previous.cause == self.cause:
            return self
        both = f"{self.cause} - error from a previous attempt: {previous.cause}"
        return type(self)(self.request, both)


class ConnectionRefused(TransportError):
    remedy = "check that the API server runs, and the server address in the kubeconfig"


class ConnectionReset(TransportError):
    """The connection ended before the answer did; whether the request took effect is unknown."""

    remedy = "the API server or a proxy before it closed the connection; it is tried again"


class HostNotFound(TransportError):
    remedy = "check the host name of the server in the kubeconfig, and DNS"


class TlsError(TransportError):
    remedy = "check the certificate authority, the server's name and the client certificate"


class DeadlineExceeded(TransportError):
    remedy = "the API server is slow or a firewall drops the packets; check its health and load"


class CredentialsError(TransportError):
    remedy = "check the credential plugin named in the kubeconfig by running it by hand"


class Withheld(TransportError):
    """We did not send it: what gave us the right to had run out meanwhile."""

    remedy = "another replica may lead by now; if not, check why this one was stalled"


_BY_REASON: dict[str, type[StatusError]] = {
    kind.reason: kind for parent in (StatusError, Gone) for kind in parent.__subclasses__()
}

# Which reason a bare code stands for, and what client-go says when the server said nothing.
_BY_CODE: dict[int, tuple[type[StatusError], str]] = {
    400: (BadRequest, "the server rejected our request for an unknown reason"),
    401: (Unauthorized, "the server has asked for the client to provide credentials"),
    403: (Forbidden, ""),
    404: (NotFound, "the server could not find the requested resource"),
    405: (MethodNotAllowed, "the server does not allow this method on the requested resource"),
    406: (
        NotAcceptable,
        "the server was unable to respond with a content type that the client supports",
    ),
    409: (Conflict, "the server reported a conflict"),
    410: (Gone, ""),
    413: (RequestEntityTooLarge, ""),
    415: (UnsupportedMediaType, ""),
    422: (Invalid, "the server rejected our request due to an error in our request"),
    429: (
        TooManyRequests,
        "the server has received too many requests and has asked us to try again later",
    ),
    500: (InternalError, ""),
    503: (ServiceUnavailable, "the server is currently unable to handle the request"),
    504: (
        Timeout,
        "the server was unable to return a response in the time allotted, "
        "but may still be processing the request",
    ),
}


def from_status(status: Status) -> StatusError:
    """The error a Status object stands for: its reason decides, its code when that is unknown."""
    kind = _BY_REASON.get(status.reason) or _BY_CODE.get(status.code, (StatusError, ""))[0]
    details = status.details
    message = status.message or _generic_message(status.code, "", status.reason)
    return kind(
        message,
        code=status.code,
        retry_after=(details.retry_after_seconds or None) if details else None,
        causes=details.causes if details else (),
    )


def from_response(
    code: int,
    body: bytes,
    *,
    method: str = "",
    subject: str = "",
    text: bool = False,
    retry_after: int | None = None,
) -> StatusError:
    """The error an HTTP answer stands for.

    `subject` is what the request was about (`pods p1`), `text` whether the body claims to be text
    rather than an API object.
    """
    try:
        status = _decode_status(body)
    except DecodeError:
        status = Status()
    if status.kind == "Status" and status.status != "Success":
        error = from_status(status)
        error.code = error.code or code
    else:
        # No API object that reports a failure, but a proxy's page, or nothing at all.
        kind = _BY_CODE.get(code, (InternalError if code >= 500 else StatusError, ""))[0]
        if code == 409 and method == "POST":
            kind = AlreadyExists
        said = body[:MAX_FOREIGN_TEXT_BYTES].decode(errors="replace").strip() if text else "unknown"
        message = _generic_message(code, said, "")
        if subject:
            message = f"{message} ({method.lower()} {subject})"
        error = kind(message, code=code)
    if error.retry_after is None:
        error.retry_after = retry_after
    return error


def _generic_message(code: int, said: str, reason: str) -> str:
    if code in (403, 415) or (code == 406 and said not in ("", "unknown")):
        return said or reason
    if message := _BY_CODE.get(code, (StatusError, ""))[1]:
        return message
    if code >= 500:
        quoted = msgspec.json.encode(said).decode()
        return f"an error on the server ({quoted}) has prevented the request from succeeding"
    return f"the server responded with the status code {code} but did not return more information"


def is_expired(error: BaseException) -> bool:
    """The resourceVersion or continue token asked for is gone from the server's history."""
    return isinstance(error, Gone)


def is_too_large_resource_version(error: BaseException) -> bool:
    """The server has not seen the resourceVersion asked for yet."""
    if not isinstance(error, StatusError):
        return False
    return error.has_cause("ResourceVersionTooLarge") or (
        isinstance(error, Timeout) and "Too large resource version" in str(error)
    )


def failure(request: str, error: Exception) -> TransportError:
    """The error that a failed exchange stands for; `request` is like `Get "https://…"`.

    Subclasses come first: SSLError, TimeoutError and ConnectionError are all OSErrors.
    """
    match error:
        case DialError():
            return _dial_failure(request, error)
        case ssl.SSLError():
            return TlsError(request, _tls_cause(error))
        case WrongCertificateError():
            return TlsError(request, f"tls: failed to verify certificate: {error}")
        case TimeoutError():
            return DeadlineExceeded(request, "context deadline exceeded")
        case HandshakeTimeoutError():
            return DeadlineExceeded(request, "net/http: TLS handshake timeout")
        case CutShortError():
            return ConnectionReset(request, "unexpected EOF")
        case ServerClosedError():
            return ConnectionReset(request, "EOF")
        case MemoryError():
            return ConnectionReset(request, "no memory for the answer")
        case MalformedResponseError():
            broken = "net/http: HTTP/1.x transport connection broken"
            return TransportError(request, f"{broken}: {error}")
        case ConnectionResetError():
            return ConnectionReset(request, "read: connection reset by peer")
        case ConnectionError() if error.errno:
            return ConnectionReset(request, files.reason(error))
        case OSError(errno=errno.ETIMEDOUT):
            return DeadlineExceeded(request, "connection timed out")
        case OSError():
            return TransportError(request, files.reason(error) if error.errno else str(error))
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
