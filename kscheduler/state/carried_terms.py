"""The distinct affinity terms that pods on rows carry, and on which rows their carriers are.

Thousands of pods share a few terms, so whether a term means a given pod is asked once per term, not
once per carrier. Terms are kept by topology key: those over keys that no node has are never looked
at, however many there are, and of those over one key only the sum matters.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple

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
# With more topology keys than this, those that nodes have are picked out first.
FEW_KEYS = 8

# The terms of one kind and key, and what of a pod decides which of them mean it.
_Question = tuple["_Terms", str, tuple[str, ...], frozenset[tuple[str, str]]]


class Carriers:
    """One term with its weight: carriers by row."""

    __slots__ = ("rows", "term", "weight")

    def __init__(self, term: AffinityTerm, weight: int) -> None:
        self.term = term
        self.weight = weight
        self.rows: dict[int, int] = {}


class _Terms:
    """The terms over one topology key."""

    __slots__ = ("by_namespace_labels", "carriers", "changed_at", "lookup", "made_of_at", "total")

    def __init__(self) -> None:
        self.carriers: dict[tuple[AffinityTerm, int], Carriers] = {}
        self.lookup: SelectorLookup[Carriers] = SelectorLookup()
        # How many terms look at the labels of namespaces; without any, those need not be
        # remembered.
        self.by_namespace_labels = 0
        # When a term came or went last, and when a carrier did.
        self.made_of_at = 0
        self.changed_at = 0
        # Carriers of all terms, each as often as it carries one.
        self.total = 0


class CarriedOver(NamedTuple):
    """Terms over one topology key that pods carry: `weight` times `counts`, by row.

    Where a pod carries several, or one twice, they add up.
    """

    topology_key: str
    weight: int
    counts: Counts | Sums


class _Answer:
    """The terms over one key that mean certain pods."""

    __slots__ = ("as_of", "carriers", "sums", "sums_as_of")

    def __init__(self, carriers: tuple[Carriers, ...], as_of: int) -> None:
        self.carriers = carriers
        self.as_of = as_of
        # Weights added up by row.
        self.sums: Sums | None = None
        self.sums_as_of = 0


class CarriedCaches:
    """What is remembered about terms of all kinds."""

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
        self._by_key: dict[str, _Terms] = {}
        # The topology keys of the terms.
        self.keys = self._by_key.keys()
        self._answers, self._counts = caches.answers, caches.counts
        # Counts changes of any kind, and is never set back.
        self._clock = 0

    def add(self, term: AffinityTerm, weight: int, row: int) -> None:
        self._clock += 1
        terms = self._by_key.get(term.topology_key)
        if terms is None:
            terms = self._by_key[term.topology_key] = _Terms()
        carriers = terms.carriers.get((term, weight))
        if carriers is None:
            carriers = terms.carriers[term, weight] = Carriers(term, weight)
            terms.lookup.add(carriers, _namespaces(term), term.selector)
            terms.by_namespace_labels += term.namespace_selector is not None
            terms.made_of_at = self._clock
        self._change(carriers, row, 1)
        terms.total += 1
        terms.changed_at = self._clock

    def remove(self, term: AffinityTerm, weight: int, row: int) -> None:
        self._clock += 1
        terms = self._by_key[term.topology_key]
        carriers = terms.carriers[term, weight]
        self._change(carriers, row, -1)
        terms.total -= 1
        terms.changed_at = self._clock
        if not carriers.rows:
            del terms.carriers[term, weight]
            terms.lookup.remove(carriers, _namespaces(term), term.selector)
            terms.by_namespace_labels -= term.namespace_selector is not None
            terms.made_of_at = self._clock
            if not terms.carriers:
                del self._by_key[term.topology_key]

    def number_over(self, key: str) -> int:
        """How many terms over this topology key pods carry, those of each pod counted."""
        terms = self._by_key.get(key)
        return 0 if terms is None else terms.total

    def _change(self, carriers: Carriers, row: int, by: int) -> None:
        number = carriers.rows.get(row, 0) + by
        if number:
            carriers.rows[row] = number
        else:
            del carriers.rows[row]
        counts = self._counts.get(carriers)
        if counts is not None:
            counts.cells[row] = number

    def meaning(
        self,
        pod: PodInfo,
        namespace_labels: Mapping[str, str],
        keys: Set[str],
        length: int,
        capacity: int,
    ) -> list[CarriedOver]:
        """The terms over these keys that mean the pod.

        The pod lives in a namespace with these labels. Arrays are for `length` rows, with room for
        `capacity`.
        """
        carried = []
        for key in self.keys & keys if len(self.keys) > FEW_KEYS else self.keys:
            if key not in keys:
                continue
            terms = self._by_key[key]
            told_apart = frozenset(namespace_labels.items() if terms.by_namespace_labels else ())
            question = (terms, pod.namespace, pod.label_set, told_apart)
            answer = self._answers.get(question)
            if answer is None or answer.as_of != terms.made_of_at:
                found = [
                    carriers
                    for carriers in terms.lookup.candidates(pod.namespace, pod.labels)
                    if carriers.term.matches(pod.namespace, pod.labels, namespace_labels)
                ]
                answer = _Answer(tuple(found), terms.made_of_at)
                cost = 300 + 8 * len(found) + (8 * length if len(found) > 1 else 0)
                self._answers.put(question, answer, cost)
            if len(answer.carriers) == 1:
                (carriers,) = answer.carriers
                counts = self._counted(carriers, capacity).view(length)
                carried.append(CarriedOver(key, carriers.weight, counts))
            elif answer.carriers:
                sums = answer.sums
                if sums is None or answer.sums_as_of != terms.changed_at or len(sums) != length:
                    sums = answer.sums = self._added_up(answer.carriers, length, capacity)
                    answer.sums_as_of = terms.changed_at
                carried.append(CarriedOver(key, 1, sums))
        return carried

    def _added_up(self, carriers: tuple[Carriers, ...], length: int, capacity: int) -> Sums:
        total, few = np.zeros(length, np.int64), max(FEW_ROWS, length // ONE_IN)
        rows: list[int] = []
        weights: list[int] = []
        for each in carriers:
            if len(each.rows) <= few:
                rows.extend(each.rows)
                weights.extend([each.weight * number for number in each.rows.values()])
            else:
                total += each.weight * self._counted(each, capacity).view(length).astype(np.int64)
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
    """Where pods that the term means can be, as far as the term alone can tell."""
    return term.namespaces if term.namespace_selector is None else None
