"""The nominator: pods that are nominated to run on a node which is still being emptied for them.

Mirrors pkg/scheduler/backend/queue/nominator.go. Nominations are kept here because the scheduler
knows of them before the pod's status says so.
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
    """Pods as the informer delivered them last, by namespace/name."""

    def get(self, key: str, /) -> Pod | None: ...


class Nominator:
    """Nominated pods: at most one node per pod; per node in the order of their nomination.

    `queued` finds a waiting pod by key, in whichever queue it is.
    """

    def __init__(self, queued: Callable[[str], PodInfo | None], pods: PodLister | None) -> None:
        self._queued = queued
        self._pods = pods
        self._by_node: dict[str, dict[str, ObjectMeta]] = {}
        self._node_of: dict[str, str] = {}
        # The nodes for which `pods_for_node` may have another answer.
        self.changes: ChangeLog[str] = ChangeLog()

    @property
    def nodes(self) -> Collection[str]:
        """The nodes that some pod is nominated to."""
        return self._by_node.keys()

    def node_of(self, uid: str) -> str | None:
        return self._node_of.get(uid)

    def add(self, pod: PodInfo, node: str | None = None) -> None:
        """Nominates the pod to a node: None stands for what its status says, "" for no node."""
        self.remove(pod.uid)
        chosen = pod.pod.status.nominated_node_name if node is None else node
        if chosen and self._still_pending(pod.pod):
            self._node_of[pod.uid] = chosen
            self._by_node.setdefault(chosen, {})[pod.uid] = pod.pod.metadata
            self.changes.add(chosen)

    def update(self, old: PodInfo, new: PodInfo) -> None:
        """The new status decides, unless neither names a node: then the nomination here stands."""
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

    def pod_moved(self, uid: str) -> None:
        """The pod has come to a queue or left it: `pods_for_node` knows more of it, or less."""
        node = self._node_of.get(uid)
        if node is not None:
            self.changes.add(node)

    def pods_for_node(self, node: str) -> list[PodInfo]:
        """The pods nominated to the node. As upstream, one that is in no queue, such as one in
        flight, is a stub without requests or priority.
        """
        nominated = self._by_node.get(node, {}).values()
        return [self._queued(f"{meta.namespace}/{meta.name}") or _stub(meta) for meta in nominated]

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


def _stub(meta: ObjectMeta) -> PodInfo:
    return PodInfo(Pod(ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid)))
