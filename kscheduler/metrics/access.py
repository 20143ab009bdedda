"""Metrics of the serving port: authentication, authorization and certificates.

The last families here are there because upstream's port comes from the API server's library, which
registers them wherever it is used; they stay 0 there as well.
"""

from __future__ import annotations

from kscheduler.metrics.instruments import exponential
from kscheduler.metrics.registry import ALPHA, BETA, EVERYTHING, INTERNAL, Registry, Selection
from kscheduler.metrics.scheduler import ATTEMPT_SECONDS as ACCESS_SECONDS

WORK_SECONDS = exponential(10e-9, 10, 10)
TOKEN_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
DELEGATED_SECONDS = (0.25, 0.5, 0.7, 1, 1.5, 3, 5, 10)
_HOUR, _DAY = 3600, 86400
REMAINING_SECONDS = (
    *(0, 1800, _HOUR, 2 * _HOUR, 6 * _HOUR, 12 * _HOUR),
    *(days * _DAY for days in (1, 2, 4, 7, 30, 90, 180, 360)),
)

NOT_HERE = "Not in a scheduler."
NEVER_COUNTED = (
    (
        "aggregator_discovery_aggregation_count_total",
        ALPHA,
        f"Times that discovery was aggregated. {NOT_HERE}",
    ),
    ("apiserver_audit_event_total", ALPHA, f"Audit events. {NOT_HERE}"),
    (
        "apiserver_audit_requests_rejected_total",
        ALPHA,
        f"Requests refused because they could not be audited. {NOT_HERE}",
    ),
    (
        "apiserver_storage_data_key_generation_failures_total",
        ALPHA,
        f"Data keys that could not be made. {NOT_HERE}",
    ),
    (
        "apiserver_storage_envelope_transformation_cache_misses_total",
        ALPHA,
        f"Keys that had to be fetched to decrypt with. {NOT_HERE}",
    ),
    (
        "apiserver_validation_declarative_validation_mismatch_total",
        BETA,
        f"Objects that two ways of validation disagreed on. {NOT_HERE}",
    ),
    (
        "apiserver_validation_declarative_validation_panic_total",
        BETA,
        f"Objects that a way of validation broke on. {NOT_HERE}",
    ),
    (
        "apiserver_validation_duplicate_validation_error_total",
        INTERNAL,
        f"Errors found twice by validation. {NOT_HERE}",
    ),
    (
        "apiserver_webhooks_x509_insecure_sha1_total",
        BETA,
        f"Requests to webhooks whose certificate is signed with SHA-1. {NOT_HERE}",
    ),
    (
        "apiserver_webhooks_x509_missing_san_total",
        BETA,
        f"Requests to webhooks whose certificate names no host. {NOT_HERE}",
    ),
)


class AccessMetrics(Registry):
    """Callers of the serving port. Label values are few and fixed."""

    def __init__(self, selection: Selection = EVERYTHING) -> None:
        super().__init__(selection)
        self.authenticated_user_requests = self.counters(
            "authenticated_user_requests",
            ALPHA,
            "Requests by user; those who are not well known are one.",
            ("username",),
        )
        self.authentication_attempts = self.counters(
            "authentication_attempts",
            ALPHA,
            "Attempts to find out who sent a request: success, failure or error.",
            ("result",),
        )
        self.authentication_duration_seconds = self.histograms(
            "authentication_duration_seconds",
            ALPHA,
            "How long finding out who sent a request took.",
            ("result",),
            buckets=ACCESS_SECONDS,
        )
        self.authentication_token_cache_active_fetch_count = self.gauges(
            "authentication_token_cache_active_fetch_count",
            ALPHA,
            "Token reviews under way, and requests that wait for one.",
            ("status",),
        )
        for status in ("blocked", "in_flight"):
            self.authentication_token_cache_active_fetch_count.labels(status)
        self.authentication_token_cache_fetch_total = self.counters(
            "authentication_token_cache_fetch_total",
            ALPHA,
            "Token reviews: ok or error.",
            ("status",),
        )
        self.authentication_token_cache_request_duration_seconds = self.histograms(
            "authentication_token_cache_request_duration_seconds",
            ALPHA,
            "How long finding out about a token took, by whether it was known: hit or miss.",
            ("status",),
            buckets=TOKEN_SECONDS,
        )
        self.authentication_token_cache_request_total = self.counters(
            "authentication_token_cache_request_total",
            ALPHA,
            "Tokens that were looked up, by whether they were known: hit or miss.",
            ("status",),
        )
        self.authorization_attempts_total = self.counters(
            "authorization_attempts_total",
            ALPHA,
            "Decisions on requests: allowed, denied, no-opinion or error.",
            ("result",),
        )
        self.authorization_duration_seconds = self.histograms(
            "authorization_duration_seconds",
            ALPHA,
            "How long deciding on a request took.",
            ("result",),
            buckets=ACCESS_SECONDS,
        )
        self.apiserver_delegated_authn_request_total = self.counters(
            "apiserver_delegated_authn_request_total",
            ALPHA,
            "Token reviews by the status code of the answer.",
            ("code",),
        )
        self.apiserver_delegated_authn_request_duration_seconds = self.histograms(
            "apiserver_delegated_authn_request_duration_seconds",
            ALPHA,
            "How long token reviews took.",
            ("code",),
            buckets=DELEGATED_SECONDS,
        )
        self.apiserver_delegated_authz_request_total = self.counters(
            "apiserver_delegated_authz_request_total",
            ALPHA,
            "Access reviews by the status code of the answer.",
            ("code",),
        )
        self.apiserver_delegated_authz_request_duration_seconds = self.histograms(
            "apiserver_delegated_authz_request_duration_seconds",
            ALPHA,
            "How long access reviews took.",
            ("code",),
            buckets=DELEGATED_SECONDS,
        )
        self.apiserver_client_certificate_expiration_seconds = self.histograms(
            "apiserver_client_certificate_expiration_seconds",
            ALPHA,
            "How long the client certificates that requests came with were still valid.",
            buckets=REMAINING_SECONDS,
        ).labels()


class WorkQueueMetrics(Registry):
    """Upkeep of certificates and authorities, by what is kept up."""

    def __init__(self, selection: Selection = EVERYTHING) -> None:
        super().__init__(selection)
        self.workqueue_adds_total = self.counters(
            "workqueue_adds_total", BETA, "Items that were put into a work queue.", ("name",)
        )
        self.workqueue_depth = self.gauges(
            "workqueue_depth", BETA, "Items that wait in a work queue.", ("name",)
        )
        self.workqueue_queue_duration_seconds = self.histograms(
            "workqueue_queue_duration_seconds",
            BETA,
            "How long an item waited in a work queue.",
            ("name",),
            buckets=WORK_SECONDS,
        )
        self.workqueue_work_duration_seconds = self.histograms(
            "workqueue_work_duration_seconds",
            BETA,
            "How long working on an item took.",
            ("name",),
            buckets=WORK_SECONDS,
        )
        self.workqueue_unfinished_work_seconds = self.gauges(
            "workqueue_unfinished_work_seconds",
            BETA,
            "How long items that are being worked on have been so, all together.",
            ("name",),
        )
        self.workqueue_longest_running_processor_seconds = self.gauges(
            "workqueue_longest_running_processor_seconds",
            BETA,
            "How long the item that has been worked on longest has been so.",
            ("name",),
        )
        self.workqueue_retries_total = self.counters(
            "workqueue_retries_total",
            BETA,
            "Items that were put back to be tried again.",
            ("name",),
        )


class ServerLibraryMetrics(Registry):
    """Always 0."""

    def __init__(self, selection: Selection = EVERYTHING) -> None:
        super().__init__(selection)
        for name, stability, text in NEVER_COUNTED:
            self.counters(name, stability, text).labels()
        self.gauges(
            "apiserver_envelope_encryption_dek_cache_fill_percent",
            ALPHA,
            f"Share of cached data keys. {NOT_HERE}",
        ).labels()
        self.histograms(
            "apiserver_storage_data_key_generation_duration_seconds",
            ALPHA,
            f"How long making data keys took. {NOT_HERE}",
            buckets=exponential(5e-6, 2, 14),
        ).labels()
