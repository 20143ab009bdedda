"""Housekeeping: what the control plane's own loops would do.

Namespaces that are being deleted lose their content and then themselves; new ones get their
default service account; events end an hour after they were last written.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from kscheduler.api.timestamps import format_time
from kscheduler.sandbox.deletion import DeleteOptions, delete
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.resources import BY_NAME, EVENTS, NAMESPACES, namespaced_resources
from kscheduler.sandbox.status import StatusError
from kscheduler.sandbox.store import Change, Stored

EVENT_TTL_SECONDS = 3600.0
SWEEP_SECONDS = 60.0
_SERVICE_ACCOUNTS = BY_NAME["serviceaccounts"]


class Housekeeping:
    """One task that reacts to namespaces and pods, and sweeps events now and then."""

    def __init__(self, registry: Registry, *, event_ttl_seconds: float = EVENT_TTL_SECONDS) -> None:
        self._registry = registry
        self._event_ttl = event_ttl_seconds
        self._terminating: set[str] = set()
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled."""
        unlisten = self._listen()
        try:
            while True:
                self.finish_namespaces()
                # Not wait_for: in Python 3.11 it can swallow a cancellation that meets a wake-up.
                try:
                    async with asyncio.timeout(SWEEP_SECONDS):
                        await self._wake.wait()
                except TimeoutError:
                    self.expire_events(time.time())
                self._wake.clear()
        finally:
            for stop in unlisten:
                stop()

    def finish_namespaces(self) -> None:
        """Take every terminating namespace one step further."""
        for namespace in list(self._registry.collection(NAMESPACES)):
            if namespace.fields["status.phase"] == "Terminating":
                self._terminating.add(namespace.key[1])
                self._finish(namespace)

    def expire_events(self, now: float) -> None:
        oldest = format_time(now - self._event_ttl)
        events = self._registry.collection(EVENTS)
        for stored in list(events):
            if _last_written(stored) < oldest:
                events.remove(stored.key)

    def _listen(self) -> list[Callable[[], None]]:
        collections = [self._registry.collection(row) for row in namespaced_resources()]
        stops = [collection.listen(self._content_changed) for collection in collections]
        stops.append(self._registry.collection(NAMESPACES).listen(self._namespace_changed))
        return stops

    def _content_changed(self, change: Change) -> None:
        if change.type == "DELETED" and change.stored.key[0] in self._terminating:
            self._wake.set()

    def _namespace_changed(self, change: Change) -> None:
        name = change.stored.key[1]
        if change.type == "ADDED":
            ensure_service_account(self._registry, name)
        elif change.type == "DELETED":
            self._terminating.discard(name)
        elif change.stored.fields["status.phase"] == "Terminating":
            self._terminating.add(name)
            self._wake.set()

    def _finish(self, namespace: Stored) -> None:
        name = namespace.key[1]
        left = 0
        for resource in namespaced_resources():
            collection = self._registry.collection(resource)
            for key in collection.keys(name):
                delete(self._registry, resource, name, key[1], DeleteOptions())
            left += len(collection.keys(name))
        if not left:
            self._release(namespace)

    def _release(self, namespace: Stored) -> None:
        item = namespace.decode()
        item["spec"]["finalizers"] = []
        collection = self._registry.collection(NAMESPACES)
        collection.put(namespace.key, item)
        if not item["metadata"].get("finalizers"):
            collection.remove(namespace.key)


def ensure_service_account(registry: Registry, namespace: str) -> None:
    """Every namespace has an account called `default`."""
    try:
        registry.create(_SERVICE_ACCOUNTS, namespace, {"metadata": {"name": "default"}})
    except StatusError as error:
        if error.reason != "AlreadyExists":
            raise


def _last_written(event: Stored) -> str:
    item = event.decode()
    times = [
        item["metadata"]["creationTimestamp"],
        item.get("lastTimestamp") or "",
        (item.get("series") or {}).get("lastObservedTime") or "",
    ]
    return max(times)
