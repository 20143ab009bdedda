"""The way of a request to a page, and of its answer back.

Outermost first, as upstream: whatever breaks becomes a 500, the request is logged, the answer is
not to be cached, the caller is authenticated and authorized. `Pages` then finds the page of the
path: an exact match, else the longest prefix that has one. The method does not matter, as upstream;
a page that cares checks it itself.
"""

from __future__ import annotations

import ssl
import time
from typing import Protocol
from urllib.parse import unquote

from aiohttp import web

from kscheduler import logs
from kscheduler.api.decode import DecodeError
from kscheduler.api.small_groups import ResourceAttributes, UserInfo
from kscheduler.client.errors import ApiError
from kscheduler.gotext.duration import SECOND, format_duration
from kscheduler.gotext.strconv import quote
from kscheduler.rest.status import StatusError
from kscheduler.serving import answers
from kscheduler.serving.access import (
    Authenticator,
    Authorizer,
    ContradictionError,
    UnauthenticatedError,
)
from kscheduler.serving.access_metrics import AccessObserver
from kscheduler.serving.answers import Handler

log = logs.logger(__name__)

NOT_CACHED = "no-cache, private"
BROKEN = "This request caused apiserver to panic. Look in the logs for details.\n"


def path_of(request: web.BaseRequest) -> str:
    """The path that was asked for, without its escapes."""
    target = request.raw_path.partition("?")[0]
    if "://" in target[:8]:
        target = "/" + target.split("/", 3)[3] if target.count("/") > 2 else "/"
    return unquote(target, errors="replace")


class ResourceRequests(Protocol):
    """An API whose requests are authorized by resource instead of path."""

    def attributes(self, request: web.BaseRequest) -> ResourceAttributes | None:
        """None for a request that is about no resource of this API."""

    async def answer(
        self, request: web.BaseRequest, user: UserInfo, asked: ResourceAttributes
    ) -> web.StreamResponse:
        """The answer to a request that the user may make."""


def guarded(
    handler: Handler,
    authenticator: Authenticator,
    authorizer: Authorizer,
    observer: AccessObserver,
    resources: ResourceRequests | None = None,
) -> Handler:
    """The handler, and the API of resources beside it, behind authentication and authorization."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        started = time.perf_counter()
        try:
            user = await authenticator.user(request.headers, peer_certificates(request))
        except UnauthenticatedError as error:
            observer.authenticated(None, time.perf_counter() - started)
            log.error(error, "Unable to authenticate the request")
            return answers.unauthorized(request)
        observer.authenticated(user, time.perf_counter() - started)
        verb, path = request.method.lower(), path_of(request)
        asked = resources.attributes(request) if resources is not None else None
        started = time.perf_counter()
        try:
            if asked is None:
                verdict = await authorizer.decide(user, verb, path)
            else:
                verdict = await authorizer.decide_on(user, asked)
        except (ApiError, DecodeError, ContradictionError) as error:
            observer.authorized("error", time.perf_counter() - started)
            log.error(error, "Unable to authorize the request")
            return answers.internal_error(request, error)
        decision = "allowed" if verdict.allowed else "no-opinion"
        if verdict.denied:
            decision = "denied"
        observer.authorized(decision, time.perf_counter() - started)
        if verdict.allowed and not verdict.denied:
            if resources is None or asked is None:
                return await handler(request)
            return await resources.answer(request, user, asked)
        log.v(4).info("Forbidden", URI=request.raw_path, reason=verdict.reason)
        if asked is not None:
            return answers.status_error(request, refused(user, asked, verdict.reason))
        return answers.forbidden(
            request, user=user.username, verb=verb, path=path, reason=verdict.reason
        )

    return answer


def refused(user: UserInfo, asked: ResourceAttributes, reason: str = "") -> StatusError:
    """403 for a request about a resource, in the API server's words."""
    full = f"{asked.resource}.{asked.group}" if asked.group else asked.resource
    subject = f"{full} {quote(asked.name)}" if asked.name else full
    part = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    where = (
        f"in the namespace {quote(asked.namespace)}" if asked.namespace else "at the cluster scope"
    )
    message = (
        f"{subject} is forbidden: User {quote(user.username)} cannot {asked.verb} "
        f"resource {quote(part)} in API group {quote(asked.group)} {where}"
    )
    about = {"name": asked.name, "group": asked.group, "kind": asked.resource}
    details = {name: value for name, value in about.items() if value}
    return StatusError(403, "Forbidden", f"{message}: {reason}" if reason else message, details)


def presented(handler: Handler) -> Handler:
    """The handler's answers as an API server sends them off."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        started = time.perf_counter()
        try:
            response = await handler(request)
        except Exception as error:
            log.error(error, "Observed a panic", URI=request.raw_path)
            response = answers.text(BROKEN, status=500)
        response.headers["Cache-Control"] = NOT_CACHED
        if v := log.v(3):
            v.info(
                "HTTP",
                verb=request.method,
                URI=request.raw_path,
                latency=format_duration(int((time.perf_counter() - started) * SECOND)),
                userAgent=request.headers.get("User-Agent", ""),
                contentType=request.headers.get("Accept", ""),
                srcIP=request.remote or "",
                resp=response.status,
            )
        return response

    return answer


def read_only(handler: Handler) -> Handler:
    """The handler, for requests that change nothing: those of the plain listeners."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.method in ("GET", "HEAD"):
            return await handler(request)
        return answers.text("405 method not allowed\n", status=405)

    return answer


def peer_certificates(request: web.BaseRequest) -> tuple[bytes, ...]:
    """The chain the caller has shown in the handshake, in DER, its own certificate first."""
    transport = request.transport
    tls = transport.get_extra_info("ssl_object") if transport is not None else None
    if tls is None or (certificate := tls.getpeercert(binary_form=True)) is None:
        return ()
    if hasattr(tls, "get_unverified_chain"):  # from Python 3.13 on
        chain = tuple(tls.get_unverified_chain())
    else:
        shown = tls._sslobj.get_unverified_chain() or ()
        chain = tuple(ssl.PEM_cert_to_DER_cert(one.public_bytes()) for one in shown)
    return (certificate, *(one for one in chain if one != certificate))


class Pages:
    """Handlers by path; `listed` are the paths that /statusz names."""

    def __init__(self) -> None:
        self._exact: dict[str, Handler] = {}
        self._below: dict[str, Handler] = {}
        self.listed: list[str] = []

    def add(self, path: str, handler: Handler, *, listed: bool = False) -> None:
        self._exact[path] = handler
        if listed:
            self.listed = sorted([*self.listed, path])

    def add_below(self, prefix: str, handler: Handler) -> None:
        """For every path that begins with `prefix`."""
        self._below[prefix] = handler

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        path = path_of(request)
        if path in self._exact:
            return await self._exact[path](request)
        prefixes = sorted(filter(path.startswith, self._below), key=len)
        if prefixes:
            return await self._below[prefixes[-1]](request)
        return answers.not_found()
