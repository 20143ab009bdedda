"""Node selectors and node affinity, for one node at a time.

Terms are ORed, what stands inside a term is ANDed, an empty term matches nothing. A term that
cannot be parsed matches nothing either; its errors are kept for callers that report them.

Mirrors component-helpers/scheduling/corev1/nodeaffinity. Differs: nothing.
"""

from collections.abc import Iterator, Mapping, Sequence, Set

import msgspec

from kscheduler.api.core import (
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PreferredSchedulingTerm,
)
from kscheduler.api.field_errors import FieldError, aggregate, child, index, invalid, unsupported
from kscheduler.api.fields import FieldRequirement
from kscheduler.api.labels import (
    EVERYTHING,
    Operator,
    Requirement,
    Selector,
    SelectorError,
    requirement_errors,
    selector_from_labels,
)

NODE_NAME_FIELD = "metadata.name"
# Up to this many terms it is quicker to match each than to find them by key.
FEW_TERMS = 4

_OPERATORS = {operator.value: operator for operator in Operator}
_FIELD_OPERATORS = {"In": False, "NotIn": True}


class Term(msgspec.Struct, frozen=True):
    """One parsed term; with errors, it matches nothing."""

    expressions: Selector = EVERYTHING
    fields: tuple[FieldRequirement, ...] = ()
    errors: tuple[FieldError, ...] = ()

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        if self.errors or not self.expressions.matches(labels):
            return False
        # Without a name there are no fields to match: affinity of volumes is checked that way.
        fields = {NODE_NAME_FIELD: name}
        return not name or all(requirement.matches(fields) for requirement in self.fields)


class NodeSelectorMatcher:
    """A parsed NodeSelector; terms that were empty are not kept.

    Terms are filed under one label key that each needs, so that a pod with thousands of terms asks
    only those that a node's labels can meet. What takes a pass over the terms is worked out once.
    """

    __slots__ = ("_by_key", "_errors", "_hash", "terms")

    def __init__(self, terms: tuple[Term, ...] = ()) -> None:
        self.terms = terms
        self._by_key: dict[str, list[Term]] | None = None
        self._errors: tuple[FieldError, ...] | None = None
        self._hash: int | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NodeSelectorMatcher):
            return NotImplemented
        return self is other or self.terms == other.terms

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self.terms)
        return self._hash

    def __repr__(self) -> str:
        return f"NodeSelectorMatcher({self.terms!r})"

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        return any(term.matches(labels, name) for term in self.candidates(labels.keys()))

    def candidates(self, keys: Set[str]) -> Iterator[Term]:
        """All terms that labels with these keys can meet, and perhaps some that they cannot."""
        if len(self.terms) <= FEW_TERMS:
            yield from self.terms
            return
        if self._by_key is None:
            self._by_key = {}
            for term in self.terms:
                if term.errors:
                    continue
                # A label key without which the term matches nothing; "" if there is none.
                needed = next((one.key for one in term.expressions if one.needs_key), "")
                self._by_key.setdefault(needed, []).append(term)
        for key in ("", *(self._by_key.keys() & keys)):
            yield from self._by_key.get(key, ())

    @property
    def error(self) -> str | None:
        """The parse errors of all terms; upstream reports them for a node that no term matched."""
        if self._errors is None:
            self._errors = tuple([error for term in self.terms for error in term.errors])
        return aggregate(self._errors) if self._errors else None


# Equal only to itself: what is worked out from it is remembered by identity.
class PreferredTerms(msgspec.Struct, frozen=True, eq=False):
    """Weighted terms, all of them valid."""

    terms: tuple[tuple[int, Term], ...] = ()

    def score(self, labels: Mapping[str, str], name: str) -> int:
        """The sum of the weights of the terms that match."""
        return sum(weight for weight, term in self.terms if term.matches(labels, name))


class RequiredNodeAffinity(msgspec.Struct, frozen=True):
    """A pod's nodeSelector and its required node affinity, both of which must match."""

    labels: Selector = EVERYTHING
    affinity: NodeSelectorMatcher | None = None

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        if not self.labels.matches(labels):
            return False
        return self.affinity is None or self.affinity.matches(labels, name)


def compile_node_selector(selector: NodeSelector, path: str = "") -> NodeSelectorMatcher:
    """Parses every term; callers that must refuse a broken one check `error`."""
    terms_path = child(path, "nodeSelectorTerms")
    return NodeSelectorMatcher(
        tuple(
            compile_term(term, index(terms_path, position))
            for position, term in enumerate(selector.node_selector_terms)
            if not _is_empty(term)
        )
    )


def compile_preferred(terms: Sequence[PreferredSchedulingTerm], path: str = "") -> PreferredTerms:
    """Terms of weight 0 and empty preferences are dropped unparsed; any other must be valid."""
    compiled = tuple(
        (term.weight, compile_term(term.preference, index(path, position)))
        for position, term in enumerate(terms)
        if term.weight and not _is_empty(term.preference)
    )
    errors = [error for _, term in compiled for error in term.errors]
    if errors:
        raise SelectorError(aggregate(errors))
    return PreferredTerms(compiled)


def required_node_affinity(pod: Pod) -> RequiredNodeAffinity:
    node_affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = node_affinity.required if node_affinity else None
    return RequiredNodeAffinity(
        selector_from_labels(pod.spec.node_selector),
        None if required is None else compile_node_selector(required),
    )


def compile_term(term: NodeSelectorTerm, path: str = "") -> Term:
    """A term with all that is wrong with it: first its expressions, then its fields."""
    labels: list[Requirement] = []
    label_errors: list[FieldError] = []
    within = child(path, "matchExpressions")
    for position, item in enumerate(term.match_expressions):
        where = index(within, position)
        operator = _OPERATORS.get(item.operator)
        if operator is None:
            label_errors.append(unsupported(child(where, "operator"), item.operator, _OPERATORS))
            continue
        label_errors += requirement_errors(item.key, operator, item.values, where)
        labels.append(Requirement(item.key, operator, frozenset(item.values)))
    fields: list[FieldRequirement] = []
    errors: list[FieldError] = []
    within = child(path, "matchFields")
    for position, item in enumerate(term.match_fields):
        where = index(within, position)
        negated = _FIELD_OPERATORS.get(item.operator)
        if negated is None:
            errors.append(unsupported(child(where, "operator"), item.operator, _FIELD_OPERATORS))
        elif len(item.values) != 1:
            at = child(where, "values")
            errors.append(invalid(at, item.values or None, "must have one element"))
        else:
            fields.append(FieldRequirement(item.key, item.values[0], negated))
    expressions = EVERYTHING if label_errors else Selector(labels)
    return Term(expressions, tuple(fields), (*label_errors, *errors))


def _is_empty(term: NodeSelectorTerm) -> bool:
    return not term.match_expressions and not term.match_fields
