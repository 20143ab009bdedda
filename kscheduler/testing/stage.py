"""One plugin with a made-up cluster around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from kscheduler.api.core import Node, Pod
from kscheduler.api.meta import ApiObject
from kscheduler.api.resources import Resource
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.errors import KschedulerError
from kscheduler.extension_points import METHOD_OF_POINT, METHODS, Point
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.in_tree import QueuedEntity
from kscheduler.framework.listers import FixedListers, Lister
from kscheduler.framework.plugin import Wait
from kscheduler.framework.status import Code, Rows, Status
from kscheduler.metrics import Metrics
from kscheduler.runtime.framework import Framework
from kscheduler.runtime.handle import OutOfTreeServices, RuntimeHandle
from kscheduler.runtime.out_of_tree.registration import register_class
from kscheduler.state.cache import Cache
from kscheduler.state.change_log import ChangeLog
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo


class Stage:
    """A profile of this one plugin.

    `nodes` and `pods` are in the scheduler's cache, `objects` in what the plugin follows. Each
    `rejections` and each `scores` is a new attempt for its pod; `permit` and `unreserve` belong to
    the last attempt for theirs. An exception of the plugin is raised on; where it answers with an
    error, or with what no attempt can go on with, KschedulerError says so as the pod's event would.
    """

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
        # Of the attempt that was begun last, and of the last attempt for each pod by uid.
        self.cycle = CycleState()
        self._cycles: dict[str, CycleState] = {}
        self._now = 0.0
        self._cache = Cache()
        self._objects = _Objects()
        self.put(*objects)
        for node in nodes:
            self._cache.add_node(node)
        for pod in pods:
            self._cache.add_pod(PodInfo(pod))
        self.handle = RuntimeHandle(
            gates=FeatureGates.defaults(),
            listers=FixedListers(),
            snapshot=self._cache.snapshot,
            nominator=_NoNominations(),
            activate=lambda pods: self.activated.extend(pod.key for pod in pods),
            client=_NoServer(),  # type: ignore[arg-type]
            recorder=self,
            metrics=self.metrics,
            clock=lambda: self._now,
            out_of_tree=OutOfTreeServices(follow=self._objects.follow),
            profile_name=profile,
            framework=lambda: self._framework,
        )
        self.plugin: Any = register_class(plugin_class, plugin_class.__name__)(args, self.handle)
        self._recording = _RecordingErrors(self.plugin)
        plugins_at: dict[Point, list[Any]] = {
            point: [self._recording]
            for point, method in METHOD_OF_POINT.items()
            if hasattr(self.plugin, method)
        }
        plugins_at.setdefault(Point.QUEUE_SORT, [_SortByTime()])
        self._framework = Framework(self.handle, plugins_at, weights={self.plugin.name: 1})

    def event(self, regarding: Pod, kind: str, reason: str, action: str, note: str, /) -> None:
        """Records an event, as the handle's recorder."""
        self.events.append((regarding.key, kind, reason, note))

    def put(self, *objects: ApiObject) -> None:
        """New or changed objects among those the plugin follows."""
        for one in objects:
            self._objects.put(one)

    def change_node(self, node: Node) -> None:
        """Replaces a node of the same name."""
        self._cache.update_node(node)

    @property
    def nodes(self) -> Nodes:
        """All nodes of the stage as the scheduler has them."""
        return self._cache.snapshot()

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Answer of the plugin to a pod that wants to enter the queue."""
        answer: Status | None = self.plugin.pre_enqueue(PodInfo(pod))
        return answer

    def rejections(self, pod: Pod) -> dict[str, list[str]]:
        """By node that cannot take the pod, why: PreFilter, and Filter unless that says SKIP."""
        return self._filter(self._begin_attempt(pod), PodInfo(pod))[1]

    def scores(self, pod: Pod) -> dict[str, int]:
        """By node that can take the pod, 0..100: PreFilter, Filter, PreScore, Score, normalize.

        Empty if PreScore says SKIP.
        """
        cycle, info = self._begin_attempt(pod), PodInfo(pod)
        rows, _ = self._filter(cycle, info)
        view = self.nodes.take(rows)
        self._raise_failure(self._framework.run_pre_score(cycle, info, view))
        if self.plugin.name in cycle.skip_score or not len(rows):
            return {}
        board = self._framework.run_score(cycle, info, view)
        if isinstance(board, Status):
            self._raise_failure(board)
            return {}
        return {
            name: int(score)
            for scores in board
            for name, score in zip(view.names, scores.normalized, strict=True)
        }

    def permit(self, pod: Pod, node: str) -> Status | Wait | None:
        """As after a decision; a pod that is to wait does so from then on."""
        info = PodInfo(pod).assigned_to(node)
        answer: Status | Wait | None = self.plugin.permit(self._cycle_of(pod), info, node)
        if isinstance(answer, Wait):
            name = self.plugin.name
            self.handle.waiting_pods.add(info, {name: answer.timeout_seconds}, self._now)
        return answer

    def waiting(self) -> dict[str, Status | None]:
        """By key of the pods that wait: what was decided about them, None if nothing yet."""
        return {one.pod.key: one.expire(self._now) for one in self.handle.waiting_pods}

    def unreserve(self, pod: Pod, node: str) -> None:
        """Tells the plugin that the pod gives its node up."""
        self.plugin.unreserve(self._cycle_of(pod), PodInfo(pod).assigned_to(node), node)

    def pass_time(self, seconds: float) -> None:
        """Puts the clock forward, by which waiting pods time out."""
        self._now += seconds

    def _begin_attempt(self, pod: Pod) -> CycleState:
        self.cycle = self._cycles[pod.uid] = CycleState()
        return self.cycle

    def _cycle_of(self, pod: Pod) -> CycleState:
        return self._cycles.get(pod.uid) or self._begin_attempt(pod)

    def _filter(self, cycle: CycleState, pod: PodInfo) -> tuple[Rows, dict[str, list[str]]]:
        """Rows of the nodes that can take the pod, and the reasons against the others by name."""
        nodes = self.nodes
        prepared = self._framework.run_pre_filter(cycle, pod, nodes)
        status, names = prepared.status, prepared.names
        everywhere = {nodes.name_of(row): row for row in nodes.order.tolist()}
        if status is not None:
            if not status.rejected:
                self._raise_failure(status)
            return nodes.order[:0], {name: list(status.reasons) for name in everywhere}
        found: dict[str, list[str]] = {}
        view = nodes
        if names is not None:
            reason = f"node(s) didn't satisfy plugin(s) [{self.plugin.name}]"
            found = {name: [reason] for name in everywhere if name not in names}
            rows = [row for name, row in everywhere.items() if name in names]
            view = nodes.take(np.array(rows, np.intp))
        filtered = self._framework.run_filter(cycle, pod, view)
        if filtered.errors:
            self._raise_failure(Status(Code.ERROR, (filtered.errors[0].reason,)))
        for charge in filtered.charges:
            for row in charge.rows.tolist():
                found.setdefault(nodes.name_of(row), []).append(charge.reason)
        return np.array(
            [row for name, row in everywhere.items() if name not in found], np.intp
        ), found

    def _raise_failure(self, status: Status | None) -> None:
        if status is not None:
            raise self._recording.error or KschedulerError(status.message)


class _RecordingErrors:
    """The plugin with the last exception it raised: the runtime makes a Status of exceptions."""

    def __init__(self, plugin: Any) -> None:
        self.error: Exception | None = None
        self.name: str = plugin.name
        self.per_node: bool = plugin.per_node
        for method in METHODS:
            if hasattr(plugin, method):
                setattr(self, method, self._recording(getattr(plugin, method)))

    def _recording(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            self.error = None
            try:
                return method(*args)
            except Exception as error:
                self.error = error
                raise

        return call


class _SortByTime:
    """A queue needs an order, whatever the plugin under test is."""

    name = "SortByTime"

    def sort_key(self, queued: QueuedEntity) -> float:
        return queued.timestamp


class _Objects:
    """Objects that the plugin can follow, by kind."""

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


class _NoNominations:
    """A nominator without nominated pods."""

    nodes: Mapping[str, PodInfo] = {}

    def __init__(self) -> None:
        self.changes: ChangeLog[str] = ChangeLog()

    def pods_for_node(self, node: str, /) -> tuple[PodInfo, ...]:
        return ()

    def node_of(self, uid: str, /) -> str | None:
        return None


class _NoServer:
    """Plugins that write to an API server are tested against the sandbox."""
