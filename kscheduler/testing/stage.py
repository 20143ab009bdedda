"""One plugin with a made-up cluster around it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from kscheduler.api.core import Node, Pod
from kscheduler.api.meta import ApiObject
from kscheduler.api.resources import Resource
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.listers import FixedListers, Lister
from kscheduler.framework.plugin import Wait
from kscheduler.framework.status import Status
from kscheduler.metrics import Metrics
from kscheduler.runtime.handle import OutOfTreeServices, RuntimeHandle
from kscheduler.runtime.out_of_tree.registration import register_class
from kscheduler.state.cache import Cache
from kscheduler.state.change_log import ChangeLog
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo


class Stage:
    """`nodes` and `pods` are in the scheduler's cache, `objects` in what the plugin follows."""

    def __init__(
        self,
        plugin_class: type,
        *,
        args: object = None,
        nodes: Iterable[Node] = (),
        pods: Iterable[Pod] = (),
        objects: Iterable[ApiObject] = (),
        profile: str = "default-scheduler",
    ) -> None:
        self.metrics = Metrics()
        # Key of the pod, type, reason and note of each.
        self.events: list[tuple[str, str, str, str]] = []
        self.activated: list[str] = []
        self.cycle = CycleState()
        self._now = 0.0
        self._profile = profile
        self._cache = Cache()
        self._objects = _Objects()
        self.put(*objects)
        for node in nodes:
            self._cache.add_node(node)
        for pod in pods:
            self._cache.add_pod(PodInfo(pod))
        self.plugin: Any = register_class(plugin_class, plugin_class.__name__)(args, self.handle)

    @cached_property
    def handle(self) -> RuntimeHandle:
        return RuntimeHandle(
            gates=FeatureGates.defaults(),
            listers=FixedListers(),
            snapshot=self._cache.snapshot,
            nominator=_NoPromises(),
            activate=lambda pods: self.activated.extend(pod.key for pod in pods),
            client=_NoServer(),  # type: ignore[arg-type]
            recorder=self,
            metrics=self.metrics,
            clock=lambda: self._now,
            profile_name=self._profile,
            out_of_tree=OutOfTreeServices(follow=self._objects.follow),
        )

    def event(self, regarding: Pod, kind: str, reason: str, action: str, note: str, /) -> None:
        """Remembers what is told to users."""
        self.events.append((regarding.key, kind, reason, note))

    def put(self, *objects: ApiObject) -> None:
        """New or changed objects among those the plugin follows."""
        for one in objects:
            self._objects.put(one)

    def change_node(self, node: Node) -> None:
        self._cache.update_node(node)

    @property
    def nodes(self) -> Nodes:
        return self._cache.snapshot()

    def pre_enqueue(self, pod: Pod) -> Status | None:
        answer: Status | None = self.plugin.pre_enqueue(PodInfo(pod))
        return answer

    def scores(self, pod: Pod) -> dict[str, int]:
        """By node, brought into 0..100 if the plugin does that."""
        info, nodes = PodInfo(pod), self.nodes
        if hasattr(self.plugin, "pre_score"):
            self.plugin.pre_score(self.cycle, info, nodes)
        scores = self.plugin.score(self.cycle, info, nodes)
        if hasattr(self.plugin, "normalize"):
            scores = self.plugin.normalize(self.cycle, info, scores, nodes)
        return {name: int(score) for name, score in zip(nodes.names, scores, strict=True) if name}

    def rejections(self, pod: Pod) -> dict[str, list[str]]:
        """By node that cannot take the pod, why."""
        info, nodes = PodInfo(pod), self.nodes
        if hasattr(self.plugin, "pre_filter"):
            self.plugin.pre_filter(self.cycle, info, nodes)
        found: dict[str, list[str]] = {}
        for mask, _, reason in self.plugin.filter(self.cycle, info, nodes):
            for row in np.flatnonzero(mask & nodes.valid).tolist():
                found.setdefault(nodes.name_of(row), []).append(reason)
        return found

    def permit(self, pod: Pod, node: str) -> Status | Wait | None:
        """As after a decision; a pod that is to wait does so from then on."""
        info = PodInfo(pod).assigned_to(node)
        answer: Status | Wait | None = self.plugin.permit(self.cycle, info, node)
        if isinstance(answer, Wait):
            name = self.plugin.name
            self.handle.waiting_pods.add(info, {name: answer.timeout_seconds}, self._now)
        return answer

    def waiting(self) -> dict[str, Status | None]:
        """By key of the pods that wait: what was decided about them, None if nothing yet."""
        return {one.pod.key: one.expire(self._now) for one in self.handle.waiting_pods}

    def unreserve(self, pod: Pod, node: str) -> None:
        self.plugin.unreserve(self.cycle, PodInfo(pod).assigned_to(node), node)

    def pass_time(self, seconds: float) -> None:
        self._now += seconds


class _Objects:
    """What can be followed."""

    def __init__(self) -> None:
        self._by_kind: dict[type, _Store] = {}

    def put(self, one: ApiObject) -> None:
        self._store(type(one)).put(one)

    def follow(self, resource: Resource, namespace: str, fields: str, labels: str) -> Lister[Any]:
        return self._store(resource.struct)

    def _store(self, kind: type) -> _Store:
        return self._by_kind.setdefault(kind, _Store())


class _Store:
    def __init__(self) -> None:
        self._objects: dict[str, ApiObject] = {}
        self._changes = 0

    @property
    def generation(self) -> int | None:
        return self._changes

    def put(self, one: ApiObject) -> None:
        self._objects[one.key] = one
        self._changes += 1

    def get(self, key: str, /) -> ApiObject | None:
        return self._objects.get(key)

    def items(self) -> Iterable[ApiObject]:
        return self._objects.values()


class _NoPromises:
    nodes: Mapping[str, PodInfo] = {}

    def __init__(self) -> None:
        self.changes: ChangeLog[str] = ChangeLog()

    def pods_for_node(self, node: str, /) -> tuple[PodInfo, ...]:
        return ()

    def node_of(self, uid: str, /) -> str | None:
        return None


class _NoServer:
    """Plugins that write to an API server are tested against the sandbox."""
