"""The scheduler's state as the board shows it: read when it is drawn, and only what is in sight.

Handlers keep what cannot be read later: the latest decisions, the pods that wait, the victims of
the last seconds. `version` changes with anything that could be seen, so that a board that nothing
happened to costs a comparison.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import msgspec
import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from kscheduler.api.core import Node, Pod
from kscheduler.api.resource import ResourceClaim, ResourceSlice
from kscheduler.app.scheduler import Scheduler
from kscheduler.cli.board.sentences import decision_line, pod_name, refusal
from kscheduler.decisions.decision_log import Entry
from kscheduler.decisions.record import Record
from kscheduler.queue.sub_queues import QueueName
from kscheduler.sandbox.kubelets.kubelet import KUBELET_ANNOTATION
from kscheduler.state.nodes_view import Nodes
from kscheduler.ui.cluster import natural

ZONE = "topology.kubernetes.io/zone"
# Decisions that can be scrolled to, and waiting pods that are listed.
MAX_DECISIONS = 200
MAX_WAITING = 1000
# Seconds for which victims are drawn, struck through, on the node they had to leave.
EVICTION_SECONDS = 6.0
# Beyond this many slices and claims, looking at all of them for each change costs too much.
COUNTED_OBJECTS = 2000
# Pods of a node that are looked at to say which workloads it has.
MAX_PODS_NAMED = 250
_NOT_READY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_QUEUE_WORDS = {
    QueueName.ACTIVE: "next in turn",
    QueueName.BACKOFF: "backing off",
    QueueName.UNSCHEDULABLE: "unschedulable",
}


class Zone(msgspec.Struct, frozen=True):
    """Nodes of a zone; `rows` are theirs in the scheduler's columns, as people count them."""

    name: str
    rows: NDArray[np.intp]


class Usage(msgspec.Struct, frozen=True):
    """Shares of what is there that pods have asked for, from 0 to 1."""

    cpu: float
    memory: float


class Eviction(msgspec.Struct, frozen=True):
    """Pods that have just had to leave a node, and the pod they made room for."""

    victims: tuple[str, ...]
    preemptor: str
    until: float


class NodeFacts(msgspec.Struct, frozen=True):
    """A line's worth of a node."""

    name: str
    usage: Usage
    pods: int
    # "", or what is wrong with it: "kubelet stopped", "NotReady", "cordoned".
    state: str = ""
    # "allocated/there", with example or real drivers; empty without devices.
    devices: str = ""
    # Names of workloads, with how many pods of theirs are on it.
    workloads: tuple[tuple[str, int], ...] = ()
    eviction: Eviction | None = None


class Decided:
    """A decision and its line, which is written when it is first seen."""

    __slots__ = ("_lines", "key", "pod", "record")

    def __init__(self, entry: Entry) -> None:
        self.key = f"{entry.namespace}/{entry.name}"
        self.pod = pod_name(entry.namespace, entry.name)
        self.record: Record = entry.last
        self._lines: dict[bool, Text] = {}

    def line(self, columns: int) -> Text:
        """All there is to say, or less where that is too long."""
        line = self._written(brief=False)
        return line if line.cell_len <= columns else self._written(brief=True)

    def _written(self, *, brief: bool) -> Text:
        if brief not in self._lines:
            self._lines[brief] = decision_line(self.pod, self.record, brief=brief)
        return self._lines[brief]


class NodeDevices(msgspec.Struct):
    """Devices of one node; partitions of a device count as devices."""

    total: int = 0
    allocated: set[str] = msgspec.field(default_factory=set)


def devices_by_node(scheduler: Scheduler) -> dict[str, NodeDevices]:
    """Devices that belong to one node each; none when there are too many to look at."""
    informers = scheduler.informers
    slices = list(informers.lister(ResourceSlice).items())
    claims = list(informers.lister(ResourceClaim).items())
    if not slices or len(slices) + len(claims) > COUNTED_OBJECTS:
        return {}
    found: dict[str, NodeDevices] = {}
    node_of: dict[tuple[str, str], str] = {}  # by driver and pool
    for one in slices:
        if node := one.spec.node_name:
            node_of[one.spec.driver, one.spec.pool.name] = node
            found.setdefault(node, NodeDevices()).total += len(one.spec.devices)
    for claim in claims:
        allocation = claim.status.allocation
        for result in allocation.devices.results if allocation is not None else ():
            if node := node_of.get((result.driver, result.pool), ""):
                found[node].allocated.add(result.device)
    return found


class _Changes:
    """A handler that counts, for kinds of which only that they changed matters."""

    def __init__(self) -> None:
        self.count = 0

    def on_add(self, item: object, *, is_initial: bool) -> None:
        self.count += 1

    def on_update(self, old: object, new: object) -> None:
        self.count += 1

    def on_delete(self, item: object, *, final_state_unknown: bool) -> None:
        self.count += 1


class Cluster:
    """Nodes, queue, decisions and waiting pods of one scheduler."""

    def __init__(
        self, scheduler: Scheduler, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.scheduler = scheduler
        self._clock = clock
        self._decided: deque[Decided] = deque(maxlen=MAX_DECISIONS)
        self._waiting: dict[str, Pod] = {}
        self._pod_changes = 0
        self._evictions: dict[str, Eviction] = {}
        self._zones: tuple[object, list[Zone], list[int], dict[str, int]] = (None, [], [], {})
        self._devices: tuple[int, dict[str, NodeDevices]] = (-1, {})
        self._device_changes = _Changes()
        scheduler.informers.pods.add_handler(self)
        for kind in (ResourceSlice, ResourceClaim):
            # A lister of a kind that is not watched has no handlers.
            if add_handler := getattr(scheduler.informers.lister(kind), "add_handler", None):
                add_handler(self._device_changes)
        if scheduler.decisions is not None:
            scheduler.decisions.watch(self._on_decision)

    @property
    def version(self) -> tuple[object, ...]:
        """Another value after any change of what can be seen."""
        scheduler = self.scheduler
        if self._evictions:
            now = self._clock()
            gone = [node for node, one in self._evictions.items() if one.until <= now]
            for node in gone:
                del self._evictions[node]
        return (
            scheduler.cache.snapshot().generation,
            scheduler.decisions.version if scheduler.decisions is not None else 0,
            *scheduler.queue.sizes().values(),
            len(scheduler.queue.in_flight),
            self._pod_changes,
            self._device_changes.count,
            len(self._evictions),
        )

    def on_add(self, item: Pod, *, is_initial: bool) -> None:
        self._pod_changes += 1
        if not item.spec.node_name:
            self._waiting[item.key] = item

    def on_update(self, old: Pod, new: Pod) -> None:
        self._pod_changes += 1
        if new.spec.node_name:
            self._waiting.pop(new.key, None)
        else:
            self._waiting[new.key] = new

    def on_delete(self, item: Pod, *, final_state_unknown: bool) -> None:
        self._pod_changes += 1
        self._waiting.pop(item.key, None)

    def _on_decision(self, kind: str, entry: Entry) -> None:
        if kind == "DELETED":
            return
        decided = Decided(entry)
        self._decided.appendleft(decided)
        record = decided.record
        if record.victims and record.nominated_node:
            victims = tuple(pod_name(one.namespace, one.name) for one in record.victims)
            until = self._clock() + EVICTION_SECONDS
            self._evictions[record.nominated_node] = Eviction(victims, decided.pod, until)

    # Nodes.

    @property
    def nodes(self) -> Nodes:
        return self.scheduler.cache.snapshot()

    def zones(self) -> list[Zone]:
        """Zones by name, nodes without one last; sorted again when nodes or labels change."""
        return self._grouped()[0]

    def node_rows(self) -> list[int]:
        """Rows of all nodes, zone by zone."""
        return self._grouped()[1]

    def place_of(self, node: str) -> int | None:
        """Where the node is in `node_rows`."""
        return self._grouped()[2].get(node)

    def _grouped(self) -> tuple[list[Zone], list[int], dict[str, int]]:
        nodes = self.nodes
        # The order is another array when nodes come or go.
        key = (nodes.label_generation, id(nodes.order), nodes.total)
        if self._zones[0] != key:
            by_zone: dict[str, list[int]] = {}
            for row in sorted(nodes.order.tolist(), key=lambda row: natural(nodes.name_of(row))):
                zone = nodes.node(row).metadata.labels.get(ZONE, "")
                by_zone.setdefault(zone, []).append(row)
            names = sorted(by_zone, key=lambda name: (not name, natural(name)))
            zones = [Zone(name, np.array(by_zone[name], np.intp)) for name in names]
            rows = [row for name in names for row in by_zone[name]]
            places = {nodes.name_of(row): place for place, row in enumerate(rows)}
            self._zones = key, zones, rows, places
        return self._zones[1:]

    def usage(self, rows: NDArray[np.intp]) -> Usage:
        """Of some nodes together."""
        nodes = self.nodes
        # Columns 0 and 1 are CPU and memory: [2].
        asked = nodes.requested[rows, :2].sum(axis=0)
        there = np.maximum(nodes.allocatable[rows, :2].sum(axis=0), 1)
        return Usage(float(asked[0] / there[0]), float(asked[1] / there[1]))

    def strip(self, rows: NDArray[np.intp], cells: int) -> list[float]:
        """Shares of CPU of many nodes in few cells, each the mean of some neighbours."""
        nodes, cells = self.nodes, min(cells, len(rows))
        if not cells:
            return []
        shares = nodes.requested[rows, 0] / np.maximum(nodes.allocatable[rows, 0], 1)
        starts = np.arange(cells) * len(rows) // cells
        sizes = np.diff(np.append(starts, len(rows)))
        return [float(one) for one in np.add.reduceat(shares, starts) / sizes]

    def facts(self, row: int) -> NodeFacts:
        nodes = self.nodes
        node = nodes.node(row)
        devices = self.devices().get(node.name)
        workloads = Counter(_workload(one.pod) for one in islice(nodes.pods(row), MAX_PODS_NAMED))
        return NodeFacts(
            name=node.name,
            usage=self.usage(np.array([row])),
            pods=int(nodes.pod_count[row]),
            state=state_of(node),
            devices=f"{len(devices.allocated)}/{devices.total}" if devices else "",
            workloads=tuple(sorted(workloads.items())),
            eviction=self._evictions.get(node.name),
        )

    def devices(self) -> dict[str, NodeDevices]:
        if self._devices[0] != self._device_changes.count:
            self._devices = self._device_changes.count, devices_by_node(self.scheduler)
        return self._devices[1]

    # Pods.

    @property
    def decided(self) -> Sequence[Decided]:
        """The latest decisions, the last one first."""
        return self._decided

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def waiting_keys(self) -> list[str]:
        """Pods that wait, those that came last first, as far as they are listed."""
        return list(islice(reversed(self._waiting), MAX_WAITING))

    def why_waiting(self, key: str) -> tuple[str, str]:
        """Where a pod waits, in a word or two, and why, in a line."""
        pod, scheduler = self._waiting.get(key), self.scheduler
        if pod is None:
            return "", ""
        if pod.spec.scheduler_name not in scheduler.frameworks:
            return "not ours", f"nobody answers to schedulerName {pod.spec.scheduler_name}"
        queued = scheduler.queue.get(key)
        place = scheduler.queue.queue_of(key)
        where = "being tried" if place is None else _QUEUE_WORDS[place]
        if queued is not None and queued.gated:
            gates = ", ".join(one.name for one in pod.spec.scheduling_gates)
            return "gated", f"held back by {gates or queued.gating_plugin}"
        entry = None
        if scheduler.decisions is not None:
            entry = scheduler.decisions.get(pod.namespace, pod.name)
        if entry is not None and entry.uid == pod.uid:
            if entry.last.victims:
                return where, f"room is being made for it on {entry.last.nominated_node}"
            return where, refusal(entry.last)
        condition = pod.condition("PodScheduled")
        return where, (condition.message if condition is not None else "") or "not tried yet"

    def queue_sizes(self) -> Iterator[tuple[str, int]]:
        """How many pods wait, by state, in the order in which they are nearer to a node."""
        sizes = self.scheduler.queue.sizes()
        yield "being tried", len(self.scheduler.queue.in_flight)
        yield "active", sizes["active"]
        yield "backing off", sizes["backoff"]
        yield "unschedulable", sizes["unschedulable"]
        yield "gated", sizes["gated"]


def state_of(node: Node) -> str:
    """Reasons that keep pods away from a node; empty if it is well."""
    states = []
    if any(taint.key in _NOT_READY for taint in node.spec.taints):
        states.append("NotReady")
    elif node.metadata.annotations.get(KUBELET_ANNOTATION) == "stopped":
        states.append("kubelet stopped")
    if node.spec.unschedulable:
        states.append("cordoned")
    return ", ".join(states)


def _workload(pod: Pod) -> str:
    """The name of what the pod belongs to: its app, or its owner, or itself."""
    labels, owner = pod.metadata.labels, pod.metadata.controller
    named = labels.get("app.kubernetes.io/name") or labels.get("app")
    return named or (owner.name if owner is not None else pod.metadata.name)
