"""Which pods would have to go, node by node, so that a pod fits.

On each node all pods of lower priority are taken away. If the pod fits then, they are brought back
one by one: first those whose eviction would exceed a budget, the most important first. Whoever does
not fit beside the pod is a victim.

Many nodes are tried together, and each round of pods brought back, one per node, costs one Filter
over all of them. That takes plugins which do not look from one node to others, or can keep the
worlds apart in which pods have left only one node. With others each node is tried in a fork.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kscheduler.errors import KschedulerError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugin import UpdatePods
from kscheduler.framework.status import Charge, Code, Mask, Rows, Status
from kscheduler.logs import quote
from kscheduler.runtime.filter import Filtered
from kscheduler.runtime.framework import Framework
from kscheduler.runtime.preemption.budgets import Budgets
from kscheduler.runtime.preemption.candidates import Candidate
from kscheduler.runtime.preemption.potential_victims import LineUp, line_ups
from kscheduler.state.eviction import Eviction
from kscheduler.state.fork import fork
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

NO_VICTIMS = "No preemption victims found for incoming pod"
SMALLEST_BATCH = 16


# What speaks against a node: plugin, code and reason, perhaps several.
Refusal = tuple[tuple[str, Code, str], ...]
NOBODY_TO_EVICT: Refusal = (("", Code.UNSCHEDULABLE_AND_UNRESOLVABLE, NO_VICTIMS),)

# What was found out about a row.
Finding = Candidate | Refusal


@dataclass(slots=True)
class DryRun:
    """What was found; `wanted` candidates are enough if one of them violates no budget."""

    wanted: int
    clean: list[Candidate] = field(default_factory=list)
    violating: list[Candidate] = field(default_factory=list)
    # Why other nodes are no candidates, by row, and why some could not be judged.
    refusals: dict[int, Refusal] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    @property
    def candidates(self) -> list[Candidate]:
        return self.clean[: self.wanted] + self.violating[: self.wanted]

    @property
    def is_enough(self) -> bool:
        clean, violating = len(self.clean), len(self.violating)
        return min(clean, self.wanted) > 0 and clean + violating >= self.wanted

    @property
    def charges(self) -> list[Charge]:
        """Why nodes are no candidates, each sentence once."""
        rows_of: dict[tuple[str, Code, str], list[int]] = {}
        for row, refusal in self.refusals.items():
            for sentence in refusal:
                rows_of.setdefault(sentence, []).append(row)
        return [
            Charge(plugin, np.array(rows, np.intp), code, reason)
            for (plugin, code, reason), rows in rows_of.items()
        ]

    def add(self, row: int, finding: Finding) -> None:
        if not isinstance(finding, Candidate):
            self.refusals[row] = finding
        elif finding.violations:
            self.violating.append(finding)
        else:
            self.clean.append(finding)


class Rehearsal:
    """For one pod that no node takes; `cycle` is what its plugins prepared.

    `known` are findings that still hold; what is found out now is added to them.
    """

    def __init__(
        self,
        framework: Framework,
        cycle: CycleState,
        pod: PodInfo,
        nodes: Nodes,
        *,
        budgets: Budgets,
        now_ns: int,
        known: dict[int, Finding] | None = None,
    ) -> None:
        self._framework = framework
        self._cycle = cycle
        self._pod = pod
        self._nodes = nodes
        self._budgets = budgets
        self._now_ns = now_ns
        self._known = {} if known is None else known
        self._errors: list[str] = []

    def run(self, rows: Rows, wanted: int) -> DryRun:
        """Try these rows in their order until there are enough candidates."""
        found = DryRun(wanted, errors=self._errors)
        start, size = 0, max(wanted, SMALLEST_BATCH)
        while start < len(rows) and not found.is_enough:
            batch = rows[start : start + size].tolist()
            fresh = self._find_out([row for row in batch if row not in self._known])
            for row in batch:
                finding = fresh.get(row) or self._known.get(row)
                # There is none where something went wrong.
                if finding is not None:
                    found.add(row, finding)
                    if found.is_enough:
                        break
            start, size = start + size, size * 2
        return found

    def _find_out(self, rows: Sequence[int]) -> dict[int, Finding]:
        found: dict[int, Finding] = dict.fromkeys(rows, NOBODY_TO_EVICT)
        line_up = line_ups(rows, self._nodes, self._pod.priority, self._budgets, self._now_ns)
        for row in line_up:
            del found[row]
        framework, cycle = self._framework, self._cycle
        if framework.has_extensions(cycle) and not framework.can_track_pods_by_row(cycle):
            self._one_by_one(line_up, found)
        elif line_up:
            self._together(line_up, found)
        self._known.update(found)
        for row, one in line_up.items():
            if not one.settled:
                self._known.pop(row, None)
        return found

    def _together(self, line_ups: Mapping[int, LineUp], found: dict[int, Finding]) -> None:
        eviction = Eviction(self._nodes, {row: one.pods for row, one in line_ups.items()})
        cycle = self._cycle.clone()
        updates = self._framework.track_pods_by_row(
            cycle, eviction.pods, eviction.row_of_pod, self._nodes
        )
        _update(updates, np.arange(len(eviction.pods)), -1)
        filtered = self._filter(cycle, eviction.nodes.take(eviction.rows))
        self._note(filtered, found)
        promising = _among(eviction.rows, filtered.feasible, len(self._nodes))
        goes = self._bring_back(cycle, eviction, promising, updates)
        for row in eviction.rows[promising].tolist():
            first, end = eviction.numbers_of(row)
            self._conclude(row, line_ups[row], goes[first:end].tolist(), found)

    def _bring_back(
        self, cycle: CycleState, eviction: Eviction, promising: Mask, updates: Sequence[UpdatePods]
    ) -> Mask:
        """Which pods cannot come back to the promising rows."""
        goes = np.zeros(len(eviction.pods), np.bool_)
        sizes = np.diff(eviction.first_of_row, append=len(eviction.pods))[promising]
        rows, first = eviction.rows[promising], eviction.first_of_row[promising]
        for turn in range(int(sizes.max(initial=0))):
            there = sizes > turn
            back = first[there] + turn
            eviction.bring_back(back)
            _update(updates, back, 1)
            feasible = self._filter(cycle, eviction.nodes.take(rows[there])).feasible
            unfit = back[~_among(rows[there], feasible, len(self._nodes))]
            goes[unfit] = True
            eviction.take_away(unfit)
            _update(updates, unfit, -1)
        return goes

    def _one_by_one(self, line_ups: Mapping[int, LineUp], found: dict[int, Finding]) -> None:
        for row, line_up in line_ups.items():
            try:
                goes = self._alone(row, line_up.pods, found)
            except _CannotFollowError as error:
                self._errors.append(str(error))
                continue
            if goes is not None:
                self._conclude(row, line_up, goes, found)

    def _alone(
        self, row: int, pods: Sequence[PodInfo], found: dict[int, Finding]
    ) -> Sequence[bool] | None:
        """Which pods cannot come back; None if the pod does not fit without any of them."""
        stage = _Stage(self._framework, self._cycle.clone(), self._pod, self._nodes, row)
        for pod in pods:
            stage.remove(pod)
        filtered = self._filter(stage.cycle, stage.nodes)
        if not len(filtered.feasible):
            self._note(filtered, found)
            return None
        goes = []
        for pod in pods:
            stage.add(pod)
            fits = bool(len(self._filter(stage.cycle, stage.nodes).feasible))
            if not fits:
                stage.remove(pod)
            goes.append(not fits)
        return goes

    def _filter(self, cycle: CycleState, nodes: Nodes) -> Filtered:
        return self._framework.filter_with_nominated(cycle, self._pod, nodes)

    def _note(self, filtered: Filtered, found: dict[int, Finding]) -> None:
        """Nodes that do not suit the pod even when it has them for itself."""
        refusals: dict[int, list[tuple[str, Code, str]]] = {}
        for plugin, rows, code, reason in filtered.charges:
            sentence = plugin, code, reason
            for row in rows.tolist():
                refusals.setdefault(row, []).append(sentence)
        found.update((row, tuple(sentences)) for row, sentences in refusals.items())
        self._errors += [error.reason for error in filtered.errors]

    def _conclude(
        self, row: int, line_up: LineUp, goes: Sequence[bool], found: dict[int, Finding]
    ) -> None:
        gone = [number for number, goes_away in enumerate(goes) if goes_away]
        name = self._nodes.name_of(row)
        if not gone:
            self._errors.append(f"expected at least one victim pod on node {quote(name)}")
            return
        violations = bisect_left(gone, line_up.protected)
        gone.sort(key=line_up.ranks.__getitem__)
        victims = tuple([line_up.pods[number] for number in gone])
        found[row] = Candidate(name, victims, violations)


def _among(rows: Rows, some: Rows, size: int) -> Mask:
    """Which of these rows, all below a size, are among the others."""
    marked = np.zeros(size, np.bool_)
    marked[some] = True
    return marked.take(rows)


def _update(updates: Iterable[UpdatePods], which: Rows, by: int) -> None:
    for update_pods in updates:
        update_pods(which, by)


class _CannotFollowError(KschedulerError):
    """Raised when a plugin cannot tell what a pod's coming or going means to it."""


class _Stage:
    """One node, from which pods come and go; plugins with prepared state are told."""

    def __init__(
        self, framework: Framework, cycle: CycleState, pod: PodInfo, nodes: Nodes, row: int
    ) -> None:
        self._framework = framework
        self.cycle = cycle
        self._pod = pod
        self._fork = fork(nodes)
        self._row = row

    @property
    def nodes(self) -> Nodes:
        return self._fork.nodes.take([self._row])

    def remove(self, other: PodInfo) -> None:
        self._fork.remove(other, self._row)
        tell = self._framework.run_remove_pod
        _check(tell(self.cycle, self._pod, other, self._row, self._fork.nodes))

    def add(self, other: PodInfo) -> None:
        self._fork.add(other, self._row)
        tell = self._framework.run_add_pod
        _check(tell(self.cycle, self._pod, other, self._row, self._fork.nodes))


def _check(status: Status | None) -> None:
    if status is not None:
        raise _CannotFollowError(status.message)
