"""Whole collections by paged LIST requests, for servers that cannot stream them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import msgspec

from kscheduler import logs
from kscheduler.api.decode import DecodeError, decoder_for
from kscheduler.api.meta import ListMeta
from kscheduler.api.nesting import UnbalancedError, outline
from kscheduler.api.resources import Resource
from kscheduler.client.errors import ApiError, Expired
from kscheduler.client.pace import Pace
from kscheduler.client.resources import KubeClient
from kscheduler.client.watch_lines import Shape, Undecodable, decoded

T = TypeVar("T")

log = logs.logger(__name__)

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


class _NumberedPage(msgspec.Struct, frozen=True):
    """A page cut off below its items, which are numbers of parts."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[int] | None = None


_decode_page = decoder_for(_Page)
_decode_numbered_page = decoder_for(_NumberedPage)


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
        collection: Collection[T],
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
        try:
            page = _page(body)
        except DecodeError as error:
            raise ListError(f"malformed list: {error}") from error
        await self._pace.begin()
        for raw in page.items or ():
            if self._pace.due():
                await self._pace.rest()
            try:
                item = decoded(raw, where.shape)
            except DecodeError as error:
                log.error(error, "Undecodable object skipped", type=where.shape.name)
                continue
            if not isinstance(item, Undecodable):
                items[where.shape.key(item)] = item
            elif (last := self._known(item.key)) is not None:
                items[item.key] = last
        return page.metadata


def _page(body: bytes) -> _Page:
    """The page, its items apart; no item keeps the others from being found."""
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
