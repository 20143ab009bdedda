"""The common part of controllers: keys that wait to be synced, one task per controller.

Listeners mark keys; `run` syncs them, each once however often it was marked. Mirrors the work
queues of pkg/controller: a sync that is refused is tried again later, each time twice as late.

Bounds. A key rests after its sync for a multiple of the time that took, so a controller takes a
part of the loop only, however large its objects and however often they change.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import ClassVar

from kscheduler import logs
from kscheduler.api.timestamps import parse_time
from kscheduler.rest.status import StatusError
from kscheduler.sandbox.kinds.events import object_event
from kscheduler.sandbox.kinds.resource import Resource
from kscheduler.sandbox.metadata import now
from kscheduler.sandbox.registry import Registry, typed
from kscheduler.sandbox.resources import EVENTS
from kscheduler.sandbox.store import Change, Key, Listener, Object, Stored

FIRST_RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 60.0
# A sync may take this long without a rest after it.
_SHORT_SECONDS = 0.002
_REST = 4  # times the duration of the sync
log = logs.logger("controllers")


@contextmanager
def listening(registry: Registry, listeners: Iterable[tuple[Resource, Listener]]) -> Iterator[None]:
    """Listeners are told of the objects that exist, and of every change while the block runs."""
    unlisten: list[Callable[[], None]] = []
    for resource, listener in listeners:
        collection = registry.collection(resource)
        unlisten.append(collection.listen(listener))
        for stored in collection:
            listener(Change("ADDED", stored, None))
    try:
        yield
    finally:
        for stop in unlisten:
            stop()


class Controller(ABC):
    """One control loop over keys of one kind."""

    name: ClassVar[str]

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._marked: dict[Key, None] = {}  # an ordered set
        self._later: list[tuple[float, Key]] = []  # a heap; entries not in `_later_at` are void
        self._later_at: dict[Key, float] = {}
        self._pauses: dict[Key, float] = {}  # before the next retry, of keys that were refused
        self._resting: dict[Key, float] = {}  # until when, by key
        self._wake = asyncio.Event()

    @abstractmethod
    def listeners(self) -> Iterable[tuple[Resource, Listener]]:
        """Collections to listen to; listeners are told of what exists, too, when `run` begins."""

    @abstractmethod
    def sync(self, key: Key) -> None:
        """Bring what is stored about the object of this key into line, if it still exists."""

    def mark(self, key: Key) -> None:
        """Have `sync` called with the key soon."""
        self._marked[key] = None
        self._wake.set()

    def mark_later(self, key: Key, seconds: float) -> None:
        """Have `sync` called with the key after this time, or earlier if that is due already."""
        moment = time.monotonic() + max(seconds, 0.0)
        if moment < self._later_at.get(key, float("inf")):
            self._later_at[key] = moment
            heapq.heappush(self._later, (moment, key))
            self._wake.set()

    def is_idle(self, within_seconds: float) -> bool:
        """Whether nothing is to be synced, nor will be within this time by what is known now."""
        soon = time.monotonic() + within_seconds
        return not self._marked and not any(at <= soon for at in self._later_at.values())

    async def run(self) -> None:
        """Until cancelled: sync what exists and then every change."""
        with listening(self._registry, self.listeners()):
            while True:
                await self._step()

    async def _step(self) -> None:
        moment = time.monotonic()
        while self._later and self._later[0][0] <= moment:
            at, key = heapq.heappop(self._later)
            if self._later_at.get(key) == at:
                del self._later_at[key]
                self._marked[key] = None
        if self._marked:
            key = next(iter(self._marked))
            del self._marked[key]
            if (rest := self._resting.get(key, 0.0) - moment) > 0:
                self.mark_later(key, rest)
            else:
                self._sync(key)
                await asyncio.sleep(0)
            return
        # Not wait_for: in Python 3.11 it can swallow a cancellation that meets a wake-up.
        with suppress(TimeoutError):
            wait = self._later[0][0] - moment if self._later else None
            async with asyncio.timeout(wait):
                await self._wake.wait()
        self._wake.clear()

    def _sync(self, key: Key) -> None:
        began = time.monotonic()
        try:
            self.sync(key)
        except StatusError as error:
            self._retry(key)
            log.v(2).info("Refused", controller=self.name, key="/".join(key), err=str(error))
        except Exception as error:  # a strange object must not end the cluster
            self._retry(key)
            log.error(error, "Sync failed", controller=self.name, key="/".join(key))
        else:
            self._pauses.pop(key, None)
        ended = time.monotonic()
        rest = _REST * (ended - began) if ended - began > _SHORT_SECONDS else 0.0
        if key in self._pauses:  # what a refused sync has written must not call for the next one
            rest = max(rest, FIRST_RETRY_SECONDS)
        if rest:
            self._resting[key] = ended + rest
        else:
            self._resting.pop(key, None)

    def _retry(self, key: Key) -> None:
        pause = self._pauses.get(key, FIRST_RETRY_SECONDS)
        self._pauses[key] = min(2 * pause, LONGEST_RETRY_SECONDS)
        self.mark_later(key, pause)

    def find(self, resource: Resource, key: Key) -> Object | None:
        """A copy of the object, with kind and apiVersion; None if there is none."""
        stored = self._registry.collection(resource).get(key)
        return None if stored is None else typed(resource, stored)

    def edit(
        self,
        resource: Resource,
        item: Object,
        change: Callable[[Object], None],
        *,
        subresource: str = "",
    ) -> Stored:
        """Change the object as it is stored now."""

        def edited(current: Object) -> Object:
            change(current)
            return current

        about = item["metadata"]
        namespace = about.get("namespace", "")
        stored, _ = self._registry.update(
            resource, namespace, about["name"], edited, subresource=subresource
        )
        return stored

    def write_status(self, resource: Resource, item: Object, status: Object) -> None:
        """Store a new status, unless it is what the object has."""
        if item.get("status") == status:
            return

        def change(current: Object) -> None:
            current["status"] = status

        self.edit(resource, item, change, subresource="status")

    def report(self, resource: Resource, item: Object, reason: str, message: str) -> None:
        """An event about an object; those whose reason begins with Failed are warnings."""
        kind = "Warning" if reason.startswith("Failed") else "Normal"
        event = object_event(
            {"kind": resource.kind, "apiVersion": resource.group_version, **item},
            kind,
            reason,
            message,
            self.name,
        )
        with suppress(StatusError):  # of a namespace that is going away
            self._registry.create(EVENTS, event["metadata"]["namespace"], event)


def controller_reference(resource: Resource, owner: Object) -> Object:
    """The reference of an object to the one that manages it."""
    return {
        "apiVersion": resource.group_version,
        "kind": resource.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_deleting(item: Object) -> bool:
    return "deletionTimestamp" in item["metadata"]


def seconds_since(timestamp: str | None) -> float:
    """Seconds of the wall clock since a moment of the API; 0 if there is none."""
    return time.time() - parse_time(timestamp) if timestamp else 0.0


def percent_of(value: int | str, total: int, *, round_up: bool) -> int:
    """An int-or-percent as a number. Mirrors GetScaledValueFromIntOrPercent."""
    if isinstance(value, int):
        return value
    share = int(value.removesuffix("%")) * total
    return -(-share // 100) if round_up else share // 100


def with_condition(
    conditions: Iterable[Object], kind: str, value: str, reason: str, message: str, **more: str
) -> list[Object]:
    """Conditions with one of them set; its transition time moves only when its value does."""
    others, before = [], None
    for one in conditions:
        if one["type"] == kind:
            before = one
        else:
            others.append(one)
    moment = now()
    moved = before is None or before["status"] != value
    new: Object = {
        "type": kind,
        "status": value,
        "lastTransitionTime": moment if moved or before is None else before["lastTransitionTime"],
        "reason": reason,
        "message": message,
        **more,
    }
    return sorted([*others, new], key=lambda one: one["type"])
