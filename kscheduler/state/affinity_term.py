"""One rule about other pods: which of them, in which namespaces, and how far around.

Mirrors AffinityTerm of the kube-scheduler framework. Differs: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from enum import Enum
from typing import ClassVar
from weakref import WeakValueDictionary

from kscheduler.api import field_errors
from kscheduler.api.core import Pod, PodAffinity, PodAffinityTerm
from kscheduler.api.labels import Selector, SelectorError, compile_selector
from kscheduler.state.namespace_sets import NamespaceBits
from kscheduler.state.selector_lookup import SelectorLookup

# Up to so many terms it is quicker to ask each than to look them up.
FEW_TERMS = 8


class TermKind(Enum):
    """The four lists a pod can carry terms in."""

    REQUIRED_AFFINITY = "requiredAffinityTerms"
    REQUIRED_ANTI_AFFINITY = "requiredAntiAffinityTerms"
    PREFERRED_AFFINITY = "preferredAffinityTerms"
    PREFERRED_ANTI_AFFINITY = "preferredAntiAffinityTerms"

    # By identity, in C: these are dictionary keys on the hot path.
    __hash__ = object.__hash__


_TermKey = tuple[Set[str], Selector | None, Selector, str]


class AffinityTerm:
    """A parsed term. Equal terms are one object, so it is as good a key as any.

    A pod is meant if it is in one of `namespaces` or in one that `namespace_selector` selects, and
    its labels match `selector`. None selects no namespace.
    """

    __slots__ = ("__weakref__", "namespace_selector", "namespaces", "selector", "topology_key")

    namespaces: Set[str]
    namespace_selector: Selector | None
    selector: Selector
    topology_key: str

    _known: ClassVar[WeakValueDictionary[_TermKey, AffinityTerm]] = WeakValueDictionary()

    def __new__(
        cls,
        namespaces: Iterable[str],
        namespace_selector: Selector | None,
        selector: Selector,
        topology_key: str,
    ) -> AffinityTerm:
        named = namespaces if isinstance(namespaces, NamespaceBits) else frozenset(namespaces)
        key = (named, namespace_selector, selector, topology_key)
        known = cls._known.get(key)
        if known is None:
            known = object.__new__(cls)
            known.namespaces, known.namespace_selector, known.selector, known.topology_key = key
            cls._known[key] = known
        return known

    @property
    def selects_every_namespace(self) -> bool:
        return self.namespace_selector is not None and self.namespace_selector.matches_everything

    def matches(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> bool:
        """Whether a pod with these labels, in a namespace with those labels, is meant."""
        if namespace not in self.namespaces:
            by_labels = self.namespace_selector
            if by_labels is None or not by_labels.matches(namespace_labels):
                return False
        return self.selector.matches(labels)

    def __repr__(self) -> str:
        return (
            f"AffinityTerm({sorted(self.namespaces)}, {self.namespace_selector!r}, "
            f"{self.selector!r}, {self.topology_key!r})"
        )


class AffinityTerms(tuple[AffinityTerm, ...]):
    """A list of terms, filed by whom they mean as soon as that is asked; one may be in it twice.

    A pod may have thousands of terms. Which of them mean a given pod is looked up under that pod's
    labels instead of being asked of each term.
    """

    _lookup: SelectorLookup[int] | None = None

    def meaning(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> Iterator[AffinityTerm]:
        """The terms that mean such a pod, as `AffinityTerm.matches` has it."""
        candidates: Iterable[AffinityTerm] = self
        if len(self) > FEW_TERMS:
            lookup = self._lookup
            if lookup is None:
                lookup = self._lookup = SelectorLookup()
                for position, term in enumerate(self):
                    by_labels = term.namespace_selector is not None
                    lookup.add(position, None if by_labels else term.namespaces, term.selector)
            candidates = [self[position] for position in lookup.candidates(namespace, labels)]
        for term in candidates:
            if term.matches(namespace, labels, namespace_labels):
                yield term


NO_TERMS = AffinityTerms()

WeightedTerm = tuple[int, AffinityTerm]


def parse_terms(pod: Pod) -> tuple[dict[TermKind, tuple[WeightedTerm, ...]], str]:
    """The pod's terms by kind, required ones with weight 1, and what could not be parsed.

    A list with an unparsable term counts as empty.
    """
    parsed: dict[TermKind, tuple[WeightedTerm, ...]] = {}
    errors: list[str] = []
    for kind, terms in _lists(pod):
        try:
            parsed[kind] = tuple((weight, _parse_term(pod, term)) for weight, term in terms)
        except SelectorError as error:
            errors.append(f"{kind.value}: {error}")
    return parsed, field_errors.aggregate(errors) if errors else ""


def _lists(pod: Pod) -> Iterator[tuple[TermKind, list[tuple[int, PodAffinityTerm]]]]:
    affinity = pod.spec.affinity
    towards = (affinity and affinity.pod_affinity) or PodAffinity()
    away = (affinity and affinity.pod_anti_affinity) or PodAffinity()
    yield TermKind.REQUIRED_AFFINITY, [(1, term) for term in towards.required]
    yield TermKind.REQUIRED_ANTI_AFFINITY, [(1, term) for term in away.required]
    yield (
        TermKind.PREFERRED_AFFINITY,
        [(weighted.weight, weighted.pod_affinity_term) for weighted in towards.preferred],
    )
    yield (
        TermKind.PREFERRED_ANTI_AFFINITY,
        [(weighted.weight, weighted.pod_affinity_term) for weighted in away.preferred],
    )


def _parse_term(pod: Pod, term: PodAffinityTerm) -> AffinityTerm:
    selector = compile_selector(term.label_selector)
    by_labels = term.namespace_selector
    if by_labels is not None:
        namespace_selector = compile_selector(by_labels)
        return AffinityTerm(term.namespaces, namespace_selector, selector, term.topology_key)
    return AffinityTerm(term.namespaces or (pod.namespace,), None, selector, term.topology_key)
