"""A pod's topology spread constraints, ready to be used: its own, or the default ones.

Defaults are for pods without any constraint, hard or soft; whom they spread is deduced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from kscheduler.api.core import TopologySpreadConstraint
from kscheduler.api.labels import (
    NOTHING,
    Operator,
    Requirement,
    Selector,
    SelectorError,
    compile_selector,
)
from kscheduler.state.memo import Memo
from kscheduler.state.pod_info import PodInfo

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"

HARD = "DoNotSchedule"
SOFT = "ScheduleAnyway"
HONOR = "Honor"

SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=SOFT),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable=SOFT),
)

MAX_SELECTORS = 1024


class Constraint(NamedTuple):
    """Pods that `selector` matches are to be spread over the domains of `topology_key`.

    Nodes that the pod could not go to, by node affinity or by taints, are left out of account where
    the constraint honors these.
    """

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False


class Constraints:
    def __init__(
        self,
        defaults: Sequence[TopologySpreadConstraint],
        deduced: Callable[[PodInfo], Selector],
        *,
        match_label_keys: bool,
    ) -> None:
        """`deduced` says whom a pod is to be spread with that has no constraints of its own."""
        self._deduced = deduced
        self._match_label_keys = match_label_keys
        self._hard_defaults = _Defaults(_with_action(defaults, HARD))
        self._soft_defaults = _Defaults(_with_action(defaults, SOFT))

    def hard(self, pod: PodInfo) -> Sequence[Constraint]:
        """Those that a node must meet; SelectorError if one cannot be understood."""
        own = pod.pod.spec.topology_spread_constraints
        if not own:
            return self._default(self._hard_defaults, pod)
        try:
            return self._parsed(_with_action(own, HARD), pod)
        except SelectorError as error:
            raise SelectorError(
                f"obtaining pod's hard topology spread constraints: {error}"
            ) from error

    def soft(self, pod: PodInfo) -> Sequence[Constraint]:
        """Those that nodes are scored by."""
        own = pod.pod.spec.topology_spread_constraints
        if not own:
            return self._default(self._soft_defaults, pod)
        try:
            return self._parsed(_with_action(own, SOFT), pod)
        except SelectorError as error:
            raise SelectorError(
                f"obtaining pod's soft topology spread constraints: {error}"
            ) from error

    def _default(self, defaults: _Defaults, pod: PodInfo) -> Sequence[Constraint]:
        if not defaults.constraints:
            return ()
        selector = self._deduced(pod)
        return () if selector.matches_everything else defaults.spreading(selector)

    def _parsed(
        self, constraints: Iterable[TopologySpreadConstraint], pod: PodInfo
    ) -> Sequence[Constraint]:
        return [
            _constraint(constraint, self._selector(constraint, pod.labels))
            for constraint in constraints
        ]

    def _selector(
        self, constraint: TopologySpreadConstraint, labels: Mapping[str, str]
    ) -> Selector:
        selector = compile_selector(constraint.label_selector)
        if not constraint.match_label_keys or not self._match_label_keys:
            return selector
        same = tuple((key, labels[key]) for key in constraint.match_label_keys if key in labels)
        return _narrowed(selector, same)


class _Defaults:
    """Default constraints of one kind, before it is known whom they spread."""

    def __init__(self, constraints: Iterable[TopologySpreadConstraint]) -> None:
        self.constraints = tuple(_constraint(constraint, NOTHING) for constraint in constraints)
        self._spreading: Memo[Selector, tuple[Constraint, ...]] = Memo(MAX_SELECTORS)

    def spreading(self, selector: Selector) -> tuple[Constraint, ...]:
        known = self._spreading.get(selector)
        if known is None:
            known = tuple(one._replace(selector=selector) for one in self.constraints)
            self._spreading.put(selector, known)
        return known


def _with_action(
    constraints: Iterable[TopologySpreadConstraint], action: str
) -> list[TopologySpreadConstraint]:
    return [constraint for constraint in constraints if constraint.when_unsatisfiable == action]


def _constraint(constraint: TopologySpreadConstraint, selector: Selector) -> Constraint:
    min_domains, affinity = constraint.min_domains, constraint.node_affinity_policy
    return Constraint(
        constraint.max_skew,
        constraint.topology_key,
        selector,
        1 if min_domains is None else min_domains,
        affinity is None or affinity == HONOR,
        constraint.node_taints_policy == HONOR,
    )


@lru_cache(maxsize=1024)
def _narrowed(selector: Selector, same: tuple[tuple[str, str], ...]) -> Selector:
    """Of the pods selected, those that have these labels too."""
    if selector.matches_nothing:
        return selector
    values = (Requirement(key, Operator.IN, frozenset((value,))) for key, value in same)
    return Selector((*selector, *values))
