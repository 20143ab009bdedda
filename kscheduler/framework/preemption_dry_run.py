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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kscheduler.errors import KschedulerError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.filtering import Filtered
from kscheduler.framework.plugin import Shift
from kscheduler.framework.preemption_line_up import LineUp, line_ups
from kscheduler.framework.preemption_victims import Budgets
from kscheduler.framework.runtime import Framework
from kscheduler.framework.verdict import Charge, Code, Mask, Rows, Status
from kscheduler.logs import quote
from kscheduler.state.eviction import Eviction
from kscheduler.state.fork import fork
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

NO_VICTIMS = "No preemption victims found for incoming pod"
SMALLEST_BATCH = 16


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that would suit the pod without these victims, the most important first."""

    node: str
    victims: tuple[PodInfo, ...]
    # Of budgets for disruptions.
    violations: int = 0


@dataclass(slots=True)
class DryRun:
    """What was found; `wanted` candidates are enough if one of them violates no budget."""

    wanted: int
    clean: list[Candidate] = field(default_factory=list)
    violating: list[Candidate] = field(default_factory=list)
    # Why other nodes are no candidates, and why some could not be judged.
    charges: list[Charge] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def candidates(self) -> list[Candidate]:
        return self.clean[: self.wanted] + self.violating[: self.wanted]

    @property
    def is_enough(self) -> bool:
        clean, violating = len(self.clean), len(self.violating)
        return min(clean, self.wanted) > 0 and clean + violating >= self.wanted

    def add(self, found: Iterable[Candidate]) -> None:
        for candidate in found:
            (self.violating if candidate.violations else self.clean).append(candidate)
            if self.is_enough:
                break

    def note(self, filtered: Filtered) -> None:
        """Nodes that do not suit the pod even when it has them for itself."""
        self.charges += filtered.charges
        self.errors += [error.reason for error in filtered.errors]


class Rehearsal:
    """For one pod that no node takes; `cycle` is what its plugins prepared."""

    def __init__(
        self,
        framework: Framework,
        cycle: CycleState,
        pod: PodInfo,
        nodes: Nodes,
        *,
        budgets: Budgets,
        now_ns: int,
    ) -> None:
        self._framework = framework
        self._cycle = cycle
        self._pod = pod
        self._nodes = nodes
        self._budgets = budgets
        self._now_ns = now_ns

    def run(self, rows: Rows, wanted: int) -> DryRun:
        """Try these rows in their order until there are enough candidates."""
        found = DryRun(wanted)
        framework, cycle = self._framework, self._cycle
        alone = framework.has_extensions(cycle) and not framework.can_follow_rows(cycle)
        start, size = 0, max(wanted, SMALLEST_BATCH)
        while start < len(rows) and not found.is_enough:
            line_ups = self._line_ups(rows[start : start + size].tolist(), found)
            if alone:
                found.add(self._one_by_one(line_ups, found))
            elif line_ups:
                found.add(self._together(line_ups, found))
            start, size = start + size, size * 2
        return found

    def _line_ups(self, rows: Sequence[int], found: DryRun) -> dict[int, LineUp]:
        line_up = line_ups(rows, self._nodes, self._pod.priority, self._budgets, self._now_ns)
        without = [row for row in rows if row not in line_up]
        if without:
            code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
            found.charges.append(Charge("", np.array(without, np.intp), code, NO_VICTIMS))
        return line_up

    def _together(self, line_ups: Mapping[int, LineUp], found: DryRun) -> Iterator[Candidate]:
        eviction = Eviction(self._nodes, {row: one.pods for row, one in line_ups.items()})
        cycle = self._cycle.clone()
        follow = self._framework.follow_rows
        shifts = follow(cycle, eviction.pods, eviction.row_of_pod, self._nodes)
        _tell(shifts, np.arange(len(eviction.pods)), -1)
        filtered = self._filter(cycle, eviction.nodes.take(eviction.rows))
        found.note(filtered)
        promising = _among(eviction.rows, filtered.feasible, len(self._nodes))
        goes = self._bring_back(cycle, eviction, promising, shifts)
        for row in eviction.rows[promising].tolist():
            first, end = eviction.numbers_of(row)
            yield from self._conclude(row, line_ups[row], goes[first:end].tolist(), found)

    def _bring_back(
        self, cycle: CycleState, eviction: Eviction, promising: Mask, shifts: Sequence[Shift]
    ) -> Mask:
        """Which pods cannot come back to the promising rows."""
        goes = np.zeros(len(eviction.pods), np.bool_)
        sizes = np.diff(eviction.first_of_row, append=len(eviction.pods))[promising]
        rows, first = eviction.rows[promising], eviction.first_of_row[promising]
        for turn in range(int(sizes.max(initial=0))):
            there = sizes > turn
            back = first[there] + turn
            eviction.bring_back(back)
            _tell(shifts, back, 1)
            feasible = self._filter(cycle, eviction.nodes.take(rows[there])).feasible
            unfit = back[~_among(rows[there], feasible, len(self._nodes))]
            goes[unfit] = True
            eviction.take_away(unfit)
            _tell(shifts, unfit, -1)
        return goes

    def _one_by_one(self, line_ups: Mapping[int, LineUp], found: DryRun) -> Iterator[Candidate]:
        for row, line_up in line_ups.items():
            try:
                goes = self._alone(row, line_up.pods, found)
            except _CannotFollowError as error:
                found.errors.append(str(error))
                continue
            if goes is not None:
                yield from self._conclude(row, line_up, goes, found)

    def _alone(self, row: int, pods: Sequence[PodInfo], found: DryRun) -> Sequence[bool] | None:
        """Which pods cannot come back; None if the pod does not fit without any of them."""
        stage = _Stage(self._framework, self._cycle.clone(), self._pod, self._nodes, row)
        for pod in pods:
            stage.remove(pod)
        filtered = self._filter(stage.cycle, stage.nodes)
        if not len(filtered.feasible):
            found.note(filtered)
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

    def _conclude(
        self, row: int, line_up: LineUp, goes: Sequence[bool], found: DryRun
    ) -> Iterator[Candidate]:
        gone = [number for number, goes_away in enumerate(goes) if goes_away]
        name = self._nodes.name_of(row)
        if not gone:
            found.errors.append(f"expected at least one victim pod on node {quote(name)}")
            return
        violations = bisect_left(gone, line_up.protected)
        gone.sort(key=line_up.ranks.__getitem__)
        yield Candidate(name, tuple(line_up.pods[number] for number in gone), violations)


def _among(rows: Rows, some: Rows, size: int) -> Mask:
    """Which of these rows, all below a size, are among the others."""
    marked = np.zeros(size, np.bool_)
    marked[some] = True
    return marked.take(rows)


def _tell(shifts: Iterable[Shift], which: Rows, by: int) -> None:
    for shift in shifts:
        shift(which, by)


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
