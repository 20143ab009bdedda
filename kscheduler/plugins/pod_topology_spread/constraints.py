"""A pod's topology spread constraints, compiled: its own, or the default ones.

Defaults are for pods without any constraint, hard or soft. Which pods they spread is deduced: those
that the pod's Services and its controller select (`DefaultSelector`).

Mirrors common.go of the plugin, and plugins/helper/spread.go. Differs: nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from kscheduler.api.core import ReplicationController, Service, TopologySpreadConstraint
from kscheduler.api.labels import (
    EVERYTHING,
    NOTHING,
    Operator,
    Requirement,
    Selector,
    SelectorError,
    compile_selector,
    selector_from_labels,
)
from kscheduler.api.meta import LabelSelector
from kscheduler.api.small_groups import ReplicaSet, StatefulSet
from kscheduler.caches import BoundedCache, size_of
from kscheduler.framework.listers import Listers
from kscheduler.plugins.helper.lister_memo import NamespaceMemo
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

_Labels = tuple[tuple[str, str], ...]

# Selectors of workloads, some 1 kB each.
MAX_SELECTOR_BYTES = 1 << 20

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
        default_selector: Callable[[PodInfo], Selector],
        *,
        match_label_keys: bool,
    ) -> None:
        """`default_selector`: the pods that one without constraints of its own is spread with."""
        self._default_selector = default_selector
        self._match_label_keys = match_label_keys
        self._defaults = {action: _Defaults(defaults, action) for action in _ADJECTIVES}
        # By labels, where those are part of the selectors, and by identity of what was parsed,
        # which is held for that.
        self._narrowed: BoundedCache[_Narrowed, tuple[tuple[Constraint, ...], object]] = (
            BoundedCache("spread_constraints", MAX_NARROWED_BYTES)
        )
        self.caches = (self._narrowed, *(each.cache for each in self._defaults.values()))

    def hard(self, pod: PodInfo) -> Sequence[Constraint]:
        """Constraints that a node must meet; raises SelectorError."""
        return self._of(pod, HARD)

    def soft(self, pod: PodInfo) -> Sequence[Constraint]:
        """Constraints that nodes are scored by; raises SelectorError."""
        return self._of(pod, SOFT)

    def _of(self, pod: PodInfo, action: str) -> Sequence[Constraint]:
        own = pod.pod.spec.topology_spread_constraints
        if not own:
            defaults = self._defaults[action]
            if not defaults.constraints:
                return ()
            selector = self._default_selector(pod)
            return () if selector.matches_everything else defaults.spreading(selector)
        # Parsed once per template, unless labels of the pod itself are part of the selectors.
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
    """Default constraints of one kind, before it is known which pods they spread."""

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


class DefaultSelector:
    """The pods that belong together where a pod does not say."""

    def __init__(self, listers: Listers) -> None:
        self._services: NamespaceMemo[Service, tuple[str, ...], _Labels] = NamespaceMemo(
            listers.lister(Service), "labels_of_services"
        )
        self._replication_controllers = listers.lister(ReplicationController)
        self._replica_sets = listers.lister(ReplicaSet)
        self._stateful_sets = listers.lister(StatefulSet)
        self._selectors: BoundedCache[tuple[_Labels, Selector | None], Selector] = BoundedCache(
            "default_selectors", MAX_SELECTOR_BYTES
        )
        self.caches = (*self._services.caches, self._selectors)

    def of(self, pod: PodInfo) -> Selector:
        """Selects everything if nothing is known about the pod."""
        labels = self._labels_of_services(pod)
        owners = pod.pod.metadata.owner_references
        owner = pod.pod.metadata.controller if owners else None
        if owner is None:
            return self._selector(labels) if labels else EVERYTHING
        # An owner that is missing, of another kind, or has a broken selector adds nothing.
        key = f"{pod.namespace}/{owner.name}"
        match owner.api_version, owner.kind:
            case "v1", "ReplicationController":
                controller = self._replication_controllers.get(key)
                if controller is not None:
                    labels = tuple((dict(labels) | dict(controller.spec.selector)).items())
                return self._selector(labels)
            case "apps/v1", "ReplicaSet":
                replica_set = self._replica_sets.get(key)
                return self._both(labels, replica_set.spec.selector if replica_set else None)
            case "apps/v1", "StatefulSet":
                stateful_set = self._stateful_sets.get(key)
                return self._both(labels, stateful_set.spec.selector if stateful_set else None)
            case _:
                return self._selector(labels)

    def _labels_of_services(self, pod: PodInfo) -> _Labels:
        """Labels that the Services which select the pod ask for; they cannot contradict."""
        known = self._services.get(pod.namespace, pod.label_set)
        if known is not None:
            return known
        asked: dict[str, str] = {}
        for service in self._services.objects(pod.namespace):
            wanted = service.spec.selector
            if wanted.items() <= pod.labels.items():
                asked |= wanted
        cost = 300 + 100 * (len(pod.labels) + len(asked))
        return self._services.put(pod.namespace, pod.label_set, tuple(asked.items()), cost)

    def _both(self, labels: _Labels, selector: LabelSelector | None) -> Selector:
        if selector is None:
            return self._selector(labels)
        try:
            return self._selector(labels, compile_selector(selector))
        except SelectorError:
            return self._selector(labels)

    def _selector(self, labels: _Labels, owners: Selector | None = None) -> Selector:
        """Selects what has these labels and, if there is an owner's selector, matches that."""
        selector = self._selectors.get((labels, owners))
        if selector is None:
            selector = selector_from_labels(dict(labels))
            if owners is not None:
                selector = Selector((*selector, *owners))
            self._selectors.put((labels, owners), selector, 2 * bytes_of_selector(selector))
        return selector
