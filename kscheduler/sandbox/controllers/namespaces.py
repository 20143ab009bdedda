"""Namespaces: content of terminating ones deleted, a service account for new ones.

Mirrors pkg/controller/namespace and pkg/controller/serviceaccount. Also expires events, which a
real cluster leaves to etcd's leases.
"""

from __future__ import annotations

import asyncio

from kscheduler.api.timestamps import format_time
from kscheduler.rest.status import StatusError
from kscheduler.sandbox.deletion import DeleteOptions, delete
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.resources import BY_NAME, EVENTS, NAMESPACES, namespaced_resources
from kscheduler.sandbox.store import Change

EVENT_TTL_SECONDS = 3600.0
_SERVICE_ACCOUNTS = BY_NAME["serviceaccounts"]


class NamespaceController:
    """Removes terminating namespaces with everything in them."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._terminating: set[str] = set()
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled: reconcile whenever a terminating namespace or its content changed."""
        collections = [self._registry.collection(row) for row in namespaced_resources()]
        unlisten = [collection.listen(self._content_changed) for collection in collections]
        unlisten.append(self._registry.collection(NAMESPACES).listen(self._namespace_changed))
        try:
            while True:
                self.finish_namespaces()
                await self._wake.wait()
                self._wake.clear()
        finally:
            for stop in unlisten:
                stop()

    def finish_namespaces(self) -> None:
        """Delete the content of every terminating namespace, and those that are empty."""
        namespaces = self._registry.collection(NAMESPACES)
        for namespace in list(namespaces):
            if namespace.fields["status.phase"] != "Terminating":
                continue
            name = namespace.key[1]
            self._terminating.add(name)
            left = 0  # pods on nodes stay until their kubelet ends them, others by finalizers
            for resource in namespaced_resources():
                collection = self._registry.collection(resource)
                for key in collection.keys(name):
                    delete(self._registry, resource, name, key[1], DeleteOptions())
                left += len(collection.keys(name))
            if left:
                continue  # `_content_changed` wakes this task when one of them is gone
            # Two writes, as upstream: watchers see the namespace finalized before it is gone.
            item = namespace.decode()
            item["spec"]["finalizers"] = []
            namespaces.put(namespace.key, item)
            if not item["metadata"].get("finalizers"):
                namespaces.remove(namespace.key)

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


def ensure_service_account(registry: Registry, namespace: str) -> None:
    """Create the account `default` that every namespace has, unless it exists."""
    try:
        registry.create(_SERVICE_ACCOUNTS, namespace, {"metadata": {"name": "default"}})
    except StatusError as error:
        if error.reason != "AlreadyExists":
            raise


def expire_events(registry: Registry, now: float, ttl_seconds: float = EVENT_TTL_SECONDS) -> None:
    """Remove events last written more than `ttl_seconds` before `now`."""
    oldest = format_time(now - ttl_seconds)
    events = registry.collection(EVENTS)
    for stored in list(events):
        item = stored.decode()
        last_written = max(
            item["metadata"]["creationTimestamp"],
            item.get("lastTimestamp") or "",
            (item.get("series") or {}).get("lastObservedTime") or "",
        )
        if last_written < oldest:
            events.remove(stored.key)
