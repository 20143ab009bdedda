"""Whom preemption would rather keep: by priority, by age, and by budgets for disruptions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from kscheduler.api.labels import Selector, SelectorError, compile_selector
from kscheduler.api.policy import PodDisruptionBudget
from kscheduler.api.timestamps import TimestampError, parse_time_ns
from kscheduler.state.pod_info import PodInfo

DISRUPTION_TARGET = "DisruptionTarget"
PREEMPTION_BY_SCHEDULER = "PreemptionByScheduler"


def started_ns(pod: PodInfo, now_ns: int) -> int:
    """When the pod's kubelet took it on; one that none has taken on yet counts as started now."""
    started = pod.pod.status.start_time
    return now_ns if started is None else _parsed(started) or now_ns


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


class Budgets:
    """How many pods may be disrupted, as PodDisruptionBudgets say it just now."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._by_namespace: dict[str, list[_Budget]] = {}
        for budget in budgets:
            try:
                selector = compile_selector(budget.spec.selector)
            except SelectorError:
                continue
            # Unlike elsewhere, an empty selector selects nothing.
            if not selector.matches_everything:
                known = self._by_namespace.setdefault(budget.metadata.namespace, [])
                known.append(_Budget(budget, selector))
        # Pods with equal labels are many, so what applies to them is worth remembering.
        self._applying: dict[tuple[str, tuple[str, ...]], Sequence[_Budget]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_namespace)

    def violated_by(self, pods: Iterable[PodInfo]) -> list[bool]:
        """For pods of one node, the most important first: whose eviction, after that of those
        before it, would exceed a budget.
        """
        left: dict[_Budget, int] = {}
        return [
            any(budget.is_exceeded_by(pod, left) for budget in self._applying_to(pod))
            for pod in pods
        ]

    def _applying_to(self, pod: PodInfo) -> Sequence[_Budget]:
        kind = pod.namespace, pod.label_set
        found = self._applying.get(kind)
        if found is None:
            # A pod without labels is nobody's, whatever selectors would say.
            listed = self._by_namespace.get(pod.namespace, ()) if pod.labels else ()
            found = [budget for budget in listed if budget.selector.matches(pod.labels)]
            self._applying[kind] = found
        return found


class _Budget:
    __slots__ = ("allowed", "disrupted", "selector")

    def __init__(self, budget: PodDisruptionBudget, selector: Selector) -> None:
        self.allowed = budget.status.disruptions_allowed
        self.disrupted = budget.status.disrupted_pods
        self.selector = selector

    def is_exceeded_by(self, pod: PodInfo, left: dict[_Budget, int]) -> bool:
        # The API server has counted those already.
        if pod.name in self.disrupted:
            return False
        left[self] = allowed = left.get(self, self.allowed) - 1
        return allowed < 0
