"""Events of core/v1: for leader election, and where events.k8s.io/v1 is not served.

Mirrors client-go's tools/record broadcaster: one event after the other, correlated, retried.
"""

import asyncio
import random
import time
from collections.abc import Callable

from kscheduler import logs
from kscheduler.api.core import ObjectReference
from kscheduler.api.resources import CORE_EVENTS
from kscheduler.client.errors import AlreadyExists, ApiError, NotFound, StatusError
from kscheduler.client.event_correlator import (
    CoreEvent,
    EventCorrelator,
    core_event_body,
    core_event_patch,
)
from kscheduler.client.event_notes import note_text
from kscheduler.client.event_series import event_name
from kscheduler.client.recorder import MAX_TRIES, RETRY_SECONDS, EventBroadcaster, Recorder
from kscheduler.client.resources import KubeClient

log = logs.logger(__name__)

QUEUE_SIZE = 1000


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
        """From now on nothing is taken or sent."""
        self._closed = True

    async def drained(self) -> None:
        """Returns when every event taken so far has been dealt with."""
        await self._events.join()

    async def run(self) -> None:
        """Sends until cancelled."""
        while True:
            event = self._correlator.correlate(await self._events.get(), self._now_ns())
            if event is not None:
                await self._persist(event)
            self._events.task_done()

    async def _persist(self, event: CoreEvent) -> None:
        for attempt in range(1, MAX_TRIES + 1):
            if await self._sent(event):
                return
            if attempt < MAX_TRIES:
                first = attempt == 1
                await asyncio.sleep(self._retry_seconds * (random.random() if first else 1.0))
        log.error(None, "Unable to write event (retry limit exceeded!)", event=_ref(event))

    async def _sent(self, event: CoreEvent) -> bool:
        """Whether the matter is closed: told, or refused for good."""
        if self._closed:
            log.error(None, "Unable to write event (broadcaster is shut down)", event=_ref(event))
            return True
        try:
            await self._write(event)
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

    async def _write(self, event: CoreEvent) -> None:
        if event.count > 1:
            try:
                await self._client.patch(
                    CORE_EVENTS, event.name, core_event_patch(event), event.namespace
                )
            except NotFound:
                pass  # expired at the server: told anew, as a whole
            else:
                return
        await self._client.create(CORE_EVENTS, core_event_body(event), event.namespace)


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
    """The newest kind of events this server takes. The older kind is sent one by one, which is in
    nobody's way.
    """
    if has_events_api:
        return EventBroadcaster(client, dropped=dropped, urgent=urgent)
    return LegacyBroadcaster(client, dropped=dropped)


def _ref(event: CoreEvent) -> logs.ObjectRef:
    return logs.ObjectRef(event.namespace, event.name)
