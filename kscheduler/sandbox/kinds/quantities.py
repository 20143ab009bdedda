"""Resource lists: canonical spelling, and what is wrong with a quantity."""

from __future__ import annotations

from typing import Any

from kscheduler.api.quantity import Amount, QuantityError, nano_value, parse
from kscheduler.rest import fields, status
from kscheduler.rest.fields import FieldError

_MILLI = 10**6  # nano-units
NEGATIVE = "must be greater than or equal to 0"
NOT_AN_INTEGER = "must be an integer"
FRACTIONAL = frozenset({"cpu", "memory", "ephemeral-storage"})


def canonicalise(resources: dict[str, Any] | None) -> None:
    """Rewrite a resource list the way the server stores it, rounded up to thousandths."""
    for name, quantity in (resources or {}).items():
        assert resources is not None
        resources[name] = canonical(quantity)


def canonicalise_requirements(resources: dict[str, Any] | None) -> None:
    """Rewrite requests and limits, of a container, a pod or a claim."""
    if resources is not None:
        canonicalise(resources.get("requests"))
        canonicalise(resources.get("limits"))


def decode(quantity: Any) -> Amount:
    try:
        return parse(quantity)
    except (QuantityError, TypeError) as error:
        raise status.bad_request(f"unable to decode quantity {quantity!r}: {error}") from error


def canonical(quantity: Any) -> str:
    amount = decode(quantity)
    if amount.nanos % _MILLI:
        # Away from zero, so that what is negative stays so, and is refused.
        thousandths = abs(amount.nanos) // _MILLI + 1
        sign = -1 if amount.nanos < 0 else 1
        amount = Amount(sign * thousandths * _MILLI, amount.format)
    return str(amount)


def resource_list_errors(resources: dict[str, Any], path: str) -> list[FieldError]:
    errors = []
    for name, quantity in resources.items():
        errors += quantity_errors(name, quantity, f"{path}[{name}]")
    return errors


def quantity_errors(name: str, quantity: str, path: str) -> list[FieldError]:
    nanos = nano_value(quantity)
    if nanos < 0:
        return [fields.invalid(path, quantity, NEGATIVE)]
    whole = name not in FRACTIONAL and not name.startswith("hugepages-")
    if whole and nanos % 10**9:
        return [fields.invalid(path, quantity, NOT_AN_INTEGER)]
    return []


def over_limit_errors(
    requests: dict[str, Any], limits: dict[str, Any], path: str
) -> list[FieldError]:
    """Requests above their limit; what cannot be overcommitted must equal it."""
    errors = []
    for name, wanted in requests.items():
        elastic = name in FRACTIONAL
        if name not in limits:
            if not elastic:
                detail = "Limit must be set for non overcommitable resources"
                errors.append(fields.required(f"{path}.limits", detail))
            continue
        limit = limits[name]
        if not elastic and nano_value(wanted) != nano_value(limit):
            detail = f"must be equal to {name} limit of {limit}"
            errors.append(fields.invalid(f"{path}.requests", wanted, detail))
        elif nano_value(wanted) > nano_value(limit):
            detail = f"must be less than or equal to {name} limit of {limit}"
            errors.append(fields.invalid(f"{path}.requests", wanted, detail))
    return errors
