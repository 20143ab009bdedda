"""Reading: one decision, pending pod, node or status, or a list of them.

Decisions in lists have no lists per node, unless `?detail=All` asks for them: 5,000 decisions at
5,000 nodes would be a gigabyte. A single decision is always whole.
"""

from __future__ import annotations

import time
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
)
from functools import partial
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from kscheduler.api.core import Pod
from kscheduler.api.explanation import (
    SCHEDULER_STATUSES,
    Decision,
    NodeInfo,
    PendingPod,
    PlacementReview,
    SchedulerStatus,
)
from kscheduler.api.meta import ApiObject
from kscheduler.decisions.decision_log import DecisionLog, Entry
from kscheduler.decisions.explain import View, decision_of, victim_namespaces
from kscheduler.queue.pending import explain_pod, pending_pod, place_of, queued_pods
from kscheduler.queue.queued_pod_info import QueuedPodInfo
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.rest import status
from kscheduler.rest.status import StatusError
from kscheduler.serving.explanation.absence import absent_decision, unknown_pod
from kscheduler.serving.explanation.followed import Followed, FollowedObjects, Sighting
from kscheduler.serving.explanation.lists import (
    Listing,
    Selection,
    check_version,
    matching,
    page,
    pieces,
    read_query,
    wants_all,
    warnings,
)
from kscheduler.serving.explanation.resources import (
    DECISION,
    NODE_INFO,
    PENDING_POD,
    SCHEDULER_STATUS,
)
from kscheduler.serving.explanation.responses import Form
from kscheduler.serving.explanation.rights import Asker
from kscheduler.state.node_infos import node_info
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

T = TypeVar("T", bound=ApiObject)


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
    # Takes a review, and by keywords whether its answer may name nodes, and what finds the
    # namespaces whose pods it may tell of.
    review: Callable[..., Awaitable[PlacementReview]]
    # Why this instance has nothing to tell, or None if it schedules.
    not_leading: Callable[[], str | None]


class Reader:
    """Objects of the explanation API, as far as an asker may see them."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self.followed_pods = FollowedObjects(self._queued_pods)
        self.followed_nodes = FollowedObjects(self._nodes)
        self.followed_status = FollowedObjects(self._status)

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
            namespace,
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
        found = await matching(entries, lambda one: _is_listed(one, selection, seen))
        version = check_version(options, log.version)
        shown, metadata = page(found, lambda one: (one.namespace, one.name), options, version)
        view = await self.view(asker, shown, per_node=per_node)
        items = (partial(decision_of, one, view) for one in shown)
        left_out = {one.namespace for one in entries} - {*seen}
        return Listing(pieces(form, metadata, items), warnings(DECISION, left_out))

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
            why = unknown_pod(namespace)
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
        await self.followed_pods.look()
        listed = self.followed_pods.all(namespace or None)
        seen = await self._namespaces(asker, namespace, (one.namespace for one in listed))
        found = await matching(
            listed,
            lambda one: one.namespace in seen and self.selects_pod(selection, one.item),
        )
        version = check_version(options, self.followed_pods.version)
        shown, metadata = page(found, lambda one: (one.namespace, one.name), options, version)
        left_out = {one.namespace for one in listed} - {*seen}
        items = (partial(self.told_pod, one) for one in shown)
        return Listing(pieces(form, metadata, items), warnings(PENDING_POD, left_out))

    def selects_pod(self, selection: Selection, queued: QueuedPodInfo) -> bool:
        metadata = queued.pod.pod.metadata
        if selection.namespace not in ("", metadata.namespace):
            return False
        if not selection.selects:
            return True
        place = place_of(self._sources.queue(), queued, self._sources.is_assumed)
        fields = {
            "metadata.name": metadata.name,
            "metadata.namespace": metadata.namespace,
            "queue": place or "",
            "schedulerName": queued.profile,
        }
        return selection.matches(metadata.labels, fields)

    def told_pod(self, one: Followed) -> PendingPod | None:
        """None if the pod has left the queue meanwhile."""
        queue, is_assumed = self._sources.queue(), self._sources.is_assumed
        found = explain_pod(queue, one.item, time.time(), is_assumed)
        return None if found is None else _versioned(found, one)

    def _queued_pods(self) -> Iterator[Sighting]:
        queue, is_assumed = self._sources.queue(), self._sources.is_assumed
        for one in queued_pods(queue):
            place = place_of(queue, one, is_assumed)
            if place is None:
                continue
            # All that a summary is made of; the version of the pod stands for its own fields.
            fingerprint = (
                place,
                one.attempts,
                one.timestamp,
                one.backoff_since,
                one.unschedulable_plugins,
                one.pending_plugins,
                one.gating_plugin,
                queue.nominator.node_of(one.uid),
                one.pod.pod.metadata.resource_version,
            )
            yield Sighting(one.pod.namespace, one.pod.name, one.uid, fingerprint, one)

    # Nodes.

    async def node_info(self, asker: Asker, name: str) -> NodeInfo:
        self.check_leading()
        await self.need_nodes(asker, name)
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
        await self.need_nodes(asker)
        await self.followed_nodes.look()
        found = await matching(
            self.followed_nodes.all(), lambda one: self.selects_node(selection, one.name)
        )
        version = check_version(options, self.followed_nodes.version)
        shown, metadata = page(found, lambda one: ("", one.name), options, version)
        return Listing(pieces(form, metadata, (partial(self.told_node, one) for one in shown)))

    def selects_node(self, selection: Selection, name: str) -> bool:
        nodes = self._sources.nodes()
        row = nodes.row_of(name)
        if row is None or not selection.selects:
            return row is not None
        fields = {"metadata.name": name, "metadata.namespace": ""}
        return selection.matches(nodes.node(row).metadata.labels, fields)

    def told_node(self, one: Followed) -> NodeInfo | None:
        nodes = self._sources.nodes()
        row = nodes.row_of(one.name)
        return None if row is None else _versioned(node_info(nodes, row), one)

    def _nodes(self) -> Iterator[Sighting]:
        order = self._sources.nodes().order.tolist()
        for row in order:
            # Asked anew for every node, as others may come and go between two slices.
            nodes = self._sources.nodes()
            if row >= len(nodes) or not nodes.valid[row]:
                continue
            node = nodes.node(row)
            fingerprint = (
                node.metadata.resource_version,
                int(nodes.pod_count[row]),
                nodes.requested[row].tobytes(),
            )
            yield Sighting("", node.name, node.uid, fingerprint, None)

    async def need_nodes(self, asker: Asker, name: str = "") -> None:
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

    async def scheduler_statuses(self, form: Form, query: Mapping[str, str]) -> Listing:
        options, selection = read_query(SCHEDULER_STATUS, "", query)
        await self.followed_status.look()
        fields = {"metadata.namespace": ""}
        found = [
            one
            for one in self.followed_status.all()
            if selection.matches({}, {**fields, "metadata.name": one.name})
        ]
        version = check_version(options, self.followed_status.version)
        shown, metadata = page(found, lambda one: ("", one.name), options, version)
        return Listing(pieces(form, metadata, (partial(self.told_status, one) for one in shown)))

    def told_status(self, one: Followed) -> SchedulerStatus:
        found: SchedulerStatus = one.item
        return _versioned(found, one)

    def _status(self) -> Iterator[Sighting]:
        found = self._sources.status()
        yield Sighting("", found.name, "", SCHEDULER_STATUSES.encode(found), found)

    async def _namespaces(
        self, asker: Asker, namespace: str, namespaces: Iterable[str]
    ) -> Collection[str]:
        """The namespaces whose pods are listed: the one asked for, or all that the asker sees."""
        return {namespace} if namespace else await asker.namespaces_seen(namespaces)


def _versioned(item: T, one: Followed) -> T:
    metadata = replace(item.metadata, resource_version=str(one.version))
    return replace(item, metadata=metadata)


def _is_listed(entry: Entry, selection: Selection, namespaces: Collection[str]) -> bool:
    return entry.namespace in namespaces and selection.matches_entry(entry)
