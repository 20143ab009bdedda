"""API calls of plugins from outside: plain JSON in and out."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from kscheduler.api.resources import Resource
from kscheduler.framework.frozen import thawed
from kscheduler.framework.views import PodView, info_of
from kscheduler.runtime.out_of_tree.watchdog import Stepwise, Watchdog

T = TypeVar("T")

Json = Mapping[str, Any]


class RawClient(Protocol):
    """The client that is there, in bytes."""

    async def get(self, resource: Resource, name: str, namespace: str = "") -> bytes: ...

    async def list(
        self, resource: Resource, namespace: str = "", query: Mapping[str, str] | None = None
    ) -> bytes: ...

    async def create(self, resource: Resource, body: bytes, namespace: str = "") -> bytes: ...

    async def update(
        self, resource: Resource, name: str, body: bytes, namespace: str = "", subresource: str = ""
    ) -> bytes: ...

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: bytes,
        namespace: str = "",
        subresource: str = "",
        *,
        kind: str = "",
    ) -> bytes: ...

    async def delete(self, resource: Resource, name: str, namespace: str = "") -> bytes: ...

    async def bind(self, pod: Any, node: str, /) -> None: ...


MERGE_PATCH = "application/merge-patch+json"


class PluginClient:
    """The scheduler's own client and rate limits; what is allowed is for RBAC to say.

    A call that fails raises KschedulerError, MissingError if the object is not there.
    """

    def __init__(self, client: RawClient, watchdog: Watchdog) -> None:
        self._client = client
        self._watchdog = watchdog

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Json:
        return _json(await self._ours(self._client.get(resource, name, namespace)))

    async def list(
        self, resource: Resource, namespace: str = "", *, label_selector: str = ""
    ) -> list[Json]:
        query = {"labelSelector": label_selector} if label_selector else None
        answer = _json(await self._ours(self._client.list(resource, namespace, query)))
        return list(answer.get("items") or ())

    async def create(self, resource: Resource, item: Json, namespace: str = "") -> Json:
        return _json(await self._ours(self._client.create(resource, _bytes(item), namespace)))

    async def update(
        self, resource: Resource, name: str, item: Json, namespace: str = "", subresource: str = ""
    ) -> Json:
        body = _bytes(item)
        call = self._client.update(resource, name, body, namespace, subresource)
        return _json(await self._ours(call))

    async def patch(
        self, resource: Resource, name: str, patch: Json, namespace: str = "", subresource: str = ""
    ) -> Json:
        """A JSON merge patch."""
        body = _bytes(patch)
        call = self._client.patch(resource, name, body, namespace, subresource, kind=MERGE_PATCH)
        return _json(await self._ours(call))

    async def delete(self, resource: Resource, name: str, namespace: str = "") -> None:
        await self._ours(self._client.delete(resource, name, namespace))

    async def bind(self, pod: PodView, node: str) -> None:
        """What DefaultBinder does: for a Bind plugin that has something to do besides."""
        await self._ours(self._client.bind(info_of(pod).pod, node))

    def _ours(self, call: Awaitable[T]) -> Awaitable[T]:
        return Stepwise(call, self._watchdog.pause, self._watchdog.resume)


def _json(answer: bytes) -> Json:
    decoded: Json = msgspec.json.decode(answer)
    return decoded


def _bytes(item: Json) -> bytes:
    return msgspec.json.encode(thawed(item))
