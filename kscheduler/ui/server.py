"""The server on loopback: guarded, and nothing but views, their data, and a stream of changes."""

from __future__ import annotations

import contextlib
import hashlib
import mimetypes
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib import resources
from typing import Any

from aiohttp import web
from multidict import MultiDict

from kscheduler import logs
from kscheduler.ui import parts, question
from kscheduler.ui.cluster import Cluster, NodeColumns
from kscheduler.ui.feed import Feed
from kscheduler.ui.guard import HEADERS, OPEN, Guard, refused
from kscheduler.ui.heat import changed_nodes, node_data, picture
from kscheduler.ui.html import Html, e
from kscheduler.ui.page import Page
from kscheduler.ui.source import Declined, Lost, Missing, Refused, Source, Trouble
from kscheduler.ui.views import nodes, pending, pod, what_if
from kscheduler.ui.views.attempt import node_grid
from kscheduler.ui.views.configuration import configuration
from kscheduler.ui.views.overview import overview

log = logs.logger(__name__)

HOST = "127.0.0.1"
HOSTS = (HOST, "localhost")
# A form with a manifest and a configuration in it.
MAX_BODY_BYTES = 1 << 20
STATUS_OF: dict[type[Trouble], HTTPStatus] = {
    Refused: HTTPStatus.FORBIDDEN,
    Missing: HTTPStatus.NOT_FOUND,
    Lost: HTTPStatus.BAD_GATEWAY,
    Declined: HTTPStatus.UNPROCESSABLE_ENTITY,
}

View = Callable[[Page, web.Request], Awaitable[tuple[str, Html]]]


class Server:
    """Views of one cluster for one user, on a port of this machine."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.cluster = Cluster(source)
        self.feed = Feed(self.cluster)
        self._static = _static_files()
        self.guard: Guard | None = None
        self.port = 0

    @property
    def address(self) -> str:
        """The address to open, with a secret that works once."""
        assert self.guard is not None
        return f"http://{HOST}:{self.port}/{OPEN}?secret={self.guard.secret}"

    @asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncIterator[Server]:
        """Listens on a port of loopback; 0 takes a free one. OSError if it is taken."""
        app = web.Application(middlewares=[self._guarded], client_max_size=MAX_BODY_BYTES)
        app.add_routes(self._routes())
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        try:
            site = web.TCPSite(runner, HOST, port)
            await site.start()
            self.port = runner.addresses[0][1]
            self.guard = Guard(HOSTS, self.port)
            yield self
        finally:
            await self.feed.close()
            await runner.cleanup()

    def _routes(self) -> list[web.RouteDef]:
        return [
            web.get("/", self._view(self._overview)),
            web.get("/nodes", self._view(self._nodes)),
            web.get("/nodes/{node}", self._view(self._node)),
            web.get("/pods/{namespace}/{name}", self._view(self._pod)),
            web.get("/pods/{namespace}/{name}/help", self._view(self._remedies)),
            web.get("/pending", self._view(self._pending)),
            web.get("/pending/help", self._view(self._freeing)),
            web.get("/what-if", self._view(self._what_if)),
            web.post("/what-if", self._view(self._what_if)),
            web.get("/configuration", self._view(self._configuration)),
            web.post("/configuration", self._view(self._configuration)),
            web.get("/find", self._view(self._find)),
            web.get("/heatmap.svg", self._picture),
            web.get("/data/nodes", self._data(self._node_data)),
            web.get("/data/nodes-table", self._data(self._node_rows)),
            web.get("/data/pending", self._data(self._pending_rows)),
            web.get("/data/pods/{namespace}/{name}/nodes", self._data(self._pod_rows)),
            web.get("/events", self._events),
            web.get("/static/{file}", self._static_file),
        ]

    # The way in.

    @web.middleware
    async def _guarded(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        assert self.guard is not None
        if why := self.guard.refusal(request):
            return refused(why)
        if request.path == f"/{OPEN}":
            opened = self.guard.exchange(request, request.query.get("secret", ""))
            if opened is None:
                return refused("This address was used already, or belongs to an earlier start.")
            opened.headers.update(HEADERS)
            return opened
        if not self.guard.is_open(request):
            again = f"./{request.rel_url.raw_name}" if request.method == "GET" else ""
            again += f"?{query}" if again and (query := request.rel_url.raw_query_string) else ""
            return refused(
                "The page opens with the address that was printed at start.", again=again
            )
        try:
            answer = await handler(request)
        except web.HTTPSeeOther as redirection:
            headers = {"Location": str(redirection.location)}
            answer = web.Response(status=redirection.status, headers=headers)
        except web.HTTPException as error:
            answer = self._no_page(request, error)
        if not answer.prepared:
            for name, value in HEADERS.items():
                answer.headers.setdefault(name, value)
        return answer

    def _view(self, view: View) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def answer(request: web.Request) -> web.StreamResponse:
            self.feed.want()
            page = Page(request.path.lstrip("/"), request.query)
            status = HTTPStatus.OK
            try:
                title, content = await view(page, request)
            except web.HTTPException:
                raise
            except Trouble as trouble:
                status = STATUS_OF.get(type(trouble), HTTPStatus.BAD_GATEWAY)
                title = "No answer"
                content = e("div#trouble", parts.trouble(trouble), data_live="recovered")
            except Exception as error:
                log.error(error, "View failed", path=request.path)
                status, title = HTTPStatus.INTERNAL_SERVER_ERROR, "Failed"
                content = parts.trouble(Trouble("This view failed; the terminal says how."))
            # Whoever was asked may have been found just now.
            page.way = self._source.way
            text = page.frame(title, content)
            return web.Response(status=status, text=text, content_type="text/html")

        return answer

    def _no_page(self, request: web.Request, error: web.HTTPException) -> web.Response:
        page = Page(request.path.lstrip("/"), {}, self._source.way)
        what = parts.empty(f"{error.reason}. The views are named above.")
        text = page.frame(error.reason, e("h1", str(error.status)), what)
        return web.Response(status=error.status, text=text, content_type="text/html")

    async def _static_file(self, request: web.Request) -> web.StreamResponse:
        found = self._static.get(request.match_info["file"])
        if found is None:
            raise web.HTTPNotFound
        body, kind, tag = found
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
        return web.Response(body=body, content_type=kind, charset="utf-8", headers=headers)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        query = request.query
        since = query.get("since", "0")
        answer = web.StreamResponse(headers=HEADERS)
        answer.content_type = "text/event-stream"
        await answer.prepare(request)
        frames = self.feed.frames(query.get("epoch", ""), int(since) if since.isdecimal() else 0)
        try:
            async for text in frames:
                await answer.write(text)
        except ConnectionResetError:
            pass
        finally:
            await frames.aclose()  # type: ignore[attr-defined]
        return answer

    # Views.

    async def _overview(self, page: Page, _: web.Request) -> tuple[str, Html]:
        return "Overview", await overview(self.cluster, self.feed, page)

    async def _nodes(self, page: Page, _: web.Request) -> tuple[str, Html]:
        return "Nodes", await nodes.nodes(self.cluster, page)

    async def _node(self, page: Page, request: web.Request) -> tuple[str, Html]:
        name = request.match_info["node"]
        return name, await nodes.node(self.cluster, page, name)

    async def _pod(self, page: Page, request: web.Request) -> tuple[str, Html]:
        namespace, name = _pod_of(request)
        return name, await pod.pod(self.cluster, page, namespace, name)

    async def _remedies(self, page: Page, request: web.Request) -> tuple[str, Html]:
        namespace, name = _pod_of(request)
        return name, await pod.remedies(self.cluster, page, namespace, name)

    async def _pending(self, page: Page, _: web.Request) -> tuple[str, Html]:
        return "Pending", await pending.pending(self.cluster, page)

    async def _freeing(self, page: Page, _: web.Request) -> tuple[str, Html]:
        return "Pending", await pending.freeing(self.cluster, page)

    async def _what_if(self, page: Page, request: web.Request) -> tuple[str, Html]:
        asked = question.read(await _form_of(request))
        return "What if", await what_if.what_if(self.cluster, page, asked)

    async def _configuration(self, page: Page, request: web.Request) -> tuple[str, Html]:
        form = await _form_of(request)
        old, new = form.get("old", ""), form.get("new", "")
        return "Configuration", await configuration(self.cluster, page, old, new)

    async def _find(self, page: Page, request: web.Request) -> tuple[str, Html]:
        """The pod or the node of a name; without a namespace it is a node, or a pod that waits."""
        name = request.query.get("name", "").strip().strip("/")
        target = f"nodes/{page.quoted(name)}"
        if "/" in name:
            target = f"pods/{page.quoted(name)}"
        else:
            with contextlib.suppress(Trouble):
                known = (await self.cluster.nodes()).names
                if name not in known:
                    found = self.feed.named(name)
                    found += [
                        one.key for one in (await self.cluster.pending()).pods if one.name == name
                    ]
                    if found:
                        target = f"pods/{page.quoted(found[0])}"
        raise web.HTTPSeeOther(page.to(target))

    # Data for scripts, and for the picture without them.

    def _data(
        self, read: Callable[[web.Request], Awaitable[bytes]]
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def answer(request: web.Request) -> web.StreamResponse:
            try:
                return web.Response(body=await read(request), content_type="application/json")
            except Trouble as trouble:
                status = STATUS_OF.get(type(trouble), HTTPStatus.BAD_GATEWAY)
                return web.json_response({"error": str(trouble)}, status=status)

        return answer

    async def _node_data(self, request: web.Request) -> bytes:
        return node_data(await self._asked_nodes(request), request.query.get("group", ""))

    async def _asked_nodes(self, request: web.Request) -> NodeColumns:
        """Nodes as they are, or as a what-if would have them."""
        found, asked = await self.cluster.nodes(), question.read(request.query)
        return changed_nodes(found, asked) if question.node_fields(asked) else found

    async def _node_rows(self, _: web.Request) -> bytes:
        return nodes.nodes_grid(await self.cluster.nodes()).to_json()

    async def _pending_rows(self, _: web.Request) -> bytes:
        return pending.grid_of((await self.cluster.pending()).pods).to_json()

    async def _pod_rows(self, request: web.Request) -> bytes:
        decision = await self.cluster.decision(*_pod_of(request))
        if decision.last is None:
            raise Missing("There was no attempt yet.")
        return node_grid(decision, decision.last, request.query.get("show", "weighted")).to_json()

    async def _picture(self, request: web.Request) -> web.StreamResponse:
        try:
            found = await self._asked_nodes(request)
        except Trouble as trouble:
            raise web.HTTPNotFound from trouble
        text = picture(found, request.query.get("group", ""), request.query.get("by", ""))
        return web.Response(text=text, content_type="image/svg+xml")


def _pod_of(request: web.Request) -> tuple[str, str]:
    return request.match_info["namespace"], request.match_info["name"]


async def _form_of(request: web.Request) -> MultiDict[str]:
    """The fields of a form, by either method; files are not taken."""
    if request.method == "GET":
        return MultiDict(request.query)
    fields = await request.post()
    return MultiDict((name, value) for name, value in fields.items() if isinstance(value, str))


def _static_files() -> dict[str, tuple[bytes, str, str]]:
    """Files of the page by name: bytes, type, tag."""
    found: dict[str, Any] = {}
    for file in resources.files("kscheduler.ui").joinpath("static").iterdir():
        body = file.read_bytes()
        kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        kind = "text/javascript" if file.name.endswith(".js") else kind
        found[file.name] = (body, kind, f'"{hashlib.sha256(body).hexdigest()[:16]}"')
    return found
