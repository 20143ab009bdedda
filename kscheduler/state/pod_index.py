"""How many pods a selector matches on each row, and how many pods carry an affinity term there.

Counts are made when first asked for and then follow every pod that comes or goes; a pod touches
only the selectors that match it. All arrays are indexed by table row, and belong to rows: which
domain a row is in is the caller's business.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kscheduler.api.labels import NOTHING, Selector
from kscheduler.state.affinity_term import AffinityTerm, TermKind
from kscheduler.state.carried_terms import CarriedTerms, Carriers
from kscheduler.state.columns import SMALLEST_CAPACITY
from kscheduler.state.pod_classes import PodClass, PodClasses
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.row_counts import Counts, RowCounts
from kscheduler.state.selector_lookup import Namespaces, SelectorLookup

# Selectors whose counts are kept; at 5,000 nodes each is 20 kB.
MAX_SELECTORS = 1024
MAX_CARRIED_COUNTS = 1024

Condition = tuple[Namespaces, Selector]
_NO_POD: tuple[Condition, ...] = ((None, NOTHING),)


class CarriedTerm(NamedTuple):
    """A term that pods carry and its carriers by row; a pod may carry it, and count, twice."""

    term: AffinityTerm
    weight: int
    counts: Counts


class PodIndex(ABC):
    """What can be asked about the pods on all rows."""

    def matching(self, namespaces: Namespaces, selector: Selector, *, terminating: bool) -> Counts:
        """Pods per row in these namespaces (None: in any) whose labels match.

        Pods that are being deleted count only if `terminating`.
        """
        return self._matching(((namespaces, selector),), terminating=terminating)

    def matching_all(self, terms: Iterable[AffinityTerm], *, terminating: bool = True) -> Counts:
        """Pods per row that every one of these terms means; without terms, none.

        Terms must name their namespaces: a namespace selector other than "all" is to be resolved
        before.
        """
        conditions = tuple(
            (None if term.selects_every_namespace else term.namespaces, term.selector)
            for term in terms
        )
        return self._matching(conditions or _NO_POD, terminating=terminating)

    @abstractmethod
    def carried(
        self, kind: TermKind, pod: PodInfo, namespace_labels: Mapping[str, str]
    ) -> list[CarriedTerm]:
        """The distinct terms of this kind that pods carry and that mean the given pod.

        `namespace_labels` are those of the given pod's namespace.
        """

    @abstractmethod
    def add(self, pod: PodInfo, row: int) -> None: ...

    @abstractmethod
    def remove(self, pod: PodInfo, row: int) -> None: ...

    @abstractmethod
    def _matching(self, conditions: tuple[Condition, ...], *, terminating: bool) -> Counts: ...


class LivePodIndex(PodIndex):
    """The index of the pods that are there."""

    def __init__(self) -> None:
        self._length = 0
        self._capacity = SMALLEST_CAPACITY
        self._classes = PodClasses()
        self._watches: dict[tuple[tuple[Condition, ...], bool], _Watch] = {}
        self._lookup: SelectorLookup[_Watch] = SelectorLookup()
        # Changes with the set of watches; see PodClass.watched_at.
        self._version = 0
        self._clock = 0
        self._carried = {kind: CarriedTerms() for kind in TermKind}
        self._with_counts: list[Carriers] = []

    def resize(self, length: int) -> None:
        self._length = length
        if length > self._capacity:
            self._capacity = max(length, 2 * self._capacity)
            for watch in self._watches.values():
                watch.counts.grow(self._capacity)
            for carriers in self._with_counts:
                if carriers.counts is not None:
                    carriers.counts.grow(self._capacity)

    def add(self, pod: PodInfo, row: int) -> None:
        for counts in self._watchers(self._classes.enter(pod, row)):
            counts.cells[row] += 1
        for kind, term, weight in pod.carried_terms:
            self._carried[kind].add(term, weight, row)

    def remove(self, pod: PodInfo, row: int) -> None:
        for counts in self._watchers(self._classes.leave(pod, row)):
            counts.cells[row] -= 1
        for kind, term, weight in pod.carried_terms:
            self._carried[kind].remove(term, weight, row)

    def carried(
        self, kind: TermKind, pod: PodInfo, namespace_labels: Mapping[str, str]
    ) -> list[CarriedTerm]:
        terms = self._carried[kind]
        # Most clusters have no term of some kind, and every decision asks for all four.
        if not len(terms):
            return []
        return [
            CarriedTerm(carriers.term, carriers.weight, self._counts_of(carriers))
            for carriers in terms.meaning(pod, namespace_labels)
        ]

    def _counts_of(self, carriers: Carriers) -> Counts:
        counts = carriers.counts
        if counts is None:
            if len(self._with_counts) >= MAX_CARRIED_COUNTS:
                for other in self._with_counts:
                    other.counts = None
                self._with_counts.clear()
            counts = carriers.counts = RowCounts.from_rows(carriers.rows, self._capacity)
            self._with_counts.append(carriers)
        return counts.view(self._length)

    def _matching(self, conditions: tuple[Condition, ...], *, terminating: bool) -> Counts:
        watch = self._watches.get((conditions, terminating))
        if watch is None:
            watch = self._watch(conditions, terminating=terminating)
        self._clock += 1
        watch.last_used = self._clock
        return watch.counts.view(self._length)

    def _watch(self, conditions: tuple[Condition, ...], *, terminating: bool) -> _Watch:
        if len(self._watches) >= MAX_SELECTORS:
            self._forget_idle()
        watch = _Watch(conditions, terminating=terminating, counts=RowCounts(self._capacity))
        for found in self._classes.selected(conditions):
            if terminating or not found.terminating:
                watch.counts.add_rows(found.pods)
        self._watches[conditions, terminating] = watch
        self._lookup.add(watch, *conditions[0])
        self._version += 1
        return watch

    def _forget_idle(self) -> None:
        """Gives up the quarter of the counts that was not asked for longest."""
        by_use = sorted(self._watches.values(), key=lambda watch: watch.last_used)
        for watch in by_use[: MAX_SELECTORS // 4]:
            del self._watches[watch.conditions, watch.terminating]
            self._lookup.remove(watch, *watch.conditions[0])
            # Idle classes of pods still name it as a watcher, and would keep it alive.
            watch.counts.drop()

    def _watchers(self, found: PodClass) -> tuple[RowCounts, ...]:
        """The counts in which a pod of this class appears."""
        if found.watched_at != self._version:
            found.watchers = tuple(
                watch.counts
                for watch in self._lookup.candidates(found.namespace, found.labels)
                if watch.terminating or not found.terminating
                if meets(found.namespace, found.labels, watch.conditions)
            )
            found.watched_at = self._version
        return found.watchers


class _Watch:
    """A selector, or several that must hold together, and its counts."""

    __slots__ = ("conditions", "counts", "last_used", "terminating")

    def __init__(
        self, conditions: tuple[Condition, ...], *, terminating: bool, counts: RowCounts
    ) -> None:
        self.conditions = conditions
        self.terminating = terminating
        self.counts = counts
        self.last_used = 0


def meets(namespace: str, labels: Mapping[str, str], conditions: Iterable[Condition]) -> bool:
    return all(
        (namespaces is None or namespace in namespaces) and selector.matches(labels)
        for namespaces, selector in conditions
    )
