"""The API server: the store, its rules and an HTTP listener, with one life cycle.

The listener can go away and come back on the same address while the state stays, which is what an
outage looks like to a client. Everything runs on the loop that called `start`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from kscheduler.rest.status import StatusError, too_large
from kscheduler.sandbox import bootstrap
from kscheduler.sandbox.access.authorization import Rbac, Reviews
from kscheduler.sandbox.access.credentials import (
    Authority,
    KeyPair,
    make_kubeconfig,
    serving_context,
    write_private,
)
from kscheduler.sandbox.access.users import ADMIN, ANONYMOUS, UNSECURED, User, Users
from kscheduler.sandbox.admission import Admission
from kscheduler.sandbox.aggregation.aggregator import Aggregator
from kscheduler.sandbox.aggregation.backend import Relay
from kscheduler.sandbox.controllers.namespaces import (
    EVENT_TTL_SECONDS,
    NamespaceController,
    expire_events,
)
from kscheduler.sandbox.objects import Objects
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.rest.discovery import answer_path, not_found
from kscheduler.sandbox.rest.filters import AccessFilter
from kscheduler.sandbox.rest.handlers import Answer, ResourceHandlers
from kscheduler.sandbox.rest.request import Exchange, error_answer, parse_request_info
from kscheduler.sandbox.rest.watch import QUEUE, Watch, Watches
from kscheduler.sandbox.store import HISTORY, Store

Interceptor = Callable[[web.BaseRequest], Awaitable[web.StreamResponse | None]]
ExchangeHook = Callable[[Exchange], None]

MAX_BODY_BYTES = 3 * 1024 * 1024
BOOKMARK_SECONDS = 60.0
_EVENT_SWEEP_SECONDS = 60.0
_SHUTDOWN_SECONDS = 1.0


class ApiServer:
    """An in-process API server.

    `interceptors` see each request first and may answer in its place or hold it back; `hooks` see
    each exchange as soon as its status is known. `objects` reads and writes without HTTP.

    Without `tls`, a request that brings no credentials is cluster admin: the sandbox listens on
    loopback and kubectl does not send tokens over plain HTTP. `anonymous` says otherwise.
    """

    def __init__(
        self,
        *,
        tokens: Mapping[str, User] | None = None,
        authorization: bool = True,
        anonymous: User | None = None,
        tls: bool = False,
        streams_lists: bool = True,
        enable_admission: Iterable[str] = (),
        disable_admission: Iterable[str] = (),
        history: int = HISTORY,
        watch_queue: int = QUEUE,
        bookmark_seconds: float = BOOKMARK_SECONDS,
        event_ttl_seconds: float = EVENT_TTL_SECONDS,
    ) -> None:
        admission = Admission(enable_admission, disable_admission)
        self.store = Store(history=history)
        self.registry = Registry(self.store, admission)
        self.objects = Objects(self.registry)
        self.authority = Authority() if tls else None
        self.users = Users(tokens)
        self.token = self.users.add(ADMIN)
        self.interceptors: list[Interceptor] = []
        self.hooks: list[ExchangeHook] = []
        self._watches = Watches(self.registry, queue=watch_queue)
        self._bookmark_seconds = bookmark_seconds
        self._filter = AccessFilter(
            self.users,
            Rbac(self.store),
            authorizes=authorization,
            anonymous=anonymous or (ANONYMOUS if tls else UNSECURED),
        )
        self._handlers = ResourceHandlers(
            self.registry,
            self._watches,
            Reviews(self.users, self._filter.decide),
            self._filter.refusal,
            streams_lists=streams_lists,
            copies_topology="PodTopologyLabels" in admission.plugins,
        )
        self.aggregator = Aggregator(self.registry)
        self._namespaces = NamespaceController(self.registry)
        self._event_ttl_seconds = event_ttl_seconds
        self._tasks: list[asyncio.Task[None]] = []
        self._runner: web.ServerRunner | None = None
        self._host, self._port = "127.0.0.1", 0
        bootstrap.create_initial_objects(
            self.registry,
            client_ca=self.authority.certificate if self.authority else b"",
            proxy_ca=self.aggregator.front_proxy.certificate,
        )

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen; port 0 takes a free one, which is then part of `url`."""
        self._host, self._port = host, port
        await self.listen()
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._namespaces.run(), name="sandbox/namespaces"),
            loop.create_task(self.aggregator.run(), name="sandbox/aggregation"),
            loop.create_task(self._expire_events(), name="sandbox/events"),
            loop.create_task(self._send_bookmarks(), name="sandbox/bookmarks"),
        ]

    async def stop(self) -> None:
        """End the listener and all tasks; the objects can still be read."""
        await self.stop_listening()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def listen(self) -> None:
        """Accept connections on the address of `start`."""
        server = web.Server(
            self._handle,
            request_factory=_request,
            handler_cancellation=True,
            access_log=None,
        )
        runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN_SECONDS)
        await runner.setup()
        context = None
        if self.authority is not None:
            hosts = dict.fromkeys((self._host, "127.0.0.1", "::1", "localhost", "kubernetes"))
            context = serving_context(self.authority, tuple(hosts))
        site = web.TCPSite(runner, self._host, self._port, ssl_context=context)
        try:
            await site.start()
        except OSError:
            await runner.cleanup()
            raise
        self._port = runner.addresses[0][1]
        self._runner = runner

    async def stop_listening(self) -> None:
        """Drop all connections and refuse new ones, keeping the state: an outage."""
        if self._runner is not None:
            self._watches.cut()
            await self.aggregator.close_connections()
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        scheme = "https" if self.authority else "http"
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{scheme}://{host}:{self._port}"

    @property
    def open_watches(self) -> int:
        return len(self._watches)

    def close_watches(self, resource: str | None = None) -> None:
        """Cut open watches, of one resource (`pods`, `leases.coordination.k8s.io`) or of all."""
        self._watches.cut(resource)

    def compact(self) -> None:
        """Forget history: a watch or page that goes on from earlier is answered with 410."""
        self.store.compact()

    @property
    def streams_lists(self) -> bool:
        """Whether `sendInitialEvents` is served; older servers answer it with 422."""
        return self._handlers.streams_lists

    @streams_lists.setter
    def streams_lists(self, value: bool) -> None:
        self._handlers.streams_lists = value

    def client_certificate(self, user: User) -> KeyPair:
        assert self.authority is not None, "client certificates need TLS"
        return self.authority.client(user.name, user.groups)

    def kubeconfig(self, user: User | None = None) -> dict[str, Any]:
        """A configuration for kubectl and others; as cluster admin when no user is named."""
        token = self.token if user is None else self.users.add(user)
        ca = self.authority.certificate if self.authority else b""
        return make_kubeconfig(self.url, token=token, ca=ca)

    def write_kubeconfig(self, path: Path | str, user: User | None = None) -> None:
        write_private(Path(path), self.kubeconfig(user))

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request without the interceptors, which may call this themselves."""
        exchange = _exchange(request)
        try:
            exchange.body = await _body(request)
            answer = await self._answer(request, exchange)
        except StatusError as error:
            answer = error_answer(error)
        self._report(exchange, 200 if isinstance(answer, Watch) else answer.status)
        if isinstance(answer, Watch | Relay):
            return await answer.send(request)
        for warning in exchange.warnings:
            quoted = warning.replace('"', '\\"')
            answer.headers.add("Warning", f'299 - "{quoted}"')
        return answer

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        for interceptor in self.interceptors:
            answer = await interceptor(request)
            if answer is not None:
                exchange = _exchange(request)
                exchange.body = await _body(request)
                self._report(exchange, answer.status)
                return answer
        return await self.answer(request)

    def _report(self, exchange: Exchange, code: int) -> None:
        exchange.status = code
        for hook in self.hooks:
            hook(exchange)

    async def _answer(self, request: web.BaseRequest, exchange: Exchange) -> Answer | Relay:
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        exchange.user = self._filter.authenticate(exchange, certificate)
        extension = self.aggregator.find(exchange.path)
        info = parse_request_info(exchange.path, aggregated=extension is not None)
        verb = info.verb(exchange.method, exchange.query) if info else ""
        self._filter.authorize(exchange, info, verb)
        if extension is not None:
            return await self.aggregator.relay(extension, exchange, request.raw_path)
        if info is not None:
            return await self._handlers.handle(exchange, info, verb)
        if exchange.method not in ("GET", "HEAD"):
            return not_found(exchange.path)
        return await answer_path(exchange, f"{self._host}:{self._port}", self.aggregator)

    async def _expire_events(self) -> None:
        while True:
            await asyncio.sleep(_EVENT_SWEEP_SECONDS)
            expire_events(self.registry, time.time(), self._event_ttl_seconds)

    async def _send_bookmarks(self) -> None:
        while True:
            await asyncio.sleep(self._bookmark_seconds)
            self._watches.bookmark()


def _exchange(request: web.BaseRequest) -> Exchange:
    query = dict(request.query) if request.query_string else {}
    return Exchange(request.method, request.path, query, request.headers)


async def _body(request: web.BaseRequest) -> bytes:
    try:
        return await request.read() if request.body_exists else b""
    except web.HTTPRequestEntityTooLarge as error:
        raise too_large(MAX_BODY_BYTES) from error


def _request(
    message: Any,
    payload: Any,
    protocol: RequestHandler,
    writer: Any,
    task: asyncio.Task[None],
) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(
        message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY_BYTES
    )
