"""Events about pods, sent to events.k8s.io/v1 without ever delaying a binding.

`record` only puts a note into a bounded queue. A few workers turn notes into events, merge
repetitions (`series`) and send what is left over a client of their own. An event costs the
API server nearly as much as a binding, so while bindings queue up most workers stand aside.

Mirrors client-go's tools/events broadcaster. Differs: concurrency is bounded, events about one
object are sent one after the other, what does not fit into the queue is counted, and log lines name
the event instead of printing it whole.
"""

import asyncio
import socket
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from kscheduler import logs
from kscheduler.api.core import ObjectReference
from kscheduler.api.meta import ApiObject
from kscheduler.api.resources import EVENTS, Resource
from kscheduler.client.errors import AlreadyExists, ApiError, NotFound, StatusError
from kscheduler.client.events.series import (
    Event,
    SeriesCache,
    event_body,
    event_name,
    series_patch,
)
from kscheduler.client.kube_client import KubeClient
from kscheduler.client.throttle import jittered
from kscheduler.gotext.fmt import sprintf_without_arguments

log = logs.logger(__name__)

NORMAL = "Normal"
WARNING = "Warning"

# Upstream's sink queue holds 1,000 but its goroutines hold the rest; ours is the only store. Full,
# it takes some 25 MB.
QUEUE_SIZE = 50_000
WORKERS = 16
# So many go on while there is more urgent work for the server; the others wait and check again.
STEADY_WORKERS = 2
ASIDE_SECONDS = 0.05
MAX_TRIES = 12
RETRY_SECONDS = 10.0
REFRESH_SECONDS = 30 * 60
FINISH_SECONDS = 6 * 60

MAX_NOTE_BYTES = 1024
_ELLIPSIS = b" ..."


class Recorder(Protocol):
    """Says what happened to an object, in the name of one scheduler profile."""

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
        """Returns at once and never raises; delivery is best effort."""


def reference_to(resource: Resource, item: ApiObject) -> ObjectReference:
    """The object as events refer to it, at the version we know."""
    metadata = item.metadata
    return ObjectReference(
        kind=resource.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        api_version=resource.api_version,
        resource_version=metadata.resource_version,
    )


class _Note(NamedTuple):
    """Arguments of a call of `record`, and its time."""

    time_ns: int
    controller: str
    instance: str
    regarding: ObjectReference
    related: ObjectReference | None
    type: str
    reason: str
    action: str
    note: str


class EventBroadcaster:
    """Takes notes from recorders and sends events; `run` it as a task.

    `dropped` is called for every note that found the queue full; `urgent` says whether the server
    has better things to do.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        dropped: Callable[[], None] = lambda: None,
        urgent: Callable[[], bool] = lambda: False,
        queue_size: int = QUEUE_SIZE,
        workers: int = WORKERS,
        retry_seconds: float = RETRY_SECONDS,
        wall_clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._client = client
        self._dropped = dropped
        self._urgent = urgent
        self._notes: asyncio.Queue[_Note] = asyncio.Queue(queue_size)
        self._workers = workers
        self._retry_seconds = retry_seconds
        self._now_ns = wall_clock_ns
        self._cache = SeriesCache()
        # The event that was last begun about each object, while it is under way.
        self._latest: dict[tuple[str, ...], asyncio.Event] = {}
        self._closed = False

    def recorder(self, controller: str) -> Recorder:
        return _Recorder(self, controller, f"{controller}-{socket.gethostname()}")

    def take(self, note: _Note) -> None:
        if self._closed:
            return
        try:
            self._notes.put_nowait(note)
        except asyncio.QueueFull:
            self._dropped()

    def shutdown(self) -> None:
        """Send nothing from now on; requests under way are finished."""
        self._closed = True

    async def run(self) -> None:
        """Sends until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(self._workers):
                steady = number < STEADY_WORKERS
                tasks.create_task(self._work(steady=steady), name=f"events/{number}")
            tasks.create_task(self._refresh(), name="events/refresh")
            tasks.create_task(self._finish(), name="events/finish")

    async def _work(self, *, steady: bool) -> None:
        while True:
            # Another event under way would delay bindings; notes that get lost would be worse.
            if not steady and self._urgent() and self._notes.qsize() < self._notes.maxsize // 2:
                await asyncio.sleep(ASIDE_SECONDS)
                continue
            note = await self._notes.get()
            event = self._cache.observe(_event(note), self._now_ns())
            if event is not None:
                await self._persist(event)
            self._notes.task_done()

    async def _persist(self, event: Event) -> None:
        """Send an event, with retries, once those before it about this object are settled."""
        regarding = event.regarding
        about = (regarding.kind, regarding.namespace, regarding.name, regarding.uid)
        before, settled = self._latest.get(about), asyncio.Event()
        self._latest[about] = settled
        try:
            if before is not None:
                await before.wait()
            for attempt in range(1, MAX_TRIES + 1):
                if await self._attempt(event):
                    return
                if attempt < MAX_TRIES:
                    await asyncio.sleep(jittered(self._retry_seconds, 0.25))
            log.error(None, "Unable to write event (retry limit exceeded!)", event=_ref(event))
        finally:
            # Ours is the latest unless another worker has queued up behind it meanwhile.
            settled.set()
            if self._latest[about] is settled:
                del self._latest[about]

    async def drained(self) -> None:
        """Returns when every note taken so far has been dealt with."""
        await self._notes.join()

    async def _refresh(self) -> None:
        """Keeps running series from expiring at the server, and updates their count there."""
        while True:
            await self._send_all(self._cache.running_series())
            await asyncio.sleep(REFRESH_SECONDS)

    async def _finish(self) -> None:
        """Sends the final count of series that are over."""
        while True:
            over = self._cache.finish(self._now_ns())
            for event in await self._send_all(over):
                self._cache.forget(event)
            await asyncio.sleep(FINISH_SECONDS)

    async def _send_all(self, events: Sequence[Event]) -> list[Event]:
        """Send events one by one, which leaves connections for new ones; returns the settled."""
        return [event for event in events if await self._attempt(event)]

    async def _attempt(self, event: Event) -> bool:
        """Try to send an event; returns whether it is settled: sent, or rejected for good."""
        if self._closed:
            return True
        try:
            if event.is_series:
                try:
                    await self._client.patch(
                        EVENTS, event.name, series_patch(event), event.namespace
                    )
                except NotFound:
                    pass  # Expired at the server: posted again as a whole.
                else:
                    return True
            await self._client.create(EVENTS, event_body(event), event.namespace)
        except AlreadyExists as error:
            if event.is_series:
                return False
            log.v(5).info(
                "Server rejected event (will not retry!)", event=_ref(event), err=str(error)
            )
        except StatusError as error:
            log.error(error, "Server rejected event (will not retry!)", event=_ref(event))
        except ApiError as error:
            log.error(error, "Unable to write event (may retry after sleeping)")
            return False
        return True


class _Recorder:
    __slots__ = ("_broadcaster", "_controller", "_instance")

    def __init__(self, broadcaster: EventBroadcaster, controller: str, instance: str) -> None:
        self._broadcaster = broadcaster
        self._controller = controller
        self._instance = instance

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
        self._broadcaster.take(
            _Note(
                time.time_ns(),
                self._controller,
                self._instance,
                regarding,
                related,
                type,
                reason,
                action,
                note,
            )
        )


def _event(note: _Note) -> Event:
    return Event(
        name=event_name(note.regarding.name, note.time_ns),
        namespace=note.regarding.namespace or "default",
        time_ns=note.time_ns,
        controller=note.controller,
        instance=note.instance,
        action=note.action,
        reason=note.reason,
        regarding=note.regarding,
        related=note.related,
        note=note_text(note.note),
        type=note.type,
    )


def _ref(event: Event) -> logs.ObjectRef:
    return logs.ObjectRef(event.namespace, event.name)


def note_text(message: str) -> str:
    """The text of an event, as upstream's formatting leaves it.

    The message is cut to what the API takes, then used as a printf format without arguments, so
    that a percent sign comes out mangled. Both are visible to users and reproduced on purpose.
    """
    data = message.encode(errors="replace")
    text = data.decode()
    if len(data) > MAX_NOTE_BYTES:
        head = data[: MAX_NOTE_BYTES - len(_ELLIPSIS)]
        whole = head.decode(errors="ignore")
        # Go writes each byte of a character that was cut through as U+FFFD.
        torn = len(head) - len(whole.encode())
        text = whole + torn * "\ufffd" + _ELLIPSIS.decode()
    return sprintf_without_arguments(text)
