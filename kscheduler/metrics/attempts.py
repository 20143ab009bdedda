"""Metrics of scheduling attempts: results, plugins, evictions, hints for the next pod."""

from __future__ import annotations

from kscheduler.metrics.instruments import exponential
from kscheduler.metrics.registry import ALPHA, BETA, EVERYTHING, STABLE, Registry, Selection

ATTEMPT_SECONDS = exponential(0.001, 2, 15)
POINT_SECONDS = exponential(0.0001, 2, 12)
PLUGIN_SECONDS = exponential(0.00001, 1.5, 20)
BATCH_SECONDS = exponential(0.00001, 2, 12)


class AttemptMetrics(Registry):
    """Pods tried one at a time."""

    def __init__(self, selection: Selection = EVERYTHING) -> None:
        super().__init__(selection)
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
            buckets=ATTEMPT_SECONDS,
        )
        self.scheduling_algorithm_duration_seconds = self.histograms(
            "scheduler_scheduling_algorithm_duration_seconds",
            BETA,
            "How long finding a node took, without binding.",
            buckets=ATTEMPT_SECONDS,
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
            buckets=ATTEMPT_SECONDS,
        )
        self.framework_extension_point_duration_seconds = self.histograms(
            "scheduler_framework_extension_point_duration_seconds",
            STABLE,
            "How long all plugins of an extension point took together.",
            ("extension_point", "status", "profile"),
            buckets=POINT_SECONDS,
        )
        self.plugin_execution_duration_seconds = self.histograms(
            "scheduler_plugin_execution_duration_seconds",
            BETA,
            "How long one plugin took at an extension point, in a sample of the attempts.",
            ("plugin", "extension_point", "status"),
            buckets=PLUGIN_SECONDS,
        )
        self.plugin_evaluation_total = self.counters(
            "scheduler_plugin_evaluation_total",
            BETA,
            "Pods (PreFilter, PreScore) or nodes (Filter, Score) that a plugin judged.",
            ("plugin", "extension_point", "profile"),
        )
        self.kscheduler_slow_decision_duration_seconds = self.histograms(
            "kscheduler_slow_decision_duration_seconds",
            ALPHA,
            "Decisions of more than a second, by the plugin that took most of it.",
            ("plugin", "extension_point"),
            buckets=exponential(1, 2, 8),
        )
        self.kscheduler_postponed_attempts_total = self.counters(
            "kscheduler_postponed_attempts_total",
            ALPHA,
            "Times a pod was not tried because decisions on pods like it take too long.",
        ).labels()
        self.kscheduler_loop_stall_seconds = self.histograms(
            "kscheduler_loop_stall_seconds",
            ALPHA,
            "How much longer than they asked for tasks slept, measured ten times a second.",
            buckets=exponential(0.001, 2, 15),
        ).labels()
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
        self.async_api_call_execution_total = self.counters(
            "scheduler_async_api_call_execution_total",
            ALPHA,
            "Requests sent beside the scheduling loop, by what they asked for and how they ended.",
            ("call_type", "result"),
        )
        self.async_api_call_execution_duration_seconds = self.histograms(
            "scheduler_async_api_call_execution_duration_seconds",
            ALPHA,
            "How long requests beside the scheduling loop took.",
            ("call_type", "result"),
            buckets=ATTEMPT_SECONDS,
        )
        self.pending_async_api_calls = self.gauges(
            "scheduler_pending_async_api_calls",
            ALPHA,
            "Requests that wait to be sent beside the scheduling loop.",
            ("call_type",),
        )


class PreemptionMetrics(Registry):
    """Pods evicted for others."""

    def __init__(self, selection: Selection = EVERYTHING) -> None:
        super().__init__(selection)
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
        self.preemption_goroutines_duration_seconds = self.histograms(
            "scheduler_preemption_goroutines_duration_seconds",
            ALPHA,
            "How long evictions beside the scheduling loop took, by success or error.",
            ("result",),
            buckets=exponential(0.01, 2, 20),
            deprecated="1.37.0",
        )


class BatchMetrics(Registry):
    """Metrics of hints that one decision stores for the next."""

    def __init__(self, selection: Selection = EVERYTHING) -> None:
        super().__init__(selection)
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
            buckets=BATCH_SECONDS,
        )
        self.get_node_hint_duration_seconds = self.histograms(
            "scheduler_get_node_hint_duration_seconds",
            ALPHA,
            "How long asking what the last pod left took.",
            ("hinted", "profile"),
            buckets=BATCH_SECONDS,
        )
        self.store_schedule_results_duration_seconds = self.histograms(
            "scheduler_store_schedule_results_duration_seconds",
            ALPHA,
            "How long leaving something for the next pod took.",
            ("profile",),
            buckets=BATCH_SECONDS,
        )
