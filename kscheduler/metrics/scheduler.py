"""Metrics of pkg/scheduler/metrics: attempts, queues and cache, pod groups, plugins for claims.

Names, labels and buckets are upstream's; buckets are in seconds unless their name says otherwise.
"""

from __future__ import annotations

from kscheduler.metrics.instruments import exponential
from kscheduler.metrics.registry import ALPHA, BETA, EVERYTHING, STABLE, Registry, Selection

ATTEMPT_SECONDS = exponential(0.001, 2, 15)
POINT_SECONDS = exponential(0.0001, 2, 12)
PLUGIN_SECONDS = exponential(0.00001, 1.5, 20)
BATCH_SECONDS = exponential(0.00001, 2, 12)

QUEUES = ("active", "backoff", "unschedulable", "gated", "incomplete", "pending")
VICTIMS = exponential(1, 2, 11)
PREEMPTION_SECONDS = exponential(0.001, 2, 16)


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
            "Faults of out-of-tree plugins: exception, timeout, answer, score or mutation.",
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


class WaitingMetrics(Registry):
    """Queue, cache and the events that change them."""

    def __init__(self, selection: Selection = EVERYTHING) -> None:
        super().__init__(selection)
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
            buckets=POINT_SECONDS,
        )
        self.queueing_hint_execution_duration_seconds = self.histograms(
            "scheduler_queueing_hint_execution_duration_seconds",
            ALPHA,
            "How long a plugin took to say whether an event helps a waiting pod.",
            ("plugin", "event", "hint"),
            buckets=PLUGIN_SECONDS,
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
        self.pre_queueing_hint_evaluations_total = self.counters(
            "scheduler_pre_queueing_hint_evaluations_total",
            ALPHA,
            "Events for which a plugin named the pods that they can concern, or could not.",
            ("plugin", "result"),
        )
        self.kscheduler_inflight_events_dropped_total = self.counters(
            "kscheduler_inflight_events_dropped_total",
            ALPHA,
            "Events that too many pods in flight made us forget.",
        ).labels()


# Kinds of conflicts with foreign binds.
ALREADY_BOUND = "already-bound"
NODE_OVERCOMMITTED = "node-overcommitted"
NODE_TAKEN = "node-taken"
# Kinds of foreign binds: of pods that name another scheduler, and of pods of our profiles.
OTHER_POD = "other-pod"
OWN_POD = "own-pod"


class RivalMetrics(Registry):
    """Others that bind pods to the same nodes, and kubelets that have no room left."""

    def __init__(self, selection: Selection = EVERYTHING) -> None:
        super().__init__(selection)
        self.kscheduler_foreign_binds_total = self.counters(
            "kscheduler_foreign_binds_total",
            ALPHA,
            "Pods that others put on nodes: other-pod, or own-pod for those of our profiles.",
            ("kind",),
        )
        self.kscheduler_conflicts_total = self.counters(
            "kscheduler_conflicts_total",
            ALPHA,
            "Foreign binds in the way of ours: already-bound, node-overcommitted (more is asked of "
            "a node than it has) and node-taken (a placement that was given up in time for that).",
            ("kind",),
        )
        self.kscheduler_refused_pods_total = self.counters(
            "kscheduler_refused_pods_total",
            ALPHA,
            "Pods of our profiles that a kubelet refused before they ran, by its reason.",
            ("reason",),
        )


class GroupMetrics(Registry):
    """Families that upstream registers with the gates for workloads."""

    def __init__(self, selection: Selection = EVERYTHING) -> None:
        super().__init__(selection)
        self.podgroup_schedule_attempts_total = self.counters(
            "scheduler_podgroup_schedule_attempts_total",
            ALPHA,
            "Attempts to place a pod group, by how they ended.",
            ("result", "profile"),
        )
        self.podgroup_scheduling_attempt_duration_seconds = self.histograms(
            "scheduler_podgroup_scheduling_attempt_duration_seconds",
            ALPHA,
            "How long an attempt to place a pod group took.",
            ("result", "profile"),
            buckets=ATTEMPT_SECONDS,
        )
        self.podgroup_scheduling_algorithm_duration_seconds = self.histograms(
            "scheduler_podgroup_scheduling_algorithm_duration_seconds",
            ALPHA,
            "How long finding nodes for a pod group took.",
            buckets=ATTEMPT_SECONDS,
        )
        self.generated_placements_total = self.counters(
            "scheduler_generated_placements_total",
            ALPHA,
            "Placements that were proposed for pod groups.",
            ("profile",),
        )
        self.placement_evaluations_total = self.counters(
            "scheduler_placement_evaluations_total",
            ALPHA,
            "Proposed placements that were tried, by whether the pod group fits.",
            ("result", "profile"),
        )
        self.placement_evaluation_duration_seconds = self.histograms(
            "scheduler_placement_evaluation_duration_seconds",
            ALPHA,
            "How long trying a proposed placement took.",
            ("result", "profile"),
            buckets=ATTEMPT_SECONDS,
        )
        self.workload_preemption_attempts_total = self.counters(
            "scheduler_workload_preemption_attempts_total",
            ALPHA,
            "Searches for pods to evict for a pod group.",
            ("result",),
        )
        self.workload_preemption_victims = self.histograms(
            "scheduler_workload_preemption_victims",
            ALPHA,
            "Pods evicted for one pod group.",
            buckets=VICTIMS,
        )
        self.preemption_workload_disruptions = self.histograms(
            "scheduler_preemption_workload_disruptions",
            ALPHA,
            "Pod groups disrupted for one preemptor.",
            ("preemptor",),
            buckets=VICTIMS,
        )
        self.preemption_evaluation_duration_seconds = self.histograms(
            "scheduler_preemption_evaluation_duration_seconds",
            ALPHA,
            "How long the search for pods to evict took.",
            ("preemptor", "result"),
            buckets=PREEMPTION_SECONDS,
        )
        self.preemption_execution_duration_seconds = self.histograms(
            "scheduler_preemption_execution_duration_seconds",
            ALPHA,
            "How long evicting took.",
            ("preemptor", "result"),
            buckets=PREEMPTION_SECONDS,
        )
        self.preemption_pdb_violations_total = self.counters(
            "scheduler_preemption_pdb_violations_total",
            ALPHA,
            "Evicted pods whose disruption budget did not allow for it.",
            ("preemptor",),
        )


class ClaimMetrics(Registry):
    """Metrics of the plugins for volumes and devices."""

    def __init__(self, selection: Selection = EVERYTHING) -> None:
        super().__init__(selection)
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
        self.volume_binder_cache_requests_total = self.counters(
            "scheduler_volume_binder_cache_requests_total",
            ALPHA,
            "Questions to the cache of volumes; there is none, and upstream never counts.",
            ("operation",),
        )
