"""Whom preemption would rather keep: by priority, by age, and by budgets for disruptions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from kscheduler.api.labels import Selector, SelectorError, compile_selector
from kscheduler.api.policy import PodDisruptionBudget
from kscheduler.api.timestamps import TimestampError, parse_time_ns
from kscheduler.framework.verdict import Mask, Rows
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
        self._known: dict[tuple[str, int], tuple[Sequence[_Budget], tuple[str, ...]]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_namespace)

    def violated_by(self, pods: Sequence[PodInfo], node: Rows) -> Mask:
        """Whose eviction, after that of those before it on its node, would exceed a budget.

        `node` tells by number which one each pod is on; those of one node follow each other.
        """
        applying, known = [], self._known
        for pod in pods:
            kind = pod.namespace, id(pod.label_set)
            budgets = known.get(kind)
            if budgets is None:
                # With the labels themselves, lest others get their identity.
                budgets = known[kind] = self._applying_to(pod), pod.label_set
            applying.append(budgets[0])
        if any(len(budgets) > 1 for budgets, _ in known.values()):
            return _one_by_one(pods, node, applying)
        return _each_for_itself(pods, node, applying)

    def _applying_to(self, pod: PodInfo) -> Sequence[_Budget]:
        # A pod without labels is nobody's, whatever selectors would say.
        listed = self._by_namespace.get(pod.namespace, ()) if pod.labels else ()
        return [budget for budget in listed if budget.selector.matches(pod.labels)]


def _one_by_one(pods: Sequence[PodInfo], node: Rows, applying: Sequence[Sequence[_Budget]]) -> Mask:
    """A pod that exceeds one of its budgets is not counted in those after it."""
    left: dict[tuple[int, _Budget], int] = {}
    violates = [
        any(budget.is_exceeded_by(pod, at, left) for budget in budgets)
        for pod, at, budgets in zip(pods, node.tolist(), applying, strict=True)
    ]
    return np.array(violates, np.bool_)


def _each_for_itself(
    pods: Sequence[PodInfo], node: Rows, applying: Sequence[Sequence[_Budget]]
) -> Mask:
    """Where no pod has two budgets: which place it has among those of its own on its node."""
    violates = np.zeros(len(pods), np.bool_)
    by_budget: dict[_Budget, list[int]] = {}
    for number, budgets in enumerate(applying):
        # The API server has counted those that are disrupted already.
        if budgets and pods[number].name not in budgets[0].disrupted:
            by_budget.setdefault(budgets[0], []).append(number)
    for budget, numbers in by_budget.items():
        where = node[numbers]
        starts = np.flatnonzero(np.diff(where, prepend=-1))
        before = np.arange(len(numbers))
        place = before - np.repeat(before[starts], np.diff(starts, append=len(numbers)))
        violates[np.array(numbers)[place >= budget.allowed]] = True
    return violates


class _Budget:
    __slots__ = ("allowed", "disrupted", "selector")

    def __init__(self, budget: PodDisruptionBudget, selector: Selector) -> None:
        self.allowed = budget.status.disruptions_allowed
        self.disrupted = budget.status.disrupted_pods
        self.selector = selector

    def is_exceeded_by(self, pod: PodInfo, node: int, left: dict[tuple[int, _Budget], int]) -> bool:
        # The API server has counted those already.
        if pod.name in self.disrupted:
            return False
        left[node, self] = allowed = left.get((node, self), self.allowed) - 1
        return allowed < 0
