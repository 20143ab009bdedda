"""Watchers: a change in the store becomes a line for every client that follows it.

A watcher belongs to one request. It has a bounded queue; a client that does not keep up is cut off
and has to come back, as with the real server. Whoever takes lines out awaits `batch`, one
waiter per watcher; everything else is called from the same loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from kscheduler.sandbox.representation import Representation, encode
from kscheduler.sandbox.selection import Selection
from kscheduler.sandbox.status import StatusError
from kscheduler.sandbox.store import Change, Collection, ExpiredError, Object, Stored

QUEUE = 20_000  # lines a client may fall behind
_EXISTING_AT_ONCE = 500  # objects encoded into one chunk
INITIAL_EVENTS_END = "k8s.io/initial-events-end"

# Bookmarks carry an otherwise empty object of the kind, including fields that are never omitted.
_EMPTY: dict[str, Object] = {"Pod": {"spec": {"containers": None}, "status": {}}}


class Watcher:
    """The lines one client is still to receive."""

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

    def follow(self, collection: Collection, since: int | None) -> None:
        """Deliver all changes after version `since`, or from now on; a 410 line if too old."""
        try:
            missed = [] if since is None else collection.changes_since(since)
        except ExpiredError as error:
            self.fail(_expired(error))
            return
        floor = since or 0
        for change in missed:
            self._deliver(change)
        self._unlisten = collection.listen(
            lambda change: self._deliver(change) if change.version > floor else None
        )

    def fail(self, error: StatusError) -> None:
        """Tell the client what is wrong; nothing comes after that."""
        self._lines.append(_line("ERROR", encode(error.body)))
        self.close()

    def send_existing(self, items: Iterable[Stored]) -> None:
        """What is there already, as if just added; not counted against the queue's bound."""
        self._existing.extend(items)
        self._wake.set()

    def bookmark(self, version: int, *, ends_initial_events: bool = False) -> None:
        """Tell the client how far it has come."""
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
        """No further lines; those that are queued are still delivered."""
        self.closed = True
        if self._unlisten is not None:
            self._unlisten()
        self._wake.set()

    def _deliver(self, change: Change) -> None:
        matched = change.previous is not None and self._selection.matches(change.previous)
        matches = change.type != "DELETED" and self._selection.matches(change.stored)
        if matches:
            self._append(self._event("MODIFIED" if matched else "ADDED", change.stored))
        elif matched:
            self._append(self._event("DELETED", _last_seen(change)))

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


def _last_seen(change: Change) -> Stored:
    """An object that left the selection is shown as the client last saw it, at the new version."""
    if change.type == "DELETED" or change.previous is None:
        return change.stored
    before = change.previous
    item = before.decode()
    item["metadata"]["resourceVersion"] = str(change.version)
    return Stored(before.key, change.version, encode(item), before.labels, before.fields)


def _expired(error: ExpiredError) -> StatusError:
    return StatusError(410, "Expired", str(error))
