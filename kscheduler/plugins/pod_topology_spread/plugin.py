"""PodTopologySpread: keeps matching pods evenly spread over zones, hosts or whatever labels say.

Mirrors pkg/scheduler/framework/plugins/podtopologyspread. Differs: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from kscheduler import logs
from kscheduler.api import core
from kscheduler.api.core import Node
from kscheduler.api.labels import SelectorError
from kscheduler.api.requests import is_resize_deferred
from kscheduler.api.resources import REPLICA_SETS, REPLICATION_CONTROLLERS, SERVICES, STATEFUL_SETS
from kscheduler.errors import KschedulerError
from kscheduler.framework.cluster_event import (
    ASSIGNED_POD,
    NODE,
    TARGET_POD,
    Action,
    ClusterEvent,
    EventWithHint,
    Hint,
)
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.declaration import plugin
from kscheduler.framework.handle import Handle
from kscheduler.framework.in_tree import Detail, UpdatePods
from kscheduler.framework.status import (
    SKIP,
    Code,
    Rejection,
    Rows,
    Scores,
    Status,
    failed,
    rejected,
)
from kscheduler.plugins.pod_topology_spread.args import PodTopologySpreadArgs
from kscheduler.plugins.pod_topology_spread.constraints import (
    SYSTEM_DEFAULTS,
    Constraint,
    Constraints,
    DefaultSelector,
)
from kscheduler.plugins.pod_topology_spread.domains import SpreadTopology
from kscheduler.plugins.pod_topology_spread.filtering import PreFilterState
from kscheduler.plugins.pod_topology_spread.scoring import PreScoreState
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__, "FilterWithNominatedPods.Filter.PodTopologySpread")

NO_PRE_FILTER = 'reading "PreFilterPodTopologySpread" from cycleState: not found'
NO_PRE_SCORE = 'error reading "PreScorePodTopologySpread" from cycleState: not found'


@plugin(
    args=PodTopologySpreadArgs,
    weight=2,
    reads=(SERVICES, REPLICATION_CONTROLLERS, REPLICA_SETS, STATEFUL_SETS),
)
class PodTopologySpread:
    name = "PodTopologySpread"

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle) -> None:
        gates = handle.gates
        self._system_defaulted = args.defaulting_type == "System"
        defaults: tuple[core.TopologySpreadConstraint, ...] = SYSTEM_DEFAULTS
        if not self._system_defaulted:
            listed = [
                one.model_dump(by_alias=True, exclude_none=True) for one in args.default_constraints
            ]
            defaults = msgspec.convert(listed, tuple[core.TopologySpreadConstraint, ...])
        self._has_defaults = bool(defaults)
        default_selector = DefaultSelector(handle.listers)
        self._constraints = Constraints(
            defaults,
            default_selector.of,
            match_label_keys=gates.enabled("MatchLabelKeysInPodTopologySpread"),
        )
        self._topology = SpreadTopology(
            numeric_tolerations=gates.enabled("TaintTolerationComparisonOperators")
        )
        self.caches = (
            *default_selector.caches,
            *self._constraints.caches,
            *self._topology.caches,
        )
        self._skips_resizes = gates.enabled("InPlacePodVerticalScalingSchedulerPreemption")

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        if self._skips_resizes and is_resize_deferred(pod.pod):
            return SKIP
        try:
            constraints = self._constraints.hard(pod)
        except SelectorError as error:
            return failed(f"get constraints from pod: {error}")
        if not constraints:
            return SKIP
        cycle.put(PreFilterState.of(constraints, pod, nodes, self._topology))
        return None

    def add_pod(
        self, cycle: CycleState, pod: PodInfo, added: PodInfo, row: int, nodes: Nodes
    ) -> Status | None:
        return self._update(cycle, added, row, 1)

    def remove_pod(
        self, cycle: CycleState, pod: PodInfo, removed: PodInfo, row: int, nodes: Nodes
    ) -> Status | None:
        return self._update(cycle, removed, row, -1)

    def track_pods_by_row(
        self, cycle: CycleState, pods: Sequence[PodInfo], row_of_pod: Rows, nodes: Nodes
    ) -> UpdatePods:
        return cycle[PreFilterState].track_pods(pods, row_of_pod)

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Iterator[Rejection]:
        state = cycle.get(PreFilterState)
        if state is None:
            yield Rejection(np.ones(len(nodes), np.bool_), Code.ERROR, NO_PRE_FILTER)
            return
        yield from state.rejections(nodes)

    def log_rejected(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        state, v = cycle.get(PreFilterState), log.v(5)
        if v and state is not None:
            state.log_rejected(v, logs.ref(pod.pod), nodes)

    def describe_rejected(
        self, cycle: CycleState, pod: PodInfo, nodes: Nodes, reason: str
    ) -> Iterator[Detail]:
        state = cycle.get(PreFilterState)
        if state is not None:
            yield from state.describe_rejected(nodes, reason)

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        try:
            constraints = self._constraints.soft(pod)
        except SelectorError as error:
            return failed(f"calculating preScoreState: {error}")
        if not constraints:
            return SKIP
        # By system defaults, which ask for hosts and zones, nodes without a zone are still to be
        # spread over by host.
        own = bool(pod.pod.spec.topology_spread_constraints)
        require_all_labels = own or not self._system_defaulted
        cycle.put(
            PreScoreState(
                constraints, pod, nodes, self._topology, require_all_labels=require_all_labels
            )
        )
        return None

    def score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        return _pre_score_state(cycle).raw()

    def normalize(self, cycle: CycleState, pod: PodInfo, scores: Scores, nodes: Nodes) -> Scores:
        return _pre_score_state(cycle).normalized(scores)

    def events_to_register(self) -> Sequence[EventWithHint]:
        assigned = Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE
        target = Action.UPDATE_POD_TOLERATION | Action.UPDATE_POD_LABEL
        node = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        return [
            EventWithHint(ClusterEvent(ASSIGNED_POD, assigned), self._assigned_pod_changed),
            EventWithHint(ClusterEvent(TARGET_POD, target), self._target_pod_changed),
            EventWithHint(ClusterEvent(NODE, node), self._node_changed),
        ]

    def sign(self, pod: PodInfo) -> Mapping[str, object] | Status:
        if pod.pod.spec.topology_spread_constraints:
            return rejected("pods with topology constraints are not signable")
        if self._has_defaults:
            return rejected("pods with default topology constraints are not signable")
        return {}

    def _update(self, cycle: CycleState, changed: PodInfo, row: int, by: int) -> Status | None:
        state = cycle.get(PreFilterState)
        if state is None:
            return failed(NO_PRE_FILTER)
        state.update_with_pod(changed, row, by)
        return None

    def _assigned_pod_changed(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> Hint:
        for changed in (old, new):
            if changed is not None and (
                changed.namespace != pod.namespace
                or not (changed.node_name or changed.pod.status.nominated_node_name)
            ):
                return Hint.SKIP
        constraints = self._constraints.hard(pod)
        if old is not None and new is not None:
            return _if_labels_matter(old, new, constraints)
        changed = old or new
        assert changed is not None
        matches = any(constraint.selector.matches(changed.labels) for constraint in constraints)
        return Hint.QUEUE if matches else Hint.SKIP

    def _target_pod_changed(self, pod: PodInfo, old: PodInfo, new: PodInfo) -> Hint:
        constraints = self._constraints.hard(pod)
        if old.pod.spec.tolerations != new.pod.spec.tolerations and any(
            constraint.honors_taints for constraint in constraints
        ):
            return Hint.QUEUE
        return _if_labels_matter(old, new, constraints)

    def _node_changed(self, pod: PodInfo, old: Node | None, new: Node | None) -> Hint:
        """A node helps that joins, leaves or changes domains, or has other taints."""
        keys = [constraint.topology_key for constraint in self._constraints.hard(pod)]
        counted = [
            all(key in node.metadata.labels for key in keys)
            for node in (old, new)
            if node is not None
        ]
        helps = any(counted)
        if old is not None and new is not None and all(counted):
            before, after = old.metadata.labels, new.metadata.labels
            moved = any(before.get(key) != after.get(key) for key in keys)
            helps = moved or old.spec.taints != new.spec.taints
        return Hint.QUEUE if helps else Hint.SKIP


def _pre_score_state(cycle: CycleState) -> PreScoreState:
    state = cycle.get(PreScoreState)
    if state is None:
        raise KschedulerError(NO_PRE_SCORE)
    return state


def _if_labels_matter(old: PodInfo, new: PodInfo, constraints: Sequence[Constraint]) -> Hint:
    if old.labels == new.labels:
        return Hint.SKIP
    changes = any(
        constraint.selector.matches(old.labels) != constraint.selector.matches(new.labels)
        for constraint in constraints
    )
    return Hint.QUEUE if changes else Hint.SKIP
