"""Reading: one decision, pending pod or status, or a list of them.

Lists are in the order of their keys, so that a page can be continued. A page that is continued
shows the objects as they are then: nothing keeps the state of the moment of the first page.

Decisions in lists have no lists per node, unless `?detail=All` asks for them: 5,000 decisions at
5,000 nodes would be a gigabyte. A single decision is always whole.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
)
from functools import partial
from typing import Any

import msgspec

from kscheduler.api.core import Pod
from kscheduler.api.explanation import (
    Decision,
    NodeInfo,
    PendingPod,
    PlacementReview,
    SchedulerStatus,
)
from kscheduler.api.fields import FieldRequirement
from kscheduler.api.labels import EVERYTHING, Selector
from kscheduler.api.meta import ApiObject
from kscheduler.decisions.decision_log import DecisionLog, Entry
from kscheduler.decisions.explain import View, decision_of, victim_namespaces
from kscheduler.queue.pending import explain_pod, pending_pod, place_of, queued_pods
from kscheduler.queue.queued_pod_info import QueuedPodInfo
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.rest import status
from kscheduler.rest.lists import (
    Key,
    ListOptions,
    continue_token,
    list_metadata,
    parse_list_options,
    parse_selectors,
    parse_token,
)
from kscheduler.rest.status import StatusError
from kscheduler.serving.explanation.absence import absent_decision
from kscheduler.serving.explanation.resources import (
    DECISION,
    NODE_INFO,
    PENDING_POD,
    SCHEDULER_STATUS,
    Served,
)
from kscheduler.serving.explanation.responses import CLOSING, Form
from kscheduler.serving.explanation.rights import Asker
from kscheduler.slices import Slices
from kscheduler.state.node_infos import node_info
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

# Selectors are tried on every object.
MAX_SELECTOR_CHARACTERS = 4096
DETAILS = ("Summary", "All")


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the running scheduler that are explained; asked anew for every request, because
    after a lost lease another scheduler is there.
    """

    decisions: Callable[[], DecisionLog | None]
    queue: Callable[[], SchedulingQueue]
    is_assumed: Callable[[PodInfo], bool]
    nodes: Callable[[], Nodes]
    # By key, as informers know it.
    pod: Callable[[str], Pod | None]
    status: Callable[[], SchedulerStatus]
    # Takes a review, and by the keyword `node_names` whether its answer may name nodes.
    review: Callable[..., Awaitable[PlacementReview]]
    # Why this instance has nothing to tell, or None if it schedules.
    not_leading: Callable[[], str | None]


class Selection(msgspec.Struct, frozen=True):
    """The objects that a list or a watch is about; without a namespace, those of all."""

    namespace: str = ""
    labels: Selector = EVERYTHING
    fields: tuple[FieldRequirement, ...] = ()

    @property
    def selects(self) -> bool:
        return bool(self.fields) or self.labels is not EVERYTHING

    def matches(self, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
        if self.labels is not EVERYTHING and not self.labels.matches(labels):
            return False
        return all(one.matches(fields) for one in self.fields)

    def matches_entry(self, entry: Entry) -> bool:
        if self.namespace and entry.namespace != self.namespace:
            return False
        return not self.selects or self.matches(entry.labels, decision_fields(entry))


def decision_fields(entry: Entry) -> Mapping[str, str]:
    """Values that field selectors of decisions compare with."""
    last = entry.last
    return {
        "metadata.name": entry.name,
        "metadata.namespace": entry.namespace,
        "outcome": last.outcome,
        "node": decided_node(entry),
        "schedulerName": entry.profile,
    }


def decided_node(entry: Entry) -> str:
    return entry.last.node if entry.last.outcome == "Scheduled" else ""


class Listing(msgspec.Struct, frozen=True):
    """A list that is ready to be streamed."""

    pieces: AsyncGenerator[bytes, None]
    warnings: tuple[str, ...] = ()


class Reader:
    """Objects of the explanation API, as far as an asker may see them."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    # Decisions.

    def decision_log(self) -> DecisionLog:
        """404 where no decisions are kept, 503 where none are made."""
        self.check_leading()
        log = self._sources.decisions()
        if log is None:
            raise StatusError(
                404,
                "NotFound",
                "decisions are not kept: this scheduler runs with --decision-log-bytes=0; "
                "start it with a number of bytes, or without the flag",
                status.details(DECISION),
            )
        return log

    def check_leading(self) -> None:
        if why := self._sources.not_leading():
            raise StatusError(503, "ServiceUnavailable", why, {"retryAfterSeconds": 1})

    async def decision(self, asker: Asker, namespace: str, name: str) -> Decision:
        log = self.decision_log()
        await asker.need_pods(DECISION, namespace, name)
        entry = log.get(namespace, name)
        if entry is None:
            raise self._no_decision(log, namespace, name)
        return decision_of(entry, await self.view(asker, [entry], per_node=True))

    def _no_decision(self, log: DecisionLog, namespace: str, name: str) -> StatusError:
        queue = self._sources.queue()
        why = absent_decision(
            self._sources.pod(f"{namespace}/{name}"),
            pending_pod(queue, namespace, name, time.time(), is_assumed=self._sources.is_assumed),
            log,
            frozenset(self._sources.status().profiles),
        )
        missing = status.not_found(DECISION, name)
        return StatusError(404, missing.reason, f"{missing}: {why}", missing.details)

    async def decisions(
        self, asker: Asker, form: Form, namespace: str, query: Mapping[str, str]
    ) -> Listing:
        log = self.decision_log()
        options, selection = read_query(DECISION, namespace, query)
        per_node = wants_all(query) and form.needs_whole
        if namespace:
            await asker.need_pods(DECISION, namespace)
        entries = log.all(namespace or None)
        seen = await self._namespaces(asker, namespace, (one.namespace for one in entries))
        found = await _matching(entries, lambda one: _is_listed(one, selection, seen))
        version = _check_version(options, log.version)
        page, metadata = _page(found, lambda one: (one.namespace, one.name), options, version)
        view = await self.view(asker, page, per_node=per_node)
        items = (partial(decision_of, one, view) for one in page)
        left_out = {one.namespace for one in entries} - {*seen}
        return Listing(_pieces(form, metadata, items), _warnings(DECISION, left_out))

    async def view(self, asker: Asker, entries: Iterable[Entry], *, per_node: bool) -> View:
        """How much of these decisions the asker may see. A right to one pod by name is none to its
        neighbours, so the pods' own namespaces are looked up as well.
        """
        named: set[str] = set()
        for entry in entries:
            named |= victim_namespaces(entry)
        hidden = named - {*await asker.namespaces_seen(named)}
        return View(
            per_node=per_node,
            node_names=await asker.sees_nodes(),
            names_pods_of=lambda namespace: namespace not in hidden,
        )

    # Pending pods.

    async def pending_pod(self, asker: Asker, namespace: str, name: str) -> PendingPod:
        self.check_leading()
        await asker.need_pods(PENDING_POD, namespace, name)
        found = pending_pod(
            self._sources.queue(),
            namespace,
            name,
            time.time(),
            is_assumed=self._sources.is_assumed,
        )
        if found is None:
            raise self._not_pending(namespace, name)
        return found

    def _not_pending(self, namespace: str, name: str) -> StatusError:
        pod = self._sources.pod(f"{namespace}/{name}")
        if pod is None:
            why = "the scheduler knows no such pod"
        elif pod.spec.node_name:
            why = f"the pod is on {pod.spec.node_name}; `get decisions {name}` tells why"
        elif pod.spec.scheduler_name not in self._sources.status().profiles:
            why = f'it is not scheduled here but by the scheduler "{pod.spec.scheduler_name}"'
        else:
            why = "the pod has just left the queue: it is being bound, or was deleted"
        missing = status.not_found(PENDING_POD, name)
        return StatusError(404, missing.reason, f"{missing}: {why}", missing.details)

    async def pending_pods(
        self, asker: Asker, form: Form, namespace: str, query: Mapping[str, str]
    ) -> Listing:
        self.check_leading()
        options, selection = read_query(PENDING_POD, namespace, query)
        if namespace:
            await asker.need_pods(PENDING_POD, namespace)
        queue, is_assumed, now = self._sources.queue(), self._sources.is_assumed, time.time()
        queued = queued_pods(queue, namespace or None)
        seen = await self._namespaces(asker, namespace, (one.pod.namespace for one in queued))

        def is_listed(one: QueuedPodInfo) -> bool:
            if one.pod.namespace not in seen:
                return False
            if not selection.selects:
                return True
            metadata = one.pod.pod.metadata
            fields = {
                "metadata.name": metadata.name,
                "metadata.namespace": metadata.namespace,
                "queue": place_of(queue, one, is_assumed) or "",
                "schedulerName": one.profile,
            }
            return selection.matches(metadata.labels, fields)

        def explained(one: QueuedPodInfo) -> PendingPod | None:
            return explain_pod(queue, one, now, is_assumed)

        found = await _matching(queued, is_listed)
        # The queue has no history, so its versions are only good for telling later from earlier.
        version = _check_version(options, time.time_ns() // 1000)
        page, metadata = _page(
            found, lambda one: (one.pod.namespace, one.pod.name), options, version
        )
        left_out = {one.pod.namespace for one in queued} - {*seen}
        pieces = _pieces(form, metadata, (partial(explained, one) for one in page))
        return Listing(pieces, _warnings(PENDING_POD, left_out))

    # Nodes.

    async def node_info(self, asker: Asker, name: str) -> NodeInfo:
        self.check_leading()
        await self._need_nodes(asker, name)
        nodes = self._sources.nodes()
        row = nodes.row_of(name)
        if row is None:
            raise status.not_found(NODE_INFO, name)
        return node_info(nodes, row)

    async def node_infos(self, asker: Asker, form: Form, query: Mapping[str, str]) -> Listing:
        """Nodes of the moment, each told as it is when its turn comes; one that has gone by then is
        left out.
        """
        self.check_leading()
        options, selection = read_query(NODE_INFO, "", query)
        await self._need_nodes(asker)
        nodes = self._sources.nodes()
        found = [(nodes.names[row], row) for row in nodes.order.tolist()]
        if selection.selects:
            found = await _matching(found, lambda one: _selects_node(selection, nodes, one[1]))
        version = _check_version(options, nodes.generation)
        page, metadata = _page(found, lambda one: ("", one[0]), options, version)

        def told(name: str) -> NodeInfo | None:
            nodes = self._sources.nodes()
            row = nodes.row_of(name)
            return None if row is None else node_info(nodes, row)

        return Listing(_pieces(form, metadata, (partial(told, name) for name, _ in page)))

    async def _need_nodes(self, asker: Asker, name: str = "") -> None:
        if not await asker.sees_nodes():
            raise asker.lacks(NODE_INFO, name, '"list" on "nodes" at the cluster scope', "nodes")

    # This instance.

    def scheduler_status(self, name: str) -> SchedulerStatus:
        found = self._sources.status()
        if found.name != name:
            missing = status.not_found(SCHEDULER_STATUS, name)
            why = f'this instance is "{found.name}" and tells of itself only'
            raise StatusError(404, missing.reason, f"{missing}: {why}", missing.details)
        return found

    def scheduler_statuses(self, form: Form, query: Mapping[str, str]) -> Listing:
        options, selection = read_query(SCHEDULER_STATUS, "", query)
        found = self._sources.status()
        fields = {"metadata.name": found.name, "metadata.namespace": ""}
        items = [found] if selection.matches(found.metadata.labels, fields) else []
        version = _check_version(options, time.time_ns() // 1000)
        page, metadata = _page(items, lambda one: ("", one.name), options, version)
        return Listing(_pieces(form, metadata, (partial(_itself, one) for one in page)))

    async def _namespaces(
        self, asker: Asker, namespace: str, namespaces: Iterable[str]
    ) -> Collection[str]:
        """The namespaces whose pods are listed: the one asked for, or all that the asker sees."""
        return {namespace} if namespace else await asker.namespaces_seen(namespaces)


def _selects_node(selection: Selection, nodes: Nodes, row: int) -> bool:
    node = nodes.node(row)
    fields = {"metadata.name": node.name, "metadata.namespace": ""}
    return selection.matches(node.metadata.labels, fields)


def _itself(item: ApiObject) -> ApiObject:
    return item


def _is_listed(entry: Entry, selection: Selection, namespaces: Collection[str]) -> bool:
    return entry.namespace in namespaces and selection.matches_entry(entry)


def read_query(
    served: Served, namespace: str, query: Mapping[str, str]
) -> tuple[ListOptions, Selection]:
    """400 or 422 for a query that cannot be understood."""
    for name in ("labelSelector", "fieldSelector"):
        if len(query.get(name, "")) > MAX_SELECTOR_CHARACTERS:
            raise status.bad_request(
                f"{name} is too long: {MAX_SELECTOR_CHARACTERS} characters are read"
            )
    options = parse_list_options(query, streaming=False)
    if options.limit < 0:
        raise status.bad_request("limit must not be negative")
    return options, Selection(namespace, *parse_selectors(served, query))


def wants_all(query: Mapping[str, str]) -> bool:
    """Whether lists per node are wanted in lists of decisions."""
    detail = query.get("detail", DETAILS[0])
    if detail not in DETAILS:
        known = " or ".join(DETAILS)
        raise status.bad_request(f'detail "{detail}" is not known: it is {known}')
    return detail == "All"


def _check_version(options: ListOptions, current: int) -> int:
    if options.version > current:
        raise status.too_large_resource_version(options.version, current)
    if options.match == "Exact" and options.version != current:
        raise status.expired(
            "The resourceVersion for the provided list is too old: only the present state is kept."
        )
    return current


async def _matching(items: Iterable[Any], matches: Callable[[Any], bool]) -> list[Any]:
    slices, found = Slices(), []
    for one in items:
        if matches(one):
            found.append(one)
        if slices.due():
            await slices.rest()
    return found


def _page(
    items: list[Any], key: Callable[[Any], Key], options: ListOptions, version: int
) -> tuple[list[Any], dict[str, Any]]:
    """The items in order, or as many as were asked for, with the metadata of the list."""
    if options.token:
        start, _ = parse_token(options.token)
        items = [one for one in items if key(one) > start]
    if not options.limit or options.limit >= len(items):
        return sorted(items, key=key), list_metadata(version)
    page = heapq.nsmallest(options.limit, items, key=key)
    token = continue_token(key(page[-1]), version)
    return page, list_metadata(version, token, len(items) - len(page))


async def _pieces(
    form: Form, metadata: dict[str, Any], items: Iterator[Callable[[], ApiObject | None]]
) -> AsyncGenerator[bytes, None]:
    """A list, item by item, each made when the client has taken those before it."""
    yield form.opening(metadata)
    slices, between = Slices(), b""
    for make in items:
        item = make()
        if item is None:
            continue
        yield between + form.item(item)
        between = b","
        if slices.due():
            await slices.rest()
    yield CLOSING


def _warnings(served: Served, left_out: Collection[str]) -> tuple[str, ...]:
    if not left_out:
        return ()
    where = "1 namespace is" if len(left_out) == 1 else f"{len(left_out)} namespaces are"
    return (f'{served.plural} of {where} left out: the right "get" on "pods" is needed there',)
