"""Metrics of authentication and authorization on the secure port, under upstream's names.

User names become a handful of words, so that neither their number nor the names themselves show.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kscheduler.api.small_groups import UserInfo
from kscheduler.client.errors import ApiError, StatusError
from kscheduler.metrics import Counter, Family, Histogram, Metrics

WELL_KNOWN = frozenset(
    {"admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"}
)
CREATED = "201"
NO_ANSWER = "<error>"

CLIENT_AUTHORITIES = "DynamicConfigMapCABundle-client-ca"
PROXY_HEADERS = "RequestHeaderAuthRequestController"
SERVING_CERTIFICATE = "DynamicServingCertificateController"


class AccessObserver:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def authenticated(self, user: UserInfo | None, seconds: float) -> None:
        """None for one whose credentials were no good."""
        metrics = self._metrics
        result = "error" if user is None else "success"
        metrics.authentication_attempts.labels(result).inc()
        metrics.authentication_duration_seconds.labels(result).observe(seconds)
        if user is not None:
            name = user.username
            word = name if name in WELL_KNOWN else "email_id" if "@" in name else "other"
            metrics.authenticated_user_requests.labels(word).inc()

    def authorized(self, result: str, seconds: float) -> None:
        """`result` is allowed, denied, no-opinion or error."""
        self._metrics.authorization_attempts_total.labels(result).inc()
        self._metrics.authorization_duration_seconds.labels(result).observe(seconds)

    def certificate_shown(self, seconds_left: float) -> None:
        self._metrics.apiserver_client_certificate_expiration_seconds.observe(seconds_left)

    @contextmanager
    def looking_up(self, *, known: bool) -> Iterator[None]:
        """A token's owner is asked for; `known` if an earlier answer will do."""
        metrics, result = self._metrics, "hit" if known else "miss"
        started = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - started
            metrics.authentication_token_cache_request_total.labels(result).inc()
            metrics.authentication_token_cache_request_duration_seconds.labels(result).observe(
                seconds
            )

    @contextmanager
    def reviewing_token(self) -> Iterator[None]:
        metrics = self._metrics
        under_way = metrics.authentication_token_cache_active_fetch_count.labels("in_flight")
        result = "error"
        under_way.inc()
        try:
            with _delegated(
                metrics.apiserver_delegated_authn_request_total,
                metrics.apiserver_delegated_authn_request_duration_seconds,
            ):
                yield
            result = "ok"
        finally:
            under_way.dec()
            metrics.authentication_token_cache_fetch_total.labels(result).inc()

    @contextmanager
    def reviewing_access(self) -> Iterator[None]:
        with _delegated(
            self._metrics.apiserver_delegated_authz_request_total,
            self._metrics.apiserver_delegated_authz_request_duration_seconds,
        ):
            yield


@contextmanager
def _delegated(requests: Family[Counter], durations: Family[Histogram]) -> Iterator[None]:
    started, code = time.perf_counter(), NO_ANSWER
    try:
        yield
        code = CREATED
    except ApiError as error:
        code = str(error.code) if isinstance(error, StatusError) else NO_ANSWER
        raise
    finally:
        requests.labels(code).inc()
        durations.labels(code).observe(time.perf_counter() - started)


class Upkeep:
    """Work that keeps certificates and authorities fresh: upstream queues it, here it is done on
    the spot, so nothing ever waits.
    """

    def __init__(self, metrics: Metrics, name: str) -> None:
        self._adds = metrics.workqueue_adds_total.labels(name)
        self._waits = metrics.workqueue_queue_duration_seconds.labels(name)
        self._works = metrics.workqueue_work_duration_seconds.labels(name)
        metrics.workqueue_depth.labels(name)
        metrics.workqueue_retries_total.labels(name)
        metrics.workqueue_unfinished_work_seconds.labels(name)
        metrics.workqueue_longest_running_processor_seconds.labels(name)

    def __call__(self, work: Callable[[], None]) -> None:
        started = time.perf_counter()
        self._adds.inc()
        self._waits.observe(0)
        try:
            work()
        finally:
            self._works.observe(time.perf_counter() - started)
