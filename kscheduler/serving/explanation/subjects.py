"""Subjects of watches: for each resource, where its changes come from, which of them an asker may
see, and the objects that are sent.

Rights are looked up for every batch of changes, so that one that was taken away ends what depends
on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar

from kscheduler.api.explanation import Decision, NodeInfo, PendingPod, SchedulerStatus
from kscheduler.api.meta import ApiObject, ObjectMeta
from kscheduler.decisions.decision_log import DecisionLog, Dropped, Entry
from kscheduler.decisions.explain import decision_of
from kscheduler.serving.explanation.followed import Followed, FollowedObjects
from kscheduler.serving.explanation.lists import Selection
from kscheduler.serving.explanation.reads import Reader
from kscheduler.serving.explanation.resources import (
    DECISION,
    NODE_INFO,
    PENDING_POD,
    SCHEDULER_STATUS,
    Served,
)
from kscheduler.serving.explanation.rights import Asker

# How often objects are looked through while they are watched.
LOOK_SECONDS = 1.0

# Makes the object that is sent for a change, or None if there is none any more.
Make = Callable[[Any], ApiObject | None]


class Subject(ABC):
    """A resource as one watch has it."""

    served: ClassVar[Served]
    source: DecisionLog | FollowedObjects

    def __init__(self, reader: Reader, asker: Asker) -> None:
        self._reader = reader
        self._asker = asker

    @property
    def look_seconds(self) -> float | None:
        """How often `refresh` has to be called; None if the source is told of changes."""
        return None

    @abstractmethod
    async def refresh(self) -> None:
        """The source knows all changes so far."""

    @abstractmethod
    async def need_rights(self, namespace: str) -> None:
        """403 for an asker that may see nothing of it."""

    @abstractmethod
    def matches(self, one: Any, selection: Selection) -> bool: ...

    @abstractmethod
    async def namespaces(self, namespaces: Collection[str]) -> Collection[str]:
        """Namespaces, of these, in which the asker may see objects."""

    @abstractmethod
    async def maker(self, entries: Sequence[Any]) -> Make:
        """Makes objects of these entries, as far as the asker may see them."""

    @abstractmethod
    def gone(self, one: Dropped) -> ApiObject:
        """An object that is no longer there, as far as it is still known."""


class Decisions(Subject):
    served = DECISION
    source: DecisionLog

    def __init__(self, reader: Reader, asker: Asker, *, per_node: bool) -> None:
        super().__init__(reader, asker)
        self.source = reader.decision_log()
        self._per_node = per_node

    async def refresh(self) -> None:
        """The log is told of every change when it happens."""

    async def need_rights(self, namespace: str) -> None:
        if namespace:
            await self._asker.need_pods(DECISION, namespace)

    def matches(self, one: Entry, selection: Selection) -> bool:
        return selection.matches_entry(one)

    async def namespaces(self, namespaces: Collection[str]) -> Collection[str]:
        return await self._asker.namespaces_seen(namespaces)

    async def maker(self, entries: Sequence[Entry]) -> Make:
        view = await self._reader.view(self._asker, entries, per_node=self._per_node)
        return lambda entry: decision_of(entry, view)

    def gone(self, one: Dropped) -> ApiObject:
        return Decision(_metadata(one))


class FollowedSubject(Subject):
    """A resource whose objects are looked through."""

    source: FollowedObjects

    @property
    def look_seconds(self) -> float | None:
        return LOOK_SECONDS

    async def refresh(self) -> None:
        # Of several watches, the first that is due looks for all.
        await self.source.look(max_age=LOOK_SECONDS / 2)


class PendingPods(FollowedSubject):
    served = PENDING_POD

    def __init__(self, reader: Reader, asker: Asker) -> None:
        super().__init__(reader, asker)
        reader.check_leading()
        self.source = reader.followed_pods

    async def need_rights(self, namespace: str) -> None:
        if namespace:
            await self._asker.need_pods(PENDING_POD, namespace)

    def matches(self, one: Followed, selection: Selection) -> bool:
        return self._reader.selects_pod(selection, one.item)

    async def namespaces(self, namespaces: Collection[str]) -> Collection[str]:
        return await self._asker.namespaces_seen(namespaces)

    async def maker(self, entries: Sequence[Followed]) -> Make:
        return self._reader.told_pod

    def gone(self, one: Dropped) -> ApiObject:
        return PendingPod(_metadata(one))


class NodeInfos(FollowedSubject):
    served = NODE_INFO

    def __init__(self, reader: Reader, asker: Asker) -> None:
        super().__init__(reader, asker)
        reader.check_leading()
        self.source = reader.followed_nodes

    async def need_rights(self, namespace: str) -> None:
        await self._reader.need_nodes(self._asker)

    def matches(self, one: Followed, selection: Selection) -> bool:
        return self._reader.selects_node(selection, one.name)

    async def namespaces(self, namespaces: Collection[str]) -> Collection[str]:
        return namespaces if await self._asker.sees_nodes() else ()

    async def maker(self, entries: Sequence[Followed]) -> Make:
        return self._reader.told_node

    def gone(self, one: Dropped) -> ApiObject:
        return NodeInfo(_metadata(one))


class SchedulerStatuses(FollowedSubject):
    served = SCHEDULER_STATUS

    def __init__(self, reader: Reader, asker: Asker) -> None:
        super().__init__(reader, asker)
        self.source = reader.followed_status

    async def need_rights(self, namespace: str) -> None:
        """Whoever may watch it may see it."""

    def matches(self, one: Followed, selection: Selection) -> bool:
        return selection.matches({}, {"metadata.name": one.name, "metadata.namespace": ""})

    async def namespaces(self, namespaces: Collection[str]) -> Collection[str]:
        return namespaces

    async def maker(self, entries: Sequence[Followed]) -> Make:
        return self._reader.told_status

    def gone(self, one: Dropped) -> ApiObject:
        return SchedulerStatus(_metadata(one))


def subject_for(served: Served, reader: Reader, asker: Asker, *, per_node: bool) -> Subject:
    """404 or 503 where there is nothing to watch."""
    if served is DECISION:
        return Decisions(reader, asker, per_node=per_node)
    if served is PENDING_POD:
        return PendingPods(reader, asker)
    if served is NODE_INFO:
        return NodeInfos(reader, asker)
    return SchedulerStatuses(reader, asker)


def _metadata(one: Dropped) -> ObjectMeta:
    return ObjectMeta(
        name=one.name, namespace=one.namespace, uid=one.uid, resource_version=str(one.version)
    )
