"""A pod's topology spread constraints, ready to be used: its own, or the default ones.

Defaults are for pods without any constraint, hard or soft; whom they spread is deduced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
from kscheduler.caches import BoundedCache, size_of
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.selector_lookup import bytes_of_selector
from kscheduler.state.topology import HOSTNAME

ZONE = "topology.kubernetes.io/zone"

HARD = "DoNotSchedule"
SOFT = "ScheduleAnyway"
HONOR = "Honor"

SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=SOFT),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable=SOFT),
)

# Constraints of pods that are spread among those with the same labels; some 5 kB for each set of
# labels.
MAX_NARROWED_BYTES = 1 << 20
# Default constraints with the selector of a workload: some 1 kB.
MAX_DEFAULTS_BYTES = 1 << 19

_Narrowed = tuple[int, str, tuple[str, ...]]

_ADJECTIVES = {HARD: "hard", SOFT: "soft"}


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
    """A pod's own constraints are parsed once for all pods of its template."""

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
        self._defaults = {action: _Defaults(defaults, action) for action in _ADJECTIVES}
        # By labels, where those are part of the selectors, and by identity of what was parsed,
        # which is held for that.
        self._narrowed: BoundedCache[_Narrowed, tuple[tuple[Constraint, ...], object]] = (
            BoundedCache("spread_constraints", MAX_NARROWED_BYTES)
        )
        self.caches = (self._narrowed, *(each.cache for each in self._defaults.values()))

    def hard(self, pod: PodInfo) -> Sequence[Constraint]:
        """Those that a node must meet; SelectorError if one cannot be understood."""
        return self._of(pod, HARD)

    def soft(self, pod: PodInfo) -> Sequence[Constraint]:
        """Those that nodes are scored by."""
        return self._of(pod, SOFT)

    def _of(self, pod: PodInfo, action: str) -> Sequence[Constraint]:
        own = pod.pod.spec.topology_spread_constraints
        if own:
            return self._own(own, pod, action)
        defaults = self._defaults[action]
        if not defaults.constraints:
            return ()
        selector = self._deduced(pod)
        return () if selector.matches_everything else defaults.spreading(selector)

    def _own(
        self, own: Sequence[TopologySpreadConstraint], pod: PodInfo, action: str
    ) -> Sequence[Constraint]:
        derived: dict[object, tuple[Constraint, ...]] = pod.template.derived
        known = derived.get((self, action))
        if known is not None:
            return known
        with_labels = (id(own), action, pod.label_set)
        narrowed = self._narrowed.get(with_labels)
        if narrowed is not None:
            return narrowed[0]
        listed = [one for one in own if one.when_unsatisfiable == action]
        try:
            parsed = tuple([self._constraint(one, pod.labels) for one in listed])
        except SelectorError as error:
            raise SelectorError(
                f"obtaining pod's {_ADJECTIVES[action]} topology spread constraints: {error}"
            ) from error
        if any(one.match_label_keys for one in listed):
            cost = size_of((own, parsed, pod.label_set), self._narrowed.largest)
            self._narrowed.put(with_labels, (parsed, own), cost)
        else:
            derived[self, action] = parsed
        return parsed

    def _constraint(
        self, constraint: TopologySpreadConstraint, labels: Mapping[str, str]
    ) -> Constraint:
        selector = compile_selector(constraint.label_selector)
        if constraint.match_label_keys and self._match_label_keys and not selector.matches_nothing:
            same = [key for key in constraint.match_label_keys if key in labels]
            values = [Requirement(key, Operator.IN, frozenset((labels[key],))) for key in same]
            selector = Selector((*selector, *values))
        return _with_selector(constraint, selector)


class _Defaults:
    """Default constraints of one kind, before it is known whom they spread."""

    def __init__(self, constraints: Iterable[TopologySpreadConstraint], action: str) -> None:
        self.constraints = tuple(
            _with_selector(one, NOTHING) for one in constraints if one.when_unsatisfiable == action
        )
        self.cache: BoundedCache[Selector, tuple[Constraint, ...]] = BoundedCache(
            "default_spread_constraints", MAX_DEFAULTS_BYTES
        )

    def spreading(self, selector: Selector) -> tuple[Constraint, ...]:
        known = self.cache.get(selector)
        if known is None:
            known = tuple(one._replace(selector=selector) for one in self.constraints)
            cost = 200 * len(known) + bytes_of_selector(selector)
            self.cache.put(selector, known, cost)
        return known


def _with_selector(constraint: TopologySpreadConstraint, selector: Selector) -> Constraint:
    min_domains, affinity = constraint.min_domains, constraint.node_affinity_policy
    return Constraint(
        constraint.max_skew,
        constraint.topology_key,
        selector,
        1 if min_domains is None else min_domains,
        affinity is None or affinity == HONOR,
        constraint.node_taints_policy == HONOR,
    )
