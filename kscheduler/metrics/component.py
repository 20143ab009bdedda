"""The process as a component of a control plane: what it is, and whether it leads."""

from __future__ import annotations

from kscheduler.metrics.registry import ALPHA, BETA, EVERYTHING, Registry, Selection


class ComponentMetrics(Registry):
    """Build, versions, feature gates, tasks, leadership."""

    def __init__(self, selection: Selection = EVERYTHING) -> None:
        super().__init__(selection)
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
