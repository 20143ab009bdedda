"""Validation of node and pod (anti-)affinity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kscheduler.api.validation import (
    dns_label_errors,
    dns_subdomain_errors,
    label_key_errors,
    label_value_errors,
)
from kscheduler.rest import fields
from kscheduler.rest.fields import FieldError
from kscheduler.sandbox.metadata import label_errors

Spec = dict[str, Any]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_WEIGHTS = "must be in the range 1-100"
_BAD_OPERATOR = "not a valid selector operator"


def affinity_errors(affinity: Spec, path: str) -> Iterator[FieldError]:
    if node := affinity.get("nodeAffinity"):
        required = node.get(_REQUIRED)
        if required is not None:
            yield from node_selector_errors(required, f"{path}.nodeAffinity.{_REQUIRED}")
        for position, preferred in enumerate(node.get(_PREFERRED) or ()):
            where = f"{path}.nodeAffinity.{_PREFERRED}[{position}]"
            yield from _weight_errors(preferred, where)
            preference = preferred.get("preference") or {}
            # As upstream: the values of a preference are not checked.
            yield from node_term_errors(preference, f"{where}.preference", checks_values=False)
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        for position, term in enumerate(rules.get(_REQUIRED) or ()):
            yield from _term_errors(term, f"{path}.{kind}.{_REQUIRED}[{position}]")
        for position, weighted in enumerate(rules.get(_PREFERRED) or ()):
            where = f"{path}.{kind}.{_PREFERRED}[{position}]"
            yield from _weight_errors(weighted, where)
            yield from _term_errors(
                weighted.get("podAffinityTerm") or {}, f"{where}.podAffinityTerm"
            )


def node_selector_errors(selector: Spec, path: str) -> Iterator[FieldError]:
    where, terms = f"{path}.nodeSelectorTerms", selector.get("nodeSelectorTerms") or ()
    if not terms:
        yield fields.required(where, "must have at least one node selector term")
    for position, term in enumerate(terms):
        yield from node_term_errors(term, f"{where}[{position}]", checks_values=True)


def node_term_errors(term: Spec, path: str, *, checks_values: bool) -> Iterator[FieldError]:
    for position, rule in enumerate(term.get("matchExpressions") or ()):
        where = f"{path}.matchExpressions[{position}]"
        yield from _expression_errors(rule, where, of_nodes=True, checks_values=checks_values)
    for position, rule in enumerate(term.get("matchFields") or ()):
        where, values = f"{path}.matchFields[{position}]", rule.get("values") or ()
        if rule.get("operator") not in ("In", "NotIn"):
            yield fields.invalid(f"{where}.operator", rule.get("operator") or "", _BAD_OPERATOR)
        elif len(values) != 1:
            detail = (
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            )
            yield fields.required(f"{where}.values", detail)
        if rule.get("key") != "metadata.name":
            detail = "not a valid field selector key"
            yield fields.invalid(f"{where}.key", rule.get("key") or "", detail)
            continue
        for number, value in enumerate(values):
            for why in dns_subdomain_errors(value):
                yield fields.invalid(f"{where}.values[{number}]", value, why)


def _weight_errors(weighted: Spec, path: str) -> Iterator[FieldError]:
    weight = weighted.get("weight", 0)
    if not 1 <= weight <= 100:
        yield fields.invalid(f"{path}.weight", weight, _WEIGHTS)


def _term_errors(term: Spec, path: str) -> Iterator[FieldError]:
    yield from selector_errors(term.get("labelSelector"), f"{path}.labelSelector")
    yield from selector_errors(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for name in term.get("namespaces") or ():
        yield from (
            fields.invalid(f"{path}.namespace", name, why) for why in dns_label_errors(name)
        )
    yield from label_keys_errors(term, path)
    key = term.get("topologyKey", "")
    if not key:
        yield fields.required(f"{path}.topologyKey", "can not be empty")
    yield from (fields.invalid(f"{path}.topologyKey", key, why) for why in label_key_errors(key))


def label_keys_errors(term: Spec, path: str) -> Iterator[FieldError]:
    """matchLabelKeys and mismatchLabelKeys against each other and against the selector."""
    selector = term.get("labelSelector")
    matched, mismatched = term.get("matchLabelKeys") or (), term.get("mismatchLabelKeys") or ()
    for name, keys in (("matchLabelKeys", matched), ("mismatchLabelKeys", mismatched)):
        if keys and selector is None:
            yield fields.forbidden(
                f"{path}.{name}", "must not be specified when labelSelector is not set"
            )
        for position, key in enumerate(keys):
            where = f"{path}.{name}[{position}]"
            yield from (fields.invalid(where, key, why) for why in label_key_errors(key))
    used = set((selector or {}).get("matchLabels") or ())
    for expression in (selector or {}).get("matchExpressions") or ():
        key = expression.get("key")
        if key in matched and key in used:
            detail = "exists in both matchLabelKeys and labelSelector"
            yield fields.invalid(f"{path}[{list(matched).index(key)}]", key, detail)
        used.add(key)
    for position, key in enumerate(matched):
        if key in mismatched:
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield fields.invalid(f"{path}.matchLabelKeys[{position}]", key, detail)


def selector_errors(selector: Spec | None, path: str) -> Iterator[FieldError]:
    if selector is None:
        return
    yield from label_errors(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for position, rule in enumerate(selector.get("matchExpressions") or ()):
        yield from _expression_errors(rule, f"{path}.matchExpressions[{position}]")


def _expression_errors(
    rule: Spec, path: str, *, of_nodes: bool = False, checks_values: bool = True
) -> Iterator[FieldError]:
    """Errors of one expression; only those about nodes may compare numbers."""
    values = rule.get("values") or ()
    match rule.get("operator"):
        case "In" | "NotIn":
            if not values:
                detail = "must be specified when `operator` is 'In' or 'NotIn'"
                yield fields.required(f"{path}.values", detail)
        case "Exists" | "DoesNotExist":
            if values:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield fields.forbidden(f"{path}.values", detail)
        case "Gt" | "Lt" if of_nodes:
            if len(values) != 1:
                detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                yield fields.required(f"{path}.values", detail)
        case operator:
            yield fields.invalid(f"{path}.operator", operator or "", _BAD_OPERATOR)
    key = rule.get("key", "")
    yield from (fields.invalid(f"{path}.key", key, why) for why in label_key_errors(key))
    if checks_values:
        for position, value in enumerate(values):
            where = f"{path}.values[{position}]"
            yield from (fields.invalid(where, value, why) for why in label_value_errors(value))


_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_INCLUSION = ("Honor", "Ignore")
_NOT_POSITIVE = "must be greater than zero"


def spread_errors(spec: dict[str, Any]) -> Iterator[FieldError]:
    constraints = spec.get("topologySpreadConstraints") or []
    for position, constraint in enumerate(constraints):
        path = f"spec.topologySpreadConstraints[{position}]"
        if constraint.get("maxSkew", 0) <= 0:
            yield fields.invalid(f"{path}.maxSkew", constraint.get("maxSkew", 0), _NOT_POSITIVE)
        if not constraint.get("topologyKey"):
            yield fields.required(f"{path}.topologyKey", "can not be empty")
        action = constraint.get("whenUnsatisfiable", "")
        if action not in _ACTIONS:
            yield fields.not_supported(f"{path}.whenUnsatisfiable", action, _ACTIONS)
        domains = constraint.get("minDomains")
        if domains is not None and domains <= 0:
            yield fields.invalid(f"{path}.minDomains", domains, _NOT_POSITIVE)
        if domains is not None and action != "DoNotSchedule":
            detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            yield fields.invalid(f"{path}.minDomains", domains, detail)
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if name in constraint and constraint[name] not in _INCLUSION:
                yield fields.not_supported(f"{path}.{name}", constraint[name], _INCLUSION)
        yield from label_keys_errors(constraint, path)
        yield from selector_errors(constraint.get("labelSelector"), f"{path}.labelSelector")
        pair = (constraint.get("topologyKey"), constraint.get("whenUnsatisfiable"))
        later = constraints[position + 1 :]
        if any((one.get("topologyKey"), one.get("whenUnsatisfiable")) == pair for one in later):
            where = f"{path}.{{topologyKey, whenUnsatisfiable}}"
            yield fields.duplicate(where, f"{{{pair[0]}, {pair[1]}}}")
