"""The cluster as the page needs it: read from a Source when somebody looks, and kept for a moment.

    Source ──▶ Fresh (one reading for all who ask within seconds) ──▶ views, feed

A user with rights in one namespace is shown that one: lists of all namespaces are tried first.
What is read is bounded, and says so where it is cut.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from kscheduler.api.amounts import BYTE_UNITS
from kscheduler.api.explanation import (
    DECISIONS,
    NODE_INFOS,
    PENDING_PODS,
    SCHEDULER_STATUSES,
    Decision,
    NodeInfo,
    PendingPod,
    PlacementReview,
    PlacementReviewStatus,
    SchedulerStatus,
)
from kscheduler.api.meta import ApiStruct, ListMeta
from kscheduler.api.resource_names import CPU, MEMORY, PODS
from kscheduler.api.resources import PODS as POD_RESOURCE
from kscheduler.api.resources import Resource
from kscheduler.ui.source import Lost, Refused, Source, Trouble

T = TypeVar("T")

BYTES = dict(BYTE_UNITS)
PAGE = 500
# More waiting pods than these are counted, not read.
MAX_PENDING = 5_000
MAX_DECISIONS = 10_000
# Seconds for which a reading is good.
STATUS_SECONDS = 1.0
LIST_SECONDS = 2.0
REVIEW_SECONDS = 10.0
# Of one change of nodes; where more differ, all are read anew.
MAX_CHANGED_NODES = 5_000
# Lists are as long as the cluster is large: they are read again after so many times the seconds
# that reading them took, but soon enough for somebody who watches.
REST = 5.0
LONGEST_REST_SECONDS = 15.0

FIRST_RESOURCES = (CPU, MEMORY, PODS)


class BriefAttempt(ApiStruct):
    time: str = ""
    duration_seconds: float = 0.0


class Brief(ApiStruct):
    """A decision without its parts: enough for a line of the stream."""

    metadata: Any = None
    summary: str = ""
    outcome: str = ""
    node: str = ""
    attempts: int = 0
    last: BriefAttempt = BriefAttempt()

    @property
    def key(self) -> str:
        return f"{self.metadata['namespace']}/{self.metadata['name']}"

    @property
    def uid(self) -> str:
        return self.metadata.get("uid", "")

    @property
    def version(self) -> str:
        return self.metadata.get("resourceVersion", "")


class NodeColumns(msgspec.Struct):
    """Nodes in columns; amounts of cpu are in cores, of memory in bytes.

    `serial` counts the readings that differed from the one before. In a what-if, nodes from index
    `first_added` on would be added, and those that are `removed` are in no group.
    """

    names: list[str]
    labels: list[Mapping[str, str]]
    resources: tuple[str, ...]
    allocatable: dict[str, list[float]]
    requested: dict[str, list[float]]
    cordoned: list[bool]
    tainted: list[bool]
    serial: int = 0
    first_added: int | None = None
    removed: frozenset[int] = frozenset()

    @property
    def added(self) -> range:
        """Indexes of nodes that would be added."""
        count = len(self.names)
        return range(count if self.first_added is None else self.first_added, count)

    def used(self, resource: str, index: int) -> float | None:
        """The share that is taken, in percent; None where there is nothing to take."""
        offered = self.allocatable[resource][index]
        return 100.0 * self.requested[resource][index] / offered if offered > 0 else None

    def usual_node(self) -> str:
        """A node of the shape that most nodes have, open to all pods if there is such a one; empty
        if there are no nodes.
        """
        shapes = list(zip(*self.allocatable.values(), strict=True))
        if not shapes:
            return ""
        ((usual, _),) = Counter(shapes).most_common(1)
        alike = [index for index, shape in enumerate(shapes) if shape == usual]
        best = min(alike, key=lambda index: (self.cordoned[index], self.tainted[index]))
        return self.names[best]

    def label_keys(self) -> list[str]:
        """Keys worth grouping by: topology first, and none that tells every node apart."""
        values: dict[str, set[str]] = {}
        for labels in self.labels:
            for key, value in labels.items():
                values.setdefault(key, set()).add(value)
        most = max(2, len(self.names) // 2)
        keys = [key for key, found in values.items() if len(found) <= most]
        return sorted(keys, key=lambda key: (not key.startswith("topology."), key))

    def groups(self, key: str) -> dict[str, list[int]]:
        """Indexes of nodes by the value of a label; nodes without it come last."""
        found: dict[str, list[int]] = {}
        for index, labels in enumerate(self.labels):
            if index not in self.removed:
                found.setdefault(labels.get(key, ""), []).append(index)
        return dict(sorted(found.items(), key=lambda item: (not item[0], item[0])))


class NodeChange(msgspec.Struct):
    """Difference between a reading of the nodes and the one before it.

    `requested` has the amounts of changed nodes by index, a number per resource; None if so much
    is different that all nodes have to be read.
    """

    serial: int
    resources: tuple[str, ...]
    requested: dict[int, list[float]] | None


class Pending(msgspec.Struct):
    """Pods that wait, as far as they were read; `namespace` is empty where all are seen."""

    pods: Sequence[PendingPod]
    is_cut: bool
    namespace: str = ""


class Fresh(Generic[T]):
    """A reading that is shared by all who ask within some seconds, failures included."""

    def __init__(self, read: Callable[[], Awaitable[T]], seconds: float, rest: float = 0.0) -> None:
        self._read = read
        self._seconds = seconds
        self._rest = rest
        self._until = 0.0
        self._reading: asyncio.Task[T] | None = None
        # When the last reading was begun, in monotonic seconds.
        self.begun = 0.0

    async def get(self) -> T:
        task = self._reading
        if task is None or (task.done() and time.monotonic() >= self._until):
            task = self._reading = asyncio.create_task(self._take())
        return await asyncio.shield(task)

    async def _take(self) -> T:
        self.begun = time.monotonic()
        try:
            return await self._read()
        finally:
            now = time.monotonic()
            rest = min(self._rest * (now - self.begun), LONGEST_REST_SECONDS)
            self._until = now + max(self._seconds, rest)


class Cluster:
    """Cluster as views ask for it; every method may raise Trouble."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._status = Fresh(self._read_status, STATUS_SECONDS)
        self._nodes = Fresh(self._read_nodes, LIST_SECONDS, REST)
        self._pending = Fresh(self._read_pending, LIST_SECONDS, REST)
        self._review_turn = asyncio.Lock()
        self._reviews: OrderedDict[tuple[str, bytes], tuple[float, PlacementReviewStatus]]
        self._reviews = OrderedDict()
        self._columns: NodeColumns | None = None
        # Called with every change of the nodes, in order.
        self.on_nodes: Callable[[NodeChange], None] = lambda _: None

    @property
    def nodes_read_at(self) -> float:
        """When the latest reading of the nodes was begun, in monotonic seconds."""
        return self._nodes.begun

    @property
    def nodes_serial(self) -> int:
        return 0 if self._columns is None else self._columns.serial

    async def statuses(self) -> Sequence[SchedulerStatus]:
        return await self._status.get()

    async def nodes(self) -> NodeColumns:
        return await self._nodes.get()

    async def pending(self) -> Pending:
        return await self._pending.get()

    async def decision(self, namespace: str, name: str) -> Decision:
        return _decode(Decision, await self.source.get(DECISIONS, name, namespace))

    async def pending_pod(self, namespace: str, name: str) -> PendingPod:
        return _decode(PendingPod, await self.source.get(PENDING_PODS, name, namespace))

    async def node(self, name: str) -> NodeInfo:
        return _decode(NodeInfo, await self.source.get(NODE_INFOS, name))

    async def pod(self, namespace: str, name: str) -> dict[str, Any]:
        """The pod as the API server has it."""
        return _decode(dict[str, Any], await self.source.get(POD_RESOURCE, name, namespace))

    async def pods_on(self, node: str) -> list[dict[str, Any]]:
        """Pods of one node, of all namespaces or of the user's own."""
        query = {"fieldSelector": f"spec.nodeName={node}"}
        answer, _ = await self._scoped(POD_RESOURCE, query)
        found: list[dict[str, Any]] = _decode(dict[str, Any], answer)["items"]
        return found

    async def review(self, review: PlacementReview, namespace: str) -> PlacementReviewStatus:
        """The answer to a review; the same question is not asked again within seconds, and
        questions are asked one after the other, as the scheduler wants it.
        """
        key = (namespace, msgspec.json.encode(review.spec))
        async with self._review_turn:
            now = time.monotonic()
            while self._reviews and next(iter(self._reviews.values()))[0] < now - REVIEW_SECONDS:
                self._reviews.popitem(last=False)
            if key not in self._reviews:
                answer = await self.source.review(review, namespace)
                self._reviews[key] = now, answer.status
            return self._reviews[key][1]

    async def decisions(
        self, query: Mapping[str, str], most: int = MAX_DECISIONS
    ) -> Sequence[Decision]:
        """Whole decisions that a query selects."""
        return (await self._all(DECISIONS, Decision, most, query))[0]

    async def briefs(self) -> tuple[Sequence[Brief], str, str]:
        """All decisions in brief, the version of the list, and the namespace it is of."""
        found, _, namespace, version = await self._all(DECISIONS, Brief, MAX_DECISIONS, {})
        return found, version, namespace

    async def _read_status(self) -> Sequence[SchedulerStatus]:
        answer = await self.source.list(SCHEDULER_STATUSES)
        found = _decode(_list_of(SchedulerStatus), answer).items
        return sorted(found, key=lambda one: (not one.leader, one.name))

    async def _read_nodes(self) -> NodeColumns:
        # In one piece: the scheduler sends it in slices, and would sort all nodes for each page.
        infos = _decode(_list_of(NodeInfo), await self.source.list(NODE_INFOS)).items
        # 15,000 nodes take some tenths of a second, which others need not wait for.
        before = self._columns
        after = await asyncio.to_thread(columns_of, infos)
        change = None if before is None else await asyncio.to_thread(difference, before, after)
        if before is not None and change is None:
            return before
        self._columns = after
        if change is not None:
            after.serial = change.serial
            self.on_nodes(change)
        return after

    async def _read_pending(self) -> Pending:
        pods, is_cut, namespace, _ = await self._all(PENDING_PODS, PendingPod, MAX_PENDING, {})
        return Pending(pods, is_cut, namespace)

    async def _all(
        self, resource: Resource, kind: type[T], most: int, query: Mapping[str, str]
    ) -> tuple[list[T], bool, str, str]:
        """Items of all pages; whether there were more; the namespace; the version."""
        found: list[T] = []
        query = {**query, "limit": str(PAGE)}
        namespace: str | None = None
        while True:
            if namespace is None:
                answer, namespace = await self._scoped(resource, query)
            else:
                answer = await self.source.list(resource, namespace, query)
            page = _decode(_list_of(kind), answer)
            found += page.items
            token = page.metadata.continue_
            if not token or len(found) >= most:
                return found, bool(token), namespace, page.metadata.resource_version
            query["continue"] = token

    async def _scoped(self, resource: Resource, query: Mapping[str, str]) -> tuple[bytes, str]:
        """A list of all namespaces, or of the user's own if that is all it may see."""
        try:
            return await self.source.list(resource, "", query), ""
        except Refused:
            if not resource.namespaced or not self.source.namespace:
                raise
        namespace = self.source.namespace
        return await self.source.list(resource, namespace, query), namespace


class _ListOf(ApiStruct, Generic[T]):
    metadata: ListMeta = ListMeta()
    items: tuple[T, ...] = ()


def _list_of(kind: type[T]) -> type[_ListOf[T]]:
    return _ListOf[kind]  # type: ignore[valid-type]


def _decode(kind: type[T], answer: bytes) -> T:
    try:
        return msgspec.json.decode(answer, type=kind)
    except msgspec.DecodeError as error:
        raise Lost(f"The answer cannot be read: {error}.") from error


def columns_of(infos: Sequence[NodeInfo]) -> NodeColumns:
    """Columns of nodes, in the order of their names as people count: node-2 before node-10."""
    infos = sorted(infos, key=lambda one: natural(one.name))
    resources = dict.fromkeys(FIRST_RESOURCES)
    for one in infos:
        resources.update(dict.fromkeys(one.allocatable))
    names = tuple(resources)
    allocatable: dict[str, list[float]] = {name: [] for name in names}
    requested: dict[str, list[float]] = {name: [] for name in names}
    for one in infos:
        for name in names:
            allocatable[name].append(number(one.allocatable.get(name, "0")))
            taken = str(one.pods) if name == PODS else one.requested.get(name, "0")
            requested[name].append(number(taken))
    return NodeColumns(
        names=[one.name for one in infos],
        labels=[one.metadata.labels for one in infos],
        resources=names,
        allocatable=allocatable,
        requested=requested,
        cordoned=[one.unschedulable for one in infos],
        tainted=[bool(one.taints) for one in infos],
    )


def difference(before: NodeColumns, after: NodeColumns) -> NodeChange | None:
    """The change from one reading to the next; None if there is none."""
    change = NodeChange(before.serial + 1, after.resources, None)
    if any(
        getattr(before, name) != getattr(after, name)
        for name in ("names", "resources", "labels", "allocatable", "cordoned", "tainted")
    ):
        return change
    columns = [(before.requested[name], after.requested[name]) for name in after.resources]
    changed = {
        index
        for old, new in columns
        for index, (a, b) in enumerate(zip(old, new, strict=True))
        if a != b
    }
    if not changed:
        return None
    if len(changed) <= MAX_CHANGED_NODES:
        change.requested = {index: [new[index] for _, new in columns] for index in sorted(changed)}
    return change


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts numbers in names by value."""
    parts = re.findall(r"\d+|\D+", name, re.ASCII)
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts)


def number(quantity: str) -> float:
    """A quantity as node infos have it (`api.amounts.exact`)."""
    if quantity.endswith("m"):
        return int(quantity[:-1]) / 1000
    if quantity.endswith("i"):
        return float(int(quantity[:-2]) * BYTES[quantity[-2:]])
    return float(quantity)


__all__ = ["Brief", "Cluster", "NodeColumns", "Pending", "Trouble", "natural", "number"]
