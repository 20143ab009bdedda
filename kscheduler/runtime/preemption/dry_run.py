"""The dry run of preemption: which pods would have to go, node by node, so that a pod fits.

On each node all potential victims are removed. If the pod fits then, they are reprieved one by one,
in the order of `potential_victims`: each is added again, and stays unless the pod does not fit
beside it. Those that do not stay are the node's victims.

Many nodes are tried together, and each round of reprieves, one pod per node, costs one Filter over
all of them. That takes plugins whose verdict on a node depends on that node alone, or which can
keep apart what is added to each row and removed from it (`TracksPodsByRow`). With others each node
is tried in a fork of its own.

Mirrors DryRunPreemption and SelectVictimsOnNode of upstream.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from kscheduler import logs
from kscheduler.errors import KschedulerError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.in_tree import UpdatePods
from kscheduler.framework.status import Charge, Code, Mask, Rows, Status
from kscheduler.gotext.strconv import quote
from kscheduler.runtime.filter import Filtered
from kscheduler.runtime.framework import Framework
from kscheduler.runtime.preemption.candidate import Candidate
from kscheduler.runtime.preemption.potential_victims import (
    DisruptionBudgets,
    PotentialVictims,
    potential_victims,
)
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.what_if import PodsByRow, WhatIf

log = logs.logger(__name__, "PostFilter.DefaultPreemption")

NO_VICTIMS = "No preemption victims found for incoming pod"
SMALLEST_BATCH = 16


# Why a node is no candidate: plugin, code and reason, perhaps several.
NodeStatus = tuple[tuple[str, Code, str], ...]
NO_POTENTIAL_VICTIMS: NodeStatus = (("", Code.UNSCHEDULABLE_AND_UNRESOLVABLE, NO_VICTIMS),)

NodeOutcome = Candidate | NodeStatus


class DryRunResult(msgspec.Struct):
    """Candidates found so far, and why other nodes are none.

    `num_candidates` are enough if one of them violates no budget.
    """

    num_candidates: int
    non_violating: list[Candidate] = msgspec.field(default_factory=list)
    violating: list[Candidate] = msgspec.field(default_factory=list)
    # By row.
    node_statuses: dict[int, NodeStatus] = msgspec.field(default_factory=dict)
    # Of nodes that could not be judged.
    errors: list[str] = msgspec.field(default_factory=list)

    @property
    def candidates(self) -> list[Candidate]:
        return self.non_violating[: self.num_candidates] + self.violating[: self.num_candidates]

    @property
    def is_enough(self) -> bool:
        found = len(self.non_violating)
        return min(found, self.num_candidates) > 0 and (
            found + len(self.violating) >= self.num_candidates
        )

    @property
    def charges(self) -> list[Charge]:
        """Why nodes are no candidates, each reason once with all its rows."""
        rows_of: dict[tuple[str, Code, str], list[int]] = {}
        for row, status in self.node_statuses.items():
            for reason in status:
                rows_of.setdefault(reason, []).append(row)
        return [
            Charge(plugin, np.array(rows, np.intp), code, reason)
            for (plugin, code, reason), rows in rows_of.items()
        ]

    def add(self, row: int, outcome: NodeOutcome) -> None:
        if not isinstance(outcome, Candidate):
            self.node_statuses[row] = outcome
        elif outcome.num_pdb_violations:
            self.violating.append(outcome)
        else:
            self.non_violating.append(outcome)


class DryRun:
    """Preemption tried out for one pod that no node takes.

    `cycle` holds what the plugins prepared for the pod. `known` are outcomes by row that still
    hold; new ones are added to it.
    """

    def __init__(
        self,
        framework: Framework,
        cycle: CycleState,
        pod: PodInfo,
        nodes: Nodes,
        *,
        budgets: DisruptionBudgets,
        now_ns: int,
        known: dict[int, NodeOutcome] | None = None,
    ) -> None:
        self._framework = framework
        self._cycle = cycle
        self._pod = pod
        self._nodes = nodes
        self._budgets = budgets
        self._now_ns = now_ns
        self._known = {} if known is None else known
        self._errors: list[str] = []

    def run(self, rows: Rows, num_candidates: int) -> DryRunResult:
        """Try these rows in their order until there are enough candidates.

        In batches that double, so that few nodes are tried in vain where many suit, and few Filter
        calls are made where none does.
        """
        result = DryRunResult(num_candidates, errors=self._errors)
        start, size = 0, max(num_candidates, SMALLEST_BATCH)
        v = log.v(5)
        while start < len(rows) and not result.is_enough:
            batch = rows[start : start + size].tolist()
            fresh = self._try_rows([row for row in batch if row not in self._known])
            for row in batch:
                outcome = fresh.get(row) or self._known.get(row)
                if v:
                    self._log_outcome(v, row, outcome)
                # None where something went wrong.
                if outcome is not None:
                    result.add(row, outcome)
                    if result.is_enough:
                        break
            start, size = start + size, size * 2
        return result

    def _log_outcome(self, v: logs.Verbose, row: int, outcome: NodeOutcome | None) -> None:
        preemptor, node = logs.ref(self._pod.pod), self._nodes.name_of(row)
        v.info("Check the potential node for preemption", pod=preemptor, node=node)
        if isinstance(outcome, Candidate):
            for victim in outcome.victims:
                v.info(
                    "Pods are potential preemption victims on node",
                    pod=preemptor,
                    pods=[{"name": victim.name, "namespace": victim.namespace}],
                    node=node,
                )

    def _try_rows(self, rows: Sequence[int]) -> dict[int, NodeOutcome]:
        outcomes: dict[int, NodeOutcome] = dict.fromkeys(rows, NO_POTENTIAL_VICTIMS)
        potential = potential_victims(
            rows, self._nodes, self._pod.priority, self._budgets, self._now_ns
        )
        for row in potential:
            del outcomes[row]
        framework, cycle = self._framework, self._cycle
        if framework.has_extensions(cycle) and not framework.can_track_pods_by_row(cycle):
            for row, of_row in potential.items():
                try:
                    self._try_row_alone(row, of_row, outcomes)
                except _ExtensionError as error:
                    self._errors.append(str(error))
        elif potential:
            self._try_together(potential, outcomes)
        self._known.update(outcomes)
        for row, of_row in potential.items():
            if not of_row.stable:
                self._known.pop(row, None)
        return outcomes

    def _try_together(
        self, potential: Mapping[int, PotentialVictims], outcomes: dict[int, NodeOutcome]
    ) -> None:
        evicted = PodsByRow({row: of_row.pods for row, of_row in potential.items()})
        what_if = WhatIf(self._nodes)
        what_if.remove(evicted)
        cycle = self._cycle.clone()
        updates = self._framework.track_pods_by_row(
            cycle, evicted.pods, evicted.row_of_pod, self._nodes
        )
        for update_pods in updates:
            update_pods(np.arange(len(evicted.pods)), -1)
        filtered = self._filter(cycle, what_if.nodes.take(evicted.rows))
        self._add_node_statuses(filtered, outcomes)
        suitable = _among(evicted.rows, filtered.feasible, len(self._nodes))
        is_victim = self._reprieve(cycle, what_if, evicted, suitable, updates)
        for row in evicted.rows[suitable].tolist():
            first, end = evicted.numbers_of(row)
            self._add_candidate(row, potential[row], is_victim[first:end].tolist(), outcomes)

    def _reprieve(
        self,
        cycle: CycleState,
        what_if: WhatIf,
        evicted: PodsByRow,
        suitable: Mask,
        updates: Sequence[UpdatePods],
    ) -> Mask:
        """Evicted pods that cannot be reprieved, on rows that suit without any of them.

        `suitable` is [rows of `evicted`], the answer [pods of `evicted`]. Round i adds the
        i-th potential victim of every row that has one: as many rounds as the fullest node has.
        """
        is_victim = np.zeros(len(evicted.pods), np.bool_)
        counts, rows = evicted.counts[suitable], evicted.rows[suitable]
        first = evicted.first_of_row[suitable]
        for number in range(int(counts.max(initial=0))):
            has_more = counts > number
            reprieved = first[has_more] + number
            what_if.add(evicted.some(reprieved))
            for update_pods in updates:
                update_pods(reprieved, 1)
            feasible = self._filter(cycle, what_if.nodes.take(rows[has_more])).feasible
            victims = reprieved[~_among(rows[has_more], feasible, len(self._nodes))]
            is_victim[victims] = True
            what_if.remove(evicted.some(victims))
            for update_pods in updates:
                update_pods(victims, -1)
        return is_victim

    def _try_row_alone(
        self, row: int, potential: PotentialVictims, outcomes: dict[int, NodeOutcome]
    ) -> None:
        """One row in a what-if of its own, for plugins that cannot keep rows apart."""
        node = _WhatIfNode(self._framework, self._cycle.clone(), self._pod, self._nodes, row)
        for pod in potential.pods:
            node.remove_pod(pod)
        filtered = self._filter(node.cycle, node.nodes)
        if not len(filtered.feasible):
            self._add_node_statuses(filtered, outcomes)
            return
        is_victim = []
        for pod in potential.pods:
            node.add_pod(pod)
            fits = bool(len(self._filter(node.cycle, node.nodes).feasible))
            if not fits:
                node.remove_pod(pod)
            is_victim.append(not fits)
        self._add_candidate(row, potential, is_victim, outcomes)

    def _filter(self, cycle: CycleState, nodes: Nodes) -> Filtered:
        return self._framework.filter_with_nominated(cycle, self._pod, nodes)

    def _add_node_statuses(self, filtered: Filtered, outcomes: dict[int, NodeOutcome]) -> None:
        """Nodes that do not suit the pod even without any potential victim."""
        reasons: dict[int, list[tuple[str, Code, str]]] = {}
        for plugin, rows, code, reason in filtered.charges:
            for row in rows.tolist():
                reasons.setdefault(row, []).append((plugin, code, reason))
        outcomes.update((row, tuple(of_row)) for row, of_row in reasons.items())
        self._errors += [error.reason for error in filtered.errors]

    def _add_candidate(
        self,
        row: int,
        potential: PotentialVictims,
        is_victim: Sequence[bool],
        outcomes: dict[int, NodeOutcome],
    ) -> None:
        numbers = [number for number, evicted in enumerate(is_victim) if evicted]
        name = self._nodes.name_of(row)
        if not numbers:
            self._errors.append(f"expected at least one victim pod on node {quote(name)}")
            return
        num_pdb_violations = bisect_left(numbers, potential.num_violating)
        violating = frozenset(
            [potential.pods[number].uid for number in numbers[:num_pdb_violations]]
        )
        numbers.sort(key=potential.ranks.__getitem__)
        victims = tuple([potential.pods[number] for number in numbers])
        outcomes[row] = Candidate(name, victims, num_pdb_violations, violating)


def _among(rows: Rows, some: Rows, size: int) -> Mask:
    """Mask of the rows, all below `size`, that are among some others."""
    marked = np.zeros(size, np.bool_)
    marked[some] = True
    return marked.take(rows)


class _ExtensionError(KschedulerError):
    """Raised when a plugin's add_pod or remove_pod fails."""


class _WhatIfNode:
    """A copy of one node to add pods to and remove pods from; plugins' prepared state changes along
    with it.
    """

    def __init__(
        self, framework: Framework, cycle: CycleState, pod: PodInfo, nodes: Nodes, row: int
    ) -> None:
        self._framework = framework
        self.cycle = cycle
        self._pod = pod
        self._what_if = WhatIf(nodes)
        self._row = row

    @property
    def nodes(self) -> Nodes:
        return self._what_if.nodes.take([self._row])

    def remove_pod(self, other: PodInfo) -> None:
        self._what_if.remove_pod(other, self._row)
        run = self._framework.run_remove_pod
        _raise_if_failed(run(self.cycle, self._pod, other, self._row, self._what_if.nodes))

    def add_pod(self, other: PodInfo) -> None:
        self._what_if.add_pod(other, self._row)
        run = self._framework.run_add_pod
        _raise_if_failed(run(self.cycle, self._pod, other, self._row, self._what_if.nodes))


def _raise_if_failed(status: Status | None) -> None:
    if status is not None:
        raise _ExtensionError(status.message)
