"""Watch streams: a watcher's lines on an open HTTP response."""

from __future__ import annotations

import asyncio
import random

from aiohttp import web

from kscheduler.sandbox.lists import ListOptions, list_page
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.representation import Representation
from kscheduler.sandbox.resources import Resource
from kscheduler.sandbox.selection import Selection
from kscheduler.sandbox.status import too_large_resource_version
from kscheduler.sandbox.watch import QUEUE, Watcher

DEFAULT_TIMEOUT_SECONDS = 1800.0  # doubled at random, as upstream spreads reconnects
_CHUNK = 256 * 1024
_LAST_BOOKMARK_SECONDS = 2.0  # before the end, so that the next watch need not go far back


class Watches:
    """All open watches of a server, so that they can be cut."""

    def __init__(self, registry: Registry, *, queue: int = QUEUE) -> None:
        self._registry = registry
        self._queue = queue
        self._open: dict[Watcher, str] = {}
        self._bookmarked: set[Watcher] = set()

    def open(
        self, resource: Resource, selection: Selection, shown: Representation, options: ListOptions
    ) -> Watch:
        """Begin to follow a selection; what is queued from now on is sent by `send`."""
        watcher = Watcher(selection, shown, queue=self._queue)
        collection = self._registry.collection(resource)
        version = self._registry.store.version
        starts_from_state = options.initial_events
        if starts_from_state is None:
            starts_from_state = options.version == 0
        if starts_from_state and options.version > version:
            watcher.fail(too_large_resource_version(options.version, version))
        elif starts_from_state:
            page = list_page(collection, version, selection, ListOptions())
            watcher.send_existing(page.items)
            if options.bookmarks:
                watcher.bookmark(version, ends_initial_events=True)
        if not watcher.closed:
            watcher.follow(collection, None if starts_from_state else options.version or None)
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
        """Tell every client that wants to know how far it has come."""
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
        end = loop.call_later(timeout, self._watcher.close)
        last_words = self._bookmark_before(timeout)
        try:
            await answer.prepare(request)
            while chunk := await self._watcher.batch():
                for start in range(0, len(chunk), _CHUNK):
                    await answer.write(chunk[start : start + _CHUNK])
            await answer.write_eof()
        except ConnectionError:
            pass  # the client went away; there is nobody left to tell
        finally:
            end.cancel()
            if last_words is not None:
                last_words.cancel()
            self._watches.forget(self._watcher)
        return answer

    def _bookmark_before(self, end_seconds: float) -> asyncio.TimerHandle | None:
        """One more bookmark shortly before the end, if the watch is that long."""
        seconds = end_seconds - _LAST_BOOKMARK_SECONDS
        if seconds <= 0:
            return None
        loop = asyncio.get_running_loop()
        return loop.call_later(seconds, self._watches.bookmark_one, self._watcher)
