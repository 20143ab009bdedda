"""Whose eviction would exceed a PodDisruptionBudget.

Budgets look for their pods (see `LabelledPods`), not pods for their budgets. So a search for
victims costs the labels of the pods and, for each budget, about as many array elements as it has
pods; never pods times budgets, unless so many budgets do cover so many pods, and then in arrays.

Mirrors FilterVictimsWithPDBViolation of pkg/scheduler/framework/preemption/util.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kscheduler.api.labels import Selector, SelectorError, compile_selector
from kscheduler.api.small_groups import PodDisruptionBudget
from kscheduler.framework.status import Mask, Rows
from kscheduler.state.labelled_pods import LabelledPods, Numbers
from kscheduler.state.pod_info import PodInfo


class _Budget(NamedTuple):
    allowed: int
    # By name, pods whose disruption the API server has counted already.
    disrupted: Mapping[str, object]
    selector: Selector


class Budgets:
    """How many pods may be disrupted, as PodDisruptionBudgets say it just now."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget] = ()) -> None:
        self._by_namespace: dict[str, list[_Budget]] = {}
        for budget in budgets:
            try:
                selector = compile_selector(budget.spec.selector)
            except SelectorError:
                continue
            # Unlike elsewhere, an empty selector selects nothing.
            if selector.requirements:
                status = budget.status
                known = self._by_namespace.setdefault(budget.metadata.namespace, [])
                known.append(_Budget(status.disruptions_allowed, status.disrupted_pods, selector))
        self._keys = {
            namespace: frozenset(one.key for budget in known for one in budget.selector)
            for namespace, known in self._by_namespace.items()
        }

    def __bool__(self) -> bool:
        return bool(self._by_namespace)

    def violated_by(self, pods: Sequence[PodInfo], node: Rows) -> Mask:
        """Pods whose eviction, after that of those before them on their node, exceeds a budget.

        `node` tells by number which one each pod is on; those of one node follow each other.
        """
        violates = np.zeros(len(pods), np.bool_)
        concerned: dict[str, list[int]] = {}
        for number, pod in enumerate(pods):
            # A pod without labels is nobody's, whatever selectors would say.
            if pod.namespace in self._by_namespace and pod.labels:
                concerned.setdefault(pod.namespace, []).append(number)
        for namespace, numbers in concerned.items():
            labelled = LabelledPods(pods, numbers, self._keys[namespace])
            # In their order: a pod that exceeds one of them is not counted in those after it.
            for budget in self._by_namespace[namespace]:
                covered = labelled.without(labelled.selected(budget.selector), budget.disrupted)
                _spend(budget.allowed, covered[~violates[covered]], node, violates)
        return violates


def _spend(allowed: int, covered: Numbers, node: Rows, violates: Mask) -> None:
    """Mark of these pods, in their order, all but the first so many on each node."""
    if not len(covered):
        return
    starts = np.flatnonzero(np.diff(node[covered], prepend=-1))
    place = np.arange(len(covered))
    place -= np.repeat(starts, np.diff(starts, append=len(covered)))
    violates[covered[place >= allowed]] = True
