"""What a plugin from outside may use of the scheduler around it; its constructor gets one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from random import Random
from typing import Any, Generic, TypeVar, cast

from kscheduler.api.meta import ApiObject
from kscheduler.api.resources import Resource
from kscheduler.framework.frozen import Kept
from kscheduler.framework.listers import Lister
from kscheduler.framework.views import NodesView, PodView, Views, info_of
from kscheduler.runtime.handle import RuntimeHandle
from kscheduler.runtime.out_of_tree import answers
from kscheduler.runtime.out_of_tree.client import PluginClient, RawClient
from kscheduler.runtime.out_of_tree.guard import Guard
from kscheduler.runtime.out_of_tree.metrics import PluginMetrics
from kscheduler.runtime.out_of_tree.waiting import WaitingPodsView

T = TypeVar("T", bound=ApiObject)
T_co = TypeVar("T_co", covariant=True)


class Followed(Generic[T_co]):
    """The objects of one collection as they are known just now, kept up to date by a watch."""

    def __init__(self, lister: Lister[Any], frozen: Kept[Any]) -> None:
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
        lister = self._handle.outside.follow(resource, namespace, fields, label_selector)
        return Followed(lister, self._views.kept)

    def event(
        self, pod: PodView, reason: str, note: str, *, kind: str = "Normal", action: str = ""
    ) -> None:
        """Tell the pod's users; `kind` is Normal or Warning."""
        with self._watchdog.ours():
            recorder = self._handle.recorder
            recorder.event(info_of(pod).pod, kind, reason, action or "Scheduling", note)

    def activate(self, pods: Iterable[PodView]) -> None:
        """Have pods that wait in the queue tried again soon."""
        with self._watchdog.ours():
            self._handle.activate([info_of(pod) for pod in pods])

    def in_background(self, what: str, work: Callable[[], Awaitable[object]]) -> None:
        """Do something that waits, beside the loop; `what` names it in logs and faults."""
        guarded = partial(self._guard.wait_for, "Background", None, answers.nothing, work)
        with self._watchdog.ours():
            self._handle.outside.background.leave(what, guarded)
