"""Pods as victims: since when they run, and whether preemption has told them to go."""

from __future__ import annotations

from functools import lru_cache

from kscheduler.api.timestamps import TimestampError, parse_time_ns
from kscheduler.state.pod_info import PodInfo

DISRUPTION_TARGET = "DisruptionTarget"
PREEMPTION_BY_SCHEDULER = "PreemptionByScheduler"


def start_ns(pod: PodInfo) -> int | None:
    """When the pod's kubelet took it on; one that none has taken on yet counts as started now."""
    started = pod.pod.status.start_time
    return None if started is None else _parsed(started)


@lru_cache(maxsize=1 << 16)
def _parsed(text: str) -> int | None:
    try:
        return parse_time_ns(text)
    except TimestampError:
        return None


def is_going_by_preemption(pod: PodInfo) -> bool:
    """Whether the pod is terminating because the scheduler wanted its place for another."""
    condition = pod.pod.condition(DISRUPTION_TARGET) if pod.terminating else None
    return (
        condition is not None
        and condition.status == "True"
        and condition.reason == PREEMPTION_BY_SCHEDULER
    )
