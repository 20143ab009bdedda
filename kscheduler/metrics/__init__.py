"""What the scheduler counts and measures, under kube-scheduler's names, labels and buckets.

A `Metrics` is made once per scheduler and passed to whoever measures, so that two schedulers in
one process do not collide. An attribute is called like the exported family without its `scheduler_`
prefix. Families with labels are asked for a series once and the series is kept:

    active = metrics.pending_pods.labels("active")
    active.inc()

Families nobody has used yet are not printed, as upstream; those without labels always are.
`kscheduler_` marks what upstream does not have. Help texts are our own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Metric, ProcessCollector
from prometheus_client.registry import Collector

from kscheduler.metrics.instruments import Counter, Family, Gauge, Histogram, exponential

__all__ = ["Counter", "Family", "Gauge", "Histogram", "Metrics", "exponential"]

Labels = tuple[str, ...]

ALPHA = "ALPHA"
BETA = "BETA"
STABLE = "STABLE"

QUEUES = ("active", "backoff", "unschedulable", "gated", "incomplete", "pending")

_ATTEMPT_SECONDS = exponential(0.001, 2, 15)
_POINT_SECONDS = exponential(0.0001, 2, 12)
_PLUGIN_SECONDS = exponential(0.00001, 1.5, 20)
_BATCH_SECONDS = exponential(0.00001, 2, 12)
_REQUEST_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)
_REQUEST_BYTES = (64, 256, 512, *(4**power for power in range(5, 13)))


AnyFamily = Family[Counter] | Family[Gauge] | Family[Histogram]


class _Export(Collector):
    """All families, read when someone looks."""

    def __init__(self, families: Mapping[str, AnyFamily]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return (family.collect() for _, family in sorted(self._families.items()) if family)

    def describe(self) -> Iterable[Metric]:
        return ()


class Metrics:
    """All families of one scheduler, with a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.families: dict[str, AnyFamily] = {}
        self.registry.register(_Export(self.families))
        ProcessCollector(registry=self.registry)
        self._attempts()
        self._plugins()
        self._queue()
        self._preemption()
        self._batching()
        self._storage_and_devices()
        self._process()
        self._client()

    def counters(
        self, name: str, stability: str, text: str, labels: Labels = ()
    ) -> Family[Counter]:
        family = Family(name, "counter", _help(stability, text), labels, Counter)
        self.families[name] = family
        return family

    def gauges(self, name: str, stability: str, text: str, labels: Labels = ()) -> Family[Gauge]:
        family = Family(name, "gauge", _help(stability, text), labels, Gauge)
        self.families[name] = family
        return family

    def histograms(
        self,
        name: str,
        stability: str,
        text: str,
        labels: Labels = (),
        *,
        buckets: tuple[float, ...],
    ) -> Family[Histogram]:
        documentation = _help(stability, text)
        family = Family(name, "histogram", documentation, labels, lambda: Histogram(buckets))
        self.families[name] = family
        return family

    def reset(self) -> None:
        """Back to zero wherever there are labels, as DELETE on the metrics path asks for."""
        for family in self.families.values():
            if family.label_names:
                family.reset()

    def forget_state(self) -> None:
        """No pod waits and no node is known any more: the scheduler these told of is gone."""
        for told in (
            self.pending_pods,
            self.queued_entities,
            self.unschedulable_pods,
            self.inflight_events,
            self.cache_size,
        ):
            told.reset()

    def _attempts(self) -> None:
        self.schedule_attempts_total = self.counters(
            "scheduler_schedule_attempts_total",
            STABLE,
            "Attempts to place a pod, by how they ended: scheduled, unschedulable or error.",
            ("result", "profile"),
        )
        self.scheduling_attempt_duration_seconds = self.histograms(
            "scheduler_scheduling_attempt_duration_seconds",
            STABLE,
            "How long an attempt took, from the decision's start to the end of binding.",
            ("result", "profile"),
            buckets=_ATTEMPT_SECONDS,
        )
        self.scheduling_algorithm_duration_seconds = self.histograms(
            "scheduler_scheduling_algorithm_duration_seconds",
            BETA,
            "How long finding a node took, without binding.",
            buckets=_ATTEMPT_SECONDS,
        ).labels()
        self.pod_scheduling_sli_duration_seconds = self.histograms(
            "scheduler_pod_scheduling_sli_duration_seconds",
            BETA,
            "Time from a pod's first chance of being tried to its binding, over all attempts.",
            ("attempts",),
            buckets=exponential(0.01, 2, 20),
        )
        self.pod_scheduling_attempts = self.histograms(
            "scheduler_pod_scheduling_attempts",
            STABLE,
            "Attempts it took to bind a pod.",
            buckets=exponential(1, 2, 5),
        ).labels()
        self.pod_scheduled_after_flush_total = self.counters(
            "scheduler_pod_scheduled_after_flush_total",
            ALPHA,
            "Pods bound after a timeout woke them: perhaps a queueing hint missed an event.",
        ).labels()
        self.permit_wait_duration_seconds = self.histograms(
            "scheduler_permit_wait_duration_seconds",
            BETA,
            "How long pods waited for permission to be bound.",
            ("result",),
            buckets=_ATTEMPT_SECONDS,
        )

    def _plugins(self) -> None:
        self.framework_extension_point_duration_seconds = self.histograms(
            "scheduler_framework_extension_point_duration_seconds",
            STABLE,
            "How long all plugins of an extension point took together.",
            ("extension_point", "status", "profile"),
            buckets=_POINT_SECONDS,
        )
        self.plugin_execution_duration_seconds = self.histograms(
            "scheduler_plugin_execution_duration_seconds",
            BETA,
            "How long one plugin took at an extension point, in a sample of the attempts.",
            ("plugin", "extension_point", "status"),
            buckets=_PLUGIN_SECONDS,
        )
        self.plugin_evaluation_total = self.counters(
            "scheduler_plugin_evaluation_total",
            BETA,
            "Pods (PreFilter, PreScore) or nodes (Filter, Score) that a plugin judged.",
            ("plugin", "extension_point", "profile"),
        )
        self.kscheduler_plugin_exceptions_total = self.counters(
            "kscheduler_plugin_exceptions_total",
            ALPHA,
            "Calls in which a plugin raised instead of answering.",
            ("plugin", "extension_point", "profile"),
        )

        self.kscheduler_plugin_faults_total = self.counters(
            "kscheduler_plugin_faults_total",
            ALPHA,
            "What plugins from outside did wrong: exception, timeout, answer, score or mutation.",
            ("plugin", "extension_point", "profile", "fault"),
        )
        self.kscheduler_plugin_taken_out = self.gauges(
            "kscheduler_plugin_taken_out",
            ALPHA,
            "1 for plugins that were taken out of a profile because they kept failing.",
            ("plugin", "profile"),
        )

    def _queue(self) -> None:
        self.pending_pods = self.gauges(
            "scheduler_pending_pods", STABLE, "Pods that wait, by where they wait.", ("queue",)
        )
        for queue in QUEUES:
            self.pending_pods.labels(queue)
        self.queued_entities = self.gauges(
            "scheduler_queued_entities",
            ALPHA,
            "Pods on their own and pod groups that wait, by where they wait.",
            ("queue", "type"),
        )
        self.queue_incoming_pods_total = self.counters(
            "scheduler_queue_incoming_pods_total",
            STABLE,
            "Pods that entered a queue, by what sent them there.",
            ("queue", "event"),
        )
        self.queue_incoming_entities_total = self.counters(
            "scheduler_queue_incoming_entities_total",
            ALPHA,
            "Pods on their own and pod groups that entered a queue, by what sent them there.",
            ("queue", "event", "type"),
        )
        self.unschedulable_pods = self.gauges(
            "scheduler_unschedulable_pods",
            BETA,
            "Waiting pods that a plugin rejected; a pod counts once for each of its rejectors.",
            ("plugin", "profile"),
        )
        self.event_handling_duration_seconds = self.histograms(
            "scheduler_event_handling_duration_seconds",
            ALPHA,
            "How long taking in one change of the cluster took.",
            ("event",),
            buckets=_POINT_SECONDS,
        )
        self.queueing_hint_execution_duration_seconds = self.histograms(
            "scheduler_queueing_hint_execution_duration_seconds",
            ALPHA,
            "How long a plugin took to say whether an event helps a waiting pod.",
            ("plugin", "event", "hint"),
            buckets=_PLUGIN_SECONDS,
        )
        self.inflight_events = self.gauges(
            "scheduler_inflight_events",
            ALPHA,
            "Events remembered for pods that are being tried.",
            ("event",),
        )
        self.cache_size = self.gauges(
            "scheduler_cache_size", ALPHA, "Nodes, pods and assumed pods in the cache.", ("type",)
        )
        for kind in ("assumed_pods", "nodes", "pods"):
            self.cache_size.labels(kind)

    def _preemption(self) -> None:
        self.preemption_attempts_total = self.counters(
            "scheduler_preemption_attempts_total", STABLE, "Searches for pods to evict."
        ).labels()
        self.preemption_victims = self.histograms(
            "scheduler_preemption_victims",
            STABLE,
            "Pods evicted for one pod.",
            buckets=exponential(1, 2, 7),
        ).labels()
        self.preemption_goroutines_execution_total = self.counters(
            "scheduler_preemption_goroutines_execution_total",
            ALPHA,
            "Evictions carried out beside the scheduling loop, by success or error.",
            ("result",),
        )

    def _batching(self) -> None:
        self.batch_attempts_total = self.counters(
            "scheduler_batch_attempts_total",
            ALPHA,
            "Attempts by what the pod before them could tell about nodes.",
            ("profile", "result"),
        )
        self.batch_cache_flushed_total = self.counters(
            "scheduler_batch_cache_flushed_total",
            ALPHA,
            "Times that what a pod left for the next one could not be used.",
            ("profile", "reason"),
        )
        self.batch_rescore_attempts_total = self.counters(
            "scheduler_batch_rescore_attempts_total",
            ALPHA,
            "Times that the last pod's node was feasible again and scored again.",
            ("profile",),
        )
        self.batch_rescore_duration_seconds = self.histograms(
            "scheduler_batch_rescore_duration_seconds",
            ALPHA,
            "How long scoring again took.",
            ("profile",),
            buckets=_BATCH_SECONDS,
        )
        self.get_node_hint_duration_seconds = self.histograms(
            "scheduler_get_node_hint_duration_seconds",
            ALPHA,
            "How long asking what the last pod left took.",
            ("hinted", "profile"),
            buckets=_BATCH_SECONDS,
        )
        self.store_schedule_results_duration_seconds = self.histograms(
            "scheduler_store_schedule_results_duration_seconds",
            ALPHA,
            "How long leaving something for the next pod took.",
            ("profile",),
            buckets=_BATCH_SECONDS,
        )

    def _storage_and_devices(self) -> None:
        self.volume_scheduling_stage_error_total = self.counters(
            "scheduler_volume_scheduling_stage_error_total",
            ALPHA,
            "Failures while finding, assuming or binding volumes.",
            ("operation",),
        )
        self.dra_bindingconditions_allocations_total = self.counters(
            "scheduler_dra_bindingconditions_allocations_total",
            ALPHA,
            "Allocations of devices that must become ready before binding, per driver.",
            ("profile", "driver", "status"),
        )
        self.dra_bindingconditions_wait_duration_seconds = self.histograms(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            ALPHA,
            "How long binding waited for devices to become ready.",
            ("profile", "driver", "status"),
            buckets=exponential(0.1, 2, 14),
        )
        self.dynamic_resource_allocation_resourceclaim_creates_total = self.counters(
            "dynamic_resource_allocation_resourceclaim_creates_total",
            ALPHA,
            "Resource claims the scheduler created.",
            ("status", "admin_access", "owner_api_group", "owner_api_kind"),
        )

    def _process(self) -> None:
        self.goroutines = self.gauges(
            "scheduler_goroutines", BETA, "Tasks under way, by what they do.", ("operation",)
        )
        self.leader_election_master_status = self.gauges(
            "leader_election_master_status", ALPHA, "1 while holding the named lease.", ("name",)
        )
        self.leader_election_slowpath_total = self.counters(
            "leader_election_slowpath_total",
            ALPHA,
            "Renewals that had to read the named lease first.",
            ("name",),
        )
        self.kubernetes_build_info = self.gauges(
            "kubernetes_build_info",
            BETA,
            "Always 1; the labels tell the build.",
            (
                "major",
                "minor",
                "git_version",
                "git_commit",
                "git_tree_state",
                "build_date",
                "go_version",
                "compiler",
                "platform",
            ),
        )
        self.kubernetes_feature_enabled = self.gauges(
            "kubernetes_feature_enabled",
            BETA,
            "1 for feature gates that are on.",
            ("name", "stage"),
        )
        self.version_info = self.gauges(
            "version_info",
            ALPHA,
            "Always 1; the labels tell which version is run, emulated and still compatible.",
            ("component", "binary", "emulation", "min_compat"),
        )
        self.kscheduler_events_dropped_total = self.counters(
            "kscheduler_events_dropped_total",
            ALPHA,
            "Events about pods that were not written because too many waited.",
        ).labels()

    def _client(self) -> None:
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
            buckets=_REQUEST_SECONDS,
        )
        self.rest_client_rate_limiter_duration_seconds = self.histograms(
            "rest_client_rate_limiter_duration_seconds",
            ALPHA,
            "How long requests were held back by our own rate limit.",
            ("verb", "host"),
            buckets=_REQUEST_SECONDS,
        )
        self.rest_client_request_size_bytes = self.histograms(
            "rest_client_request_size_bytes",
            ALPHA,
            "Size of request bodies.",
            ("verb", "host"),
            buckets=_REQUEST_BYTES,
        )
        self.rest_client_response_size_bytes = self.histograms(
            "rest_client_response_size_bytes",
            ALPHA,
            "Size of response bodies.",
            ("verb", "host"),
            buckets=_REQUEST_BYTES,
        )


def _help(stability: str, text: str) -> str:
    return f"[{stability}] {text}"
