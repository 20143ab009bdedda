"""Leader election as the daemon does it: on a Lease, in a thread of its own.

The thread is there so that the lease is renewed whatever the main loop does. One Python call that
computes for a minute holds up everything in the main loop. Here it does not hold up renewals: the
interpreter hands over every few milliseconds (sys.getswitchinterval). Out of reach is a call into C
that keeps the interpreter's lock: it stops this thread as well, and then the fence keeps writes
back as it always did.

    main thread                                  "leader-election" thread
    run() ──────────────starts──────────────────▶ elector.run: campaign
    lead(), a task ◀────────begin──────────────── acquired
      ⋮         answers ◀────are you alive?────── before every renewal
    cancelled ◀─────────────cancel─────────────── lost, or run() was cancelled
      ended ─────────────────────────────────────▶ release
    run() returns ◀─────────────ended─────────────

The thread has an event loop, connections, credentials and a rate limit of its own, and touches
nothing of the main loop's: metrics and events are posted to that loop, in order. Shared are the
elector's answers, which are safe to read, and the log. Signals that interrupt plugins reach the
main thread all the same: the kernel prefers it.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import uuid
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from kscheduler.api.core import ObjectReference
from kscheduler.api.decode import UNREADABLE
from kscheduler.api.resources import LEASES
from kscheduler.app.advertisement import advertised
from kscheduler.client.errors import MalformedAnswer, NotFound
from kscheduler.client.events.broadcaster import Recorder
from kscheduler.client.transport import Transport
from kscheduler.config.model import LeaderElectionConfiguration
from kscheduler.gotext.duration import format_duration
from kscheduler.leader_election import ElectionConfig, LeaderElector, Observers, RawLease, Tenure
from kscheduler.metrics import Metrics

# The election's name in metrics, whatever its lease is called.
ELECTION = "kube-scheduler"
# A main loop that has not answered for so long is dead, and no leader. Liveness probes, which it
# does not answer either, have usually ended the process before.
SILENCE_SECONDS = 300.0

Lead = Callable[[], Coroutine[Any, Any, None]]


def election_config(config: LeaderElectionConfiguration) -> ElectionConfig:
    return ElectionConfig(
        identity=f"{socket.gethostname()}_{uuid.uuid4()}",
        lock=f"{config.resource_namespace}/{config.resource_name}",
        lease_seconds=config.lease_duration.seconds,
        renew_deadline_seconds=config.renew_deadline.seconds,
        retry_seconds=config.retry_period.seconds,
    )


def request_seconds(config: LeaderElectionConfiguration) -> float:
    """The time one request may take, so that a renewal can fail and be tried again in time."""
    return max(1.0, config.renew_deadline.seconds / 2)


class KubeLease:
    """The lease on an API server. What it answers is kept, to be referred to in events.

    `annotations` go along with every write that makes or keeps us the holder.
    """

    def __init__(
        self,
        transport: Transport,
        namespace: str,
        name: str,
        timeout: float,
        annotations: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._annotations = annotations
        self._transport = transport
        self._namespace = namespace
        self._name = name
        self._query = {"timeout": format_duration(int(timeout * 1_000_000_000))}
        self._last: RawLease = {}

    async def get(self) -> RawLease | None:
        try:
            return await self._send("GET", LEASES.path(self._namespace, self._name))
        except NotFound:
            return None

    async def create(self, spec: dict[str, Any]) -> RawLease:
        lease = {
            "kind": LEASES.kind,
            "apiVersion": LEASES.api_version,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": spec,
        }
        return await self._send(
            "POST", LEASES.path(self._namespace), advertised(lease, self._annotations())
        )

    async def update(self, lease: RawLease) -> RawLease:
        is_held = bool((lease.get("spec") or {}).get("holderIdentity"))
        lease = advertised(lease, self._annotations() if is_held else {})
        return await self._send("PUT", LEASES.path(self._namespace, self._name), lease)

    async def _send(self, method: str, path: str, lease: RawLease | None = None) -> RawLease:
        body = None if lease is None else msgspec.json.encode(lease)
        subject = f"{LEASES.group_resource} {self._name}"
        answer = await self._transport.request(
            method, path, query=self._query, body=body, subject=subject
        )
        try:
            self._last = msgspec.json.decode(answer, type=RawLease)
        except UNREADABLE as error:
            raise MalformedAnswer(f"{subject}: {error}") from error
        return self._last

    @property
    def reference(self) -> ObjectReference:
        metadata = self._last.get("metadata", {})
        return ObjectReference(
            kind=LEASES.kind,
            namespace=self._namespace,
            name=self._name,
            uid=metadata.get("uid", ""),
            api_version=LEASES.api_version,
            resource_version=metadata.get("resourceVersion", ""),
        )


def make_elector(
    lease: KubeLease,
    config: ElectionConfig,
    recorder: Recorder,
    metrics: Metrics,
    *,
    tenure: Tenure | None = None,
    renewed: Callable[[], object] = lambda: None,
    post: Callable[..., object] = lambda call, *args: call(*args),
) -> LeaderElector:
    """An elector that reports to events and metrics; `post` runs a call in the loop they live in.

    `renewed` is posted, too, whenever the lease was written.
    """
    status = metrics.leader_election_master_status.labels(ELECTION)

    def record_event(message: str) -> None:
        # The reference is taken here, while the lease is what the event is about.
        lease_now = lease.reference
        record = partial(recorder.record, lease_now, type="Normal", reason="LeaderElection")
        post(partial(record, action="", note=message))

    def count_slow_path() -> None:
        # Not shown before it is taken for the first time, as upstream.
        metrics.leader_election_slowpath_total.labels(ELECTION).inc()

    observers = Observers(
        event=record_event,
        leading=partial(post, status.set, 1),
        standing_by=partial(post, status.set, 0),
        slow_path=partial(post, count_slow_path),
        renewed=partial(post, renewed),
    )
    return LeaderElector(lease, config, observers, tenure=tenure)


class ElectionThread:
    """An election in a thread and loop of its own; `transport` carries only its requests."""

    def __init__(self, elector: LeaderElector, transport: Transport) -> None:
        self.elector = elector
        self._transport = transport

    async def run(self, lead: Lead) -> None:
        """`LeaderElector.run`, with `lead` in this loop and everything else in the thread."""
        main, own = asyncio.get_running_loop(), asyncio.new_event_loop()
        ended: asyncio.Future[None] = main.create_future()
        campaign = own.create_task(self._campaign(_Leading(main, lead)), name="campaign")

        async def wait_for_campaign() -> None:
            await asyncio.wait({campaign})

        def work() -> None:
            try:
                with asyncio.Runner(loop_factory=lambda: own) as runner:
                    runner.run(wait_for_campaign())
            finally:
                main.call_soon_threadsafe(ended.set_result, None)

        thread = threading.Thread(target=work, name="leader-election", daemon=True)
        thread.start()
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            with suppress(RuntimeError):  # Its loop may just have been closed.
                own.call_soon_threadsafe(campaign.cancel)
            await _wait(ended)
            raise
        finally:
            if ended.done():  # Then nothing but its last step is left.
                thread.join()
        campaign.result()

    async def _campaign(self, leading: _Leading) -> None:
        most_unanswered = SILENCE_SECONDS / self.elector.config.retry_seconds
        heartbeat = _Heartbeat(leading.main, most_unanswered=most_unanswered)
        async with self._transport:
            await self.elector.run(leading.run, is_alive=heartbeat.goes_on)


class _Leading:
    """`lead` in the main loop, as a coroutine of the thread's loop: it ends when that has ended."""

    def __init__(self, main: asyncio.AbstractEventLoop, lead: Lead) -> None:
        self.main = main
        self._lead = lead

    async def run(self) -> None:
        own = asyncio.get_running_loop()
        ended: asyncio.Future[None] = own.create_future()
        tasks: list[asyncio.Task[None]] = []

        def begin() -> None:
            task = self.main.create_task(self._lead(), name="leading")
            task.add_done_callback(lambda _: own.call_soon_threadsafe(ended.set_result, None))
            tasks.append(task)

        self.main.call_soon_threadsafe(begin)
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            self.main.call_soon_threadsafe(lambda: tasks[0].cancel())
            await _wait(ended)
        # Raises what it raised, CancelledError included.
        tasks[0].result()


class _Heartbeat:
    """Signs of life of the main loop, asked for before every renewal.

    Renewals are counted, not seconds: while the whole process was stopped there were none.
    """

    def __init__(self, main: asyncio.AbstractEventLoop, *, most_unanswered: float) -> None:
        self._main = main
        self._most_unanswered = most_unanswered
        self._was_answered = True
        self._unanswered = 0

    def goes_on(self) -> bool:
        if self._was_answered:
            self._was_answered, self._unanswered = False, 0
            self._main.call_soon_threadsafe(self._answer)
        else:
            self._unanswered += 1
        return self._unanswered < self._most_unanswered

    def _answer(self) -> None:
        self._was_answered = True


async def _wait(ended: asyncio.Future[None]) -> None:
    """Until it has ended, however often the caller is cancelled: threads cannot be abandoned."""
    while not ended.done():
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            continue
