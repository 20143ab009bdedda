"""The source over the network: the leader, found and reached as `kscheduler explain` does it.

When it does not answer any more (it lost its lease, its pod is gone, the connection broke), it is
looked for again at the next question: another instance may lead by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Self

import msgspec

from kscheduler.api.explanation import GROUP, PLACEMENT_REVIEWS, PlacementReview
from kscheduler.api.resources import Resource
from kscheduler.client.errors import (
    ApiError,
    Forbidden,
    Gone,
    MalformedAnswer,
    NotFound,
    ServiceUnavailable,
    StatusError,
    TransportError,
    Unauthorized,
)
from kscheduler.client.explanation_client import ExplanationClient
from kscheduler.client.kube_client import KubeClient
from kscheduler.errors import KschedulerError
from kscheduler.ui.source import (
    OPENED,
    Change,
    Declined,
    Expired,
    Lost,
    Missing,
    Query,
    Refused,
    Trouble,
)

Connect = Callable[[], AbstractAsyncContextManager[ExplanationClient]]

# Longer lines are no decisions.
MAX_LINE_BYTES = 64 << 20
# The scheduler tells on a watch that it is there, at least so often.
IDLE_SECONDS = 120.0

_decode_change = msgspec.json.Decoder(Change)


class ReachedSource:
    """Questions to whoever leads; `connect` finds and reaches it."""

    def __init__(self, connect: Connect, *, namespace: str, flags: str = "") -> None:
        self._connect = connect
        self.namespace = namespace
        self.flags = flags
        self.way = "the scheduler"
        self._client: ExplanationClient | None = None
        self._stack = AsyncExitStack()
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def reached(self) -> None:
        """Finds the scheduler; Lost if there is none."""
        await self._server(PLACEMENT_REVIEWS)

    async def get(self, resource: Resource, name: str, namespace: str = "") -> bytes:
        server = await self._server(resource)
        try:
            return await server.get(resource, name, namespace)
        except ApiError as error:
            raise self._trouble(error, server) from error

    async def list(
        self, resource: Resource, namespace: str = "", query: Query | None = None
    ) -> bytes:
        server = await self._server(resource)
        try:
            return await server.list(resource, namespace, query)
        except ApiError as error:
            raise self._trouble(error, server) from error

    async def watch(
        self, resource: Resource, namespace: str = "", query: Query | None = None
    ) -> AsyncIterator[Change]:
        server = await self._server(resource)
        rest = b""
        try:
            async with server.watch(resource, namespace, query, idle_seconds=IDLE_SECONDS) as read:
                yield OPENED
                while piece := await read():
                    *lines, rest = (rest + piece).split(b"\n")
                    for line in filter(None, lines):
                        change = _decode_change.decode(line)
                        if change.type == "ERROR":
                            raise Expired("The scheduler cannot tell what changed since.")
                        yield change
                    if len(rest) > MAX_LINE_BYTES:
                        raise Lost("The scheduler sends a line that does not end.")
        except ApiError as error:
            raise self._trouble(error, server) from error
        except msgspec.DecodeError as error:
            raise Lost(f"The scheduler's answer cannot be read: {error}.") from error

    async def review(self, review: PlacementReview, namespace: str) -> PlacementReview:
        server = await self._server(PLACEMENT_REVIEWS)
        client = self._client
        assert client is not None
        try:
            return await client.review(review, namespace)
        except ApiError as error:
            raise self._trouble(error, server) from error

    async def _server(self, resource: Resource) -> KubeClient:
        """The scheduler for what is its own, the API server for the rest."""
        async with self._turn:
            client = self._client
            if client is None:
                await self._stack.aclose()
                self._stack = AsyncExitStack()
                try:
                    client = await self._stack.enter_async_context(self._connect())
                except KschedulerError as error:
                    raise Lost(str(error)) from error
                self._client, self.way = client, client.way
        if resource.group == GROUP:
            return client.scheduler
        if client.api is None:
            raise Refused("Pods are read from the API server, and no kubeconfig names one.")
        return client.api

    def _trouble(self, error: ApiError, server: KubeClient) -> Trouble:
        text = str(error)
        text = text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
        match error:
            case Forbidden() | Unauthorized():
                return Refused(text)
            case NotFound():
                return Missing(text)
            case Gone():
                return Expired(text)
            case ServiceUnavailable() | TransportError():
                self._forget(server)
                return Lost(text)
            case MalformedAnswer():
                return Lost(text)
            case StatusError():
                return Declined(text)
        return Lost(text)

    def _forget(self, server: KubeClient) -> None:
        """The next question looks for the leader again, unless somebody has done so already."""
        if self._client is not None and server in (self._client.scheduler, self._client.api):
            self._client = None
