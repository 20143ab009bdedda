"""Queueing hints: would this event help that pod? Asked of the plugins that rejected it.

Mirrors isPodWorthRequeuing of pkg/scheduler/backend/queue/scheduling_queue.go. The hints that an
event concerns are worked out once per event and kept; there are few different events.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any, NamedTuple

from kscheduler import logs
from kscheduler.framework.cluster_event import (
    POD,
    POD_KINDS,
    Action,
    ClusterEvent,
    EventWithHint,
    Hint,
)
from kscheduler.queue.queued_pod_info import QueuedPodInfo

log = logs.logger(__name__)

# Registrations by plugin, of one profile.
Registrations = Mapping[str, Sequence[EventWithHint]]
# (plugin, event label, hint, seconds)
ObserveHint = Callable[[str, str, str, float], None]
HINT_FAILED = "Error"


class QueueingStrategy(IntEnum):
    """When to requeue an unschedulable pod; of several the greatest wins."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


class Rejector(NamedTuple):
    """A plugin as part of a profile."""

    profile: str
    plugin: str


class _RegisteredHint(NamedTuple):
    """A plugin's QueueingHintFn for one event."""

    plugin: str
    hint: Callable[[Any, Any, Any], Hint]


def _always(pod: Any, old: Any, new: Any) -> Hint:
    return Hint.QUEUE


@dataclass(frozen=True)
class InterestedPlugins:
    """The plugins that are registered for one event."""

    label: str
    by_profile: Mapping[str, tuple[_RegisteredHint, ...]]

    @cached_property
    def rejectors(self) -> tuple[Rejector, ...]:
        """Pods rejected by none of these cannot be helped by the event."""
        pairs = (
            Rejector(profile, hint.plugin)
            for profile, hints in self.by_profile.items()
            for hint in hints
        )
        return tuple(dict.fromkeys(pairs))

    @cached_property
    def plugins(self) -> frozenset[str]:
        """Their names, whatever the profile."""
        return frozenset(rejector.plugin for rejector in self.rejectors)


class QueueingHints:
    """The registrations of every profile, and the strategies they add up to."""

    def __init__(self, registrations: Mapping[str, Registrations], observe: ObserveHint) -> None:
        self._observe = observe
        self._registered = {
            profile: [
                (event, _RegisteredHint(plugin, registration.hint or _always))
                for plugin, events in by_plugin.items()
                for registration in events
                for event in _unrolled(registration.event)
            ]
            for profile, by_plugin in registrations.items()
        }
        self._interested: dict[ClusterEvent, InterestedPlugins] = {}

    def interested_in(self, event: ClusterEvent) -> InterestedPlugins:
        found = self._interested.get(event)
        if found is None:
            by_profile = {
                profile: tuple(hint for wanted, hint in registered if wanted.matches(event))
                for profile, registered in self._registered.items()
            }
            found = self._interested[event] = InterestedPlugins(event.label, by_profile)
        return found

    def is_event_of_interest(self, event: ClusterEvent) -> bool:
        return event.is_wildcard or bool(self.interested_in(event).rejectors)

    def registered_actions(self) -> dict[str, Action]:
        """The union of registered actions by resource."""
        union: dict[str, Action] = {}
        for registered in self._registered.values():
            for event, _ in registered:
                union[event.resource] = union.get(event.resource, Action.NONE) | event.action
        return union

    def is_pod_worth_requeuing(
        self, queued: QueuedPodInfo, event: ClusterEvent, old: Any, new: Any
    ) -> QueueingStrategy:
        rejectors = queued.rejectors
        if not rejectors:
            # The attempt failed by an error: any event may be worth another.
            return QueueingStrategy.AFTER_BACKOFF
        if event.is_wildcard:
            is_about_another = new is not None and new.uid != queued.uid
            return QueueingStrategy.SKIP if is_about_another else QueueingStrategy.AFTER_BACKOFF
        if queued.profile not in self._registered:
            log.unhandled(
                None,
                "No QueueingHintMap is registered for this profile",
                profile=queued.profile,
                pod=logs.ref(queued.pod.pod),
            )
            return QueueingStrategy.AFTER_BACKOFF
        interested, pending = self.interested_in(event), queued.pending_plugins
        strategy = QueueingStrategy.SKIP
        for hint in interested.by_profile[queued.profile]:
            if hint.plugin in rejectors and self._helps(hint, queued, interested.label, old, new):
                if hint.plugin in pending:
                    return QueueingStrategy.IMMEDIATELY
                if not pending:
                    return QueueingStrategy.AFTER_BACKOFF
                # A hint of a pending plugin may yet improve on this.
                strategy = QueueingStrategy.AFTER_BACKOFF
        return strategy

    def _helps(
        self, registered: _RegisteredHint, queued: QueuedPodInfo, label: str, old: Any, new: Any
    ) -> bool:
        start = time.perf_counter()
        try:
            hint = registered.hint(queued.pod, old, new)
            answer = hint.value
        except Exception as error:
            # A hint that fails must not strand the pod.
            hint, answer = Hint.QUEUE, HINT_FAILED
            log.unhandled(
                error,
                "QueueingHintFn returns error",
                event=label,
                plugin=registered.plugin,
                pod=logs.ref(queued.pod.pod),
            )
        self._observe(registered.plugin, label, answer, time.perf_counter() - start)
        return hint is Hint.QUEUE


def _unrolled(event: ClusterEvent) -> Iterator[ClusterEvent]:
    """The events of all kinds of pods, for one of pods in general."""
    if event.resource != POD:
        yield event
        return
    for kind in POD_KINDS:
        yield ClusterEvent(kind, event.action)
