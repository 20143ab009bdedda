"""Series of repeated events: the cache behind events.k8s.io/v1 recording.

The first of its kind is posted, the second turns it into a series, later ones only count. What
counts as the same kind includes the object's resourceVersion, so a status write starts anew.
"""

import uuid
from collections.abc import Hashable

import msgspec

from kscheduler.api.core import ObjectReference
from kscheduler.api.timestamps import format_micro_time_ns
from kscheduler.api.validation import dns_subdomain_errors

# A series that has been quiet for so long is over.
FINISH_SECONDS = 6 * 60
# Upstream keeps every event of the last minutes; 16,384 of them are about 20 MB.
CAPACITY = 16_384

_encode = msgspec.json.Encoder().encode


class Series(msgspec.Struct, rename="camel"):
    count: int
    last_observed_time: str


class Event(msgspec.Struct):
    """One thing that happened to an object; `count` is above 1 once it is a series."""

    name: str
    namespace: str
    time_ns: int
    controller: str
    instance: str
    action: str
    reason: str
    regarding: ObjectReference
    related: ObjectReference | None
    note: str
    type: str
    count: int = 1
    last_seen_ns: int = 0

    @property
    def kind(self) -> Hashable:
        """The parts that are equal in all events of a series; the note need not be."""
        return (
            self.type,
            self.action,
            self.reason,
            self.controller,
            self.instance,
            self.regarding,
            self.related,
        )

    @property
    def is_series(self) -> bool:
        return self.count > 1

    def series(self) -> Series:
        return Series(self.count, format_micro_time_ns(self.last_seen_ns))


def event_name(object_name: str, time_ns: int) -> str:
    """Unique by its time, or wholly random where the object's name makes no event name."""
    name = f"{object_name}.{time_ns:x}"
    return str(uuid.uuid4()) if dns_subdomain_errors(name) else name


class SeriesCache:
    """Recent events by kind; the oldest make room when there are too many."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._events: dict[Hashable, Event] = {}
        self._capacity = capacity

    def __len__(self) -> int:
        return len(self._events)

    def observe(self, event: Event, now_ns: int) -> Event | None:
        """The event to send, if any: this one, or the series that it starts."""
        known = self._events.pop(event.kind, None)
        if known is None:
            if len(self._events) >= self._capacity:
                self._events.pop(next(iter(self._events)))
            self._events[event.kind] = event
            return msgspec.structs.replace(event)
        known.count += 1
        known.last_seen_ns = now_ns
        self._events[event.kind] = known
        return msgspec.structs.replace(known) if known.count == 2 else None

    def running_series(self) -> list[Event]:
        return [event for event in self._events.values() if event.is_series]

    def finish(self, now_ns: int) -> list[Event]:
        """Forgets old single events; returns the series that are over."""
        horizon = now_ns - FINISH_SECONDS * 10**9
        over = []
        for event in list(self._events.values()):
            if event.is_series:
                if event.last_seen_ns < horizon:
                    over.append(event)
            elif event.time_ns < horizon:
                self.forget(event)
        return over

    def forget(self, event: Event) -> None:
        self._events.pop(event.kind, None)


class _Metadata(msgspec.Struct):
    name: str
    namespace: str


class _Empty(msgspec.Struct):
    pass


class _Body(msgspec.Struct, rename="camel"):
    """Field by field as Go writes it, deprecated fields included."""

    kind: str
    api_version: str
    metadata: _Metadata
    event_time: str
    series: Series | msgspec.UnsetType
    reporting_controller: str
    reporting_instance: str
    action: str
    reason: str
    regarding: ObjectReference
    related: ObjectReference | msgspec.UnsetType
    note: str
    type: str
    deprecated_source: _Empty
    deprecated_first_timestamp: None = None
    deprecated_last_timestamp: None = None


_EMPTY = _Empty()


def event_body(event: Event) -> bytes:
    """The event as it is posted."""
    return _encode(
        _Body(
            "Event",
            "events.k8s.io/v1",
            _Metadata(event.name, event.namespace),
            format_micro_time_ns(event.time_ns),
            event.series() if event.is_series else msgspec.UNSET,
            event.controller,
            event.instance,
            event.action,
            event.reason,
            event.regarding,
            event.related or msgspec.UNSET,
            event.note,
            event.type,
            _EMPTY,
        )
    )


def series_patch(event: Event) -> bytes:
    """Fields that change when an event becomes a series, or its series goes on."""
    return _encode({"series": event.series()})
