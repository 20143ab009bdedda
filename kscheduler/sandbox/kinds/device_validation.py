"""Validation of what claims, slices and taint rules share: names, selectors, taints, lists.

Mirrors the shared parts of pkg/apis/resource/validation. Differs: the estimated cost of a selector
is not checked, so an expression that the API server refuses as too complex is accepted here; its
evaluation is aborted at the same limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from kscheduler import cel
from kscheduler.api.validation import (
    dns_label_errors,
    dns_subdomain_errors,
    label_key_errors,
    label_value_errors,
)
from kscheduler.caches import ForShortTexts
from kscheduler.rest import fields
from kscheduler.rest.fields import FieldError

Json = dict[str, Any]
Check = Callable[[Any, str], Iterable[FieldError]]  # of a value and its path

MAX_SELECTORS = 32
MAX_CONFIGS = 32
_MAX_DRIVER_NAME = 63
_MAX_POOL_NAME = 253
_MAX_IDENTIFIER = 32
_MAX_EXPRESSION = 10 * 1024
_MAX_PARAMETERS = 10 * 1024
_MAX_BINDING_CONDITIONS = 4
_MAX_CONDITION_REASON = 1024
_MAX_CONDITION_MESSAGE = 32 * 1024
_TAINT_EFFECTS = ("NoExecute", "NoSchedule", "None")
_OPERATORS = ("Equal", "Exists")
_CASELESS_SUBDOMAIN_RULE = (
    "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'Example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_C_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
_C_IDENTIFIER_RULE = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of "
    "alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for "
    f"validation is '{_C_IDENTIFIER}')"
)
_CONDITION_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_CONDITION_REASON_RULE = (
    "a condition reason must start with alphabetic character, optionally followed by a string of "
    "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. "
    "'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex "
    f"used for validation is '{_CONDITION_REASON}')"
)
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Template claims carry the same few selectors thousands of times.
_remember_selectors = ForShortTexts("sandbox_selectors", entries=256, longest=1024)


def list_errors(
    items: Sequence[Any],
    path: str,
    check: Check,
    *,
    at_most: int | None = None,
    key: Callable[[Any], Any] | None = None,
    shown: Callable[[Any], Any] = lambda item: item,
) -> Iterator[FieldError]:
    """Errors of a list's items; only its length when it is too long.

    With `key`, no key may occur twice; `shown` is what the error shows of the second item.
    """
    if at_most is not None and len(items) > at_most:
        yield fields.too_many(path, len(items), at_most)
        return
    for position, item in enumerate(items):
        yield from check(item, f"{path}[{position}]")
    if key is not None:
        seen = set()
        for position, item in enumerate(items):
            if (found := key(item)) in seen:
                yield fields.duplicate(f"{path}[{position}]", shown(item))
            seen.add(found)


def label_name_errors(name: str, path: str) -> Iterator[FieldError]:
    """A DNS label."""
    yield from (fields.invalid(path, name, why) for why in dns_label_errors(name))


def node_name_errors(name: str, path: str) -> Iterator[FieldError]:
    yield from (fields.invalid(path, name, why) for why in dns_subdomain_errors(name))


def class_name_errors(name: str, path: str) -> Iterator[FieldError]:
    if not name:
        yield fields.required(path)
    else:
        yield from (fields.invalid(path, name, why) for why in dns_subdomain_errors(name))


def driver_name_errors(name: str, path: str) -> Iterator[FieldError]:
    if not name:
        yield fields.required(path)
        return
    if len(name) > _MAX_DRIVER_NAME:
        yield fields.too_long(path, _MAX_DRIVER_NAME)
    yield from (fields.invalid(path, name, why) for why in dns_subdomain_errors(name.lower()))


def declared_driver_name_errors(name: str, path: str) -> Iterator[FieldError]:
    """A driver's name where the API declares the same rule by tags, which word it differently."""
    if not name:
        yield fields.required(path)
    elif len(name) > _MAX_DRIVER_NAME:
        detail = f"may not be more than {_MAX_DRIVER_NAME} characters"
        yield FieldError("FieldValueTooLong", path, detail=detail)
    elif dns_subdomain_errors(name.lower()):
        yield fields.invalid(path, name, _CASELESS_SUBDOMAIN_RULE)


def pool_name_errors(name: str, path: str) -> Iterator[FieldError]:
    if not name:
        yield fields.required(path)
        return
    if len(name) > _MAX_POOL_NAME:
        yield fields.too_long(path, _MAX_POOL_NAME)
    for part in name.split("/"):
        yield from (fields.invalid(path, part, why) for why in dns_subdomain_errors(part))


def declared_pool_name_errors(name: str, path: str) -> Iterator[FieldError]:
    """A pool's name where the API declares the same rule by tags, which word it differently."""
    if not name:
        yield fields.required(path)
        return
    if len(name) > _MAX_POOL_NAME:
        yield fields.too_long(path, _MAX_POOL_NAME)
    for position, part in enumerate(name.split("/")):
        if not part:
            yield fields.invalid(path, name, f"segment {position}: must not be empty")
        else:
            for why in dns_subdomain_errors(part):
                yield fields.invalid(path, part, f"segment {position}: {why}")


def share_id_errors(share_id: str, path: str) -> Iterator[FieldError]:
    if not _UUID.fullmatch(share_id):
        detail = "must be a lowercase UUID in 8-4-4-4-12 format"
        yield fields.invalid(path, share_id, detail)


def qualified_name_errors(name: str, path: str) -> Iterator[FieldError]:
    """The name of an attribute or capacity, with or without the domain of its driver."""
    match name.split("/"):
        case [identifier]:
            yield from _identifier_errors(identifier, path)
        case [domain, identifier]:  # names of more parts are not looked at, as upstream
            if domain:
                yield from driver_name_errors(domain, path)
            else:
                yield fields.invalid(path, "", "the domain must not be empty")
            if identifier:
                yield from _identifier_errors(identifier, path)
            else:
                yield fields.invalid(path, "", "the name must not be empty")


def fully_qualified_name_errors(name: str, path: str) -> Iterator[FieldError]:
    """The name of an attribute in a constraint, which needs its domain."""
    match name.split("/"):
        case [identifier]:
            yield from _identifier_errors(identifier, path)
            detail = "a fully qualified name must be a domain and a name separated by a slash"
            yield fields.invalid(path, name, detail)
        case [domain, identifier]:
            if not domain:
                yield fields.invalid(path, "", "prefix must not be empty")
            elif len(domain) > _MAX_DRIVER_NAME:
                yield fields.too_long(path, _MAX_DRIVER_NAME)
            for why in dns_subdomain_errors(domain) if domain else ():
                yield fields.invalid(path, domain, f"prefix: {why}")
            if identifier:
                yield from _identifier_errors(identifier, path)
            else:
                yield fields.invalid(path, "", "name must not be empty")


def _identifier_errors(identifier: str, path: str) -> Iterator[FieldError]:
    if len(identifier) > _MAX_IDENTIFIER:
        yield fields.too_long(path, _MAX_IDENTIFIER)
    if not re.fullmatch(_C_IDENTIFIER, identifier):
        yield fields.invalid(path, identifier, _C_IDENTIFIER_RULE)


def selector_list_errors(selectors: Sequence[Json], path: str) -> Iterator[FieldError]:
    yield from list_errors(selectors, path, _selector_errors, at_most=MAX_SELECTORS)


def _selector_errors(selector: Json, path: str) -> Iterator[FieldError]:
    if "cel" not in selector:
        yield fields.required(f"{path}.cel")
        return
    expression, where = selector["cel"].get("expression", ""), f"{path}.cel.expression"
    if len(expression.encode()) > _MAX_EXPRESSION:
        yield fields.too_long(where, _MAX_EXPRESSION)
    elif why := selector_refusal(expression):
        yield fields.invalid(where, expression, why)


@_remember_selectors
def selector_refusal(expression: str) -> str:
    """Why a device selector does not compile, in cel-go's words; empty when it does."""
    try:
        cel.compile(expression)
    except cel.CompileError as error:
        return str(error)
    return ""


def configuration_errors(config: Json, path: str) -> Iterator[FieldError]:
    """Configuration for a driver, of a claim, a class or an allocation."""
    opaque = config.get("opaque")
    if opaque is None:
        yield fields.required(f"{path}.opaque")
        return
    yield from declared_driver_name_errors(opaque.get("driver", ""), f"{path}.opaque.driver")
    yield from raw_object_errors(
        opaque.get("parameters"), f"{path}.opaque.parameters", at_most=_MAX_PARAMETERS
    )


def raw_object_errors(value: Any, path: str, *, at_most: int) -> Iterator[FieldError]:
    """A JSON object of a driver's own, of `at_most` bytes."""
    if value is None:
        yield fields.required(path)
    elif len(msgspec.json.encode(value)) > at_most:
        yield fields.too_long(path, at_most)
    elif not isinstance(value, dict):
        yield fields.invalid(path, "<value omitted>", "must be a valid JSON object")


def taint_errors(taint: Json, path: str) -> Iterator[FieldError]:
    yield from condition_name_errors(taint.get("key", ""), f"{path}.key")
    if value := taint.get("value"):
        yield from _label_value_errors(value, f"{path}.value")
    effect = taint.get("effect", "")
    if not effect:
        yield fields.required(f"{path}.effect")
    elif effect not in _TAINT_EFFECTS:
        yield fields.not_supported(f"{path}.effect", effect, _TAINT_EFFECTS)


def toleration_errors(toleration: Json, path: str) -> Iterator[FieldError]:
    if key := toleration.get("key"):
        yield from condition_name_errors(key, f"{path}.key")
    operator, value = toleration.get("operator", ""), toleration.get("value", "")
    match operator:
        case "Exists":
            if value:
                detail = "must be empty for operator `Exists`"
                yield fields.invalid(f"{path}.value", value, detail)
        case "Equal":
            yield from _label_value_errors(value, f"{path}.value")
        case _:
            yield fields.not_supported(f"{path}.operator", operator, _OPERATORS)
    effect = toleration.get("effect", "")
    if effect and effect not in _TAINT_EFFECTS:
        yield fields.not_supported(f"{path}.effect", effect, _TAINT_EFFECTS)


def condition_name_errors(name: str, path: str) -> Iterator[FieldError]:
    """A qualified name: the key of a taint, or the type of a condition."""
    yield from (fields.invalid(path, name, why) for why in label_key_errors(name))


def _label_value_errors(value: str, path: str) -> Iterator[FieldError]:
    yield from (fields.invalid(path, value, why) for why in label_value_errors(value))


def binding_condition_errors(holder: Json, path: str) -> Iterator[FieldError]:
    """Conditions to wait for before binding, and those that end the wait: both kinds or neither."""
    wanted = holder.get("bindingConditions") or []
    failures = holder.get("bindingFailureConditions") or []
    where, failed_where = f"{path}.bindingConditions", f"{path}.bindingFailureConditions"
    for names, place in ((wanted, where), (failures, failed_where)):
        limit = _MAX_BINDING_CONDITIONS
        yield from list_errors(names, place, condition_name_errors, at_most=limit)
    for position, name in enumerate(wanted):
        if name in wanted[:position]:
            yield fields.duplicate(f"{where}[{position}]", name)
    for position, name in enumerate(failures):
        if name in failures[:position]:
            yield fields.duplicate(f"{failed_where}[{position}]", name)
        if name in wanted:
            detail = "bindingFailureConditions must not overlap with bindingConditions"
            yield fields.invalid(f"{failed_where}[{position}]", name, detail)
    if failures and not wanted:
        detail = "bindingConditions are required to use bindingFailureConditions"
        yield fields.invalid(where, None, detail)
    if wanted and not failures:
        detail = "bindingFailureConditions are required to use bindingConditions"
        yield fields.invalid(failed_where, None, detail)


def condition_errors(conditions: Sequence[Json], path: str) -> Iterator[FieldError]:
    """Conditions as metav1 has them."""
    seen: set[str] = set()
    for position, condition in enumerate(conditions):
        where, kind = f"{path}[{position}]", condition.get("type", "")
        if kind in seen:
            yield fields.duplicate(where, kind)
        seen.add(kind)
        yield from condition_name_errors(kind, f"{where}.type")
        state, reason = condition.get("status", ""), condition.get("reason", "")
        if not state:
            yield fields.required(f"{where}.status")
        elif state not in ("False", "True", "Unknown"):
            yield fields.not_supported(f"{where}.status", state, ("False", "True", "Unknown"))
        if condition.get("observedGeneration", 0) < 0:
            generation = condition["observedGeneration"]
            detail = "must be greater than or equal to zero"
            yield fields.invalid(f"{where}.observedGeneration", generation, detail)
        if not condition.get("lastTransitionTime"):
            yield fields.required(f"{where}.lastTransitionTime")
        if not reason:
            yield fields.required(f"{where}.reason")
        elif not re.fullmatch(_CONDITION_REASON, reason):
            yield fields.invalid(f"{where}.reason", reason, _CONDITION_REASON_RULE)
        if len(reason) > _MAX_CONDITION_REASON:
            yield fields.too_long(f"{where}.reason", _MAX_CONDITION_REASON)
        if len(condition.get("message", "")) > _MAX_CONDITION_MESSAGE:
            yield fields.too_long(f"{where}.message", _MAX_CONDITION_MESSAGE)


def map_errors(
    entries: Mapping[str, Any], path: str, check_key: Check, check: Check
) -> Iterator[FieldError]:
    for key, value in entries.items():
        yield from check_key(key, path)
        yield from check(value, f"{path}[{key}]")
