"""Whole collections by paged LIST requests, for servers that cannot stream them."""

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import msgspec

from kscheduler.api.meta import ListMeta
from kscheduler.api.resources import Resource
from kscheduler.client.errors import ApiError, Expired
from kscheduler.client.pace import Pace
from kscheduler.client.resources import KubeClient
from kscheduler.client.watch_lines import Shape, decoded_or_none

T = TypeVar("T")

PAGE_SIZE = 500


class ListError(ApiError):
    """The collection could not be listed."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Collection(Generic[T]):
    """What to follow: a resource, in one namespace or all, narrowed by selectors."""

    resource: Resource
    shape: Shape[T]
    namespace: str = ""
    field_selector: str = ""
    label_selector: str = ""

    def query(self, **parameters: str) -> dict[str, str]:
        selectors = {"fieldSelector": self.field_selector, "labelSelector": self.label_selector}
        return {name: value for name, value in (selectors | parameters).items() if value}


class _Page(msgspec.Struct, frozen=True):
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] | None = None


_decode_page = msgspec.json.Decoder(_Page).decode


class Listing(NamedTuple, Generic[T]):
    """A collection by key, as it was at one version."""

    items: dict[str, T]
    version: str


class Lister(Generic[T]):
    """Lists one collection, page by page where that is wise."""

    def __init__(self, client: KubeClient, collection: Collection[T], pace: Pace) -> None:
        self._client = client
        self._collection = collection
        self._pace = pace
        # The server pages even what it could serve from memory: it has no watch cache.
        self._always_paged = False

    async def list_all(self, wanted: str) -> Listing[T]:
        """The collection at least as new as `wanted`: "" for the latest, "0" for any.

        Other versions are asked for in one piece, because only then does the server answer from
        memory.
        """
        items: dict[str, T] = {}
        limit = str(PAGE_SIZE) if self._always_paged or wanted in ("", "0") else ""
        page = await self._add_page(items, limit=limit, resourceVersion=wanted)
        version = page.resource_version
        if page.continue_ and wanted == "0":
            self._always_paged = True
        while page.continue_:
            try:
                page = await self._add_page(items, page.continue_, limit=limit)
            except Expired:
                items.clear()
                page = await self._add_page(items, resourceVersion=wanted)
                version = page.resource_version
        return Listing(items, version)

    async def _add_page(self, items: dict[str, T], token: str = "", **parameters: str) -> ListMeta:
        """Adds one page to `items`, undecodable objects left out."""
        where = self._collection
        query = where.query(**parameters, **{"continue": token})
        body = await self._client.list(where.resource, where.namespace, query)
        try:
            page = _decode_page(body)
        except msgspec.DecodeError as error:
            raise ListError(f"malformed list: {error}") from error
        await self._pace.begin()
        for raw in page.items or ():
            if self._pace.due():
                await self._pace.rest()
            item = decoded_or_none(raw, where.shape)
            if item is not None:
                items[where.shape.key(item)] = item
        return page.metadata
