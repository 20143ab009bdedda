"""Objects without HTTP: for tests, the command line and other code in the same process.

The same rules hold as over HTTP, and watchers see the same events; only authentication is skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kscheduler.rest.lists import ListOptions
from kscheduler.sandbox import deletion, subresources
from kscheduler.sandbox.deletion import DeleteOptions
from kscheduler.sandbox.kinds.resource import Resource
from kscheduler.sandbox.lists import list_page, parse_selection
from kscheduler.sandbox.registry import Registry, typed
from kscheduler.sandbox.resources import BY_KIND, BY_NAME
from kscheduler.sandbox.store import Object, Stored

_Selected = list[Stored]  # `list` is a method below
DEFAULT_NAMESPACE = "default"


class Objects:
    """Reads and writes by resource name: `pods`, `leases.coordination.k8s.io`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def create(self, item: Object) -> Object:
        """Store a new object; apiVersion and kind say what it is. Returns it as stored."""
        resource = BY_KIND[item["apiVersion"], item["kind"]]
        namespace = (item.get("metadata") or {}).get("namespace") or DEFAULT_NAMESPACE
        stored = self._registry.create(resource, namespace, item)
        return typed(resource, stored)

    def get(self, resource_name: str, name: str, namespace: str = DEFAULT_NAMESPACE) -> Object:
        resource = BY_NAME[resource_name]
        return typed(resource, self._registry.get(resource, namespace, name))

    def find(
        self, resource_name: str, name: str, namespace: str = DEFAULT_NAMESPACE
    ) -> Object | None:
        """Like `get`, but None when there is no such object."""
        resource = BY_NAME[resource_name]
        key = (namespace if resource.namespaced else "", name)
        stored = self._registry.collection(resource).get(key)
        return None if stored is None else typed(resource, stored)

    def list(
        self,
        resource_name: str,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> list[Object]:
        """All objects, or those of a namespace, that match."""
        query = {"labelSelector": label_selector, "fieldSelector": field_selector}
        resource = BY_NAME[resource_name]
        return [typed(resource, stored) for stored in self._select(resource, namespace, query)]

    def count(
        self,
        resource_name: str,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> int:
        """The number of objects `list` would return; much cheaper."""
        query = {"labelSelector": label_selector, "fieldSelector": field_selector}
        return len(self._select(BY_NAME[resource_name], namespace, query))

    def update(
        self,
        resource_name: str,
        name: str,
        change: Callable[[Object], Any],
        namespace: str = DEFAULT_NAMESPACE,
        *,
        subresource: str = "",
    ) -> Object:
        """Let `change` edit the object in place and store the result."""
        resource = BY_NAME[resource_name]

        def edit(item: Object) -> Object:
            change(item)
            return item

        stored, _ = self._registry.update(resource, namespace, name, edit, subresource=subresource)
        return typed(resource, stored)

    def delete(
        self,
        resource_name: str,
        name: str,
        namespace: str = DEFAULT_NAMESPACE,
        *,
        grace_period_seconds: int | None = None,
    ) -> None:
        options = DeleteOptions(grace_period_seconds)
        deletion.delete(self._registry, BY_NAME[resource_name], namespace, name, options)

    def bind(self, name: str, node: str, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Assign a pod to a node, as a scheduler does."""
        subresources.bind(
            self._registry, namespace, name, {"target": {"kind": "Node", "name": node}}
        )

    def _select(self, resource: Resource, namespace: str, query: dict[str, str]) -> _Selected:
        selection = parse_selection(resource, namespace, query)
        collection = self._registry.collection(resource)
        page = list_page(collection, self._registry.store.version, selection, ListOptions())
        return page.items
