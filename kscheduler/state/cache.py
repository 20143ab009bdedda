"""The cache: pods on nodes, as the API server says and as was decided and is not yet confirmed.

    unknown --assume--> assumed --add--> added --update--> added --remove--> unknown
                        assumed --forget--> unknown
    unknown --add--> added

Pods may come before their node and stay after it. Such pods wait aside, on a ghost, and count for
nothing until the node is there.

Mirrors pkg/scheduler/backend/cache. Differs: where upstream finds itself corrupted and exits the
process (a pod that was bound turns up on another node), this logs the same line and takes the API's
word; a node of which an update comes first, or a second add, is simply stored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from kscheduler import caches, logs
from kscheduler.api.core import Node
from kscheduler.api.resource_names import PODS
from kscheduler.errors import KschedulerError
from kscheduler.gotext.strconv import quote
from kscheduler.state.foreign_binds import ForeignBinds
from kscheduler.state.host_ports import any_ports_conflict
from kscheduler.state.nodes import NodeTable, zone_key
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.occupancy import LiveOccupancy, take_out
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__)


class CacheError(KschedulerError):
    """A step the pod's state does not allow; the wording is upstream's."""


class Contents(NamedTuple):
    """Nodes, and pods on them or on nodes that are not there; assumed pods included."""

    nodes: list[Node]
    pods: list[PodInfo]


class Cache:
    def __init__(self, *, logged: bool = True) -> None:
        """`logged`: whether nodes that come and go are news; for a copy they are not."""
        self._table = NodeTable(logged=logged)
        self._occupancy = LiveOccupancy(self._table.resources, self._table.changed_rows)
        self._pods: dict[str, PodInfo] = {}
        self._assumed: set[str] = set()
        # Pods by the name of a node that is not there.
        self._ghosts: dict[str, list[PodInfo]] = {}
        self.foreign_binds = ForeignBinds()
        self._snapshot = Nodes(self._table, self._occupancy)
        self._shape = self._table.resources.shape

    def snapshot(self) -> Nodes:
        """All rows as they are now; good until the next change."""
        if self._shape != self._table.resources.shape:
            self._shape = self._table.resources.shape
            self._snapshot = Nodes(self._table, self._occupancy)
        self._table.settle_order()
        return self._snapshot

    def assume(self, pod: PodInfo) -> None:
        """Puts a pod where it was decided to go, before the API server knows."""
        self._check_uid(pod)
        if pod.uid in self._pods:
            raise CacheError(f"pod {_told(pod)} is in the cache, so can't be assumed")
        self._enter(pod)
        self._assumed.add(pod.uid)

    def forget(self, pod: PodInfo) -> None:
        """Takes an assumption back; one that is gone already is no error."""
        self._check_uid(pod)
        known = self._pods.get(pod.uid)
        if known is None:
            return
        if known.node_name != pod.node_name:
            where = f"was assumed on {pod.node_name} but assigned to {known.node_name}"
            raise CacheError(f"pod {_told(pod)} {where}")
        if pod.uid not in self._assumed:
            raise CacheError(
                f"pod {_told(pod)} is not assumed, so it cannot be removed or forgotten"
            )
        self._leave(known)

    def add_pod(self, pod: PodInfo) -> bool:
        """A bound pod the API server told of; it confirms an assumption, or overrules it.

        Returns whether it was assumed on that node.
        """
        self._check_uid(pod)
        known = self._pods.get(pod.uid)
        if known is None:
            self._enter(pod)
            return False
        if pod.uid in self._assumed:
            self._leave(known)
            self._enter(pod)
            if known.node_name != pod.node_name:
                log.info(
                    "Pod was added to a different node than it was assumed", **_both(known, pod)
                )
            return known.node_name == pod.node_name
        raise CacheError(f"pod {_told(pod)} was already in added state")

    def update_pod(self, old: PodInfo, new: PodInfo) -> None:
        self._check_uid(old)
        known = self._pods.get(old.uid)
        if known is None:
            where = "is not added to scheduler cache, so cannot be updated"
            raise CacheError(f"pod {_told(old)} {where}")
        if old.uid in self._assumed:
            raise CacheError(f"assumed pod {_told(old)} should not be updated")
        if known.node_name != new.node_name:
            log.unhandled(None, UPDATED_ELSEWHERE, podKey=old.uid, pod=logs.ref(old.pod))
        self._leave(known)
        self._enter(new)

    def remove_pod(self, pod: PodInfo) -> None:
        self._check_uid(pod)
        known = self._pods.get(pod.uid)
        if known is None:
            where = "is not found in scheduler cache, so cannot be removed from it"
            raise CacheError(f"pod {_told(pod)} {where}")
        if known.node_name != pod.node_name:
            log.unhandled(
                None, "Pod was added to a different node than it was assumed", **_both(known, pod)
            )
            # A missed deletion tells the last state known, which may be that of an unbound pod.
            if pod.node_name:
                log.unhandled(None, CORRUPTED)
        self._leave(known)

    def get_pod(self, pod: PodInfo) -> PodInfo:
        """The cached version of the pod; its node may be gone."""
        self._check_uid(pod)
        known = self._pods.get(pod.uid)
        if known is None:
            raise CacheError(f"pod {_told(pod)} does not exist in scheduler cache")
        return known

    def is_assumed(self, pod: PodInfo) -> bool:
        self._check_uid(pod)
        return pod.uid in self._assumed

    def confirmed_node(self, pod: PodInfo) -> str:
        """The node on which the API server says that the pod is; "" if it says nothing of it."""
        known = self._pods.get(pod.uid)
        return "" if known is None or pod.uid in self._assumed else known.node_name

    def shortages(self, pod: PodInfo) -> Iterator[str]:
        """Resources, or `pods`, of which the pod's node has too little for all pods there, among
        those that this pod asks for. Costs as much as it asks for.

        A kubelet's rule: it lets pass what its node has nothing of and devices may serve.
        """
        row = self._table.row_of(pod.node_name)
        if row is None:
            return
        if self._occupancy.pod_count.cells[row] > self._table.max_pods.cells[row]:
            yield PODS
        resources = self._table.resources
        for name, amount in pod.requests.items():
            column = resources.columns.get(name)
            if amount > 0 and column is not None:
                capacity = resources.allocatable.cells[column, row]
                if resources.requested.cells[column, row] > capacity and (
                    capacity or "/" not in name
                ):
                    yield name

    def has_port_conflict(self, pod: PodInfo) -> bool:
        """Whether another pod on its node has one of its host ports; takes a look at all of them.

        The node's own table of ports cannot tell: the pod's are in it.
        """
        row = self._table.row_of(pod.node_name)
        if row is None or not pod.host_ports:
            return False
        others = (other for other in self._occupancy.pods(row) if other.uid != pod.uid)
        taken = (port for other in others for port in other.host_ports)
        return any_ports_conflict(pod.host_ports, taken)

    def add_node(self, node: Node) -> None:
        """Stores the node; pods that waited for it are on it from now on."""
        row = self._table.put(node)
        self._occupancy.resize(len(self._table))
        for pod in self._ghosts.pop(node.name, ()):
            self._occupancy.add(pod, row)

    def update_node(self, node: Node) -> None:
        """Stores the node's new version, even if there was none before."""
        self.add_node(node)

    def remove_node(self, node: Node) -> None:
        """Drops the node; its pods are told of one by one, later, and wait aside until then."""
        name = node.name
        row = self._table.row_of(name)
        if row is None:
            if name in self._ghosts:
                group = quote(zone_key(node.metadata.labels))
                raise CacheError(f"node {quote(name)} in group {group} was not found")
            raise CacheError(f"node {name} is not found")
        pods = list(self._occupancy.pods(row))
        # From the end, where taking one out does not have to look for it.
        for pod in reversed(pods):
            self._occupancy.remove(pod, row)
        if pods:
            self._ghosts[name] = pods
        self._table.remove(name)
        self._occupancy.resize(len(self._table))
        self.foreign_binds.forget_node(name)

    def has_node(self, name: str) -> bool:
        """Whether the node is there; ghosts are not."""
        return self._table.row_of(name) is not None

    @property
    def caches(self) -> Sequence[caches.Cache]:
        """Answers about nodes, and about the pods on them, that are remembered."""
        return *self._table.caches, *self._occupancy.index.caches

    @property
    def node_count(self) -> int:
        """Nodes, ghosts included."""
        return self._table.total + len(self._ghosts)

    @property
    def pod_count(self) -> int:
        return len(self._pods)

    @property
    def assumed_pod_count(self) -> int:
        return len(self._assumed)

    @property
    def node_names(self) -> Collection[str]:
        """Ghosts included."""
        return [*filter(None, self._table.names), *self._ghosts]

    @property
    def pods(self) -> Collection[PodInfo]:
        return self._pods.values()

    def contents(self) -> Contents:
        """All nodes and pods, as references that stay good whatever changes later.

        Takes about a millisecond at 5,000 nodes and 50,000 pods. A cache that is filled in this
        order tries nodes in the same order as this one, and has the pods of each node in the same
        order: of equally important ones, preemption evicts the last.
        """
        nodes, rows = self._table.nodes, list(self._table.rows_by_zone)
        pods = list(chain.from_iterable(map(self._occupancy.pods, rows)))
        pods += chain.from_iterable(self._ghosts.values())
        return Contents([nodes[row] for row in rows], pods)

    @property
    def ghosts(self) -> dict[str, list[PodInfo]]:
        return self._ghosts

    def _enter(self, pod: PodInfo) -> None:
        self._pods[pod.uid] = pod
        row = self._table.row_of(pod.node_name)
        if row is None:
            self._ghosts.setdefault(pod.node_name, []).append(pod)
        else:
            self._occupancy.add(pod, row)

    def _leave(self, pod: PodInfo) -> None:
        del self._pods[pod.uid]
        self._assumed.discard(pod.uid)
        row = self._table.row_of(pod.node_name)
        if row is not None:
            self._occupancy.remove(pod, row)
            return
        ghost = self._ghosts[pod.node_name]
        take_out(ghost, pod)
        if not ghost:
            del self._ghosts[pod.node_name]

    @staticmethod
    def _check_uid(pod: PodInfo) -> None:
        if not pod.uid:
            raise CacheError("cannot get cache key for pod with empty UID")


UPDATED_ELSEWHERE = (
    "Pod updated on a different node than previously added to. "
    "Scheduler cache is corrupted and can badly affect scheduling decisions"
)
CORRUPTED = "Scheduler cache is corrupted and can badly affect scheduling decisions"


def _told(pod: PodInfo) -> str:
    return f"{pod.uid}({pod.key})"


def _both(known: PodInfo, told: PodInfo) -> dict[str, object]:
    """Both nodes under the keys upstream logs them by; it calls the new one the assumed one."""
    return {
        "podKey": told.uid,
        "pod": logs.ref(told.pod),
        "assumedNode": told.node_name,
        "currentNode": known.node_name,
    }
