"""What a transport tells about its requests, and how that becomes upstream's metrics."""

from typing import Protocol

from kscheduler.metrics import Metrics


class Observer(Protocol):
    """Told about every request; it must be quick and must not raise."""

    def attempted(self, verb: str, host: str, code: str, *, again: bool) -> None:
        """One try was answered with this status code, or `<error>`; `again` from the second on."""

    def finished(self, verb: str, host: str, seconds: float, sent: int, received: int) -> None:
        """A request is over, all tries and pauses included; sizes are of the bodies, in bytes."""

    def held_back(self, verb: str, host: str, seconds: float) -> None:
        """Our own rate limit let a try wait this long; often 0."""


class Unobserved:
    """Nobody looks."""

    def attempted(self, verb: str, host: str, code: str, *, again: bool) -> None: ...

    def finished(self, verb: str, host: str, seconds: float, sent: int, received: int) -> None: ...

    def held_back(self, verb: str, host: str, seconds: float) -> None: ...


class RestClientMetrics:
    """The rest_client_* families."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def attempted(self, verb: str, host: str, code: str, *, again: bool) -> None:
        self._metrics.rest_client_requests_total.labels(code, verb, host).inc()
        if again:
            self._metrics.rest_client_request_retries_total.labels(code, verb, host).inc()

    def finished(self, verb: str, host: str, seconds: float, sent: int, received: int) -> None:
        metrics = self._metrics
        metrics.rest_client_request_duration_seconds.labels(verb, host).observe(seconds)
        metrics.rest_client_request_size_bytes.labels(verb, host).observe(sent)
        metrics.rest_client_response_size_bytes.labels(verb, host).observe(received)

    def held_back(self, verb: str, host: str, seconds: float) -> None:
        self._metrics.rest_client_rate_limiter_duration_seconds.labels(verb, host).observe(seconds)
