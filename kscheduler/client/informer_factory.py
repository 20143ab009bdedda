"""All informers of one client: made on demand, started together, held still together."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from kscheduler.api.meta import ApiObject
from kscheduler.api.resources import Resource
from kscheduler.client.informer import Informer, Registration
from kscheduler.client.listing import Collection
from kscheduler.client.observation import InformerObserver
from kscheduler.client.pace import Gate, Pace
from kscheduler.client.reflector import Reflector
from kscheduler.client.resources import KubeClient
from kscheduler.client.watch_lines import shape_of, untyped_shape
from kscheduler.client.whole_objects import WRITTEN_BACK, Wanted, keeping_whole
from kscheduler.errors import ConfigError

NOTHING: Mapping[type[ApiObject], Wanted] = {}
# How many turns of the loop without any change mean that there is none to come.
QUIET_TURNS = 3


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
            shape = keeping_whole(shape, wanted)
        return self._following(
            Collection(resource, shape, namespace, field_selector, label_selector)
        )

    def dynamic(self, name: str) -> Informer[dict[str, Any]]:
        """The informer of any resource, named `plural.version.group`; objects are plain dicts. The
        core group's name is empty: `configmaps.v1.`
        """
        if name.count(".") < 2:
            raise ConfigError(f'Incorrect event registration: "{name}" is not plural.version.group')
        plural, version, group = name.split(".", 2)
        resource = Resource(group, version, plural, plural, ApiObject)
        return self._following(Collection(resource, untyped_shape(name)))

    def _following(self, collection: Collection[Any]) -> Informer[Any]:
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
        reflector = self._reflector(collection, informer, pace)
        self._waiting.append((f"reflector/{collection.resource.plural}", reflector))
        return informer

    def _reflector(
        self, collection: Collection[Any], informer: Informer[Any], pace: Pace
    ) -> Reflector[Any]:
        if self._observer is None:
            return Reflector(self._client, collection, informer, pace)
        took = self._observer.processing(collection.resource)
        reflector: Reflector[Any] = Reflector(self._client, collection, informer, pace, took=took)
        self._observer.following(collection.resource, lambda: reflector.version)
        return reflector

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

        Followers stop reading; what stays undelivered is bounded by their sockets, see `Gate`.
        """
        return self._gate.hold()

    async def moving(self) -> None:
        """Returns when nobody holds deliveries up."""
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
