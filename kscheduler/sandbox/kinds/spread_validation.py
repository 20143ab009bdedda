"""Validation of topology spread constraints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kscheduler.sandbox import fields
from kscheduler.sandbox.fields import FieldError
from kscheduler.sandbox.kinds.affinity_validation import label_keys_errors, selector_errors

_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_INCLUSION = ("Honor", "Ignore")
_NOT_POSITIVE = "must be greater than zero"


def spread_errors(spec: dict[str, Any]) -> Iterator[FieldError]:
    constraints = spec.get("topologySpreadConstraints") or []
    for position, constraint in enumerate(constraints):
        path = f"spec.topologySpreadConstraints[{position}]"
        yield from _constraint_errors(constraint, path)
        pair = (constraint.get("topologyKey"), constraint.get("whenUnsatisfiable"))
        later = constraints[position + 1 :]
        if any((one.get("topologyKey"), one.get("whenUnsatisfiable")) == pair for one in later):
            where = f"{path}.{{topologyKey, whenUnsatisfiable}}"
            yield fields.duplicate(where, f"{{{pair[0]}, {pair[1]}}}")


def _constraint_errors(constraint: dict[str, Any], path: str) -> Iterator[FieldError]:
    if constraint.get("maxSkew", 0) <= 0:
        yield fields.invalid(f"{path}.maxSkew", constraint.get("maxSkew", 0), _NOT_POSITIVE)
    if not constraint.get("topologyKey"):
        yield fields.required(f"{path}.topologyKey", "can not be empty")
    action = constraint.get("whenUnsatisfiable", "")
    if action not in _ACTIONS:
        yield fields.not_supported(f"{path}.whenUnsatisfiable", action, _ACTIONS)
    yield from _min_domains_errors(constraint, action, f"{path}.minDomains")
    for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if name in constraint and constraint[name] not in _INCLUSION:
            yield fields.not_supported(f"{path}.{name}", constraint[name], _INCLUSION)
    yield from label_keys_errors(constraint, path)
    yield from selector_errors(constraint.get("labelSelector"), f"{path}.labelSelector")


def _min_domains_errors(constraint: dict[str, Any], action: str, path: str) -> Iterator[FieldError]:
    domains = constraint.get("minDomains")
    if domains is None:
        return
    if domains <= 0:
        yield fields.invalid(path, domains, _NOT_POSITIVE)
    if action != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        yield fields.invalid(path, domains, detail)
