"""Selectors over label columns: a few comparisons of columns, not a question per row.

Most of what a long selector asks for is the same for all rows: a label that no row has, a value
that no row has. Such an answer is a plain True or False and costs no array, so that a selector of
thousands of requirements costs a look-up for each, and arrays only for labels that rows do have.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.fields import FieldRequirement
from kscheduler.api.labels import Operator, Requirement, Selector, parse_int
from kscheduler.api.node_selector import (
    NODE_NAME_FIELD,
    NodeSelectorMatcher,
    PreferredTerms,
    RequiredNodeAffinity,
    Term,
)
from kscheduler.state.label_columns import ABSENT, LabelColumns, Mask

# Whatever a node can be selected by; each kind is hashable, and equal ones mean the same.
NodeQuery = Selector | Term | NodeSelectorMatcher | RequiredNodeAffinity
# The rows that are selected: all, none, or a mask that belongs to the caller.
Selection = Mask | bool
Weights = NDArray[np.int64]  # [rows]


class NamedRows(Protocol):
    """Rows with labels and a name, that is: nodes."""

    @property
    def labels(self) -> LabelColumns: ...
    def row_of(self, name: str) -> int | None: ...


def mask_of_query(nodes: NamedRows, query: NodeQuery) -> Mask:
    """The rows that are selected; a row without labels may be."""
    return _as_mask(_selected_by(nodes, query), nodes.labels)


def mask_of_selector(columns: LabelColumns, selector: Selector) -> Mask:
    return _as_mask(selected_by_labels(columns, selector), columns)


def _as_mask(selected: Selection, columns: LabelColumns) -> Mask:
    return np.full(len(columns), selected) if isinstance(selected, bool) else selected


def weights_of_terms(nodes: NamedRows, preferred: PreferredTerms) -> Weights:
    """By row, the sum of the weights of the terms that match."""
    everywhere, total = 0, np.zeros(len(nodes.labels), np.int64)
    for weight, term in preferred.terms:
        selected = _selected_by_term(nodes, term)
        if selected is True:
            everywhere += weight
        elif selected is not False:
            np.add(total, weight, out=total, where=selected)
    total += everywhere
    return total


def selected_by_labels(columns: LabelColumns, selector: Selector) -> Selection:
    """The rows whose labels match; a row without labels may."""
    if selector.matches_nothing:
        return False
    selected: Selection = True
    for requirement in selector:
        selected = _both(selected, _meeting(columns, requirement))
        if selected is False:
            return False
    return selected


def _selected_by(nodes: NamedRows, query: NodeQuery) -> Selection:
    match query:
        case Selector():
            return selected_by_labels(nodes.labels, query)
        case Term():
            return _selected_by_term(nodes, query)
        case NodeSelectorMatcher():
            selected: Selection = False
            for term in query.candidates(nodes.labels.keys):
                found = _selected_by_term(nodes, term)
                if found is True:
                    return True
                if found is False:
                    continue
                if isinstance(selected, bool):
                    selected = found
                else:
                    selected |= found
            return selected
        case RequiredNodeAffinity():
            selected = selected_by_labels(nodes.labels, query.labels)
            if selected is False or query.affinity is None:
                return selected
            return _both(selected, _selected_by(nodes, query.affinity))


def _selected_by_term(nodes: NamedRows, term: Term) -> Selection:
    if term.errors:
        return False
    selected = selected_by_labels(nodes.labels, term.expressions)
    for requirement in term.fields:
        if selected is False:
            return False
        selected = _both(selected, _with_field(nodes, requirement))
    return selected


def _both(one: Selection, other: Selection) -> Selection:
    if isinstance(one, bool):
        return other if one else False
    if isinstance(other, bool):
        return one if other else False
    one &= other
    return one


def _with_field(nodes: NamedRows, requirement: FieldRequirement) -> Selection:
    """Only a node's name can be told by field; any other field reads as empty."""
    if requirement.field != NODE_NAME_FIELD:
        return (not requirement.value) != requirement.negated
    row = nodes.row_of(requirement.value)
    if row is None:
        return requirement.negated
    selected = np.full(len(nodes.labels), requirement.negated, np.bool_)
    selected[row] = not requirement.negated
    return selected


def _meeting(columns: LabelColumns, requirement: Requirement) -> Selection:
    if requirement.key not in columns.keys:
        return not requirement.needs_key
    column = columns.column(requirement.key)
    match requirement.operator:
        case Operator.IN:
            found = column.one_of(requirement.values)
            return False if found is None else found
        case Operator.NOT_IN:
            found = column.one_of(requirement.values)
            return True if found is None else ~found
        case Operator.EXISTS:
            return column.codes != ABSENT
        case Operator.DOES_NOT_EXIST:
            return column.codes == ABSENT
        case Operator.GREATER_THAN | Operator.LESS_THAN:
            (bound,) = map(parse_int, requirement.values)
            if bound is None:
                return False
            numbers, are_numbers = column.numbers()
            if requirement.operator is Operator.GREATER_THAN:
                return (numbers > bound) & are_numbers
            return (numbers < bound) & are_numbers
