"""A store that follows one collection, and the handlers that are told of every change in it.

Mirrors client-go's shared informer. Differs: nothing queues up between store and handlers. They are
called in the same step that changes the store, so what they read there is never ahead of them.
"""

import asyncio
import traceback
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from functools import partial
from typing import Generic, Protocol, TypeVar

from kscheduler import logs
from kscheduler.client.pace import Pace
from kscheduler.client.watch_lines import Shape

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

log = logs.logger(__name__)


class Handler(Protocol[T_contra]):
    """Who wants to know. A call that raises is told in the log and does not stop the others."""

    def on_add(self, item: T_contra, *, is_initial: bool) -> None:
        """`is_initial` while the first list is being delivered."""

    def on_update(self, old: T_contra, new: T_contra) -> None: ...

    def on_delete(self, item: T_contra, *, final_state_unknown: bool) -> None:
        """`final_state_unknown` when the deletion was missed and `item` is what we last knew."""


class Registration(Generic[T]):
    """A handler's place at an informer."""

    def __init__(self, informer: "Informer[T]", handler: Handler[T]) -> None:
        self.handler = handler
        self._informer = informer

    @property
    def has_synced(self) -> bool:
        """Whether the handler has got the whole initial list."""
        return self._informer.has_synced

    async def wait_for_sync(self) -> None:
        await self._informer.wait_for_sync()


class Informer(Generic[T]):
    """Objects by `namespace/name`, as the server has them."""

    def __init__(self, shape: Shape[T], pace: Pace) -> None:
        self._shape = shape
        self._pace = pace
        self._store: dict[str, T] = {}
        # Another number after every change of the store.
        self.generation = 0
        self._indexes: dict[str, _Index[T]] = {}
        self._registrations: list[Registration[T]] = []
        self._synced = asyncio.Event()

    @property
    def has_synced(self) -> bool:
        """Whether the store has held the whole collection once."""
        return self._synced.is_set()

    async def wait_for_sync(self) -> None:
        await self._synced.wait()

    def get(self, key: str) -> T | None:
        return self._store.get(key)

    def items(self) -> Collection[T]:
        """All objects; a view, so copy it before awaiting anything."""
        return self._store.values()

    def __len__(self) -> int:
        return len(self._store)

    def add_index(self, name: str, function: Callable[[T], Iterable[Hashable]]) -> None:
        """Lets objects be found by the values `function` gives for them."""
        index = _Index(function)
        for key, item in self._store.items():
            index.add(key, item)
        self._indexes[name] = index

    def by_index(self, name: str, value: Hashable) -> list[T]:
        return [self._store[key] for key in self._indexes[name].keys_for(value)]

    def add_handler(self, handler: Handler[T]) -> Registration[T]:
        """Calls `handler` from now on; what the store holds already is delivered at once."""
        registration = Registration(self, handler)
        for key, item in self._store.items():
            self._call(registration, key, partial(_initial_add, item))
        self._registrations.append(registration)
        return registration

    async def replace(self, items: Mapping[str, T]) -> None:
        """Takes over a whole list; what it no longer holds was deleted while we looked away."""
        await self._pace.begin()
        for key, item in items.items():
            if self._pace.due():
                await self._pace.rest()
            self.put(key, item)
        for key in [key for key in self._store if key not in items]:
            if self._pace.due():
                await self._pace.rest()
            self._delete(key, self._store[key], final_state_unknown=True)
        self._synced.set()

    def put(self, key: str, item: T) -> None:
        """An object as it is now; one we have in this very version is no news."""
        old = self._store.get(key)
        if old is None:
            self._add(key, item)
        elif self._shape.version(old) != self._shape.version(item):
            self._update(key, old, item)

    def remove(self, key: str, item: T) -> None:
        """An object is gone, and this was its last state."""
        if key in self._store:
            self._delete(key, item, final_state_unknown=False)

    def _add(self, key: str, item: T) -> None:
        self._store[key] = item
        self.generation += 1
        for index in self._indexes.values():
            index.add(key, item)
        is_initial = not self._synced.is_set()
        for registration in self._registrations:
            self._call(
                registration, key, lambda handler: handler.on_add(item, is_initial=is_initial)
            )

    def _update(self, key: str, old: T, new: T) -> None:
        self._store[key] = new
        self.generation += 1
        for index in self._indexes.values():
            index.discard(key, old)
            index.add(key, new)
        for registration in self._registrations:
            self._call(registration, key, lambda handler: handler.on_update(old, new))

    def _delete(self, key: str, item: T, *, final_state_unknown: bool) -> None:
        old = self._store.pop(key)
        self.generation += 1
        for index in self._indexes.values():
            index.discard(key, old)
        for registration in self._registrations:
            self._call(
                registration,
                key,
                lambda handler: handler.on_delete(item, final_state_unknown=final_state_unknown),
            )

    def _call(
        self, registration: Registration[T], key: str, call: Callable[[Handler[T]], None]
    ) -> None:
        try:
            call(registration.handler)
        except Exception as error:
            log.error(
                error,
                "Event handler failed",
                type=self._shape.name,
                object=key,
                handler=type(registration.handler).__qualname__,
                stack="".join(traceback.format_exception(error)),
            )


def _initial_add(item: T, handler: Handler[T]) -> None:
    handler.on_add(item, is_initial=True)


class _Index(Generic[T]):
    """Keys of objects by something they contain."""

    def __init__(self, function: Callable[[T], Iterable[Hashable]]) -> None:
        self._function = function
        self._keys: dict[Hashable, dict[str, None]] = {}

    def add(self, key: str, item: T) -> None:
        for value in self._function(item):
            self._keys.setdefault(value, {})[key] = None

    def discard(self, key: str, item: T) -> None:
        for value in self._function(item):
            keys = self._keys.get(value, {})
            keys.pop(key, None)
            if not keys:
                self._keys.pop(value, None)

    def keys_for(self, value: Hashable) -> Iterable[str]:
        return self._keys.get(value, ())
