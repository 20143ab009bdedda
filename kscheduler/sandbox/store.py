"""The versioned store: every object's bytes, every recent change, one resourceVersion for all.

An object is kept as the JSON it is served as, encoded once per change; code that reads its fields
decodes a private copy. So nothing that was handed out can change under a reader, and a list of ten
thousand pods is one `bytes.join`. Keeping dicts was the alternative: it costs a deep copy per read
and four times the memory.

Each collection remembers its last changes. A watch resumes from them and a paged list rewinds with
them; a client from before the oldest one is answered with 410 and has to list anew.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

Object = dict[str, Any]
Key = tuple[str, str]  # namespace ("" in cluster scope) and name
Indexer = Callable[[Object], Mapping[str, str]]

HISTORY = 20_000  # changes remembered per collection

# Keys in order, so that equal objects have equal bytes.
_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder()


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """One version of one object. `body` is its JSON without kind and apiVersion."""

    key: Key
    version: int
    body: bytes
    labels: Mapping[str, str]
    fields: Mapping[str, str]

    def decode(self) -> Object:
        """A copy the caller may change."""
        return _decoder.decode(self.body)


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """One step of history. A deletion carries the last state, at the version of the deletion."""

    type: str  # ADDED, MODIFIED or DELETED
    stored: Stored
    previous: Stored | None

    @property
    def version(self) -> int:
        return self.stored.version


Listener = Callable[[Change], None]


class ExpiredError(Exception):
    """The history no longer reaches back to the version asked for."""

    def __init__(self, wanted: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {wanted} ({oldest})")


class Collection:
    """All objects of one resource, ordered by namespace and name."""

    def __init__(self, clock: _Clock, index: Indexer, history: int) -> None:
        self._clock = clock
        self._index = index
        self._objects: dict[Key, Stored] = {}
        self._keys: list[Key] = []
        self._history: deque[Change] = deque(maxlen=history)
        self._forgotten = 0  # the newest version that left the history
        self.changed_at = 0  # the version of the newest change
        self._listeners: dict[int, Listener] = {}
        self._next_listener = 0

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[Stored]:
        return iter([self._objects[key] for key in self._keys])

    def get(self, key: Key) -> Stored | None:
        return self._objects.get(key)

    def draft(self, key: Key, item: Object, version: int) -> Stored:
        """The state that storing `item` at `version` would keep; `item` itself gets the version."""
        body = _encode(item, version)
        labels = dict(item["metadata"].get("labels") or {})
        return Stored(key, version, body, labels, self._index(item))

    def put(self, key: Key, item: Object) -> Stored:
        """Store a new state of the object. Equal states are stored once and make no event."""
        previous = self._objects.get(key)
        if previous is not None and _encode(item, previous.version) == previous.body:
            return previous
        stored = self.draft(key, item, self._clock.tick())
        self._objects[key] = stored
        if previous is None:
            insort(self._keys, key)
        self._record(Change("ADDED" if previous is None else "MODIFIED", stored, previous))
        return stored

    def remove(self, key: Key) -> Stored:
        """Forget the object; its last state is delivered to watchers under a new version."""
        previous = self._objects.pop(key)
        del self._keys[bisect_left(self._keys, key)]
        stored = self.draft(key, previous.decode(), self._clock.tick())
        self._record(Change("DELETED", stored, previous))
        return stored

    def keys(self, namespace: str = "", after: Key | None = None) -> list[Key]:
        """Keys in order, of one namespace or all, from behind `after` on."""
        start = bisect_left(self._keys, (namespace, "")) if namespace else 0
        if after is not None:
            start = max(start, bisect_left(self._keys, (after[0], after[1] + "\0")))
        end = bisect_left(self._keys, (namespace + "\0", "")) if namespace else len(self._keys)
        return self._keys[start:end]

    def rewound(self, version: int) -> Mapping[Key, Stored]:
        """All objects as they were at `version`. Raises ExpiredError when that is too long ago."""
        if version < self._forgotten:
            raise ExpiredError(version, self._forgotten)
        objects = dict(self._objects)
        for change in reversed(self._history):
            if change.version <= version:
                break
            if change.previous is None:
                del objects[change.stored.key]
            else:
                objects[change.stored.key] = change.previous
        return objects

    def changes_since(self, version: int) -> list[Change]:
        """Changes after `version`, oldest first. Raises ExpiredError when too long ago."""
        if version < self._forgotten:
            raise ExpiredError(version, self._forgotten)
        newest_first = []
        for change in reversed(self._history):
            if change.version <= version:
                break
            newest_first.append(change)
        newest_first.reverse()
        return newest_first

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every change from now on; returns how to stop that."""
        self._next_listener += 1
        number = self._next_listener
        self._listeners[number] = listener
        return lambda: self._listeners.pop(number, None) and None

    def forget_history(self) -> None:
        """Drop the history: a read or watch from before this moment is answered with 410."""
        self._history.clear()
        self._forgotten = self._clock.now

    def _record(self, change: Change) -> None:
        if len(self._history) == self._history.maxlen:
            self._forgotten = self._history[0].version
        self._history.append(change)
        self.changed_at = change.version
        for listener in list(self._listeners.values()):
            listener(change)


def _encode(item: Object, version: int) -> bytes:
    item["metadata"]["resourceVersion"] = str(version)
    return _encoder.encode({k: v for k, v in item.items() if k not in ("kind", "apiVersion")})


@dataclass(slots=True)
class _Clock:
    """The version counter all collections share."""

    now: int = 1

    def tick(self) -> int:
        self.now += 1
        return self.now


class Store:
    """All collections, by resource name, under one resourceVersion."""

    def __init__(self, *, history: int = HISTORY) -> None:
        self._clock = _Clock()
        self._history = history
        self._collections: dict[str, Collection] = {}

    @property
    def version(self) -> int:
        return self._clock.now

    def add_collection(self, name: str, index: Indexer) -> Collection:
        """`index` names the values that field selectors may ask about."""
        collection = Collection(self._clock, index, self._history)
        self._collections[name] = collection
        return collection

    def __getitem__(self, name: str) -> Collection:
        return self._collections[name]

    def compact(self) -> None:
        """Forget all history, as etcd does every few minutes."""
        for collection in self._collections.values():
            collection.forget_history()
