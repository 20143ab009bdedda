"""Whole collections by paged LIST requests, for servers that cannot stream them."""

from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

import msgspec

from kscheduler import logs
from kscheduler.api.decode import UNREADABLE, DecodeError, UnbalancedError, decoder_for, outline
from kscheduler.api.meta import ListMeta
from kscheduler.api.resources import Resource
from kscheduler.client.errors import ApiError, Expired
from kscheduler.client.informers.decoding import Shape, Undecodable, decoded
from kscheduler.client.informers.pace import Pace
from kscheduler.client.kube_client import KubeClient

T = TypeVar("T")

log = logs.logger(__name__)

PAGE_SIZE = 500
# What is split into objects without a break; about a millisecond.
PART_BYTES = 1 << 20
ITEMS = b'"items":['
# Where the items of a list, and the first name in an item, are found if at all.
MAX_HEAD_BYTES = 4096

_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_numbers = msgspec.json.Decoder(list[int]).decode


class ListError(ApiError):
    """The collection could not be listed."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


class ListWatch(msgspec.Struct, Generic[T], frozen=True):
    """A collection to list and watch: a resource in one namespace or all, narrowed by selectors."""

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


class _NumberedPage(msgspec.Struct, frozen=True):
    """A page cut off below its items, which are numbers of parts."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[int] | None = None


_decode_page = decoder_for(_Page)
_decode_numbered_page = decoder_for(_NumberedPage)


def in_parts(body: bytes, part_bytes: int = PART_BYTES) -> Iterator[_Page]:
    """A page of a list in parts of about so many bytes; the last one has the metadata.

    Servers give all of a collection at once where they have it in memory: a body of 400 MB takes
    0.3 s to split into objects. Items are told apart by how the first one begins. Such a beginning
    may also occur inside of an item, then the part is no JSON and a larger one is tried; it cannot
    occur in a string, where quotation marks are escaped.
    """
    start = body.find(ITEMS, 0, MAX_HEAD_BYTES) + len(ITEMS)
    first = body[start : body.find(b":", start, start + MAX_HEAD_BYTES) + 1]
    if start < len(ITEMS) or not first.startswith(b"{"):
        yield _page(body)
        return
    at, size = start, part_bytes
    while at + size < len(body):
        end = body.rfind(b"}," + first, at, at + size)
        items = _items(b"[%b]" % body[at : end + 1]) if end > 0 else None
        if items:
            yield _Page(items=items)
            at, size = end + 2, part_bytes
        else:
            size *= 2
    # Behind the last item, which may hold anything, come the list's own fields, if any do.
    end = body.rfind(b"}]", at) + 1
    items = _items(b"[%b]" % body[at:end]) if end > at else None
    if items is None:
        yield _page(body[:start] + body[at:])
    else:
        yield _Page(_decode_page(body[:start] + body[end:]).metadata, items)


def _page(body: bytes) -> _Page:
    """A page in one piece, its items apart; no item keeps the others from being found."""
    try:
        return _decode_page(body)
    except DecodeError as error:
        refused = error
    try:
        text, parts = outline(body, depth=2)
        page = _decode_numbered_page(text)
        return _Page(page.metadata, [msgspec.Raw(parts[number]) for number in page.items or ()])
    except (DecodeError, UnbalancedError, IndexError):
        raise refused from None


def _items(text: bytes) -> list[msgspec.Raw] | None:
    """The elements of an array, whatever one of them holds; None for what is no array of objects,
    as a text that ends in the midst of one.
    """
    try:
        return _decode_items(text)
    except UNREADABLE:
        pass
    try:
        numbers, parts = outline(text, depth=1)
        return [msgspec.Raw(parts[number]) for number in _decode_numbers(numbers)]
    except (*UNREADABLE, UnbalancedError, IndexError):
        return None


class Listing(NamedTuple, Generic[T]):
    """A collection by key, as it was at one version."""

    items: dict[str, T]
    version: str


class Lister(Generic[T]):
    """Lists one collection, page by page where that is wise.

    `known` is asked for the last good state of what cannot be decoded.
    """

    def __init__(
        self,
        client: KubeClient,
        collection: ListWatch[T],
        pace: Pace,
        known: Callable[[str], T | None],
    ) -> None:
        self._client = client
        self._collection = collection
        self._pace = pace
        self._known = known
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
        """Adds one page to `items`; what cannot be decoded stays as it was, if it was there."""
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
                    self._add(items, raw)
        except DecodeError as error:
            raise ListError(f"malformed list: {error}") from error
        return metadata

    def _add(self, items: dict[str, T], raw: msgspec.Raw) -> None:
        shape = self._collection.shape
        try:
            item = decoded(raw, shape)
        except DecodeError as error:
            log.error(error, "Undecodable object skipped", type=shape.name)
            return
        if not isinstance(item, Undecodable):
            items[shape.key(item)] = item
        elif (last := self._known(item.key)) is not None:
            items[item.key] = last
