"""Selectors over label columns: a few comparisons of columns, not a question per row."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from kscheduler.api.fields import FieldRequirement
from kscheduler.api.labels import Operator, Requirement, Selector, parse_int
from kscheduler.api.node_selector import (
    NODE_NAME_FIELD,
    NodeSelectorMatcher,
    RequiredNodeAffinity,
    Term,
)
from kscheduler.state.label_columns import ABSENT, LabelColumn, LabelColumns, Mask

# Whatever a node can be selected by; each kind is hashable, and equal ones mean the same.
NodeQuery = Selector | Term | NodeSelectorMatcher | RequiredNodeAffinity


class NamedRows(Protocol):
    """Rows with labels and a name, that is: nodes."""

    @property
    def labels(self) -> LabelColumns: ...
    def row_of(self, name: str) -> int | None: ...


def mask_of_selector(columns: LabelColumns, selector: Selector) -> Mask:
    """The rows whose labels match; a row without labels may."""
    if selector.matches_nothing:
        return np.zeros(len(columns), np.bool_)
    mask = np.ones(len(columns), np.bool_)
    for requirement in selector:
        mask &= _mask_of_requirement(columns, requirement)
    return mask


def mask_of_query(nodes: NamedRows, query: NodeQuery) -> Mask:
    match query:
        case Selector():
            return mask_of_selector(nodes.labels, query)
        case Term():
            return _mask_of_term(nodes, query)
        case NodeSelectorMatcher():
            mask = np.zeros(len(nodes.labels), np.bool_)
            for term in query.terms:
                mask |= _mask_of_term(nodes, term)
            return mask
        case RequiredNodeAffinity():
            mask = mask_of_selector(nodes.labels, query.labels)
            if query.affinity is not None:
                mask &= mask_of_query(nodes, query.affinity)
            return mask


def _mask_of_term(nodes: NamedRows, term: Term) -> Mask:
    if term.errors:
        return np.zeros(len(nodes.labels), np.bool_)
    mask = mask_of_selector(nodes.labels, term.expressions)
    for requirement in term.fields:
        mask &= _mask_of_field(nodes, requirement)
    return mask


def _mask_of_field(nodes: NamedRows, requirement: FieldRequirement) -> Mask:
    """Only a node's name can be told by field; any other field reads as empty."""
    equal = np.zeros(len(nodes.labels), np.bool_)
    if requirement.field == NODE_NAME_FIELD:
        row = nodes.row_of(requirement.value)
        if row is not None:
            equal[row] = True
    elif not requirement.value:
        equal[:] = True
    return ~equal if requirement.negated else equal


def _mask_of_requirement(columns: LabelColumns, requirement: Requirement) -> Mask:
    column = columns.column(requirement.key)
    match requirement.operator:
        case Operator.IN:
            return column.one_of(requirement.values)
        case Operator.NOT_IN:
            return ~column.one_of(requirement.values)
        case Operator.EXISTS:
            return column.codes != ABSENT
        case Operator.DOES_NOT_EXIST:
            return column.codes == ABSENT
        case Operator.GREATER_THAN | Operator.LESS_THAN:
            return _compares(column, requirement)


def _compares(column: LabelColumn, requirement: Requirement) -> Mask:
    (bound,) = map(parse_int, requirement.values)
    if bound is None:
        return np.zeros(len(column.codes), np.bool_)
    numbers, are_numbers = column.numbers()
    if requirement.operator is Operator.GREATER_THAN:
        return (numbers > bound) & are_numbers
    return (numbers < bound) & are_numbers
