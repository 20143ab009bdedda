"""The distinct affinity terms that pods on rows carry, and on which rows their carriers are.

Thousands of pods share a few terms, so whether a term means a given pod is asked once per term, not
once per carrier. Terms over topology keys that no node has are never looked at, however many there
are, and of those over one key only the sum matters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple, Protocol

import numpy as np

from kscheduler.caches import BoundedCache
from kscheduler.state.affinity_term import AffinityTerm
from kscheduler.state.columns import read_only
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.row_counts import BYTES_OF_COUNT, Counts, RowCounts, Sums
from kscheduler.state.selector_lookup import Namespaces, SelectorLookup, bytes_of_selector

# Which terms mean a pod, and the sum of their weights by row (40 kB at 5,000 nodes) where there are
# several.
MAX_ANSWER_BYTES = 4 << 20
# Carriers by row as arrays, made when somebody asks; 20 to 40 kB each at 5,000 nodes.
MAX_COUNT_BYTES = 8 << 20
# A term that is on more rows than this, and on more than one in so many, is added up as an array.
FEW_ROWS = 64
ONE_IN = 64

# The terms of one kind, and what of a pod decides which of them mean it.
_Question = tuple["CarriedTerms", str, tuple[str, ...], frozenset[tuple[str, str]]]


class NodeLabels(Protocol):
    """Label keys that any node has; they change only together with `label_generation`."""

    @property
    def label_keys(self) -> Set[str]: ...

    @property
    def label_generation(self) -> int: ...


class _Over:
    """Number of terms carried over one topology key, and when that changed last."""

    __slots__ = ("changed_at", "total")

    def __init__(self) -> None:
        self.changed_at = 0
        self.total = 0


_NO_LABELS: frozenset[tuple[str, str]] = frozenset()


class Carriers:
    """One term with its weight: carriers by row."""

    __slots__ = ("over", "rows", "term", "weight")

    def __init__(self, term: AffinityTerm, weight: int, over: _Over) -> None:
        self.term = term
        self.weight = weight
        # Shared by all terms over the same topology key.
        self.over = over
        self.rows: dict[int, int] = {}


class CarriedOver(NamedTuple):
    """Terms over one topology key that pods carry: `weight` times `counts`, by row.

    Where a pod carries several, or one twice, they add up.
    """

    topology_key: str
    weight: int
    counts: Counts | Sums


class _Meaning:
    """The terms over one key that mean certain pods."""

    __slots__ = ("carriers", "key", "sums", "sums_as_of")

    def __init__(self, key: str, carriers: list[Carriers]) -> None:
        self.key = key
        self.carriers = carriers
        # Weights added up by row.
        self.sums: Sums | None = None
        self.sums_as_of = 0


class _Answer(NamedTuple):
    """Good while no term comes or goes, and while the labels of nodes are the same."""

    terms_as_of: int
    labels_as_of: int
    by_key: list[_Meaning]


class CarriedCaches:
    """Caches of answers about terms of all kinds."""

    def __init__(self) -> None:
        self.answers: BoundedCache[_Question, _Answer] = BoundedCache(
            "carried_affinity_terms", MAX_ANSWER_BYTES
        )
        self.counts: BoundedCache[Carriers, RowCounts] = BoundedCache(
            "carried_affinity_counts", MAX_COUNT_BYTES
        )


class CarriedTerms:
    """The terms of one kind."""

    def __init__(self, caches: CarriedCaches) -> None:
        self._answers, self._counts = caches.answers, caches.counts
        self._carriers: dict[tuple[AffinityTerm, int], Carriers] = {}
        # By topology key.
        self._over: dict[str, _Over] = {}
        self._lookup: SelectorLookup[Carriers] = SelectorLookup()
        # How many terms look at the labels of namespaces; without any, those need not be
        # remembered.
        self._by_namespace_labels = 0
        # Counts changes of any kind; `_terms_as_of` is when a term came or went last.
        self._clock = 0
        self._terms_as_of = 0

    def __len__(self) -> int:
        return len(self._carriers)

    def add(self, term: AffinityTerm, weight: int, row: int) -> None:
        self._clock += 1
        carriers = self._carriers.get((term, weight))
        if carriers is None:
            over = self._over.get(term.topology_key)
            if over is None:
                over = self._over[term.topology_key] = _Over()
            carriers = self._carriers[term, weight] = Carriers(term, weight, over)
            self._lookup.add(carriers, _namespaces(term), term.selector, term.topology_key)
            self._by_namespace_labels += term.namespace_selector is not None
            self._terms_as_of = self._clock
        self._change(carriers, row, 1)

    def remove(self, term: AffinityTerm, weight: int, row: int) -> None:
        self._clock += 1
        carriers = self._carriers[term, weight]
        self._change(carriers, row, -1)
        if not carriers.rows:
            del self._carriers[term, weight]
            self._lookup.remove(carriers, _namespaces(term), term.selector, term.topology_key)
            self._by_namespace_labels -= term.namespace_selector is not None
            self._terms_as_of = self._clock
            if not carriers.over.total:
                del self._over[term.topology_key]

    def _change(self, carriers: Carriers, row: int, by: int) -> None:
        over = carriers.over
        over.total += by
        over.changed_at = self._clock
        number = carriers.rows.get(row, 0) + by
        if number:
            carriers.rows[row] = number
        else:
            del carriers.rows[row]
        counts = self._counts.get(carriers)
        if counts is not None:
            counts.cells[row] = number

    def number_over(self, key: str) -> int:
        """Number of terms that pods carry over this topology key, those of each pod counted."""
        over = self._over.get(key)
        return 0 if over is None else over.total

    def meaning(
        self,
        pod: PodInfo,
        namespace_labels: Mapping[str, str],
        nodes: NodeLabels,
        *,
        length: int,
        capacity: int,
    ) -> list[CarriedOver]:
        """The terms over keys that some node has that mean the pod.

        The pod lives in a namespace with these labels. Arrays are for `length` rows, with room for
        `capacity`.
        """
        told_apart = _NO_LABELS
        if self._by_namespace_labels:
            told_apart = frozenset(namespace_labels.items())
        question = (self, pod.namespace, pod.label_set, told_apart)
        answer = self._answers.get(question)
        if (
            answer is None
            or answer.terms_as_of != self._terms_as_of
            or answer.labels_as_of != nodes.label_generation
        ):
            found: dict[str, list[Carriers]] = {}
            for carriers in self._lookup.candidates(pod.namespace, pod.labels, nodes.label_keys):
                term = carriers.term
                if term.matches(pod.namespace, pod.labels, namespace_labels):
                    found.setdefault(term.topology_key, []).append(carriers)
            by_key = [_Meaning(key, carriers) for key, carriers in found.items()]
            answer = _Answer(self._terms_as_of, nodes.label_generation, by_key)
            sums = sum([8 * length for each in by_key if len(each.carriers) > 1])
            number = sum([len(each.carriers) for each in by_key])
            cost = 400 + 100 * len(pod.label_set) + 200 * len(by_key) + 8 * number + sums
            self._answers.put(question, answer, cost)
        by_key = answer.by_key
        return [self._carried(each, length, capacity) for each in by_key] if by_key else []

    def _carried(self, meaning: _Meaning, length: int, capacity: int) -> CarriedOver:
        key, carriers = meaning.key, meaning.carriers
        if len(carriers) == 1:
            (only,) = carriers
            counts = self._counts.get(only) or self._counted(only, capacity)
            return CarriedOver(key, only.weight, counts.view(length))
        sums, changed_at = meaning.sums, carriers[0].over.changed_at
        if sums is None or meaning.sums_as_of != changed_at or len(sums) != length:
            sums = meaning.sums = self._added_up(carriers, length, capacity)
            meaning.sums_as_of = changed_at
        return CarriedOver(key, 1, sums)

    def _added_up(self, carriers: Sequence[Carriers], length: int, capacity: int) -> Sums:
        total, few = np.zeros(length, np.int64), max(FEW_ROWS, length // ONE_IN)
        rows: list[int] = []
        weights: list[int] = []
        for each in carriers:
            if len(each.rows) <= few:
                rows.extend(each.rows)
                weights.extend([each.weight * number for number in each.rows.values()])
            else:
                counts = self._counted(each, capacity).view(length)
                total += each.weight * counts.astype(np.int64)
        if rows:
            np.add.at(total, rows, weights)
        return read_only(total)

    def _counted(self, carriers: Carriers, capacity: int) -> RowCounts:
        counts = self._counts.get(carriers)
        if counts is None:
            counts = RowCounts.from_rows(carriers.rows, capacity)
            cost = BYTES_OF_COUNT * capacity + bytes_of_selector(carriers.term.selector)
            self._counts.put(carriers, counts, cost)
        return counts


def _namespaces(term: AffinityTerm) -> Namespaces:
    """Namespaces of pods that the term can mean, as far as the term alone can tell."""
    return term.namespaces if term.namespace_selector is None else None
