"""Potential victims: the pods of lower priority on each node, in the order they are reprieved.

Pods whose eviction would exceed a PodDisruptionBudget come first, then the others; among either the
more important (higher priority, then earlier start) before the less. All nodes are put in order at
once, by arrays.

Mirrors filterPodsWithPDBViolation and MoreImportantPod of upstream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from kscheduler.api.labels import Selector, SelectorError, compile_selector
from kscheduler.api.small_groups import PodDisruptionBudget
from kscheduler.framework.status import Mask, Rows
from kscheduler.runtime.preemption.candidate import start_ns
from kscheduler.state.labelled_pods import LabelledPods
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

# Budgets of one pod that are told of, and budgets of a namespace that are looked through for them.
MOST_NAMED = 4
MOST_SEARCHED = 256


class PotentialVictims(NamedTuple):
    """Pods of one node that may be evicted, in the order they are reprieved."""

    pods: Sequence[PodInfo]
    # So many of them, the first ones, exceed a budget.
    num_violating: int
    # Importance of each among them: the smaller, the more important; equal where nothing differs.
    ranks: Sequence[int]
    # Whether the order stays as it is while time goes by.
    stable: bool


def potential_victims(
    rows: Sequence[int], nodes: Nodes, priority: int, budgets: DisruptionBudgets, now_ns: int
) -> dict[int, PotentialVictims]:
    """By row, where there are pods below the priority."""
    pods_on = nodes.occupancy.pods
    lower = {
        row: there
        for row in rows
        if (there := [pod for pod in pods_on(row) if pod.priority < priority])
    }
    pods = [pod for there in lower.values() for pod in there]
    sizes = np.fromiter(map(len, lower.values()), np.intp, len(lower))
    # Below, arrays are [pods], the pods of one node side by side. `node`: the number, 0.., of each
    # pod's node; sorting by it first leaves it as it is.
    node = np.repeat(np.arange(len(lower)), sizes)
    priorities = np.fromiter((pod.priority for pod in pods), np.int64, len(pods))
    # Thousands of pods say in the same words when they were started.
    start_of: dict[str | None, int] = {}
    for pod in pods:
        if pod.pod.status.start_time not in start_of:
            start = start_ns(pod)
            start_of[pod.pod.status.start_time] = now_ns if start is None else start
    starts = np.array([start_of[pod.pod.status.start_time] for pod in pods], np.int64)
    order = np.lexsort((starts, -priorities, node))
    # Some clocks are ahead: a start after now is not always after now.
    stable = np.bincount(node[starts > now_ns], minlength=len(lower)) == 0
    ranks = np.cumsum(
        (np.diff(priorities[order], prepend=0) != 0) | (np.diff(starts[order], prepend=0) != 0)
    )
    num_violating = np.zeros(len(lower), np.intp)
    if budgets:
        violating = budgets.violated_by([pods[number] for number in order], node)
        num_violating = np.bincount(node[violating], minlength=len(lower))
        violating_first = np.lexsort((~violating, node))
        order, ranks = order[violating_first], ranks[violating_first]
    ordered, ranked = [pods[number] for number in order.tolist()], ranks.tolist()
    ends = np.cumsum(sizes)
    firsts = (ends - sizes).tolist()
    return {
        row: PotentialVictims(ordered[first:end], count, ranked[first:end], stays)
        for row, first, end, count, stays in zip(
            lower, firsts, ends.tolist(), num_violating.tolist(), stable.tolist(), strict=True
        )
    }


class _Budget(NamedTuple):
    name: str
    disruptions_allowed: int
    # By name, pods whose disruption the API server has counted already.
    disrupted_pods: Mapping[str, object]
    selector: Selector


class DisruptionBudgets:
    """PodDisruptionBudgets as they are just now, by namespace.

    Budgets look for their pods (see `LabelledPods`), not pods for their budgets. So a search for
    victims costs the labels of the pods and, for each budget, about as many array elements as it
    has pods; never pods times budgets, unless so many budgets do cover so many pods, and then in
    arrays.
    """

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
                allowed, disrupted = status.disruptions_allowed, status.disrupted_pods
                known.append(_Budget(budget.name, allowed, disrupted, selector))
        self._keys = {
            namespace: frozenset(one.key for budget in known for one in budget.selector)
            for namespace, known in self._by_namespace.items()
        }

    def __bool__(self) -> bool:
        return bool(self._by_namespace)

    def names_selecting(self, pod: PodInfo) -> tuple[str, ...]:
        """Budgets that the pod is under: the first MOST_NAMED among the first MOST_SEARCHED."""
        if not pod.labels:
            return ()
        budgets = islice(self._by_namespace.get(pod.namespace, ()), MOST_SEARCHED)
        names = (one.name for one in budgets if one.selector.matches(pod.labels))
        return tuple(islice(names, MOST_NAMED))

    def covering(self, pods: Sequence[PodInfo]) -> Iterator[tuple[str, str, int, int]]:
        """Namespace and name of budgets that cover some of these pods, the disruptions that each
        allows, and how many of the pods it covers.
        """
        by_namespace: dict[str, list[int]] = {}
        for number, pod in enumerate(pods):
            if pod.namespace in self._by_namespace and pod.labels:
                by_namespace.setdefault(pod.namespace, []).append(number)
        for namespace, numbers in by_namespace.items():
            labelled = LabelledPods(pods, numbers, self._keys[namespace])
            for budget in self._by_namespace[namespace]:
                selected = labelled.selected(budget.selector)
                count = len(labelled.without(selected, budget.disrupted_pods))
                if count:
                    yield namespace, budget.name, budget.disruptions_allowed, count

    def violated_by(self, pods: Sequence[PodInfo], node: Rows) -> Mask:
        """Pods whose eviction, after that of those before them on their node, exceeds a budget.

        `node` is the number of each pod's node; pods of one node are side by side.
        """
        violating = np.zeros(len(pods), np.bool_)
        by_namespace: dict[str, list[int]] = {}
        for number, pod in enumerate(pods):
            # A pod without labels is under no budget, whatever selectors would say.
            if pod.namespace in self._by_namespace and pod.labels:
                by_namespace.setdefault(pod.namespace, []).append(number)
        for namespace, numbers in by_namespace.items():
            labelled = LabelledPods(pods, numbers, self._keys[namespace])
            # In their order: a pod that exceeds one of them is not counted in those after it.
            for budget in self._by_namespace[namespace]:
                selected = labelled.selected(budget.selector)
                covered = labelled.without(selected, budget.disrupted_pods)
                covered = covered[~violating[covered]]
                if not len(covered):
                    continue
                # The place, 0.., of each covered pod among those of its node.
                starts = np.flatnonzero(np.diff(node[covered], prepend=-1))
                place = np.arange(len(covered))
                place -= np.repeat(starts, np.diff(starts, append=len(covered)))
                violating[covered[place >= budget.disruptions_allowed]] = True
        return violating
