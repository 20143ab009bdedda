"""Observation of requests and informers: upstream's metrics, and log lines about reachability."""

import asyncio
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from kscheduler import logs
from kscheduler.api.resources import Resource
from kscheduler.client.errors import (
    ConnectionRefused,
    DeadlineExceeded,
    HostNotFound,
    TlsError,
    TransportError,
)
from kscheduler.metrics import Metrics

# Upstream exports the last digits of a version only: as many as a float holds exactly.
VERSION_DIGITS = 15

log = logs.logger(__name__)
AWAY = (ConnectionRefused, DeadlineExceeded, HostNotFound, TlsError)
# A server that answers every other request is logged at most once in so long.
QUIET_SECONDS = 60.0


class Observer(Protocol):
    """Callbacks for every request; they must be quick and must not raise."""

    def attempted(self, verb: str, host: str, code: str, *, again: bool) -> None:
        """One try was answered with this status code, or `<error>`; `again` from the second on."""

    def finished(self, verb: str, host: str, seconds: float, sent: int, received: int) -> None:
        """A request is over, all tries and pauses included; sizes are of the bodies, in bytes."""

    def throttled(self, verb: str, host: str, seconds: float) -> None:
        """Our own rate limit let a try wait this long; often 0."""

    def reloaded_authority(self, result: str, reason: str) -> None:
        """The file with the server's authorities was checked for changes."""


class NoObserver:
    """An observer that ignores everything."""

    def attempted(self, verb: str, host: str, code: str, *, again: bool) -> None: ...

    def finished(self, verb: str, host: str, seconds: float, sent: int, received: int) -> None: ...

    def throttled(self, verb: str, host: str, seconds: float) -> None: ...

    def reloaded_authority(self, result: str, reason: str) -> None: ...


class ThreadsafeObserver:
    """An observer for use in another thread: `post` calls `observer` in its own, in order."""

    def __init__(self, observer: Observer, post: Callable[..., object]) -> None:
        self._observer = observer
        self._post = post

    def attempted(self, verb: str, host: str, code: str, *, again: bool) -> None:
        self._post(partial(self._observer.attempted, verb, host, code, again=again))

    def finished(self, verb: str, host: str, seconds: float, sent: int, received: int) -> None:
        self._post(self._observer.finished, verb, host, seconds, sent, received)

    def throttled(self, verb: str, host: str, seconds: float) -> None:
        self._post(self._observer.throttled, verb, host, seconds)

    def reloaded_authority(self, result: str, reason: str) -> None:
        self._post(self._observer.reloaded_authority, result, reason)


class RestClientMetrics:
    """The rest_client_* families."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def opened(self) -> None:
        """A way to an API server was opened; each of ours has one to itself."""
        self._metrics.rest_client_transport_create_calls_total.labels("miss").inc()
        self._metrics.rest_client_transport_cache_entries.inc()

    def attempted(self, verb: str, host: str, code: str, *, again: bool) -> None:
        self._metrics.rest_client_requests_total.labels(code, verb, host).inc()
        if again:
            self._metrics.rest_client_request_retries_total.labels(code, verb, host).inc()

    def finished(self, verb: str, host: str, seconds: float, sent: int, received: int) -> None:
        metrics = self._metrics
        metrics.rest_client_request_duration_seconds.labels(verb, host).observe(seconds)
        metrics.rest_client_request_size_bytes.labels(verb, host).observe(sent)
        metrics.rest_client_response_size_bytes.labels(verb, host).observe(received)

    def throttled(self, verb: str, host: str, seconds: float) -> None:
        self._metrics.rest_client_rate_limiter_duration_seconds.labels(verb, host).observe(seconds)

    def reloaded_authority(self, result: str, reason: str) -> None:
        self._metrics.rest_client_transport_ca_reload_total.labels(result, reason).inc()


class InformerObserver:
    """The informer_* families, by collection. Nothing is ever queued here."""

    def __init__(self, metrics: Metrics, name: str) -> None:
        self._metrics = metrics
        self._name = name

    def processing(self, resource: Resource) -> Callable[[float], None]:
        """A callback for the seconds that each change took."""
        latency = self._metrics.informer_processing_latency_seconds
        return latency.labels(*self._labels(resource)).observe

    def track_version(self, resource: Resource, version: Callable[[], str]) -> None:
        """Export the version up to which a collection is known; asked for at each scrape."""
        labels = self._labels(resource)
        self._metrics.informer_queued_items.labels(*labels)
        stored = self._metrics.informer_store_resource_version.labels(*labels)

        def last_digits() -> float:
            digits = version()[-VERSION_DIGITS:]
            return float(digits) if digits.isascii() and digits.isdecimal() else 0.0

        stored.read_from(last_digits)

    def _labels(self, resource: Resource) -> tuple[str, str, str, str]:
        # Upstream's plurals: an s behind whatever it is.
        return self._name, resource.group, resource.version, f"{resource.kind.lower()}s"


class Reachability:
    """Whether one server answers; shared by all connections to it, whichever thread has them.

    Log lines tell of its loss and return, and whoever waits for its return is woken by the first
    request of anybody that it serves. Silent until `begin`: a start that only checks or writes a
    configuration needs no server.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._silent = True
        self._logged_at = float("-inf")
        self._away = False
        self._served_at = float("-inf")
        self._waiting: set[asyncio.Future[None]] = set()
        self._changing = threading.Lock()

    def begin(self) -> None:
        self._silent = False

    def failed(self, error: TransportError) -> None:
        with self._changing:
            now = self._clock()
            if self._silent or self._away or not isinstance(error, AWAY):
                return
            if now - self._logged_at < QUIET_SECONDS:
                return
            self._away = True
            self._logged_at = now
        log.error(error, "The API server cannot be reached, trying again", remedy=error.remedy)

    def answered(self, status: int = 200) -> None:
        if status < 500 and status != 429:
            self._served_at = self._clock()
            if self._waiting:
                self._wake()
        if not self._away:
            return
        with self._changing:
            was_away, self._away = self._away, False
        if was_away:
            log.info("The API server can be reached again")

    async def served(self, since: float) -> None:
        """Returns when a request has been served after this moment, whoever sent it."""
        waiter = asyncio.get_running_loop().create_future()
        with self._changing:
            self._waiting.add(waiter)
        try:
            # Asked once it is among those to be woken: another thread may just have been served.
            if self._served_at <= since:
                await waiter
        finally:
            with self._changing:
                self._waiting.discard(waiter)

    def _wake(self) -> None:
        with self._changing:
            waiting, self._waiting = self._waiting, set()
        for waiter in waiting:
            waiter.get_loop().call_soon_threadsafe(_resolve, waiter)


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
