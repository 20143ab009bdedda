"""The pod index: per row, pods that a selector matches and pods that carry an affinity term.

Counts are made when first asked for and then follow every pod that comes or goes; a pod touches
only the selectors that match it. All arrays are indexed by table row, and belong to rows: which
domain a row is in is the caller's business.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from kscheduler.api.labels import NOTHING, Selector
from kscheduler.caches import Cache
from kscheduler.state.affinity_term import AffinityTerm, TermKind
from kscheduler.state.carried_terms import CarriedCaches, CarriedOver, CarriedTerms, NodeLabels
from kscheduler.state.columns import SMALLEST_CAPACITY
from kscheduler.state.namespace_sets import bytes_of_namespaces
from kscheduler.state.pod_classes import PodClass, PodClasses
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.row_counts import BYTES_OF_COUNT, Counts, RowCounts
from kscheduler.state.selector_lookup import Namespaces, SelectorLookup, bytes_of_selector

# Counts that are kept, with their selectors; at 5,000 nodes the counts of one are 20 to 40 kB.
MAX_COUNT_BYTES = 24 << 20

Condition = tuple[Namespaces, Selector]
_NO_POD: tuple[Condition, ...] = ((None, NOTHING),)


class PodIndex(ABC):
    """Questions about the pods on all rows."""

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
            [
                (None if term.selects_every_namespace else term.namespaces, term.selector)
                for term in terms
            ]
        )
        return self._matching(conditions or _NO_POD, terminating=terminating)

    @abstractmethod
    def carried(
        self,
        kind: TermKind,
        pod: PodInfo,
        namespace_labels: Mapping[str, str],
        nodes: NodeLabels,
    ) -> list[CarriedOver]:
        """The terms of this kind that pods carry and that mean the given pod.

        `namespace_labels` are those of the given pod's namespace. Terms over topology keys that no
        node has are left out.
        """

    @abstractmethod
    def number_carried(self, kind: TermKind, key: str) -> int:
        """Number of terms of this kind that pods carry over this topology key."""

    @abstractmethod
    def _matching(self, conditions: tuple[Condition, ...], *, terminating: bool) -> Counts: ...


class LivePodIndex(PodIndex):
    """The index of the pods that are there.

    The counts of selectors are a cache, though one that follows every change: those not asked for
    longest make room for others, and those not asked for are given up when the cache is aged, as
    each of them has to follow the pods that come and go.
    """

    name = "selector_counts"

    def __init__(self) -> None:
        self._length = 0
        self._capacity = SMALLEST_CAPACITY
        self._classes = PodClasses()
        self._watches: dict[tuple[tuple[Condition, ...], bool], _Watch] = {}
        self._nbytes = 0
        self._lookup: SelectorLookup[_Watch] = SelectorLookup()
        # Changes with the set of watches; see PodClass.watched_at.
        self._version = 0
        # Counts questions; `_aged_at` is when counts were aged last.
        self._clock = 0
        self._aged_at = 0
        self.evictions = 0
        caches = CarriedCaches()
        self._carried = {kind: CarriedTerms(caches) for kind in TermKind}
        self._carried_caches = caches

    def resize(self, length: int) -> None:
        self._length = length
        if length > self._capacity:
            self._capacity = max(length, 2 * self._capacity)
            for watch in self._watches.values():
                watch.grow(self._capacity)
            self._nbytes = sum([watch.nbytes for watch in self._watches.values()])
            # Arrays have become too short; they are made again when somebody asks.
            self._carried_caches.counts.clear()

    def add(self, pod: PodInfo, row: int) -> None:
        for counts in self._watchers(self._classes.add(pod, row)):
            counts.cells[row] += 1
        for kind, term, weight in pod.carried_terms:
            self._carried[kind].add(term, weight, row)

    def remove(self, pod: PodInfo, row: int) -> None:
        for counts in self._watchers(self._classes.remove(pod, row)):
            counts.cells[row] -= 1
        for kind, term, weight in pod.carried_terms:
            self._carried[kind].remove(term, weight, row)

    def carried(
        self,
        kind: TermKind,
        pod: PodInfo,
        namespace_labels: Mapping[str, str],
        nodes: NodeLabels,
    ) -> list[CarriedOver]:
        terms = self._carried[kind]
        # Most clusters have no term of some kind, and every decision asks for all four.
        if not len(terms):
            return []
        return terms.meaning(
            pod, namespace_labels, nodes, length=self._length, capacity=self._capacity
        )

    def number_carried(self, kind: TermKind, key: str) -> int:
        return self._carried[kind].number_over(key)

    def _matching(self, conditions: tuple[Condition, ...], *, terminating: bool) -> Counts:
        watch = self._watches.get((conditions, terminating))
        if watch is None:
            watch = self._watch(conditions, terminating=terminating)
        self._clock += 1
        watch.last_used = self._clock
        return watch.counts.view(self._length)

    def _watch(self, conditions: tuple[Condition, ...], *, terminating: bool) -> _Watch:
        watch = _Watch(conditions, terminating=terminating, capacity=self._capacity)
        self._classes.count(conditions, watch.counts, terminating=terminating)
        if self._nbytes + watch.nbytes > self.max_bytes:
            # A quarter more than needed, so that it is not needed again at once.
            before = len(self._watches)
            self._forget(unused_since=0, room=self.max_bytes // 4 * 3 - watch.nbytes)
            self.evictions += before - len(self._watches)
        self._nbytes += watch.nbytes
        self._watches[conditions, terminating] = watch
        self._lookup.add(watch, *conditions[0])
        self._version += 1
        return watch

    @property
    def max_bytes(self) -> int:
        return MAX_COUNT_BYTES

    @property
    def bytes(self) -> int:
        return self._nbytes

    @property
    def entries(self) -> int:
        return len(self._watches)

    def age(self) -> None:
        """Gives up counts that were not asked for since the last time."""
        self._forget(unused_since=self._aged_at, room=self.max_bytes)
        self._aged_at = self._clock

    @property
    def caches(self) -> tuple[Cache, ...]:
        """All that is kept about pods only because it was asked for."""
        carried = self._carried_caches
        return self, self._classes.label_columns, carried.answers, carried.counts

    def _forget(self, *, unused_since: int, room: int) -> None:
        """Counts not asked for since then and, to fit into `room`, those not asked for longest."""
        for watch in sorted(self._watches.values(), key=lambda watch: watch.last_used):
            if self._nbytes <= room and watch.last_used > unused_since:
                break
            del self._watches[watch.conditions, watch.terminating]
            self._nbytes -= watch.nbytes
            self._lookup.remove(watch, *watch.conditions[0])
            # Idle classes of pods still name it as a watcher, and would keep it alive.
            watch.counts.drop()
            self._version += 1

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

    __slots__ = ("conditions", "counts", "last_used", "nbytes", "terminating")

    def __init__(
        self, conditions: tuple[Condition, ...], *, terminating: bool, capacity: int
    ) -> None:
        self.conditions = conditions
        self.terminating = terminating
        self.counts = RowCounts(capacity)
        self.last_used = 0
        self.nbytes = BYTES_OF_COUNT * capacity + sum(
            bytes_of_selector(selector) + bytes_of_namespaces(namespaces or frozenset())
            for namespaces, selector in conditions
        )

    def grow(self, capacity: int) -> None:
        self.nbytes += BYTES_OF_COUNT * (capacity - len(self.counts.cells))
        self.counts.grow(capacity)


def meets(namespace: str, labels: Mapping[str, str], conditions: Iterable[Condition]) -> bool:
    return all(
        (namespaces is None or namespace in namespaces) and selector.matches(labels)
        for namespaces, selector in conditions
    )
