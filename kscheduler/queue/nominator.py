"""Pods promised to a node that is still being emptied for them.

Mirrors pkg/scheduler/backend/queue/nominator.go. The promise is kept here because the scheduler
knows of it before the pod's status says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from kscheduler import logs
from kscheduler.api.core import Pod
from kscheduler.api.meta import ObjectMeta
from kscheduler.state.change_log import ChangeLog
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__)


class PodLister(Protocol):
    """Pods as the API server last told of them, by namespace/name."""

    def get(self, key: str, /) -> Pod | None: ...


class Nominator:
    """At most one node per pod; per node the pods in the order of their nomination."""

    def __init__(self, queued: Callable[[str], PodInfo | None], pods: PodLister | None) -> None:
        self._queued = queued
        self._pods = pods
        self._by_node: dict[str, dict[str, ObjectMeta]] = {}
        self._node_of: dict[str, str] = {}
        # The nodes for which `pods_for_node` may have another answer.
        self.changes: ChangeLog[str] = ChangeLog()

    @property
    def nodes(self) -> Collection[str]:
        """The nodes that have a pod promised to them."""
        return self._by_node.keys()

    def node_of(self, uid: str) -> str | None:
        return self._node_of.get(uid)

    def add(self, pod: PodInfo, node: str | None = None) -> None:
        """Promises the pod to a node: None stands for what its status says, "" ends any promise."""
        self.remove(pod.uid)
        chosen = pod.pod.status.nominated_node_name if node is None else node
        if chosen and self._still_pending(pod.pod):
            self._node_of[pod.uid] = chosen
            self._by_node.setdefault(chosen, {})[pod.uid] = pod.pod.metadata
            self.changes.add(chosen)

    def update(self, old: PodInfo, new: PodInfo) -> None:
        """The new status decides, unless neither says anything: then a promise made here stands."""
        kept = None
        if not (old.pod.status.nominated_node_name or new.pod.status.nominated_node_name):
            kept = self._node_of.get(old.uid)
        self.remove(old.uid)
        self.add(new, kept)

    def remove(self, uid: str) -> None:
        node = self._node_of.pop(uid, None)
        if node is None:
            return
        del self._by_node[node][uid]
        if not self._by_node[node]:
            del self._by_node[node]
        self.changes.add(node)

    def moved(self, uid: str) -> None:
        """The pod has come to the queue or left it."""
        node = self._node_of.get(uid)
        if node is not None:
            self.changes.add(node)

    def pods_for_node(self, node: str) -> list[PodInfo]:
        """A pod found in no queue, such as one being tried, has neither requests nor priority."""
        promised = self._by_node.get(node, {})
        return [self._queued(_key(meta)) or _stub(meta) for meta in promised.values()]

    def _still_pending(self, pod: Pod) -> bool:
        if self._pods is None:
            return True
        known = self._pods.get(pod.key)
        if known is None:
            log.v(4).info(
                "Pod doesn't exist in podLister, aborted adding it to the nominator",
                pod=logs.ref(pod),
            )
            return False
        if known.spec.node_name:
            log.v(4).info(
                "Pod is already scheduled to a node, aborted adding it to the nominator",
                pod=logs.ref(pod),
                node=known.spec.node_name,
            )
            return False
        return True


def _key(meta: ObjectMeta) -> str:
    return f"{meta.namespace}/{meta.name}"


def _stub(meta: ObjectMeta) -> PodInfo:
    return PodInfo(Pod(ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid)))
