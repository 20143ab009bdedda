"""Informers: stores that mirror collections, with handlers for every change, and their factory.

Mirrors client-go's shared informer. Differs: nothing queues up between store and handlers. They are
called in the same step that changes the store, so what they read there is never ahead of them.
"""

import asyncio
import time
import traceback
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from kscheduler import logs
from kscheduler.api.meta import ApiObject
from kscheduler.api.resources import Resource
from kscheduler.client.informers.decoding import (
    WRITTEN_BACK,
    Shape,
    Wanted,
    retaining_json,
    shape_of,
    untyped_shape,
)
from kscheduler.client.informers.listing import ListWatch
from kscheduler.client.informers.pace import Gate, Pace
from kscheduler.client.informers.reflector import Reflector
from kscheduler.client.kube_client import KubeClient
from kscheduler.client.observation import InformerObserver
from kscheduler.errors import ConfigError

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

log = logs.logger(__name__)

NOTHING: Mapping[type[ApiObject], Wanted] = {}
# How many turns of the loop without any change mean that there is none to come.
QUIET_TURNS = 3


class Handler(Protocol[T_contra]):
    """Callbacks for changes. A call that raises is logged and does not stop the others."""

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
            self._store[key] = item
            self.generation += 1
            for index in self._indexes.values():
                index.add(key, item)
            is_initial = not self._synced.is_set()
            for registration in self._registrations:
                self._call(
                    registration, key, lambda handler: handler.on_add(item, is_initial=is_initial)
                )
        elif self._shape.version(old) != self._shape.version(item):
            self._store[key] = item
            self.generation += 1
            for index in self._indexes.values():
                index.discard(key, old)
                index.add(key, item)
            for registration in self._registrations:
                self._call(registration, key, lambda handler: handler.on_update(old, item))

    def remove(self, key: str, item: T) -> None:
        """An object is gone, and this was its last state."""
        if key in self._store:
            self._delete(key, item, final_state_unknown=False)

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


class InformerFactory:
    """One informer per collection, however many ask for it.

    `keep`: kinds of which some objects shall carry their JSON, and which ones.
    """

    def __init__(
        self,
        client: KubeClient,
        keep: Mapping[type[ApiObject], Wanted] = NOTHING,
        *,
        observer: InformerObserver | None = None,
    ) -> None:
        self._client = client
        self._observer = observer
        self._keep = {**WRITTEN_BACK, **keep}
        self._gate = Gate()
        self._informers: dict[tuple[Resource, str, str, str], Informer[Any]] = {}
        self._waiting: list[tuple[str, Reflector[Any]]] = []

    def informer(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        field_selector: str = "",
        label_selector: str = "",
    ) -> Informer[Any]:
        """The informer of a resource we have a struct for: `pods: Informer[Pod] = …`."""
        shape = shape_of(resource.struct, f"*{resource.version}.{resource.kind}")
        wanted = self._keep.get(resource.struct)
        if wanted is not None:
            shape = retaining_json(shape, wanted)
        return self._informer_of(
            ListWatch(resource, shape, namespace, field_selector, label_selector)
        )

    def dynamic(self, name: str) -> Informer[dict[str, Any]]:
        """The informer of any resource, named `plural.version.group`; objects are plain dicts. The
        core group's name is empty: `configmaps.v1.`
        """
        if name.count(".") < 2:
            raise ConfigError(f'Incorrect event registration: "{name}" is not plural.version.group')
        plural, version, group = name.split(".", 2)
        resource = Resource(group, version, plural, plural, ApiObject)
        return self._informer_of(ListWatch(resource, untyped_shape(name)))

    def _informer_of(self, collection: ListWatch[Any]) -> Informer[Any]:
        key = (
            collection.resource,
            collection.namespace,
            collection.field_selector,
            collection.label_selector,
        )
        if key in self._informers:
            return self._informers[key]
        pace = Pace(self._gate)
        informer: Informer[Any] = Informer(collection.shape, pace)
        self._informers[key] = informer
        observer, resource = self._observer, collection.resource
        observe_seconds = None if observer is None else observer.processing(resource)
        reflector: Reflector[Any] = Reflector(
            self._client, collection, informer, pace, observe_seconds=observe_seconds
        )
        if observer is not None:
            observer.track_version(resource, lambda: reflector.version)
        self._waiting.append((f"reflector/{collection.resource.plural}", reflector))
        return informer

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Starts every informer that has not been started yet."""
        for name, reflector in self._waiting:
            tasks.create_task(reflector.run(), name=name)
        self._waiting.clear()

    async def wait_for_sync(self) -> None:
        """Returns when every informer has held its whole collection once."""
        for informer in list(self._informers.values()):
            await informer.wait_for_sync()

    async def wait_for_handlers(self, registrations: Iterable[Registration[Any]]) -> None:
        """Returns when every one of these handlers has got its whole initial list."""
        for registration in registrations:
            await registration.wait_for_sync()

    def hold(self) -> AbstractContextManager[None]:
        """`with factory.hold(): …` — nothing is delivered until the block ends.

        Reflectors stop reading; what stays undelivered is bounded by their sockets, see `Gate`.
        """
        return self._gate.hold()

    async def moving(self) -> None:
        """Returns when deliveries are not held up."""
        await self._gate.passed()

    async def catch_up(self, seconds: float) -> None:
        """Returns when what piled up has been delivered, or so much time has passed."""
        deadline = time.monotonic() + seconds
        quiet = 0
        while quiet < QUIET_TURNS and time.monotonic() < deadline:
            before = self._generation
            await asyncio.sleep(0)
            quiet = quiet + 1 if self._generation == before else 0

    @property
    def _generation(self) -> int:
        return sum(informer.generation for informer in self._informers.values())
