"""Leader election on a Lease: acquire, renew, release.

Mirrors client-go's elector. Time is read off a local monotonic clock only: a lease counts as
valid for its duration after *we last saw it change*, whatever the times written in it say, so
clocks that jump or disagree change nothing. Differs: nothing on the wire.

`seconds_left` is what client-go has no word for: how long a leader may go on writing without
having heard from the server. It counts from *before* the last renewal was sent, since that is the
earliest moment from which another candidate may count, and ends ahead of the lease by as much as
the renew deadline does.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from kscheduler import logs
from kscheduler.api.timestamps import format_micro_time
from kscheduler.client.errors import Conflict
from kscheduler.errors import ConfigError, KschedulerError

log = logs.logger(__name__)

JITTER_FACTOR = 1.2
# How long after its lease ran out a leader may still find that out by itself.
WATCHDOG_SECONDS = 20.0

RawLease = dict[str, Any]

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed() -> float:
    """A clock that nobody sets and that, where there is such a one, goes on in a suspended machine:
    the other candidates' machines may be awake.
    """
    return time.clock_gettime(_CLOCK)


class LeaseApi(Protocol):
    """The one lease we compete for, as raw JSON so that nothing in it is lost when it is written
    back.
    """

    async def get(self) -> RawLease | None:
        """None if there is no such lease."""

    async def create(self, spec: dict[str, Any]) -> RawLease: ...

    async def update(self, lease: RawLease) -> RawLease: ...


@dataclass(frozen=True, slots=True)
class ElectionConfig:
    identity: str
    lock: str  # namespace/name, for logs
    lease_seconds: float
    renew_deadline_seconds: float
    retry_seconds: float

    def check(self) -> None:
        problem = self._problem()
        if problem:
            raise ConfigError(f"couldn't create leader elector: {problem}")

    def _problem(self) -> str:
        if self.lease_seconds <= self.renew_deadline_seconds:
            return "leaseDuration must be greater than renewDeadline"
        if self.renew_deadline_seconds <= JITTER_FACTOR * self.retry_seconds:
            return "renewDeadline must be greater than retryPeriod*JitterFactor"
        if self.lease_seconds <= 0:
            return "leaseDuration must be greater than zero"
        if self.renew_deadline_seconds <= 0:
            return "renewDeadline must be greater than zero"
        if self.retry_seconds <= 0:
            return "retryPeriod must be greater than zero"
        return "" if self.identity else "Lock identity is empty"

    @property
    def written_seconds(self) -> int:
        """The duration that others read in the lease."""
        return int(self.lease_seconds)

    @property
    def held_seconds(self) -> float:
        """How long after a renewal we act on it; others wait longer before they take over."""
        return self.written_seconds - (self.lease_seconds - self.renew_deadline_seconds)


def _nothing(_: str) -> None:
    return None


@dataclass(slots=True)
class Observers:
    """Who hears of changes: events for people, a gauge for machines."""

    event: Callable[[str], None] = _nothing
    leading: Callable[[], None] = lambda: None
    standing_by: Callable[[], None] = lambda: None
    slow_path: Callable[[], None] = lambda: None


class LeaderElector:
    def __init__(
        self,
        api: LeaseApi,
        config: ElectionConfig,
        observers: Observers | None = None,
        *,
        clock: Callable[[], float] = elapsed,
        rng: random.Random | None = None,
    ) -> None:
        config.check()
        self._api = api
        self._config = config
        self._observers = observers or Observers()
        self._clock = clock
        self._rng = rng or random.Random()
        self._lease: RawLease | None = None
        self._observed: dict[str, Any] = {}
        self._observed_at = 0.0
        self._held_until = float("-inf")

    @property
    def holder(self) -> str:
        return str(self._observed.get("holderIdentity") or "")

    @property
    def is_leader(self) -> bool:
        return self.holder == self._config.identity

    @property
    def valid_until(self) -> float:
        """When the lease as last seen runs out, on this process's monotonic clock."""
        return self._observed_at + float(self._observed.get("leaseDurationSeconds") or 0)

    def seconds_left(self) -> float:
        """How long we may still act as the leader, should no renewal succeed; none if not positive.

        Asked right before every write, so it is cheap, and true even if the loop that renews has
        been standing still.
        """
        return self._held_until - self._clock() if self.is_leader else 0.0

    def overdue(self) -> str | None:
        """Why this leader counts as stuck: its lease ran out long ago and it still leads."""
        if self.is_leader and self._clock() > self.valid_until + WATCHDOG_SECONDS:
            lock = self._config.lock.rpartition("/")[2]
            return f"failed election to renew leadership on lease {lock}"
        return None

    async def run(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Campaign, lead while the lease can be renewed, give it back; returns when leadership is
        lost.

        `lead` runs as a task of its own and is cancelled before this returns. Cancelling this
        releases the lease.
        """
        self._observers.standing_by()
        await self._acquire()
        leading = asyncio.create_task(lead(), name="leading")
        try:
            await self._renew_until_lost(leading)
        finally:
            await _cancelled(leading)
            self._observers.standing_by()
            await self._release()
            self._observers.event(f"{self._config.identity} stopped leading")

    async def _acquire(self) -> None:
        lock = self._config.lock
        log.info("Attempting to acquire leader lease...", lock=lock)
        while True:
            if await self._try_acquire_or_renew():
                break
            log.v(4).info("Failed to acquire lease", lock=lock)
            jitter = 1 + self._rng.random() * JITTER_FACTOR
            await asyncio.sleep(self._config.retry_seconds * jitter)
        self._observers.event(f"{self._config.identity} became leader")
        self._observers.leading()
        log.info("Successfully acquired lease", lock=lock)

    async def _renew_until_lost(self, leading: asyncio.Task[None]) -> None:
        """Renew at once, then every retry period; the work ending by itself ends leadership too."""
        while await self._renew_before_deadline():
            log.v(5).info("Successfully renewed lease", lock=self._config.lock)
            done, _ = await asyncio.wait({leading}, timeout=self._config.retry_seconds)
            if done:
                await leading
                return
        log.info("Failed to renew lease", lock=self._config.lock, err="context deadline exceeded")

    async def _renew_before_deadline(self) -> bool:
        try:
            async with asyncio.timeout(self._config.renew_deadline_seconds):
                while True:
                    if await self._try_acquire_or_renew():
                        return True
                    await asyncio.sleep(self._config.retry_seconds)
        except TimeoutError:
            return False

    async def _try_acquire_or_renew(self) -> bool:
        if self.is_leader and self._clock() < self.valid_until:
            if await self._renew_optimistically():
                return True
            log.v(2).info(
                "Failed to update lease optimistically, falling back to slow path",
                lock=self._config.lock,
            )
        try:
            lease = await self._api.get()
        except KschedulerError as error:
            log.error(error, "Error retrieving lease lock", lock=self._config.lock)
            return False
        if lease is None:
            return await self._create()
        self._observe(lease)
        if self.holder and not self.is_leader and self._clock() < self.valid_until:
            log.v(4).info(
                "Lease is held by and has not yet expired",
                lock=self._config.lock,
                holder=self.holder,
            )
            return False
        return await self._take(lease)

    async def _renew_optimistically(self) -> bool:
        """Write the lease as we last saw it; fails if anybody has touched it since."""
        lease = self._lease
        if lease is None:
            return False
        renewed = lease["spec"] | {"renewTime": _now()}
        started = self._clock()
        try:
            written = await self._api.update(lease | {"spec": renewed})
        except KschedulerError:
            return False
        self._hold(written, since=started)
        return True

    async def _create(self) -> bool:
        now = _now()
        started = self._clock()
        try:
            written = await self._api.create(self._spec(acquired=now, renewed=now, transitions=0))
        except KschedulerError as error:
            log.error(error, "Error initially creating lease lock")
            return False
        self._hold(written, since=started)
        return True

    async def _take(self, lease: RawLease) -> bool:
        """Write ourselves into the lease: a renewal if it is ours already, a transition if not."""
        now = _now()
        spec = lease.get("spec") or {}
        transitions = int(spec.get("leaseTransitions") or 0)
        if self.is_leader:
            self._observers.slow_path()
            acquired = spec.get("acquireTime") or now
        else:
            acquired, transitions = now, transitions + 1
        wanted = self._spec(acquired=acquired, renewed=now, transitions=transitions)
        started = self._clock()
        try:
            written = await self._api.update(lease | {"spec": wanted})
        except KschedulerError as error:
            log.error(error, "Failed to update lease", lock=self._config.lock)
            return False
        self._hold(written, since=started)
        return True

    async def _release(self) -> None:
        """Give the lease back so that another can lead at once; somebody else's is left alone."""
        try:
            async with asyncio.timeout(self._config.renew_deadline_seconds):
                while not await self._give_back():
                    log.v(4).info("Conflict when releasing lease, retrying", lock=self._config.lock)
        except (KschedulerError, TimeoutError) as error:
            log.error(error, "Failed to release lease", lock=self._config.lock)

    async def _give_back(self) -> bool:
        """False if the lease changed meanwhile: a renewal we no longer waited for may have come
        through.
        """
        lease = await self._api.get()
        if lease is None:
            return True
        self._observe(lease)
        if not self.is_leader:
            return True
        now = _now()
        transitions = int(lease["spec"].get("leaseTransitions") or 0)
        released = self._spec(acquired=now, renewed=now, transitions=transitions) | {
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
        }
        try:
            self._keep(await self._api.update(lease | {"spec": released}))
        except Conflict:
            return False
        return True

    def _spec(self, *, acquired: str, renewed: str, transitions: int) -> dict[str, Any]:
        return {
            "holderIdentity": self._config.identity,
            "leaseDurationSeconds": self._config.written_seconds,
            "acquireTime": acquired,
            "renewTime": renewed,
            "leaseTransitions": transitions,
        }

    def _observe(self, lease: RawLease) -> None:
        """A lease we read: only a change of its record restarts the clock."""
        self._lease = lease
        if (lease.get("spec") or {}) != self._observed:
            self._keep(lease)

    def _hold(self, written: RawLease, *, since: float) -> None:
        """We wrote the lease: it is ours, from before the request was sent."""
        self._keep(written)
        self._held_until = since + self._config.held_seconds

    def _keep(self, lease: RawLease) -> None:
        self._lease = lease
        self._observed = lease.get("spec") or {}
        self._observed_at = self._clock()


async def _cancelled(task: asyncio.Task[None]) -> None:
    """Cancel and wait for the end; a failure is told, and the lease is given back all the same."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error(error, "Leading ended with an error")


def _now() -> str:
    return format_micro_time(time.time())
