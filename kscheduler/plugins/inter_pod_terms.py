"""Affinity terms made ready for questions: their namespaces named, and filed by whom they mean.

A pod may have thousands of terms. Whichever of them mean a given pod is then looked up under that
pod's labels instead of being asked of each term.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from kscheduler.api.core import Namespace
from kscheduler.api.labels import Selector
from kscheduler.api.meta import EMPTY
from kscheduler.framework.listers import Lister
from kscheduler.plugins.listed_objects import AnswersFrom
from kscheduler.state.affinity_term import AffinityTerm
from kscheduler.state.label_columns import LabelColumns
from kscheduler.state.memo import Memo
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.selector_lookup import SelectorLookup, bytes_of_selector
from kscheduler.state.selector_masks import selected_by_labels

# Up to so many terms it is quicker to ask each than to look them up.
FEW_TERMS = 8
# Lists of terms of pods that wait, filed; some 1 kB for each term.
MAX_LOOKUP_BYTES = 16 << 20


class TermLookup:
    """A list of terms; a term that is listed twice counts twice."""

    __slots__ = ("_lookup", "terms")

    def __init__(self, terms: Sequence[AffinityTerm]) -> None:
        self.terms = terms
        self._lookup: SelectorLookup[int] | None = None

    def meaning(
        self, pod: PodInfo, namespace_labels: Mapping[str, str] = EMPTY
    ) -> Iterator[AffinityTerm]:
        """The terms that mean the pod, which lives in a namespace with these labels."""
        namespace, labels = pod.namespace, pod.labels
        for term in self._candidates(namespace, labels):
            if term.matches(namespace, labels, namespace_labels):
                yield term

    def means(self, pod: PodInfo) -> bool:
        """Whether any term does, as far as they name namespaces."""
        namespace, labels = pod.namespace, pod.labels
        candidates = self._candidates(namespace, labels)
        return any(term.matches(namespace, labels, EMPTY) for term in candidates)

    def _candidates(self, namespace: str, labels: Mapping[str, str]) -> Iterable[AffinityTerm]:
        if len(self.terms) <= FEW_TERMS:
            return self.terms
        lookup = self._lookup
        if lookup is None:
            lookup = self._lookup = SelectorLookup()
            for position, term in enumerate(self.terms):
                by_labels = term.namespace_selector is not None
                lookup.add(position, None if by_labels else term.namespaces, term.selector)
        positions = lookup.candidates(namespace, labels)
        return (self.terms[position] for position in positions)


class TermLookups:
    """Remembers lookups by the identity of the list; pods of one workload share theirs."""

    def __init__(self) -> None:
        self._known: Memo[int, TermLookup] = Memo(MAX_LOOKUP_BYTES)

    def of(self, terms: Sequence[AffinityTerm]) -> TermLookup:
        known = self._known.get(id(terms))
        if known is None:
            known = TermLookup(terms)
            cost = 500 + sum([500 + 2 * bytes_of_selector(term.selector) for term in terms])
            self._known.put(id(terms), known, cost)
        return known


class NamedNamespaces:
    """Terms that select namespaces by label, with those namespaces named one by one."""

    def __init__(self, lister: Lister[Namespace]) -> None:
        self._resolved: AnswersFrom[Namespace, AffinityTerm, AffinityTerm] = AnswersFrom(lister)
        # The labels of namespaces in columns, as those of nodes are.
        self._laid_out: tuple[Namespace, ...] = ()
        self._names: list[str] = []
        self._labels = LabelColumns()

    def resolve(self, term: AffinityTerm) -> AffinityTerm:
        by_labels = term.namespace_selector
        if by_labels is None or by_labels.matches_everything:
            return term
        known = self._resolved.get(term)
        if known is not None:
            return known
        selected = self._named(by_labels)
        names = selected | term.namespaces if term.namespaces else selected
        named = AffinityTerm(names, None, term.selector, term.topology_key)
        cost = 500 + 60 * len(names) + 2 * bytes_of_selector(term.selector)
        return self._resolved.put(term, named, cost)

    def _named(self, selector: Selector) -> frozenset[str]:
        if self._laid_out is not self._resolved.objects:
            self._laid_out = self._resolved.objects
            self._names = [namespace.name for namespace in self._laid_out]
            self._labels = LabelColumns()
            self._labels.resize(len(self._names))
            for row, namespace in enumerate(self._laid_out):
                self._labels.put(row, namespace.metadata.labels)
        selected = selected_by_labels(self._labels, selector)
        if selected is False:
            return frozenset()
        if selected is True:
            return frozenset(self._names)
        return frozenset([self._names[row] for row in np.flatnonzero(selected).tolist()])
