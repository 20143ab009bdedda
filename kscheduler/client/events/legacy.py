"""Events of core/v1: repetitions are counted, similar ones combined, floods dammed.

Mirrors client-go's EventCorrelator. Time is an argument.
"""

import asyncio
import random
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import msgspec

from kscheduler import logs
from kscheduler.api.core import ObjectReference
from kscheduler.api.resources import CORE_EVENTS
from kscheduler.api.timestamps import format_time_ns
from kscheduler.client.errors import AlreadyExists, ApiError, NotFound, StatusError
from kscheduler.client.events.broadcaster import (
    MAX_TRIES,
    RETRY_SECONDS,
    EventBroadcaster,
    Recorder,
    note_text,
)
from kscheduler.client.events.series import event_name
from kscheduler.client.kube_client import KubeClient
from kscheduler.client.throttle import TokenBucket

V = TypeVar("V")

CACHE_SIZE = 4096
# Ten different messages of one reason within ten minutes are combined into one event.
AGGREGATE_AT = 10
AGGREGATE_SECONDS = 600
# A source may send 25 events about an object at once, then one every five minutes.
SPAM_BURST = 25
SPAM_QPS = 1 / 300

_NANO = 10**9

log = logs.logger(__name__)
QUEUE_SIZE = 1000


class CoreEvent(msgspec.Struct, frozen=True):
    """A core/v1 event; `count` says how often it happened from `first_ns` to `last_ns`."""

    name: str
    namespace: str
    regarding: ObjectReference
    reason: str
    message: str
    component: str
    type: str
    first_ns: int
    last_ns: int
    count: int = 1
    reporting_component: str = ""

    @property
    def object_key(self) -> Hashable:
        """Source and object: the unit of damming."""
        about = self.regarding
        return (
            self.component,
            about.kind,
            about.namespace,
            about.name,
            about.uid,
            about.api_version,
            self.type,
        )

    @property
    def reason_key(self) -> Hashable:
        """All but the message: the unit of combining."""
        return (self.object_key, self.reason, self.reporting_component)

    @property
    def full_key(self) -> Hashable:
        """All there is: the unit of counting."""
        return (self.object_key, self.regarding.field_path, self.reason, self.message)


class Lru(Generic[V]):
    """The most recently used values, at most `size` of them."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: dict[Hashable, V] = {}

    def get(self, key: Hashable) -> V | None:
        value = self._values.pop(key, None)
        if value is not None:
            self._values[key] = value
        return value

    def get_or_make(self, key: Hashable, make: Callable[[], V]) -> V:
        value = self.get(key)
        if value is None:
            value = make()
            self.put(key, value)
        return value

    def put(self, key: Hashable, value: V) -> None:
        self._values.pop(key, None)
        self._values[key] = value
        if len(self._values) > self._size:
            del self._values[next(iter(self._values))]

    def __len__(self) -> int:
        return len(self._values)


class _Similar(msgspec.Struct):
    """The different messages of one reason, and when the last of them came."""

    # Their hashes: a message may be long.
    messages: set[int]
    seen_ns: int


class EventCorrelator:
    """Combines, counts and limits events, in this order, which is upstream's."""

    def __init__(self) -> None:
        self._similar: Lru[_Similar] = Lru(CACHE_SIZE)
        # The last event of each key with its count so far, even if the limit kept it back.
        self._counted: Lru[CoreEvent] = Lru(CACHE_SIZE)
        self._buckets: Lru[TokenBucket] = Lru(CACHE_SIZE)

    def correlate(self, event: CoreEvent, now_ns: int) -> CoreEvent | None:
        """The event to send instead, or None; with a count above 1 it updates one sent before."""
        event, key = self._aggregate(event, now_ns)
        known = self._counted.get(key)
        if known is not None:
            event = msgspec.structs.replace(
                event, name=known.name, first_ns=known.first_ns, count=known.count + 1
            )
        self._counted.put(key, event)
        bucket = self._buckets.get_or_make(
            event.object_key, lambda: TokenBucket(SPAM_QPS, SPAM_BURST)
        )
        return event if bucket.try_take(now_ns / _NANO) else None

    def _aggregate(self, event: CoreEvent, now_ns: int) -> tuple[CoreEvent, Hashable]:
        """The event, or a combined one if there are too many like it; and the key to count by."""
        similar = self._similar.get(event.reason_key)
        if similar is None or now_ns - similar.seen_ns > AGGREGATE_SECONDS * _NANO:
            similar = _Similar(set(), now_ns)
            self._similar.put(event.reason_key, similar)
        similar.messages.add(hash(event.message))
        similar.seen_ns = now_ns
        if len(similar.messages) < AGGREGATE_AT:
            return event, event.full_key
        similar.messages.pop()
        combined = msgspec.structs.replace(
            event,
            name=f"{event.regarding.name}.{now_ns:x}",
            message=f"(combined from similar events): {event.message}",
            first_ns=now_ns,
            last_ns=now_ns,
            reporting_component="",
        )
        return combined, event.reason_key


class _Metadata(msgspec.Struct):
    name: str
    namespace: str


class _Source(msgspec.Struct):
    component: str


class _Body(msgspec.Struct, rename="camel"):
    """Field by field as Go writes it."""

    kind: str
    api_version: str
    metadata: _Metadata
    involved_object: ObjectReference
    reason: str
    message: str
    source: _Source
    first_timestamp: str
    last_timestamp: str
    count: int
    type: str
    event_time: None
    reporting_component: str
    reporting_instance: str


def core_event_body(event: CoreEvent) -> bytes:
    """The event as it is posted."""
    return msgspec.json.encode(
        _Body(
            "Event",
            "v1",
            _Metadata(event.name, event.namespace),
            event.regarding,
            event.reason,
            event.message,
            _Source(event.component),
            format_time_ns(event.first_ns),
            format_time_ns(event.last_ns),
            event.count,
            event.type,
            None,
            event.reporting_component,
            "",
        )
    )


def core_event_patch(event: CoreEvent) -> bytes:
    """Fields that change when an event sent before happens again."""
    return msgspec.json.encode(
        {
            "count": event.count,
            "lastTimestamp": format_time_ns(event.last_ns),
            "message": event.message,
        }
    )


class LegacyBroadcaster:
    """Takes events from recorders and sends them in order; `run` it as a task.

    `dropped` is called for every event that found the queue full.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        dropped: Callable[[], None] = lambda: None,
        queue_size: int = QUEUE_SIZE,
        retry_seconds: float = RETRY_SECONDS,
        wall_clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._client = client
        self._dropped = dropped
        self._events: asyncio.Queue[CoreEvent] = asyncio.Queue(queue_size)
        self._retry_seconds = retry_seconds
        self._now_ns = wall_clock_ns
        self._correlator = EventCorrelator()
        self._closed = False

    def recorder(self, component: str) -> Recorder:
        return _LegacyRecorder(self, component)

    def take(self, event: CoreEvent) -> None:
        if self._closed:
            log.error("broadcaster already stopped", "Unable to record event (will not retry!)")
            return
        try:
            self._events.put_nowait(event)
        except asyncio.QueueFull:
            self._dropped()
            log.error(
                None,
                "Unable to record event: too many queued events, dropped event",
                event=_ref(event),
            )

    def shutdown(self) -> None:
        """Take and send nothing from now on."""
        self._closed = True

    async def drained(self) -> None:
        """Returns when every event taken so far has been dealt with."""
        await self._events.join()

    async def run(self) -> None:
        """Sends until cancelled."""
        while True:
            event = self._correlator.correlate(await self._events.get(), self._now_ns())
            if event is not None:
                for attempt in range(1, MAX_TRIES + 1):
                    if await self._attempt(event):
                        break
                    if attempt < MAX_TRIES:
                        # Only the first pause is random: schedulers that lost one server together
                        # do not come back to it together.
                        share = random.random() if attempt == 1 else 1.0
                        await asyncio.sleep(self._retry_seconds * share)
                else:
                    log.error(
                        None, "Unable to write event (retry limit exceeded!)", event=_ref(event)
                    )
            self._events.task_done()

    async def _attempt(self, event: CoreEvent) -> bool:
        """Try to send an event; returns whether it is settled: sent, or rejected for good."""
        if self._closed:
            log.error(None, "Unable to write event (broadcaster is shut down)", event=_ref(event))
            return True
        try:
            if event.count > 1:
                try:
                    await self._client.patch(
                        CORE_EVENTS, event.name, core_event_patch(event), event.namespace
                    )
                except NotFound:
                    pass  # Expired at the server: posted again as a whole.
                else:
                    return True
            await self._client.create(CORE_EVENTS, core_event_body(event), event.namespace)
        except StatusError as error:
            known = isinstance(error, AlreadyExists) or error.has_cause("NamespaceTerminating")
            if known:
                log.v(5).info(
                    "Server rejected event (will not retry!)", event=_ref(event), err=str(error)
                )
            else:
                log.error(error, "Server rejected event (will not retry!)", event=_ref(event))
        except ApiError as error:
            log.error(error, "Unable to write event (may retry after sleeping)", event=_ref(event))
            return False
        return True


class _LegacyRecorder:
    """Knows neither actions nor related objects; core/v1 events do without."""

    def __init__(self, broadcaster: LegacyBroadcaster, component: str) -> None:
        self._broadcaster = broadcaster
        self._component = component

    def record(
        self,
        regarding: ObjectReference,
        *,
        type: str,
        reason: str,
        action: str,
        note: str,
        related: ObjectReference | None = None,
    ) -> None:
        now_ns = time.time_ns()
        self._broadcaster.take(
            CoreEvent(
                name=event_name(regarding.name, now_ns),
                namespace=regarding.namespace or "default",
                regarding=regarding,
                reason=reason,
                message=note_text(note),
                component=self._component,
                type=type,
                first_ns=now_ns,
                last_ns=now_ns,
                reporting_component=self._component,
            )
        )


def broadcaster_for(
    client: KubeClient,
    *,
    has_events_api: bool,
    dropped: Callable[[], None] = lambda: None,
    urgent: Callable[[], bool] = lambda: False,
) -> EventBroadcaster | LegacyBroadcaster:
    """The broadcaster for the newest kind of events that this server takes.

    Events of the older kind are sent one by one, so that they never delay a binding.
    """
    if has_events_api:
        return EventBroadcaster(client, dropped=dropped, urgent=urgent)
    return LegacyBroadcaster(client, dropped=dropped)


def _ref(event: CoreEvent) -> logs.ObjectRef:
    return logs.ObjectRef(event.namespace, event.name)
