"""Keeps a sink equal to one collection of the API server, for as long as it runs.

Mirrors client-go's Reflector: a streamed list where the server can, else a paged one; then watches
that resume where the last one ended; a fresh list when that point is no longer in the server's
history. Differs: a streamed list that breaks off waits before it starts over, a watch that is
silent for three minutes is replaced, and after an outage a reflector does not wait for the end of
its pause, which may be a minute: it asks as soon as the server has served anybody.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, suppress
from typing import Generic, Protocol, TypeVar

from kscheduler import logs
from kscheduler.api.decode import DecodeError
from kscheduler.client.errors import (
    ApiError,
    ConnectionRefused,
    ConnectionReset,
    DeadlineExceeded,
    TooManyRequests,
    TransportError,
    is_expired,
    is_too_large_resource_version,
)
from kscheduler.client.informers.decoding import (
    DELETED,
    Change,
    Lines,
    decode_change,
)
from kscheduler.client.informers.listing import Lister, ListError, ListWatch
from kscheduler.client.informers.pace import Pace
from kscheduler.client.kube_client import KubeClient
from kscheduler.client.throttle import Backoff, jittered
from kscheduler.gotext.duration import SECOND, format_duration

T = TypeVar("T")

MIN_WATCH_SECONDS = 300
# kube-apiserver sends a bookmark every minute; three missed ones mean a dead connection.
IDLE_SECONDS = 180.0
# What upstream's log lines call the place its informers are made at.
REFLECTOR = "k8s.io/client-go/informers/factory.go:161"
# So many streamed lists without an end, and we ask for a plain one: old servers never end them.
MAX_BROKEN_LISTS = 2
# A watch that ended sooner than this without an event was not a watch.
SHORT_WATCH_SECONDS = 1.0

log = logs.logger(__name__)


class Sink(Protocol[T]):
    """The store that a reflector keeps equal to a collection."""

    def get(self, key: str) -> T | None:
        """The object that was put last under this key and not removed."""

    async def replace(self, items: Mapping[str, T]) -> None:
        """The whole collection, by key, as it is now."""

    def put(self, key: str, item: T) -> None:
        """One object is new or has changed."""

    def remove(self, key: str, item: T) -> None:
        """One object is gone; `item` is its last state."""


class ShortWatchError(ApiError):
    """A watch ended at once and without a word: something between us and the server forbids it."""


class Reflector(Generic[T]):
    """Keeps a sink equal to one collection; `run` it as a task of its own."""

    def __init__(
        self,
        client: KubeClient,
        collection: ListWatch[T],
        sink: Sink[T],
        pace: Pace,
        *,
        backoff: Backoff | None = None,
        idle_seconds: float = IDLE_SECONDS,
        observe_seconds: Callable[[float], None] | None = None,
    ) -> None:
        """`observe_seconds` is called with the time that the sink took for each change."""
        self._client = client
        self._collection = collection
        self._shape = collection.shape
        self._sink = sink
        self._pace = pace
        self._backoff = backoff or Backoff()
        self._idle_seconds = idle_seconds
        self._observe_seconds = observe_seconds or (lambda _: None)
        # The version up to which the sink has seen everything, unless the server has forgotten it.
        self._version = ""
        self._version_unavailable = False
        self._lister = Lister(client, collection, pace, sink.get)

    @property
    def version(self) -> str:
        return self._version

    async def run(self) -> None:
        """Never returns; every failure is logged and tried again."""
        about = {"type": self._shape.name, "reflector": REFLECTOR}
        resync = {"resyncPeriod": "0s", "reflector": REFLECTOR}
        log.v(3).info("Starting reflector", type=self._shape.name, **resync)
        try:
            while True:
                log.v(3).info("Listing and watching", **about)
                try:
                    await self._list_and_watch()
                except ApiError as error:
                    kind = self._shape.name
                    if is_expired(error):
                        log.v(4).info("Watch closed", type=kind, err=str(error))
                    elif isinstance(error, ShortWatchError):
                        log.info("Warning: watch ended with error", type=kind, err=str(error))
                    else:
                        remedy = {"remedy": error.remedy} if error.remedy else {}
                        log.unhandled(
                            error, "Failed to watch", reflector=REFLECTOR, type=kind, **remedy
                        )
                    await self._back_off(error)
                except MemoryError as error:
                    # What did not fit is listed again when there may be room for it.
                    log.unhandled(
                        error, "Failed to watch", reflector=REFLECTOR, type=self._shape.name
                    )
                    await self._back_off(None)
        finally:
            log.v(3).info("Stopping reflector", type=self._shape.name, **resync)

    async def _list_and_watch(self) -> None:
        async with AsyncExitStack() as stream:
            changes = await self._watch_list(stream)
            if changes is None:
                await self._list()
            log.v(2).info("Caches populated", type=self._shape.name, reflector=REFLECTOR)
            if changes is not None:
                await self._apply(changes)
        while True:
            await self._watch()

    async def _watch(self) -> None:
        """One watch from where we are, to its end."""
        started = time.monotonic()
        query = self._watch_query(resourceVersion=self._version)
        try:
            async with aclosing(self._changes(query)) as changes:
                count = await self._apply(changes)
        except (ConnectionRefused, TooManyRequests) as error:
            log.v(4).info("Watch failed - backing off", type=self._shape.name, err=str(error))
            await self._back_off(error)
            return
        if not count and time.monotonic() - started < SHORT_WATCH_SECONDS:
            raise ShortWatchError(
                f"very short watch: {self._shape.name}: Unexpected watch close - "
                "watch lasted less than a second and no items received"
            )
        log.v(4).info("Watch close", type=self._shape.name, totalItems=count)

    async def _apply(self, changes: AsyncGenerator[Change[T], None]) -> int:
        """Applies changes until there are no more; returns how many there were."""
        sink, key_of, observe = self._sink, self._shape.key, self._observe_seconds
        count = 0
        async for change in changes:
            count += 1
            item = change.item
            if item is None and change.type == DELETED:
                item = sink.get(change.key)
            if item is not None:
                started = time.perf_counter()
                if change.type == DELETED:
                    sink.remove(key_of(item), item)
                else:
                    sink.put(key_of(item), item)
                observe(time.perf_counter() - started)
            self._version = change.version or self._version
        return count

    async def _changes(self, query: Mapping[str, str]) -> AsyncGenerator[Change[T], None]:
        """Changes of one watch, with pauses for other tasks; a broken connection ends it."""
        lines, pace = Lines(), self._pace
        where = self._collection
        try:
            async with self._client.watch(
                where.resource, where.namespace, query, idle_seconds=self._idle_seconds
            ) as read:
                while chunk := await read():
                    await pace.begin()
                    for line in lines.feed(chunk):
                        if pace.due():
                            await pace.rest()
                        yield decode_change(line, self._shape)
        except (ConnectionReset, DeadlineExceeded) as error:
            log.v(1).info("Watch closed with unexpected EOF", type=self._shape.name, err=str(error))
        except DecodeError as error:
            cause = f"unable to decode an event from the watch stream: {error}"
            raise TransportError(f"watch of {self._shape.name}", cause) from error

    async def _watch_list(self, stream: AsyncExitStack) -> AsyncGenerator[Change[T], None] | None:
        """Lists by watching from the beginning; the rest of that watch, or None if refused."""
        broken_off = 0
        while broken_off < MAX_BROKEN_LISTS:
            failure: ApiError | None = None
            version = "" if self._version_unavailable else self._version
            query = self._watch_query(
                resourceVersion=version,
                resourceVersionMatch="NotOlderThan",
                sendInitialEvents="true",
            )
            changes = await stream.enter_async_context(aclosing(self._changes(query)))
            try:
                if await self._initial_state(changes):
                    return changes
                broken_off += 1
            except (ConnectionRefused, TooManyRequests) as error:
                failure = error
                log.v(2).info(
                    "watch-list failed - backing off", type=self._shape.name, err=str(error)
                )
            except ApiError as error:
                await stream.aclose()
                if self._forgets_version(error):
                    continue
                log.v(4).info(
                    "Data couldn't be fetched in watchlist mode. Falling back to regular list. "
                    "This is expected if watchlist is not supported or disabled in kube-apiserver.",
                    err=str(error),
                )
                return None
            await stream.aclose()
            await self._back_off(failure)
        return None

    async def _initial_state(self, changes: AsyncGenerator[Change[T], None]) -> bool:
        """Takes over everything up to the bookmark that ends the list; False if it never came."""
        items: dict[str, T] = {}
        key_of = self._shape.key
        silent = True
        async for change in changes:
            silent = False
            if change.ends_initial_events:
                await self._take_over(items, change.version)
                return True
            item = change.item
            key = change.key if item is None else key_of(item)
            if change.type == DELETED:
                items.pop(key, None)
                continue
            if item is None and key and key not in items:
                item = self._sink.get(key)
            if item is not None:
                items[key] = item
        if silent:
            raise ShortWatchError("the streamed list ended before it began")
        return False

    async def _list(self) -> None:
        wanted = "" if self._version_unavailable else self._version or "0"
        try:
            try:
                listing = await self._lister.list_all(wanted)
            except ApiError as error:
                if not self._forgets_version(error):
                    raise
                listing = await self._lister.list_all("")
        except ApiError as error:
            raise ListError(f"failed to list {self._shape.name}: {error}", error.remedy) from error
        await self._take_over(listing.items, listing.version)

    async def _take_over(self, items: Mapping[str, T], version: str) -> None:
        await self._sink.replace(items)
        self._version = version
        self._version_unavailable = False

    def _watch_query(self, **parameters: str) -> dict[str, str]:
        seconds = int(MIN_WATCH_SECONDS * (1 + random.random()))
        return self._collection.query(
            allowWatchBookmarks="true",
            timeout=format_duration(seconds * SECOND),
            timeoutSeconds=str(seconds),
            **parameters,
        )

    def _forgets_version(self, error: ApiError) -> bool:
        """Whether our version is of no use any more; the next list then asks for the latest."""
        if self._version_unavailable:
            return False
        self._version_unavailable = is_expired(error) or is_too_large_resource_version(error)
        return self._version_unavailable

    async def _back_off(self, failure: ApiError | None) -> None:
        """A pause, longer each time. What follows an outage ends when the server is back, but is
        not shorter than the first: a server that answers others and not us must not be stormed.
        """
        failed_at = time.monotonic()
        pause = self._backoff.next(failed_at)
        shortest = min(pause, jittered(self._backoff.first_seconds, self._backoff.jitter))
        await asyncio.sleep(shortest)
        if pause == shortest or not _was_unanswered(failure):
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(pause - shortest):
                await self._client.served(failed_at)
            self._backoff.reset()


def _was_unanswered(failure: BaseException | None) -> bool:
    """Whether there was no answer at all; a list that failed has that as its cause."""
    cause = failure.__cause__ if isinstance(failure, ListError) else failure
    return isinstance(cause, TransportError)
