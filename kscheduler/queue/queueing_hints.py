"""Would this event help that pod? Asked of the plugins that rejected it, in its own profile.

Mirrors isPodWorthRequeuing of pkg/scheduler/backend/queue/scheduling_queue.go. Which hints an event
concerns is worked out once per event and kept; there are few different events.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
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
    """What to do with a waiting pod; the greater wins."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


class Rejector(NamedTuple):
    """A plugin as part of a profile."""

    profile: str
    plugin: str


class _RegisteredHint(NamedTuple):
    plugin: str
    hint: Callable[[Any, Any, Any], Hint]


def _always(pod: Any, old: Any, new: Any) -> Hint:
    return Hint.QUEUE


@dataclass(frozen=True)
class InterestedPlugins:
    """Who wants to hear of one event."""

    label: str
    by_profile: Mapping[str, tuple[_RegisteredHint, ...]]

    @cached_property
    def rejectors(self) -> tuple[Rejector, ...]:
        """Pods rejected by none of these cannot be helped by the event."""
        pairs = (
            Rejector(profile, asked.plugin)
            for profile, hints in self.by_profile.items()
            for asked in hints
        )
        return tuple(dict.fromkeys(pairs))

    @cached_property
    def plugins(self) -> frozenset[str]:
        """Their names, whatever the profile."""
        return frozenset(rejector.plugin for rejector in self.rejectors)


class QueueingHints:
    """The registrations of every profile, and the verdicts they add up to."""

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
        self._interests: dict[ClusterEvent, InterestedPlugins] = {}

    def knows(self, profile: str) -> bool:
        return profile in self._registered

    def interest(self, event: ClusterEvent) -> InterestedPlugins:
        found = self._interests.get(event)
        if found is None:
            by_profile = {
                profile: tuple(asked for wanted, asked in registered if wanted.matches(event))
                for profile, registered in self._registered.items()
            }
            found = self._interests[event] = InterestedPlugins(event.label, by_profile)
        return found

    def is_event_of_interest(self, event: ClusterEvent) -> bool:
        return event.is_wildcard or bool(self.interest(event).rejectors)

    def resources(self) -> dict[str, Action]:
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
            return QueueingStrategy.AFTER_BACKOFF
        if event.is_wildcard:
            elsewhere = new is not None and new.uid != queued.uid
            return QueueingStrategy.SKIP if elsewhere else QueueingStrategy.AFTER_BACKOFF
        if not self.knows(queued.profile):
            log.unhandled(
                None,
                "No QueueingHintMap is registered for this profile",
                profile=queued.profile,
                pod=logs.ref(queued.pod.pod),
            )
            return QueueingStrategy.AFTER_BACKOFF
        return self._ask(queued, rejectors, self.interest(event), old, new)

    def _ask(
        self,
        queued: QueuedPodInfo,
        rejectors: Set[str],
        interest: InterestedPlugins,
        old: Any,
        new: Any,
    ) -> QueueingStrategy:
        verdict = QueueingStrategy.SKIP
        for asked in interest.by_profile[queued.profile]:
            if asked.plugin in rejectors and self._helps(asked, queued, interest.label, old, new):
                if asked.plugin in queued.pending_plugins:
                    return QueueingStrategy.IMMEDIATELY
                if not queued.pending_plugins:
                    return QueueingStrategy.AFTER_BACKOFF
                verdict = QueueingStrategy.AFTER_BACKOFF
        return verdict

    def _helps(
        self, asked: _RegisteredHint, queued: QueuedPodInfo, label: str, old: Any, new: Any
    ) -> bool:
        start = time.perf_counter()
        try:
            hint = asked.hint(queued.pod, old, new)
            answer = hint.value
        except Exception as error:
            # A hint that fails must not strand the pod.
            hint, answer = Hint.QUEUE, HINT_FAILED
            log.unhandled(
                error,
                "QueueingHintFn returns error",
                event=label,
                plugin=asked.plugin,
                pod=logs.ref(queued.pod.pod),
            )
        self._observe(asked.plugin, label, answer, time.perf_counter() - start)
        return hint is Hint.QUEUE


def _unrolled(event: ClusterEvent) -> Iterator[ClusterEvent]:
    if event.resource != POD:
        yield event
        return
    for kind in POD_KINDS:
        yield ClusterEvent(kind, event.action)
