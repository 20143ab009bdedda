"""Volumes and devices."""

from __future__ import annotations

from kscheduler.metrics.instruments import exponential
from kscheduler.metrics.registry import ALPHA, EVERYTHING, Registry, Selection


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
