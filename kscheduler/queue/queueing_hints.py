"""Queueing hints: would this event help that pod? Asked of the plugins that rejected it.

Mirrors isPodWorthRequeuing of pkg/scheduler/backend/queue/scheduling_queue.go. The hints that an
event concerns are worked out once per event and kept; there are few different events.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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
# Given the plugin, and whether it named pods: "all_pods" or "narrowed".
ObservePreHint = Callable[[str, str], None]
# Given the object before and after: the keys of pods that are concerned, None for any pod.
PreHint = Callable[[Any, Any], Collection[str] | None]


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
    """A plugin's QueueingHintFn for one event, and its PreQueueingHintFn if it has one."""

    plugin: str
    hint: Callable[[Any, Any, Any], Hint]
    pre_hint: PreHint | None = None


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
    def pre_hints(self) -> tuple[tuple[str, PreHint], ...]:
        """The plugins with their PreQueueingHintFns; none unless all of them have one."""
        hints = [hint for some in self.by_profile.values() for hint in some]
        found = [(hint.plugin, hint.pre_hint) for hint in hints if hint.pre_hint is not None]
        return tuple(found) if len(found) == len(hints) else ()

    @cached_property
    def plugins(self) -> frozenset[str]:
        """Their names, whatever the profile."""
        return frozenset(rejector.plugin for rejector in self.rejectors)


class QueueingHints:
    """The registrations of every profile, and the strategies they add up to."""

    def __init__(
        self,
        registrations: Mapping[str, Registrations],
        observe: ObserveHint,
        observe_pre_hint: ObservePreHint = lambda plugin, result: None,
    ) -> None:
        self._observe = observe
        self._observe_pre_hint = observe_pre_hint
        self._registered = {
            profile: [
                (
                    event,
                    _RegisteredHint(plugin, registration.hint or _always, registration.pre_hint),
                )
                for plugin, events in by_plugin.items()
                for registration in events
                for event in _unrolled(registration.event)
            ]
            for profile, by_plugin in registrations.items()
        }
        self._interested: dict[ClusterEvent, InterestedPlugins] = {}
        self._by_rejector: dict[Rejector, tuple[ClusterEvent, ...]] = {}

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

    def pods_concerned(self, event: ClusterEvent, old: Any, new: Any) -> Collection[str] | None:
        """Keys of the pods that the event may help; None if it may help any.

        Only if every plugin that waits for the event names pods can others be left out.
        """
        pre_hints = self.interested_in(event).pre_hints
        concerned: set[str] = set()
        for plugin, pre_hint in pre_hints:
            try:
                keys = pre_hint(old, new)
            except Exception as error:
                what = "PreQueueingHintFn failed, falling back to evaluate all pods"
                log.error(error, what, plugin=plugin)
                return None
            self._observe_pre_hint(plugin, "all_pods" if keys is None else "narrowed")
            if keys is None:
                return None
            concerned.update(keys)
        return concerned if pre_hints else None

    def events_of(self, profile: str, plugin: str) -> tuple[ClusterEvent, ...]:
        """The events that the plugin is registered for; those of pods by kind of pod."""
        rejector = Rejector(profile, plugin)
        if rejector not in self._by_rejector:
            registered = self._registered.get(profile, ())
            events = tuple(event for event, hint in registered if hint.plugin == plugin)
            self._by_rejector[rejector] = events
        return self._by_rejector[rejector]

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
