"""Faults of watches: what becomes of single events on their way to the client.

Each fault sees every event of every watch that is in JSON, in the proxy's order, and says what is
sent in its place. None of them breaks the promise that a client must rely on: per object the last
event tells the truth, unless the watch is then ended with 410 and the client lists anew.
"""

import asyncio
import json
import random
from collections import defaultdict, deque
from collections.abc import Collection, Iterable
from typing import Protocol

import msgspec

from kscheduler.api.resources import RESOURCES
from tests.faults.request_faults import status_body
from tests.faults.wire import Request

BOOKMARK, DELETED, ERROR = "BOOKMARK", "DELETED", "ERROR"
ENDS_INITIAL_EVENTS = "k8s.io/initial-events-end"
KINDS = {one.plural: (one.api_version, one.kind) for one in RESOURCES}


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    annotations: dict[str, str] = {}


class _Object(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class Event(msgspec.Struct):
    """As much of an event as faults go by."""

    type: str
    object: _Object
    line: bytes = b""

    @property
    def key(self) -> tuple[str, str]:
        return self.object.metadata.namespace, self.object.metadata.name

    @property
    def version(self) -> str:
        return self.object.metadata.resource_version

    @property
    def ends_initial_events(self) -> bool:
        return self.type == BOOKMARK and ENDS_INITIAL_EVENTS in self.object.metadata.annotations


_decode = msgspec.json.Decoder(Event).decode


def read_event(line: bytes) -> Event:
    event = _decode(line)
    event.line = line
    return event


class Stream(Protocol):
    """A watch that a client has open."""

    request: Request
    # Who watches what; the next watch of the same client and collection has the same.
    origin: str
    # Whether all that was there at its beginning has been told.
    began: bool
    # Up to which the client has been told everything.
    version: str

    def send(self, lines: Iterable[bytes]) -> None:
        """Tells the client, now."""

    def end(self, last: bytes = b"") -> None:
        """Ends the watch as a server does, after a last line."""


class EventFault:
    """Hands everything on; subclasses do otherwise. `count` is how often they did."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.count = 0

    @property
    def name(self) -> str:
        return type(self).__name__

    def begin(self, stream: Stream) -> list[bytes]:
        """What a watch that has just begun sends first."""
        return []

    def take(self, stream: Stream, event: Event) -> Collection[bytes]:
        """Lines in place of this event."""
        return (event.line,)

    def finish(self, streams: Collection[Stream]) -> None:
        """The fault is over; these watches are open."""


class Duplicates(EventFault):
    """Some events come twice, the second time after a few others."""

    def __init__(self, rng: random.Random, share: float, *, at_most_later: int = 3) -> None:
        super().__init__(rng)
        self._share = share
        self._later = at_most_later
        self._copies: dict[Stream, deque[tuple[int, Event]]] = defaultdict(deque)

    def take(self, stream: Stream, event: Event) -> Collection[bytes]:
        if event.type == BOOKMARK or not stream.began:
            return (event.line,)
        copies, lines = self._copies[stream], [event.line]
        # A copy after a newer event of the same object would be the last word, and untrue.
        stale = [one for one in copies if one[1].key == event.key]
        for one in stale:
            copies.remove(one)
        for number, (left, one) in enumerate(copies):
            copies[number] = (left - 1, one)
        while copies and copies[0][0] <= 0:
            lines.append(copies.popleft()[1].line)
            self.count += 1
        if self.rng.random() < self._share:
            copies.append((self.rng.randint(0, self._later), event))
        return lines


class Reordering(EventFault):
    """Events of different objects come in another order, those of one object in theirs."""

    def __init__(self, rng: random.Random, window: int = 6, seconds: float = 0.2) -> None:
        super().__init__(rng)
        self._window = window
        self._seconds = seconds
        self._held: dict[Stream, list[Event]] = {}

    def take(self, stream: Stream, event: Event) -> Collection[bytes]:
        if not stream.began:
            return (event.line,)
        held = self._held.setdefault(stream, [])
        if event.type == BOOKMARK:
            # It promises that everything before it has been told.
            return (*self._shuffled(stream), event.line)
        if not held:
            asyncio.get_running_loop().call_later(self._seconds, self._flush, stream)
        held.append(event)
        return self._shuffled(stream) if len(held) >= self._window else ()

    def _shuffled(self, stream: Stream) -> list[bytes]:
        held = self._held.pop(stream, [])
        by_key: dict[tuple[str, str], deque[Event]] = defaultdict(deque)
        for event in held:
            by_key[event.key].append(event)
        order = [event.key for event in held]
        self.rng.shuffle(order)
        mixed = [by_key[key].popleft() for key in order]
        self.count += mixed != held
        return [event.line for event in mixed]

    def _flush(self, stream: Stream) -> None:
        stream.send(self._shuffled(stream))

    def finish(self, streams: Collection[Stream]) -> None:
        for stream in streams:
            self._flush(stream)


class Replays(EventFault):
    """A watch that goes on where another one ended tells the last events once more."""

    def __init__(self, rng: random.Random, most: int = 20) -> None:
        super().__init__(rng)
        self._told: dict[str, deque[Event]] = defaultdict(lambda: deque(maxlen=most))

    def begin(self, stream: Stream) -> list[bytes]:
        told = self._told[stream.origin]
        # After a list there may be truths that no event has told.
        if not told or told[-1].version != stream.request.query.get("resourceVersion"):
            told.clear()
        self.count += len(told)
        return [event.line for event in told if event.type != BOOKMARK]

    def take(self, stream: Stream, event: Event) -> Collection[bytes]:
        if stream.began and event.type != ERROR:
            self._told[stream.origin].append(event)
        return (event.line,)


class SwallowedDeletes(EventFault):
    """Some deletions are never told; at the end clients must list anew."""

    def __init__(self, rng: random.Random, share: float) -> None:
        super().__init__(rng)
        self._share = share

    def take(self, stream: Stream, event: Event) -> Collection[bytes]:
        if event.type == DELETED and self.rng.random() < self._share:
            self.count += 1
            return ()
        return (event.line,)

    def finish(self, streams: Collection[Stream]) -> None:
        for stream in streams:
            stream.end(expired_line())


class BookmarksOnly(EventFault):
    """Nothing but bookmarks: events are held back, and bookmarks do not go beyond what was told.

    At the end half of the watches tell what they have held back, and half are ended with 410.
    """

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self._held: dict[Stream, list[Event]] = defaultdict(list)

    def take(self, stream: Stream, event: Event) -> Collection[bytes]:
        if not stream.began or event.type == ERROR:
            return (event.line,)
        if event.type == BOOKMARK and not self._held[stream]:
            return (event.line,)
        self._held[stream].append(event)
        self.count += event.type != BOOKMARK
        return ()

    def bookmark(self, streams: Collection[Stream]) -> None:
        """One more bookmark for each of these watches that was told a version."""
        for stream in streams:
            if stream.began and stream.version:
                stream.send([bookmark_line(stream.request.resource, stream.version)])

    def finish(self, streams: Collection[Stream]) -> None:
        for stream in streams:
            if self.rng.random() < 0.5:
                stream.send(event.line for event in self._held[stream])
            else:
                stream.end(expired_line())


class Corruption(EventFault):
    """Some events arrive as half of their bytes."""

    def __init__(self, rng: random.Random, share: float) -> None:
        super().__init__(rng)
        self._share = share

    def take(self, stream: Stream, event: Event) -> Collection[bytes]:
        if stream.began and self.rng.random() < self._share:
            self.count += 1
            return (event.line[: len(event.line) // 2] + b"\n",)
        return (event.line,)


def expired_line() -> bytes:
    """The last line of a watch whose version the server has forgotten."""
    return b'{"type":"ERROR","object":%b}\n' % status_body(410)


def bookmark_line(resource: str, version: str) -> bytes:
    api_version, kind = KINDS[resource]
    item = {"kind": kind, "apiVersion": api_version, "metadata": {"resourceVersion": version}}
    return json.dumps({"type": BOOKMARK, "object": item}).encode() + b"\n"
