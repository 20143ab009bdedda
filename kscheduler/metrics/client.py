"""Talking to API servers: requests, and collections that are followed."""

from __future__ import annotations

import math

from kscheduler.metrics.registry import ALPHA, EVERYTHING, Registry, Selection

REQUEST_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)
REQUEST_BYTES = (64, 256, 512, *(4**power for power in range(5, 13)))
INFORMER_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_HOUR, _DAY = 3600, 86400
CERTIFICATE_SECONDS = (
    *(600, 1800, _HOUR, 4 * _HOUR),
    *(days * _DAY for days in (1, 7, 30, 90, 180, 360, 1440)),
)


class RequestMetrics(Registry):
    """The rest_client_ families."""

    def __init__(self, selection: Selection = EVERYTHING) -> None:
        super().__init__(selection)
        self.rest_client_requests_total = self.counters(
            "rest_client_requests_total",
            ALPHA,
            "Requests by status code, method and host.",
            ("code", "method", "host"),
        )
        self.rest_client_request_retries_total = self.counters(
            "rest_client_request_retries_total",
            ALPHA,
            "Requests sent again, by status code, verb and host.",
            ("code", "verb", "host"),
        )
        self.rest_client_request_duration_seconds = self.histograms(
            "rest_client_request_duration_seconds",
            ALPHA,
            "How long requests took.",
            ("verb", "host"),
            buckets=REQUEST_SECONDS,
        )
        self.rest_client_rate_limiter_duration_seconds = self.histograms(
            "rest_client_rate_limiter_duration_seconds",
            ALPHA,
            "How long requests were held back by our own rate limit.",
            ("verb", "host"),
            buckets=REQUEST_SECONDS,
        )
        self.rest_client_request_size_bytes = self.histograms(
            "rest_client_request_size_bytes",
            ALPHA,
            "Size of request bodies.",
            ("verb", "host"),
            buckets=REQUEST_BYTES,
        )
        self.rest_client_response_size_bytes = self.histograms(
            "rest_client_response_size_bytes",
            ALPHA,
            "Size of response bodies.",
            ("verb", "host"),
            buckets=REQUEST_BYTES,
        )
        self.rest_client_transport_cache_entries = self.gauges(
            "rest_client_transport_cache_entries",
            ALPHA,
            "Ways to the API server that connections share.",
        ).labels()
        self.rest_client_transport_create_calls_total = self.counters(
            "rest_client_transport_create_calls_total",
            ALPHA,
            "Clients made, by whether they share a way to the API server: hit or miss.",
            ("result",),
        )
        self.rest_client_transport_ca_reload_total = self.counters(
            "rest_client_transport_ca_reload_total",
            ALPHA,
            "Looks at the file with the API server's authorities, by result and reason.",
            ("result", "reason"),
        )
        self.rest_client_transport_cert_rotation_gc_calls_total = self.counters(
            "rest_client_transport_cert_rotation_gc_calls_total",
            ALPHA,
            "Always 0: rereading certificates takes nothing that would have to be collected.",
        ).labels()
        self.rest_client_exec_plugin_ttl_seconds = self.gauges(
            "rest_client_exec_plugin_ttl_seconds",
            ALPHA,
            "Seconds until a credential plugin's client certificate expires; +Inf without one.",
        ).labels()
        self.rest_client_exec_plugin_ttl_seconds.set(math.inf)
        self.rest_client_exec_plugin_certificate_rotation_age = self.histograms(
            "rest_client_exec_plugin_certificate_rotation_age",
            ALPHA,
            "How old a credential plugin's client certificate was when it was replaced.",
            buckets=CERTIFICATE_SECONDS,
        ).labels()


class InformerMetrics(Registry):
    """Collections by where they are: name, group, version and resource."""

    def __init__(self, selection: Selection = EVERYTHING) -> None:
        super().__init__(selection)
        labels = ("name", "group", "version", "resource")
        self.informer_queued_items = self.gauges(
            "informer_queued_items",
            ALPHA,
            "Changes of a collection that wait to be taken in.",
            labels,
        )
        self.informer_processing_latency_seconds = self.histograms(
            "informer_processing_latency_seconds",
            ALPHA,
            "How long taking in one change of a collection took.",
            labels,
            buckets=INFORMER_SECONDS,
        )
        self.informer_store_resource_version = self.gauges(
            "informer_store_resource_version",
            ALPHA,
            "The last 15 digits of the version up to which a collection is known.",
            labels,
        )
