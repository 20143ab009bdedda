"""The scheduler as an out-of-tree plugin may use it: implements `framework.handle.PluginHandle`.

    PluginHandle       one per plugin and profile; open it first
    Followed           objects of a collection the plugin follows
    PluginClient       API calls, plain JSON in and out
    PluginMetrics      metrics under the plugin's own name
    WaitingPodsView    pods that wait for permission

Whatever a plugin calls here is our code: while it runs, the watchdog that bounds the plugin's calls
is paused, so that it cannot interrupt the scheduler halfway through a change.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from random import Random
from typing import Any, Generic, Protocol, TypeVar, cast

import msgspec

from kscheduler.api.resources import Resource
from kscheduler.errors import ConfigError
from kscheduler.framework.handle import Json
from kscheduler.framework.listers import Lister
from kscheduler.framework.views import FrozenObjects, NodesView, PodView, Views, info_of, thawed
from kscheduler.metrics import ALPHA, Counter, Gauge, Histogram, Metrics
from kscheduler.metrics.instruments import Family
from kscheduler.runtime.handle import RuntimeHandle
from kscheduler.runtime.out_of_tree import answers
from kscheduler.runtime.out_of_tree.guard import Guard
from kscheduler.runtime.out_of_tree.watchdog import Stepwise, Watchdog
from kscheduler.runtime.waiting_pods import WaitingPod, WaitingPods

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

MERGE_PATCH = "application/merge-patch+json"

# Buckets of a histogram that names none, in seconds.
SECONDS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)

_METRIC_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_WORD_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^a-zA-Z0-9]+")


class PluginHandle:
    """One per plugin and profile."""

    def __init__(self, plugin: str, handle: RuntimeHandle, guard: Guard, views: Views) -> None:
        self._handle = handle
        self._guard = guard
        self._views = views
        self._watchdog = guard.watchdog
        self.profile_name = handle.profile_name
        self.metrics = PluginMetrics(plugin, handle.metrics)
        self.waiting_pods = WaitingPodsView(handle.waiting_pods, plugin, views, guard.watchdog)
        self.client = PluginClient(cast("RawClient", handle.client), guard.watchdog)

    @property
    def rng(self) -> Random:
        """The scheduler's own source of chance; where that is seeded, decisions repeat."""
        return self._handle.rng

    def now(self) -> float:
        """Seconds on the clock by which pods wait; good for differences only."""
        return self._handle.clock()

    def enabled(self, feature_gate: str) -> bool:
        return self._handle.gates.enabled(feature_gate)

    def snapshot(self) -> NodesView:
        """All nodes, as the attempt under way sees them; not to be used outside of one."""
        return self._views.nodes(self._handle.snapshot())

    def follow(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        name: str = "",
        field_selector: str = "",
        label_selector: str = "",
    ) -> Followed[Any]:
        """Keep a collection, or one object of it, at hand; to be called by the constructor.

        Scheduling begins when all of it has been read, so the scheduler must be allowed to list
        and watch it.
        """
        fields = ",".join(filter(None, (name and f"metadata.name={name}", field_selector)))
        lister = self._handle.out_of_tree.follow(resource, namespace, fields, label_selector)
        return Followed(lister, self._views.objects)

    def event(
        self, pod: PodView, reason: str, note: str, *, kind: str = "Normal", action: str = ""
    ) -> None:
        """Record an event about the pod for its users; `kind` is Normal or Warning."""
        with self._watchdog.paused():
            recorder = self._handle.recorder
            recorder.event(info_of(pod).pod, kind, reason, action or "Scheduling", note)

    def activate(self, pods: Iterable[PodView]) -> None:
        """Have pods that wait in the queue tried again soon."""
        with self._watchdog.paused():
            self._handle.activate([info_of(pod) for pod in pods])

    def in_background(self, what: str, work: Callable[[], Awaitable[object]]) -> None:
        """Do something that waits, beside the loop; `what` names it in logs and faults."""
        guarded = partial(self._guard.call_async, "Background", None, answers.nothing, work)
        with self._watchdog.paused():
            self._handle.out_of_tree.background.add(what, guarded)


class Followed(Generic[T_co]):
    """The objects of one collection as they are known just now, kept up to date by a watch."""

    def __init__(self, lister: Lister[Any], frozen: FrozenObjects[Any]) -> None:
        self._lister = lister
        self._frozen = frozen

    def get(self, key: str) -> T_co | None:
        """By `namespace/name`, or by `name` where the kind has no namespaces."""
        found = self._lister.get(key)
        return None if found is None else self._frozen.of(found)

    def items(self) -> Iterator[T_co]:
        return (self._frozen.of(one) for one in self._lister.items())

    @property
    def generation(self) -> int:
        """Another number after every change: what was worked out before is then out of date."""
        return self._lister.generation or 0


class WaitingPodView:
    """One pod that has a node and is held by Permit plugins."""

    __slots__ = ("_plugin", "_views", "_waiting", "_watchdog")

    def __init__(self, waiting: WaitingPod, plugin: str, views: Views, watchdog: Watchdog) -> None:
        self._waiting = waiting
        self._plugin = plugin
        self._views = views
        self._watchdog = watchdog

    @property
    def pod(self) -> PodView:
        """With the node it would go to."""
        return self._views.pod(self._waiting.pod)

    @property
    def pending_plugins(self) -> Collection[str]:
        """Plugins that still hold it."""
        return tuple(self._waiting.pending_plugins)

    def allow(self, plugin: str = "") -> None:
        """In this plugin's name, or another's; the pod goes once no plugin holds it any more."""
        with self._watchdog.paused():
            self._waiting.allow(plugin or self._plugin)

    def reject(self, message: str, plugin: str = "") -> bool:
        """Send it back as unschedulable; False if that was decided already, one way or other."""
        with self._watchdog.paused():
            return self._waiting.reject(plugin or self._plugin, message)


class WaitingPodsView:
    """All pods that wait, of every profile."""

    def __init__(self, waiting: WaitingPods, plugin: str, views: Views, watchdog: Watchdog) -> None:
        self._waiting = waiting
        self._plugin = plugin
        self._views = views
        self._watchdog = watchdog

    def __iter__(self) -> Iterator[WaitingPodView]:
        return (self._view(one) for one in self._waiting)

    def __len__(self) -> int:
        return len(self._waiting)

    def get(self, uid: str) -> WaitingPodView | None:
        found = self._waiting.get(uid)
        return None if found is None else self._view(found)

    def _view(self, waiting: WaitingPod) -> WaitingPodView:
        return WaitingPodView(waiting, self._plugin, self._views, self._watchdog)


class RawClient(Protocol):
    """The scheduler's client: bodies are bytes."""

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


class PluginClient:
    """The scheduler's own client and rate limits; what is allowed is for RBAC to say.

    A call that fails raises KschedulerError, MissingError if the object is not there.
    """

    def __init__(self, client: RawClient, watchdog: Watchdog) -> None:
        self._client = client
        self._watchdog = watchdog

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Json:
        return _json(await self._paused(self._client.get(resource, name, namespace)))

    async def list(
        self, resource: Resource, namespace: str = "", *, label_selector: str = ""
    ) -> list[Json]:
        query = {"labelSelector": label_selector} if label_selector else None
        answer = _json(await self._paused(self._client.list(resource, namespace, query)))
        return list(answer.get("items") or ())

    async def create(self, resource: Resource, item: Json, namespace: str = "") -> Json:
        return _json(await self._paused(self._client.create(resource, _bytes(item), namespace)))

    async def update(
        self, resource: Resource, name: str, item: Json, namespace: str = "", subresource: str = ""
    ) -> Json:
        body = _bytes(item)
        call = self._client.update(resource, name, body, namespace, subresource)
        return _json(await self._paused(call))

    async def patch(
        self, resource: Resource, name: str, patch: Json, namespace: str = "", subresource: str = ""
    ) -> Json:
        """A JSON merge patch."""
        body = _bytes(patch)
        call = self._client.patch(resource, name, body, namespace, subresource, kind=MERGE_PATCH)
        return _json(await self._paused(call))

    async def delete(self, resource: Resource, name: str, namespace: str = "") -> None:
        await self._paused(self._client.delete(resource, name, namespace))

    async def bind(self, pod: PodView, node: str) -> None:
        """Binds as DefaultBinder does: for a Bind plugin that has something to do besides."""
        await self._paused(self._client.bind(info_of(pod).pod, node))

    def _paused(self, call: Awaitable[T]) -> Awaitable[T]:
        return Stepwise(call, self._watchdog.pause, self._watchdog.resume)


def _json(answer: bytes) -> Json:
    decoded: Json = msgspec.json.decode(answer)
    return decoded


def _bytes(item: Json) -> bytes:
    return msgspec.json.encode(thawed(item))


class PluginMetrics:
    """`counter`, `gauge` and `histogram` give families: `.labels("a").inc()`.

    Names start with the plugin's, so that no plugin's metrics are mistaken for another's:
    `node_load_` for a plugin called NodeLoad. Profiles that run the same plugin share them.
    """

    def __init__(self, plugin: str, metrics: Metrics) -> None:
        self._plugin = plugin
        self._metrics = metrics
        self.prefix = f"{snake_case(plugin)}_"

    def counter(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Family[Counter]:
        if not name.endswith("_total"):
            raise self._refused(name, "the name of a counter ends in _total")
        known = self._known(name, "counter", labels)
        return known or self._metrics.counters(name, ALPHA, text, labels)

    def gauge(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Family[Gauge]:
        known = self._known(name, "gauge", labels)
        return known or self._metrics.gauges(name, ALPHA, text, labels)

    def histogram(
        self,
        name: str,
        text: str,
        labels: tuple[str, ...] = (),
        *,
        buckets: tuple[float, ...] = SECONDS,
    ) -> Family[Histogram]:
        known = self._known(name, "histogram", labels)
        return known or self._metrics.histograms(name, ALPHA, text, labels, buckets=buckets)

    def _known(self, name: str, kind: str, labels: tuple[str, ...]) -> Any:
        """The family of that name, if it is the same in all respects."""
        if not name.startswith(self.prefix) or name == self.prefix:
            raise self._refused(name, f'it must start with "{self.prefix}"')
        for word in (name, *labels):
            if not _METRIC_NAME.fullmatch(word):
                raise self._refused(name, f"{word!r} is no name")
        known = self._metrics.families.get(name)
        if known is not None and (known.kind, known.label_names) != (kind, labels):
            raise self._refused(name, "it exists already with another kind or other labels")
        return known

    def _refused(self, name: str, reason: str) -> ConfigError:
        return ConfigError(f"plugin {self._plugin}: metric {name}: {reason}")


def snake_case(name: str) -> str:
    return "_".join(word for word in _WORD_BOUNDARY.split(name) if word).lower()
