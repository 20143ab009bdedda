"""Pod groups: placing them, and evicting for them."""

from __future__ import annotations

from kscheduler.metrics.attempts import ATTEMPT_SECONDS
from kscheduler.metrics.instruments import exponential
from kscheduler.metrics.registry import ALPHA, EVERYTHING, Registry, Selection

VICTIMS = exponential(1, 2, 11)
PREEMPTION_SECONDS = exponential(0.001, 2, 16)


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
