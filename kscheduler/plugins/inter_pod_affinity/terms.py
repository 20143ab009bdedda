"""Affinity terms that select namespaces by label, with these namespaces named one by one.

Pods are counted by namespace and labels, so a term must name its namespaces before it is asked
about. What upstream calls mergeAffinityTermNamespacesIfNotEmpty.
"""

from __future__ import annotations

from kscheduler.api.core import Namespace
from kscheduler.framework.listers import Lister
from kscheduler.plugins.helper.lister_memo import ListerMemo
from kscheduler.state.affinity_term import AffinityTerm
from kscheduler.state.label_columns import LabelColumns
from kscheduler.state.namespace_sets import Universe, bytes_of_namespaces
from kscheduler.state.selector_lookup import bytes_of_selector
from kscheduler.state.selector_masks import mask_of_selector


class NamedNamespaces:
    """Terms that select namespaces by label, with those namespaces named one by one."""

    def __init__(self, lister: Lister[Namespace]) -> None:
        self._resolved: ListerMemo[Namespace, AffinityTerm, AffinityTerm] = ListerMemo(
            lister, "resolved_affinity_terms"
        )
        self.caches = self._resolved.caches
        # The labels of namespaces in columns, as those of nodes are.
        self._laid_out: tuple[Namespace, ...] = ()
        self._universe = Universe(())
        self._labels = LabelColumns("namespace_label_columns")

    def resolve(self, term: AffinityTerm) -> AffinityTerm:
        by_labels = term.namespace_selector
        if by_labels is None or by_labels.matches_everything:
            return term
        known = self._resolved.get(term)
        if known is not None:
            return known
        namespaces = self._resolved.objects
        if self._laid_out is not namespaces:
            self._laid_out = namespaces
            self._universe = Universe([namespace.name for namespace in namespaces])
            self._labels = LabelColumns("namespace_label_columns")
            self._labels.resize(len(namespaces))
            for row, namespace in enumerate(namespaces):
                self._labels.put(row, namespace.metadata.labels)
        selected = mask_of_selector(self._labels, by_labels)
        names = self._universe.subset(selected, frozenset(term.namespaces))
        named = AffinityTerm(names, None, term.selector, term.topology_key)
        cost = 500 + bytes_of_namespaces(names) + 2 * bytes_of_selector(term.selector)
        return self._resolved.put(term, named, cost)
