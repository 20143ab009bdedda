"""Event handlers: changes that informers deliver go into the cache and the queue.

    Node                     cache; the change may help unschedulable pods
    Pod with a node          cache; the change may help unschedulable pods
    Pod without one          queue, if one of our profiles is responsible for it
    other kinds that         the same as for nodes, without the cache
    plugins registered for

Mirrors pkg/scheduler/eventhandlers.go, under the same names, without pod groups and deferred
resizes. Differs: a pod that was replaced by another of its name counts as deleted and added, where
the cache refuses a step it is brought to what the API server says, and pods that others put on
nodes are counted, as are pods of ours that leave their node before they ran (`vanished`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from kscheduler import logs
from kscheduler.api.core import Node, Pod
from kscheduler.api.meta import ApiObject
from kscheduler.api.timestamps import steady_time
from kscheduler.client.informers.informer import Informer, Registration
from kscheduler.framework import cluster_event
from kscheduler.framework.cluster_event import (
    ASSIGNED_POD,
    NODE,
    UNSCHEDULED_POD,
    UNSCHEDULED_POD_ADD,
    Action,
    ClusterEvent,
)
from kscheduler.metrics import Metrics
from kscheduler.metrics.scheduler import NODE_OVERCOMMITTED, OTHER_POD, OWN_POD
from kscheduler.queue import SchedulingQueue
from kscheduler.queue.events import (
    node_scheduling_properties_change,
    pod_scheduling_properties_change,
)
from kscheduler.runtime.waiting_pods import WaitingPods
from kscheduler.state.cache import Cache, CacheError
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__)

T = TypeVar("T", bound=ApiObject)

NODE_ADDED = ClusterEvent(NODE, Action.ADD)
NODE_DELETED = ClusterEvent(NODE, Action.DELETE)
POD_ASSIGNED = ClusterEvent(ASSIGNED_POD, Action.ADD)
POD_UPDATED = ClusterEvent(ASSIGNED_POD, Action.UPDATE)
POD_GONE = ClusterEvent(ASSIGNED_POD, Action.DELETE)
PENDING_POD_UPDATED = ClusterEvent(UNSCHEDULED_POD, Action.UPDATE)
PENDING_POD_DELETED = ClusterEvent(UNSCHEDULED_POD, Action.DELETE)

# Phases of a pod that its kubelet has not started; a watch without ended pods shows no other
# before a pod that was refused is gone.
NOT_STARTED = frozenset({"", "Pending"})

# Kinds that have their own handlers here, or none.
_HANDLED = frozenset({NODE, cluster_event.POD, *cluster_event.POD_KINDS, cluster_event.POD_GROUP})


class Subscriber(msgspec.Struct, Generic[T], frozen=True):
    """An informer's handler of functions; `deleted` takes whether the final state is unknown."""

    added: Callable[[T], None]
    updated: Callable[[T, T], None]
    deleted: Callable[[T, bool], None]

    def on_add(self, item: T, *, is_initial: bool) -> None:
        self.added(item)

    def on_update(self, old: T, new: T) -> None:
        self.updated(old, new)

    def on_delete(self, item: T, *, final_state_unknown: bool) -> None:
        self.deleted(item, final_state_unknown)


class EventHandlers:
    """Handlers of one scheduler; `profiles` are the scheduler names it is responsible for."""

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        profiles: Container[str],
        metrics: Metrics,
        *,
        waiting_pods: WaitingPods,
        vanished: Callable[[Pod], None] = lambda pod: None,
        compile_pod: Callable[[Pod], PodInfo] = PodInfo,
        clock: Callable[[], float] = steady_time,
    ) -> None:
        """`vanished` is called for pods of ours that left their node before they ran."""
        self._cache = cache
        self._queue = queue
        self._profiles = profiles
        self._waiting_pods = waiting_pods
        self._vanished = vanished
        self._foreign_binds = metrics.kscheduler_foreign_binds_total
        self._conflicts = metrics.kscheduler_conflicts_total
        self._compile = compile_pod
        self._clock = clock
        self._durations = metrics.event_handling_duration_seconds
        # Kinds besides pods and nodes that plugins wait for, and the actions on them.
        self._wanted: dict[str, Action] = {}
        for resource, actions in queue.hints.registered_actions().items():
            if resource in _HANDLED:
                continue
            # Upstream's rule for kinds it does not know: `kind.version.group`.
            if resource not in cluster_event.OTHER_KINDS and resource.count(".") < 2:
                log.unhandled(None, "Incorrect event registration", gvk=resource)
                continue
            self._wanted[resource] = actions

    @property
    def nodes(self) -> Subscriber[Node]:
        return Subscriber(
            self.node_added, self.node_updated, lambda node, _unknown: self.node_deleted(node)
        )

    @property
    def pods(self) -> Subscriber[Pod]:
        return Subscriber(
            self.pod_added,
            self.pod_updated,
            lambda pod, unknown: self.pod_deleted(pod, final_state_unknown=unknown),
        )

    def others(self, resource: str) -> Subscriber[ApiObject]:
        """For a kind that `needed_resources` names."""
        return Subscriber(
            partial(self.added, resource),
            partial(self.updated, resource),
            lambda item, _unknown: self.deleted(resource, item),
        )

    def needed_resources(self) -> dict[str, Action]:
        """Kinds besides pods and nodes that plugins wait for, and which actions on them."""
        return dict(self._wanted)

    def node_added(self, node: Node) -> None:
        start = time.perf_counter()
        log.v(3).info("Add event for node", node=logs.ref(node))
        self._cache.add_node(node)
        self._queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, node, self._clock())
        self._observe(NODE_ADDED, start)

    def node_updated(self, old: Node, new: Node) -> None:
        start = time.perf_counter()
        log.v(4).info("Update event for node", node=logs.ref(new))
        self._cache.update_node(new)
        self._move_for_each(
            node_scheduling_properties_change(old, new), old, new, time.perf_counter() - start
        )

    def node_deleted(self, node: Node) -> None:
        start = time.perf_counter()
        self._queue.move_all_to_active_or_backoff_queue(NODE_DELETED, node, None, self._clock())
        log.v(3).info("Delete event for node", node=logs.ref(node))
        try:
            self._cache.remove_node(node)
        except CacheError as error:
            log.unhandled(error, "Scheduler cache RemoveNode failed")
        self._observe(NODE_DELETED, start)

    def pod_added(self, pod: Pod) -> None:
        if pod.spec.node_name:
            self._add_assigned_pod_to_cache(self._compile(pod))
        elif self._responsible_for_pod(pod):
            self._add_pod_to_scheduling_queue(self._compile(pod))

    def pod_updated(self, old: Pod, new: Pod) -> None:
        if old.uid != new.uid:
            self.pod_deleted(old, final_state_unknown=True)
            self.pod_added(new)
        elif old.spec.node_name:
            self._update_assigned_pod_in_cache(old, new)
        elif new.spec.node_name:
            self._add_assigned_pod_to_cache(self._compile(new))
            if self._responsible_for_pod(old):
                # Usually it left the queue long ago; unless another scheduler bound it.
                start = time.perf_counter()
                log.v(3).info("Delete event for unscheduled pod", pod=logs.ref(old))
                self._queue.delete(old)
                self._observe(PENDING_POD_DELETED, start)
        elif (
            self._responsible_for_pod(old)
            # A resync delivers the same version again.
            and old.metadata.resource_version != new.metadata.resource_version
        ):
            self._update_pod_in_scheduling_queue(old, new)

    def pod_deleted(self, pod: Pod, *, final_state_unknown: bool = False) -> None:
        """A pod whose end we missed may have been bound since; then both sides clean up."""
        info = self._compile(pod)
        if pod.spec.node_name or final_state_unknown:
            self._delete_assigned_pod_from_cache(info)
        if (
            pod.spec.node_name
            and not info.terminating
            and pod.status.phase in NOT_STARTED
            and self._responsible_for_pod(pod)
        ):
            self._vanished(pod)
        if self._responsible_for_pod(pod) and (not pod.spec.node_name or final_state_unknown):
            self._delete_pod_from_scheduling_queue(info)

    def added(self, resource: str, item: object) -> None:
        self._move_waiting_pods(resource, Action.ADD, None, item)

    def updated(self, resource: str, old: object, new: object) -> None:
        self._move_waiting_pods(resource, Action.UPDATE, old, new)

    def deleted(self, resource: str, item: object) -> None:
        self._move_waiting_pods(resource, Action.DELETE, item, None)

    def _move_waiting_pods(self, resource: str, action: Action, old: object, new: object) -> None:
        if self._wanted.get(resource, Action.NONE) & action:
            start = time.perf_counter()
            event = ClusterEvent(resource, action)
            self._queue.move_all_to_active_or_backoff_queue(event, old, new, self._clock())
            self._observe(event, start)

    def _add_assigned_pod_to_cache(self, pod: PodInfo) -> None:
        start = time.perf_counter()
        log.v(3).info("Add event for scheduled pod", pod=logs.ref(pod.pod))
        try:
            if not self._cache.add_pod(pod) and self._cache.foreign_binds.noticed:
                self._count_foreign_bind(pod)
        except CacheError as error:
            log.unhandled(error, "Scheduler cache AddPod failed", pod=logs.ref(pod.pod))
            self._cache.update_pod(pod, pod)
        self._queue.move_all_to_active_or_backoff_queue(POD_ASSIGNED, None, pod, self._clock())
        self._observe(POD_ASSIGNED, start)

    def _count_foreign_bind(self, pod: PodInfo) -> None:
        """A pod that we did not put on its node is there from now on."""
        is_ours = self._responsible_for_pod(pod.pod)
        if is_ours and pod.terminating:
            # Our own bind of a pod that was deleted at the same time: its assumption is gone.
            return
        self._foreign_binds.labels(OWN_POD if is_ours else OTHER_POD).inc()
        self._cache.foreign_binds.add(pod.node_name)
        if any(self._cache.shortages(pod)):
            self._conflicts.labels(NODE_OVERCOMMITTED).inc()

    def _update_assigned_pod_in_cache(self, old: Pod, new: Pod) -> None:
        start = time.perf_counter()
        log.v(4).info("Update event for scheduled pod", pod=logs.ref(old))
        before, after = self._compiled_before(old), self._compile(new)
        try:
            self._cache.update_pod(before, after)
        except CacheError as error:
            log.unhandled(error, "Scheduler cache UpdatePod failed", pod=logs.ref(old))
            self._cache.add_pod(after)
        events = pod_scheduling_properties_change(before, after, UNSCHEDULED_POD)
        self._move_for_each(events, before, after, time.perf_counter() - start)
        self._observe(POD_UPDATED, start)

    def _delete_assigned_pod_from_cache(self, pod: PodInfo) -> None:
        start = time.perf_counter()
        log.v(3).info("Delete event for scheduled pod", pod=logs.ref(pod.pod))
        try:
            self._cache.remove_pod(pod)
        except CacheError as error:
            log.unhandled(error, "Scheduler cache RemovePod failed", pod=logs.ref(pod.pod))
        self._queue.move_all_to_active_or_backoff_queue(POD_GONE, pod, None, self._clock())
        self._observe(POD_GONE, start)

    def _add_pod_to_scheduling_queue(self, pod: PodInfo) -> None:
        start = time.perf_counter()
        log.v(3).info("Add event for unscheduled pod", pod=logs.ref(pod.pod))
        self._queue.add(pod, self._clock())
        self._durations.labels(UNSCHEDULED_POD_ADD).observe(time.perf_counter() - start)

    def _update_pod_in_scheduling_queue(self, old: Pod, new: Pod) -> None:
        start = time.perf_counter()
        before, after = self._compiled_before(old), self._compile(new)
        if self._cache.is_assumed(after):
            # Its node is in our hands already: nothing of an update matters, but that it is going.
            if after.terminating and not before.terminating:
                self._handle_assumed_pod_deletion(after)
        else:
            log.v(4).info("Update event for unscheduled pod", pod=logs.ref(new))
            self._queue.update(before, after, self._clock())
            nominated = old.status.nominated_node_name
            if nominated and nominated != new.status.nominated_node_name:
                self._nomination_cleared(before)
        for event in {
            PENDING_POD_UPDATED,
            *pod_scheduling_properties_change(before, after, UNSCHEDULED_POD),
        }:
            self._observe(event, start)

    def _delete_pod_from_scheduling_queue(self, pod: PodInfo) -> None:
        start = time.perf_counter()
        log.v(3).info("Delete event for unscheduled pod", pod=logs.ref(pod.pod))
        self._queue.delete(pod)
        if self._cache.is_assumed(pod):
            self._handle_assumed_pod_deletion(pod)
        elif pod.pod.status.nominated_node_name:
            self._nomination_cleared(pod)
        self._observe(PENDING_POD_DELETED, start)

    def _handle_assumed_pod_deletion(self, pod: PodInfo) -> None:
        """Give an assumed pod's room back; its binding goes on, and will fail for lack of a pod."""
        # The cached version has the node name.
        assumed = self._cache.get_pod(pod)
        # One that waits for permission is cleaned up by its own attempt, which ends now.
        if not self._waiting_pods.reject(assumed.uid):
            self._cache.forget(assumed)
        self._queue.move_all_to_active_or_backoff_queue(POD_GONE, assumed, None, self._clock())

    def _nomination_cleared(self, pod: PodInfo) -> None:
        """Wake pods of its priority or less: they were filtered as if it were on the node."""
        priority = pod.priority
        self._queue.move_all_to_active_or_backoff_queue(
            POD_GONE, pod, None, self._clock(), lambda waiting: waiting.priority <= priority
        )

    def _move_for_each(
        self, events: list[ClusterEvent], old: object, new: object, taken_before: float
    ) -> None:
        for event in events:
            start = time.perf_counter() - taken_before
            self._queue.move_all_to_active_or_backoff_queue(event, old, new, self._clock())
            self._observe(event, start)

    def _observe(self, event: ClusterEvent, start: float) -> None:
        self._durations.labels(event.label).observe(time.perf_counter() - start)

    def _responsible_for_pod(self, pod: Pod) -> bool:
        return pod.spec.scheduler_name in self._profiles

    def _compiled_before(self, pod: Pod) -> PodInfo:
        """The PodInfo that cache or queue still have: much about it may be worked out already."""
        queued = self._queue.get(pod.key)
        if queued is not None and queued.pod.pod is pod:
            return queued.pod
        fresh = self._compile(pod)
        try:
            known = self._cache.get_pod(fresh)
        except CacheError:
            return fresh
        return known if known.pod is pod else fresh


class Informers(Protocol):
    """The informers of one scheduler."""

    pods: Informer[Pod]
    nodes: Informer[Node]

    def of_event(self, resource: str) -> Informer[Any] | None:
        """The informer of a kind as plugins name it in events; None if that names no kind."""


def add_all_event_handlers(
    informers: Informers, handlers: EventHandlers
) -> list[Registration[Any]]:
    """Connects informers to cache and queue; those that only wake waiting pods are made here."""
    registrations: list[Registration[Any]] = [
        informers.pods.add_handler(handlers.pods),
        informers.nodes.add_handler(handlers.nodes),
    ]
    for resource in handlers.needed_resources():
        informer = informers.of_event(resource)
        if informer is not None:
            registrations.append(informer.add_handler(handlers.others(resource)))
    return registrations
