"""Leader election on a Lease: acquire, renew, release.

Mirrors client-go's elector. Time is read off a local monotonic clock only: a lease counts as
valid for its duration after *we last saw it change*, whatever the times written in it say, so
clocks that jump or disagree change nothing. Differs: nothing on the wire.

A `Tenure` is what client-go has no word for: how long a leader may go on writing without having
heard from the server. It counts from *before* the last renewal was sent, since that is the earliest
moment from which another candidate may count, and ends ahead of the lease that others read.

An elector runs in one event loop; its tenure, `is_leader`, `holder`, `annotations` and `overdue`
may be read from any thread. Each of them reads attributes that are replaced in one assignment and
never changed.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol

import msgspec

from kscheduler import logs
from kscheduler.api.timestamps import format_micro_time
from kscheduler.client.errors import Conflict
from kscheduler.errors import ConfigError, KschedulerError

log = logs.logger(__name__)

JITTER_FACTOR = 1.2
# How long after its lease ran out a leader may still find that out by itself.
WATCHDOG_SECONDS = 20.0
# A leader writes for at least this part of the duration that others read in its lease.
LEAST_HELD = 0.5
# The term of a candidate that does not lead.
NO_TERM = 0

RawLease = dict[str, Any]

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed() -> float:
    """Monotonic seconds, counting on in a suspended machine where the system has such a clock: the
    other candidates' machines may be awake.
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


class ElectionConfig(msgspec.Struct, frozen=True):
    identity: str
    lock: str  # namespace/name, for logs
    lease_seconds: float
    renew_deadline_seconds: float
    retry_seconds: float

    def check(self) -> None:
        """Raises ConfigError if these durations do not fit each other."""
        if problem := self.problem:
            raise ConfigError(f"couldn't create leader elector: {problem}")

    @property
    def problem(self) -> str:
        """The first of client-go's complaints that applies, in its order; "" if none does.

        The one about whole seconds is ours: a shorter lease would be written as one of 0 seconds.
        """
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
        if self.written_seconds < 1:
            return (
                "leaseDuration must be at least 1s: leaseDurationSeconds in the lease, by which "
                "other candidates go, counts whole seconds"
            )
        return "" if self.identity else "Lock identity is empty"

    @property
    def written_seconds(self) -> int:
        """The duration that others read in the lease, cut to whole seconds as in client-go."""
        return int(self.lease_seconds)

    @property
    def held_seconds(self) -> float:
        """How long after a renewal we act on it; others wait longer before they take over.

        The renew deadline, if the duration is in whole seconds. If it was cut, this ends as long
        before the written duration as the deadline does before the configured one, but not in the
        first half. It may be shorter than the retry period: writes then wait for the next renewal.
        """
        ahead = self.lease_seconds - self.renew_deadline_seconds
        latest = max(self.written_seconds - ahead, LEAST_HELD * self.written_seconds)
        return min(self.renew_deadline_seconds, latest)


class Tenure:
    """The right of a leader to act: a term, and the moment until which it may act in it.

    An elector writes it; whatever guards writes to the API server reads it, from any thread. Terms
    count up. One ends when the lease is seen to be another's, or is given back.
    """

    def __init__(self, clock: Callable[[], float] = elapsed) -> None:
        self._clock = clock
        self._term_until: tuple[int, float] = NO_TERM, float("-inf")
        self._terms = 0

    def held(self) -> tuple[int, float]:
        """The term and how many seconds of it are left, should no renewal succeed; none if not
        positive. The term is NO_TERM while not leading.

        Asked right before every write, so it is cheap, and true even if the loop that renews has
        been standing still.
        """
        term, until = self._term_until
        return (term, until - self._clock()) if term else (NO_TERM, 0.0)

    def extend(self, until: float) -> None:
        """The lease was written: the term goes on, or a new one begins."""
        term, _ = self._term_until
        if term == NO_TERM:
            term = self._terms = self._terms + 1
        self._term_until = term, until

    def end(self) -> None:
        self._term_until = NO_TERM, float("-inf")


class Observers(msgspec.Struct, frozen=True):
    """Callbacks for changes: events for people, a gauge for machines."""

    event: Callable[[str], object] = lambda _: None
    leading: Callable[[], object] = lambda: None
    standing_by: Callable[[], object] = lambda: None
    slow_path: Callable[[], object] = lambda: None
    # The lease was written, and the tenure extended.
    renewed: Callable[[], object] = lambda: None


class LeaderElector:
    """One candidate for one lease; its config has passed `check` before it runs."""

    def __init__(
        self,
        api: LeaseApi,
        config: ElectionConfig,
        observers: Observers | None = None,
        *,
        tenure: Tenure | None = None,
        clock: Callable[[], float] = elapsed,
        rng: random.Random | None = None,
    ) -> None:
        self._api = api
        self.config = config
        self.tenure = tenure or Tenure(clock)
        self._observers = observers or Observers()
        self._clock = clock
        self._rng = rng or random.Random()
        self._lease: RawLease | None = None
        # The record as last seen, and when it was seen to change.
        self._observed: tuple[dict[str, Any], float] = {}, 0.0

    @property
    def holder(self) -> str:
        return str(self._observed[0].get("holderIdentity") or "")

    @property
    def annotations(self) -> Mapping[str, str]:
        """Annotations of the lease as last seen: what its holder tells about itself."""
        lease = self._lease or {}
        return (lease.get("metadata") or {}).get("annotations") or {}

    @property
    def is_leader(self) -> bool:
        return self.holder == self.config.identity

    @property
    def valid_until(self) -> float:
        """When the lease as last seen runs out, on this process's monotonic clock."""
        record, seen_at = self._observed
        return seen_at + float(record.get("leaseDurationSeconds") or 0)

    def overdue(self) -> str | None:
        """Why this leader counts as stuck: its lease ran out long ago and it still leads."""
        if self.is_leader and self._clock() > self.valid_until + WATCHDOG_SECONDS:
            lock = self.config.lock.rpartition("/")[2]
            return f"failed election to renew leadership on lease {lock}"
        return None

    async def run(
        self,
        lead: Callable[[], Coroutine[Any, Any, None]],
        *,
        is_alive: Callable[[], bool] = lambda: True,
    ) -> None:
        """Campaign, lead while the lease can be renewed, give it back; returns when leadership is
        lost.

        `lead` runs as a task of its own and is cancelled before this returns. Cancelling this
        releases the lease. `is_alive` says before every renewal whether the leading loop still
        runs.
        """
        self._observers.standing_by()
        await self._acquire()
        leading = asyncio.create_task(lead(), name="leading")
        try:
            await self._renew_until_lost(leading, is_alive)
        finally:
            # The work ends before the lease is given back; a failure of it is logged only, or the
            # lease would stay ours until it runs out.
            leading.cancel()
            await asyncio.wait({leading})
            if not leading.cancelled() and (error := leading.exception()) is not None:
                log.error(error, "Leading ended with an error")
            self._observers.standing_by()
            await self._release()
            self._observers.event(f"{self.config.identity} stopped leading")

    async def _acquire(self) -> None:
        lock = self.config.lock
        log.info("Attempting to acquire leader lease...", lock=lock)
        while True:
            if await self._try_acquire_or_renew():
                break
            log.v(4).info("Failed to acquire lease", lock=lock)
            jitter = 1 + self._rng.random() * JITTER_FACTOR
            await asyncio.sleep(self.config.retry_seconds * jitter)
        self._observers.event(f"{self.config.identity} became leader")
        self._observers.leading()
        log.info("Successfully acquired lease", lock=lock)

    async def _renew_until_lost(
        self, leading: asyncio.Task[None], is_alive: Callable[[], bool]
    ) -> None:
        """Renew at once, then every retry period; the work ending by itself ends leadership too."""
        while is_alive():
            if not await self._renew_before_deadline():
                log.info(
                    "Failed to renew lease",
                    lock=self.config.lock,
                    err="context deadline exceeded",
                )
                return
            log.v(5).info("Successfully renewed lease", lock=self.config.lock)
            done, _ = await asyncio.wait({leading}, timeout=self.config.retry_seconds)
            if done:
                await leading
                return
        log.error(None, "Stopped renewing the lease of a loop that is dead", lock=self.config.lock)

    async def _renew_before_deadline(self) -> bool:
        try:
            async with asyncio.timeout(self.config.renew_deadline_seconds):
                while True:
                    if await self._try_acquire_or_renew():
                        return True
                    await asyncio.sleep(self.config.retry_seconds)
        except TimeoutError:
            return False

    async def _try_acquire_or_renew(self) -> bool:
        """One try, in client-go's order: write blindly if the lease is ours, else read it first."""
        if self.is_leader and self._clock() < self.valid_until:
            if await self._renew_optimistically():
                return True
            log.v(2).info(
                "Failed to update lease optimistically, falling back to slow path",
                lock=self.config.lock,
            )
        try:
            lease = await self._api.get()
        except KschedulerError as error:
            log.error(error, "Error retrieving lease lock", lock=self.config.lock)
            return False
        if lease is None:
            now, started = _now(), self._clock()
            spec = self._spec(acquired=now, renewed=now, transitions=0)
            try:
                written = await self._api.create(spec)
            except KschedulerError as error:
                log.error(error, "Error initially creating lease lock")
                return False
            self._hold(written, since=started)
            return True
        self._observe(lease)
        if self.holder and not self.is_leader and self._clock() < self.valid_until:
            log.v(4).info(
                "Lease is held by and has not yet expired",
                lock=self.config.lock,
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
            log.error(error, "Failed to update lease", lock=self.config.lock)
            return False
        self._hold(written, since=started)
        return True

    async def _release(self) -> None:
        """Give the lease back so that another can lead at once; somebody else's is left alone."""
        try:
            async with asyncio.timeout(self.config.renew_deadline_seconds):
                while not await self._give_back():
                    log.v(4).info("Conflict when releasing lease, retrying", lock=self.config.lock)
        except (KschedulerError, TimeoutError) as error:
            log.error(error, "Failed to release lease", lock=self.config.lock)

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
            "holderIdentity": self.config.identity,
            "leaseDurationSeconds": self.config.written_seconds,
            "acquireTime": acquired,
            "renewTime": renewed,
            "leaseTransitions": transitions,
        }

    def _observe(self, lease: RawLease) -> None:
        """A lease we read: only a change of its record restarts the clock."""
        self._lease = lease
        if (lease.get("spec") or {}) != self._observed[0]:
            self._keep(lease)

    def _hold(self, written: RawLease, *, since: float) -> None:
        """We wrote the lease: it is ours, from before the request was sent."""
        self._keep(written)
        self.tenure.extend(until=since + self.config.held_seconds)
        self._observers.renewed()

    def _keep(self, lease: RawLease) -> None:
        self._lease = lease
        self._observed = lease.get("spec") or {}, self._clock()
        if not self.is_leader:
            self.tenure.end()


def _now() -> str:
    return format_micro_time(time.time())
