"""Watches: a change in the store becomes a line for every client that watches it.

A `Watcher` belongs to one request and queues its lines; `Watches` knows all that are open; `Watch`
writes one to an HTTP response. The queue is bounded: a client that does not keep up is cut off and
has to come back, as with the real server. One coroutine per watcher awaits `batch`; everything else
is called on the same loop, so nothing here needs a lock.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable

from aiohttp import web

from kscheduler.rest import status
from kscheduler.rest.lists import ListOptions
from kscheduler.rest.status import StatusError
from kscheduler.sandbox.kinds.resource import Resource
from kscheduler.sandbox.lists import Selection, list_page
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.rest.representation import Representation, encode
from kscheduler.sandbox.store import Change, Collection, ExpiredError, Object, Stored

QUEUE = 20_000  # lines a client may fall behind
DEFAULT_TIMEOUT_SECONDS = 1800.0  # doubled at random, as upstream spreads reconnects
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_EXISTING_AT_ONCE = 500  # objects encoded into one chunk
_CHUNK = 256 * 1024  # bytes per write
_LAST_BOOKMARK_SECONDS = 2.0  # before the end, so that the next watch need not go far back

# Bookmarks carry an otherwise empty object of the kind, including fields that are never omitted.
_EMPTY: dict[str, Object] = {"Pod": {"spec": {"containers": None}, "status": {}}}


class Watcher:
    """Lines that one client is still to receive."""

    def __init__(self, selection: Selection, shown: Representation, *, queue: int = QUEUE) -> None:
        self._selection = selection
        self._shown = shown
        self._head = shown.head
        self._limit = queue
        self._existing: deque[Stored] = deque()  # sent before any line
        self._lines: deque[bytes] = deque()
        self._wake = asyncio.Event()
        self._unlisten: Callable[[], None] | None = None
        self.closed = False

    def subscribe(self, collection: Collection, since: int | None) -> None:
        """Deliver all changes after version `since`, or from now on; a 410 line if too old."""
        try:
            missed = [] if since is None else collection.changes_since(since)
        except ExpiredError as error:
            self.fail(status.expired(str(error)))
            return
        floor = since or 0
        for change in missed:
            self._deliver(change)
        # A client may name a version that does not exist yet; it sees nothing older than that.
        self._unlisten = collection.listen(
            lambda change: self._deliver(change) if change.version > floor else None
        )

    def fail(self, error: StatusError) -> None:
        """Send an ERROR event; nothing comes after that."""
        self._lines.append(_line("ERROR", encode(error.body)))
        self.close()

    def send_existing(self, items: Iterable[Stored]) -> None:
        """Send objects as if just added; they do not count against the queue's bound."""
        self._existing.extend(items)
        self._wake.set()

    def bookmark(self, version: int, *, ends_initial_events: bool = False) -> None:
        """Queue a BOOKMARK event: the client has seen everything up to `version`."""
        metadata: Object = {"resourceVersion": str(version)}
        if ends_initial_events:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        body = encode({"metadata": metadata, **_EMPTY.get(self._shown.kind, {})})
        self._append(_line("BOOKMARK", self._head + body[1:]))

    async def batch(self) -> bytes:
        """The lines that are due, as one chunk; empty when the watch is over."""
        while not self._existing and not self._lines and not self.closed:
            self._wake.clear()
            await self._wake.wait()
        if self._existing:
            count = min(len(self._existing), _EXISTING_AT_ONCE)
            stored = [self._existing.popleft() for _ in range(count)]
            return b"".join(self._event("ADDED", one) for one in stored)
        chunk = b"".join(self._lines)
        self._lines.clear()
        return chunk

    def close(self) -> None:
        """Take no further lines; those that are queued are still delivered."""
        self.closed = True
        if self._unlisten is not None:
            self._unlisten()
        self._wake.set()

    def _deliver(self, change: Change) -> None:
        """Queue the event the selection makes of a change: an object may enter or leave it."""
        matched = change.previous is not None and self._selection.matches(change.previous)
        matches = change.type != "DELETED" and self._selection.matches(change.stored)
        if matches:
            self._append(self._event("MODIFIED" if matched else "ADDED", change.stored))
        elif matched:
            self._append(self._event("DELETED", _last_matching(change)))

    def _append(self, line: bytes) -> None:
        if len(self._lines) >= self._limit:
            self._existing.clear()
            self._lines.clear()
            self.close()
            return
        self._lines.append(line)
        self._wake.set()

    def _event(self, kind: str, stored: Stored) -> bytes:
        return _line(kind, self._head + self._shown.body(stored)[1:])


def _line(kind: str, item: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), item)


def _last_matching(change: Change) -> Stored:
    """An object that left the selection is shown as it last matched, at the new version."""
    if change.type == "DELETED" or change.previous is None:
        return change.stored
    before = change.previous
    item = before.decode()
    item["metadata"]["resourceVersion"] = str(change.version)
    return Stored(before.key, change.version, encode(item), before.labels, before.fields)


class Watches:
    """All open watches of a server."""

    def __init__(self, registry: Registry, *, queue: int = QUEUE) -> None:
        self._registry = registry
        self._queue = queue
        self._open: dict[Watcher, str] = {}
        self._bookmarked: set[Watcher] = set()

    def open(
        self, resource: Resource, selection: Selection, shown: Representation, options: ListOptions
    ) -> Watch:
        """Subscribe to a selection; lines queue up from now on and are sent by `Watch.send`."""
        watcher = Watcher(selection, shown, queue=self._queue)
        collection = self._registry.collection(resource)
        version = self._registry.store.version
        starts_from_state = options.initial_events
        if starts_from_state is None:
            starts_from_state = options.version == 0
        if starts_from_state and options.version > version:
            watcher.fail(status.too_large_resource_version(options.version, version))
        elif starts_from_state:
            page = list_page(collection, version, selection, ListOptions())
            watcher.send_existing(page.items)
            if options.bookmarks:
                watcher.bookmark(version, ends_initial_events=True)
        if not watcher.closed:
            watcher.subscribe(collection, None if starts_from_state else options.version or None)
        self._open[watcher] = resource.qualified
        if options.bookmarks:
            self._bookmarked.add(watcher)
        return Watch(self, watcher, options.timeout_seconds)

    def cut(self, resource_name: str | None = None) -> None:
        """End open watches, of one resource or all; their clients have to come back."""
        for watcher, name in list(self._open.items()):
            if resource_name in (None, name):
                watcher.close()

    def forget(self, watcher: Watcher) -> None:
        watcher.close()
        self._open.pop(watcher, None)
        self._bookmarked.discard(watcher)

    def bookmark(self) -> None:
        """Send a bookmark to every client that allows them."""
        for watcher in self._bookmarked:
            watcher.bookmark(self._registry.store.version)

    def bookmark_one(self, watcher: Watcher) -> None:
        if watcher in self._bookmarked and not watcher.closed:
            watcher.bookmark(self._registry.store.version)

    def __len__(self) -> int:
        return len(self._open)


class Watch:
    """One open watch, to be sent once."""

    def __init__(self, watches: Watches, watcher: Watcher, timeout: float | None) -> None:
        self._watches = watches
        self._watcher = watcher
        self._timeout = timeout

    async def send(self, request: web.BaseRequest) -> web.StreamResponse:
        """Write lines until the watch is over or the client is gone."""
        answer = web.StreamResponse(headers={"Cache-Control": "no-cache, private"})
        answer.content_type = "application/json"
        answer.enable_chunked_encoding()
        loop = asyncio.get_running_loop()
        timeout = self._timeout or DEFAULT_TIMEOUT_SECONDS * (1 + random.random())
        timers = [loop.call_later(timeout, self._watcher.close)]
        last_bookmark = timeout - _LAST_BOOKMARK_SECONDS
        if last_bookmark > 0:
            timers.append(loop.call_later(last_bookmark, self._watches.bookmark_one, self._watcher))
        try:
            await answer.prepare(request)
            while chunk := await self._watcher.batch():
                for start in range(0, len(chunk), _CHUNK):
                    await answer.write(chunk[start : start + _CHUNK])
            await answer.write_eof()
        except ConnectionError:
            pass  # the client closed the connection
        finally:
            for timer in timers:
                timer.cancel()
            self._watches.forget(self._watcher)
        return answer
