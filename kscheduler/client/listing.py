"""Whole collections by paged LIST requests, for servers that cannot stream them."""

from collections.abc import Iterator
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
# What is split into objects without a break; about a millisecond.
PART_BYTES = 1 << 20
ITEMS = b'"items":['
# Where the items of a list, and the first name in an item, are found if at all.
MAX_HEAD_BYTES = 4096


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
_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


def in_parts(body: bytes, part_bytes: int = PART_BYTES) -> Iterator[_Page]:
    """A page of a list in parts of about so many bytes; the last one has the metadata.

    Servers give all of a collection at once where they have it in memory: a body of 400 MB takes
    0.3 s to split into objects. Items are told apart by how the first one begins. Such a beginning
    may also occur inside of an item, then the part is no JSON and a larger one is tried; it cannot
    occur in a string, where quotation marks are escaped.
    """
    start = body.find(ITEMS, 0, MAX_HEAD_BYTES) + len(ITEMS)
    first = body[start : body.find(b":", start, start + MAX_HEAD_BYTES) + 1]
    at, size = start, part_bytes
    if start < len(ITEMS) or not first.startswith(b"{"):
        size = len(body)
    while at + size < len(body):
        end = body.rfind(b"}," + first, at, at + size)
        try:
            items = _decode_items(b"[%b]" % body[at : end + 1]) if end > 0 else []
        except msgspec.DecodeError:
            items = []
        if items:
            yield _Page(items=items)
            at, size = end + 2, part_bytes
        else:
            size *= 2
    yield _decode_page(body if at == start else body[:start] + body[at:])


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
        metadata = ListMeta()
        await self._pace.rest()
        try:
            for page in in_parts(body):
                metadata = page.metadata
                for raw in page.items or ():
                    if self._pace.due():
                        await self._pace.rest()
                    item = decoded_or_none(raw, where.shape)
                    if item is not None:
                        items[where.shape.key(item)] = item
        except msgspec.DecodeError as error:
            raise ListError(f"malformed list: {error}") from error
        return metadata
