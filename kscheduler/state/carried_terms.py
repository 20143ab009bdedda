"""The distinct affinity terms that pods on rows carry, and on which rows their carriers are.

Thousands of pods share a few terms, so whether a term means a given pod is asked once per term, not
once per carrier.
"""

from __future__ import annotations

from collections.abc import Mapping

from kscheduler.state.affinity_term import AffinityTerm
from kscheduler.state.memo import Memo
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.row_counts import RowCounts
from kscheduler.state.selector_lookup import Namespaces, SelectorLookup

MAX_ANSWERS = 1024

_Question = tuple[str, tuple[str, ...], frozenset[tuple[str, str]]]


class Carriers:
    """One term with its weight: carriers by row, as an array only once someone asked for it."""

    __slots__ = ("counts", "rows", "term", "weight")

    def __init__(self, term: AffinityTerm, weight: int) -> None:
        self.term = term
        self.weight = weight
        self.rows: dict[int, int] = {}
        self.counts: RowCounts | None = None

    def change(self, row: int, by: int) -> None:
        carriers = self.rows.get(row, 0) + by
        if carriers:
            self.rows[row] = carriers
        else:
            del self.rows[row]
        if self.counts is not None:
            self.counts.cells[row] = carriers


class CarriedTerms:
    """The terms of one kind."""

    def __init__(self) -> None:
        self._carriers: dict[tuple[AffinityTerm, int], Carriers] = {}
        self._lookup: SelectorLookup[Carriers] = SelectorLookup()
        self._answers: Memo[_Question, tuple[Carriers, ...]] = Memo(MAX_ANSWERS)
        # How many terms look at the labels of namespaces; without any, those need not be
        # remembered.
        self._by_namespace_labels = 0

    def __len__(self) -> int:
        return len(self._carriers)

    def add(self, term: AffinityTerm, weight: int, row: int) -> None:
        carriers = self._carriers.get((term, weight))
        if carriers is None:
            carriers = self._carriers[term, weight] = Carriers(term, weight)
            self._lookup.add(carriers, _namespaces(term), term.selector)
            self._by_namespace_labels += term.namespace_selector is not None
            self._answers.clear()
        carriers.change(row, 1)

    def remove(self, term: AffinityTerm, weight: int, row: int) -> None:
        carriers = self._carriers[term, weight]
        carriers.change(row, -1)
        if not carriers.rows:
            carriers.counts = None
            del self._carriers[term, weight]
            self._lookup.remove(carriers, _namespaces(term), term.selector)
            self._by_namespace_labels -= term.namespace_selector is not None
            self._answers.clear()

    def meaning(self, pod: PodInfo, namespace_labels: Mapping[str, str]) -> tuple[Carriers, ...]:
        """The terms that mean the pod, which lives in a namespace with these labels."""
        told_apart = frozenset(namespace_labels.items() if self._by_namespace_labels else ())
        question = (pod.namespace, pod.label_set, told_apart)
        answer = self._answers.get(question)
        if answer is None:
            answer = tuple(
                carriers
                for carriers in self._lookup.candidates(pod.namespace, pod.labels)
                if carriers.term.matches(pod.namespace, pod.labels, namespace_labels)
            )
            self._answers.put(question, answer)
        return answer


def _namespaces(term: AffinityTerm) -> Namespaces:
    """Where pods that the term means can be, as far as the term alone can tell."""
    return term.namespaces if term.namespace_selector is None else None
