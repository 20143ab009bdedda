"""A proxy between a scheduler and its API server that does harm, as it is told.

    scheduler == TLS, HTTP/1.1 ==> listener ==> rules ==> TLS, HTTP/1.1 ==> API server
                                                  <== events of watches, one by one <==

`Rule`s decide about requests (`request_faults`), `EventFault`s about events of watches that are in
JSON (`event_faults`); listeners can refuse connections. Chance is a seeded generator's. Every
exchange is a line of JSON in the log, with the fault that it met: the log is the evidence.

Each listener is a scheduler's own, so that the log tells replicas apart.
"""

import asyncio
import json
import random
import socket
import ssl
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tests.faults.event_faults import ERROR, EventFault, expired_line, read_event
from tests.faults.request_faults import Rule, status_body
from tests.faults.wire import (
    BROKEN,
    MOST_BYTES,
    WITHOUT_BODY,
    Head,
    Request,
    chunk,
    end_writing,
    pieces,
    read_head,
    reset,
)

JSON = "application/json"
THROTTLE_PIECE_SECONDS = 0.1


class Entry(msgspec.Struct, omit_defaults=True):
    """One exchange, or something that was done to all connections of a listener."""

    # Seconds since the proxy began, when the request came and when its answer was complete.
    at: float
    until: float
    who: str
    verb: str
    what: str
    namespace: str = ""
    name: str = ""
    # 0 if there was no answer, or if the client did not wait for it.
    status: int = 0
    # What the server answered, where the client was told something else.
    carried_out: int = 0
    fault: str = ""
    # Of a binding in JSON.
    node: str = ""
    uid: str = ""
    # Of a lease in JSON.
    holder: str = ""
    # Lines of a watch that were sent.
    lines: int = 0

    @property
    def server_status(self) -> int:
        return self.carried_out or self.status


class Target(NamedTuple):
    """The API server that is asked."""

    host: str
    port: int
    context: ssl.SSLContext


class Upstream:
    """A connection to the server, opened when it is needed and again when it was closed."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def send(self, request: Request) -> tuple[Head, AsyncGenerator[bytes, None]]:
        """The head of the answer, and its body."""
        if self.reader is None or self.reader.at_eof():
            self.close()
            host, port, context = self._target
            self.reader, self.writer = await asyncio.open_connection(
                host, port, ssl=context, limit=MOST_BYTES
            )
        assert self.reader is not None
        assert self.writer is not None
        framing = {"content_length": str(len(request.body))} if request.body else {}
        self.writer.write(request.head.encode(**framing) + request.body)
        head = await read_head(self.reader)
        if head is None:
            raise ConnectionResetError("the server ended the connection")
        has_body = head.status not in WITHOUT_BODY and request.method != "HEAD"
        return head, pieces(self.reader, head, has_body=has_body)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.transport.abort()
        self.reader = self.writer = None


class Watch:
    """A watch that a client has open, event by event."""

    def __init__(self, exchange: "Exchange", proxy: "Proxy") -> None:
        self.request = exchange.request
        query = self.request.query
        selectors = query.get("fieldSelector", ""), query.get("labelSelector", "")
        self.origin = "/".join((self.request.who, self.request.resource, *selectors))
        self.began = query.get("sendInitialEvents") != "true"
        self.version = query.get("resourceVersion", "")
        self.ended = asyncio.get_running_loop().create_future()
        self._exchange = exchange
        self._proxy = proxy

    def send(self, lines: Iterable[bytes]) -> None:
        if self.ended.done():
            return
        for line in lines:
            self._exchange.write(chunk(line))
            self._exchange.entry.lines += 1

    def end(self, last: bytes = b"") -> None:
        if not self.ended.done():
            if last:
                self.send([last])
            self.ended.set_result(None)

    async def relay(self, body: AsyncGenerator[bytes, None]) -> None:
        """Until the server or the proxy ends it."""
        for fault in self._proxy.event_faults:
            self.send(fault.begin(self))
        pumping = asyncio.create_task(self._pump(body), name="watch")
        try:
            await asyncio.wait({pumping, self.ended}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            pumping.cancel()
            await asyncio.wait({pumping})
        if not pumping.cancelled():
            pumping.result()

    async def _pump(self, body: AsyncGenerator[bytes, None]) -> None:
        async with aclosing(_lines(body)) as lines:
            async for line in lines:
                self._take(line)
                await self._exchange.drain()

    def _take(self, line: bytes) -> None:
        event = read_event(line)
        lines: list[bytes] = [line]
        for fault in self._proxy.event_faults:
            # Each fault sees what the one before it has left; what that one has made up, too.
            lines = [one for each in lines for one in fault.take(self, _reread(each, event))]
        self.send(lines)
        if event.ends_initial_events:
            self.began = True
        if lines and event.type != ERROR:
            self.version = event.version


def _reread(line: bytes, event: Any) -> Any:
    if line is event.line:
        return event
    try:
        return read_event(line)
    except msgspec.DecodeError:
        # Half an event, which the fault before has made.
        return msgspec.structs.replace(event, line=line)


async def _lines(body: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    rest = b""
    async for piece in body:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line + b"\n"


class Exchange:
    """A request of a client, and all that can become of it."""

    def __init__(
        self, proxy: "Proxy", request: Request, client: asyncio.StreamWriter, up: Upstream
    ) -> None:
        self.request = request
        self.over = asyncio.Event()
        self.outlives_client = False
        self._proxy = proxy
        self._client = client
        self._up = up
        now = proxy.now()
        about = (request.verb, request.what, request.namespace, request.name)
        self.entry = Entry(now, now, request.who, *about)
        if request.body.startswith(b"{"):
            self._note_body(json.loads(request.body))

    def _note_body(self, body: Any) -> None:
        match self.request.what:
            case "pods/binding":
                self.entry.node = body["target"]["name"]
                self.entry.uid = body["metadata"].get("uid", "")
            case "leases":
                self.entry.holder = body["spec"].get("holderIdentity") or ""

    async def run(self) -> None:
        """Serves it, as rules have it, and writes it down."""
        entry = self.entry
        rule = self._proxy.pick(self.request)
        try:
            if not self._proxy.admit(self.request):
                self._proxy.counts["401"] += 1
                await self.reply(401, status_body(401))
            elif rule is None:
                await self.relay()
            else:
                entry.fault, self.over = rule.name, rule.over
                self._proxy.counts[rule.name] += 1
                await rule.fault(self)
        except BROKEN:
            # The server's connection, or the client's: what the client sees is a broken one.
            self.reset()
            self._up.close()
        except asyncio.CancelledError:
            self._up.close()
            raise
        finally:
            entry.until = self._proxy.now()
            self._proxy.note(entry)

    async def relay(self, bytes_per_second: float = 0.0) -> None:
        head, body = await self._up.send(self.request)
        self.entry.status = head.status
        watched = self.request.is_watch and head.status == 200
        if watched and head.get("content-type").startswith(JSON):
            self.write(head.encode(transfer_encoding="chunked"))
            await self._watch(body)
        elif head.chunked:
            self.write(head.encode(transfer_encoding="chunked"))
            async with aclosing(body):
                async for piece in body:
                    await self._send(chunk(piece), bytes_per_second)
            self.write(chunk(b""))
        else:
            data = b"".join([piece async for piece in body])
            self.write(head.encode(content_length=str(len(data))))
            await self._send(data, bytes_per_second)
        await self.drain()

    async def _watch(self, body: AsyncGenerator[bytes, None]) -> None:
        watch = Watch(self, self._proxy)
        self._proxy.watches.append(watch)
        try:
            await watch.relay(body)
            self.write(chunk(b""))
        finally:
            watch.end()
            self._proxy.watches.remove(watch)
            # The server goes on with its watch; nobody listens to it any more.
            self._up.close()

    async def _send(self, data: bytes, bytes_per_second: float) -> None:
        if not bytes_per_second:
            self.write(data)
            await self.drain()
            return
        step = max(1, int(bytes_per_second * THROTTLE_PIECE_SECONDS))
        for start in range(0, len(data), step):
            self.write(data[start : start + step])
            await self.drain()
            await asyncio.sleep(THROTTLE_PIECE_SECONDS)

    async def carry_out(self) -> None:
        head, body = await self._up.send(self.request)
        async with aclosing(body):
            async for _ in body:
                pass
        self.entry.carried_out = head.status

    async def reply(self, status: int, body: bytes, **headers: str) -> None:
        head = Head(f"HTTP/1.1 {status} Fault", [("content-type", JSON), *headers.items()])
        self.entry.status = status
        self.write(head.encode(content_length=str(len(body))) + body)
        await self.drain()

    async def half_close(self) -> None:
        head, body = await self._up.send(self.request)
        self.entry.carried_out = head.status
        data = b"".join([piece async for piece in body]) if not self.request.is_watch else b""
        self.write(head.encode(content_length=str(len(data) or 1)) + data[: len(data) // 2])
        await self.drain()
        end_writing(self._client)
        if self.request.is_watch:
            self._up.close()

    def reset(self) -> None:
        reset(self._client)

    def write(self, data: bytes) -> None:
        self._client.write(data)

    async def drain(self) -> None:
        await self._client.drain()


class Proxy:
    """Listeners, rules and the log."""

    def __init__(self, target: Target, serving: ssl.SSLContext, rng: random.Random) -> None:
        self.rng = rng
        self.rules: list[Rule] = []
        self.event_faults: list[EventFault] = []
        self.watches: list[Watch] = []
        self.entries: list[Entry] = []
        # How often each fault happened.
        self.counts: Counter[str] = Counter()
        self.listeners: dict[str, Listener] = {}
        # By token of a client, the server's for it; others are not let in. None lets all pass.
        self.tokens: dict[str, str] | None = None
        self.target = target
        self.serving = serving
        self._began = time.monotonic()

    def now(self) -> float:
        return round(time.monotonic() - self._began, 4)

    def note(self, entry: Entry) -> None:
        self.entries.append(entry)

    def write_log(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(msgspec.json.encode(entry) + b"\n" for entry in self.entries))

    async def listen(self, who: str) -> "Listener":
        """A port for this scheduler alone."""
        listener = self.listeners[who] = Listener(self, who)
        await listener.accept()
        return listener

    async def close(self) -> None:
        for listener in self.listeners.values():
            listener.close()

    def pick(self, request: Request) -> Rule | None:
        return next((rule for rule in self.rules if rule.meets(request, self.rng)), None)

    def admit(self, request: Request) -> bool:
        """Whether the request's token is known; the server is shown its own one."""
        if self.tokens is None:
            return True
        scheme, _, token = request.head.get("authorization").partition(" ")
        known = self.tokens.get(token)
        if known is not None:
            kept = [pair for pair in request.head.headers if pair[0] != "authorization"]
            request.head.headers = [*kept, ("authorization", f"{scheme} {known}")]
        return known is not None

    @contextmanager
    def rule(self, rule: Rule) -> Iterator[Rule]:
        """While the block runs, requests that it means meet its fault."""
        self.rules.append(rule)
        try:
            yield rule
        finally:
            self.rules.remove(rule)
            rule.over.set()

    @contextmanager
    def tampering(self, *faults: EventFault) -> Iterator[None]:
        """While the block runs, events meet these faults."""
        self.event_faults += faults
        try:
            yield
        finally:
            for fault in faults:
                self.event_faults.remove(fault)
                fault.finish(list(self.watches))
                self.counts[fault.name] += fault.count

    def refuse(self) -> None:
        """All listeners are gone, and all connections with them."""
        for listener in self.listeners.values():
            listener.refuse()
        self.counts["refuse"] += 1

    async def accept(self) -> None:
        for listener in self.listeners.values():
            await listener.accept()

    def end_watches(self, resource: str = "") -> int:
        """Ends watches of one resource, or all, as a server does whose time is up."""
        found = [one for one in self.watches if resource in ("", one.request.resource)]
        for watch in found:
            watch.end()
        self.counts["watch ended"] += len(found)
        return len(found)

    def expire(self, resource: str) -> int:
        """410 to all watches of a resource: their clients must list anew."""
        found = [one for one in self.watches if one.request.resource == resource]
        for watch in found:
            watch.end(expired_line())
        self.counts["410 in a watch"] += len(found)
        return len(found)


class Listener:
    """The address under which one scheduler knows the API server."""

    def __init__(self, proxy: Proxy, who: str) -> None:
        self.who = who
        # Never listens: it keeps the port from others while connections are refused.
        self._holder = socket.socket()
        self._holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._holder.bind(("127.0.0.1", 0))
        self.port: int = self._holder.getsockname()[1]
        self._proxy = proxy
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def accept(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(
                self._connected,
                "127.0.0.1",
                self.port,
                ssl=self._proxy.serving,
                limit=MOST_BYTES,
                reuse_port=True,
            )

    def refuse(self) -> None:
        """Nobody listens any more, and connections are reset."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.reset_connections()

    def close(self) -> None:
        self.refuse()
        self._holder.close()

    def reset_connections(self) -> None:
        for task, writer in list(self._connections.items()):
            reset(writer)
            task.cancel()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = writer
        up = Upstream(self._proxy.target)
        try:
            await self._serve(reader, writer, up)
        except (asyncio.CancelledError, *BROKEN):
            # Reset by the proxy, or broken: the end of this connection, and nobody waits for it.
            pass
        finally:
            del self._connections[task]
            up.close()
            writer.transport.abort()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, up: Upstream
    ) -> None:
        head = await read_head(reader)
        while head is not None:
            body = b"".join([piece async for piece in pieces(reader, head)])
            request = Request.parse(head, body, self.who)
            exchange = Exchange(self._proxy, request, writer, up)
            running = asyncio.create_task(exchange.run())
            # A client that goes away ends what it has asked for, unless it is on its way.
            upcoming = asyncio.create_task(read_head(reader))
            try:
                await asyncio.wait({upcoming, running}, return_when=asyncio.FIRST_COMPLETED)
                gone = upcoming.done() and upcoming.result() is None
                if gone and not exchange.outlives_client:
                    running.cancel()
                await asyncio.wait({running})
                if not running.cancelled():
                    running.result()
                head = await upcoming
            finally:
                upcoming.cancel()
                running.cancel()
