"""Consumable capacity: what a request takes of a device that claims may share.

Mirrors structured/internal/*/consumable_capacity.go. Differs: a range without `min` counts from
zero, and a device whose step is not positive is passed over; upstream panics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kscheduler.api.meta import Quantity
from kscheduler.api.quantity import MAX_INT64, NANO, Amount, parse
from kscheduler.api.resource import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    CapacityRequirements,
    DeviceCapacity,
)
from kscheduler.dra.errors import AllocationError
from kscheduler.gotext.strconv import quote

_MILLI = NANO // 1000
_NOT_REPRESENTABLE = "capacity request cannot be represented in the device's range arithmetic"


class Consumption(NamedTuple):
    """The amount that a request takes of one capacity, and how much there is, in nano-units."""

    name: str
    amount: Amount
    value: int


def consumption(
    wanted: CapacityRequirements | None,
    capacity: Mapping[str, DeviceCapacity],
    *,
    fractional: bool,
) -> tuple[Consumption, ...] | None:
    """The amounts a request takes of a device, by capacity; None if it cannot serve it.

    Raises AllocationError for an amount that cannot be worked with, whatever else is wrong.
    """
    requests = wanted.requests if wanted is not None else {}
    if any(name not in capacity for name in requests):
        return None
    found = []
    for name in sorted(capacity):
        try:
            amount = _consumed(requests.get(name), capacity[name], fractional=fractional)
            if amount.nanos < 0:
                raise AllocationError("capacity value is negative")
        except AllocationError as error:
            raise AllocationError(f"capacity {quote(name)}: {error}") from None
        found.append(Consumption(name, amount, parse(capacity[name].value).nanos))
    for one in found:
        policy = capacity[one.name].request_policy
        if policy is not None and _violates(one.amount, policy, fractional=fractional):
            return None
    if any(one.amount.nanos > one.value for one in found):
        return None
    return tuple(found)


def _consumed(requested: Quantity | None, capacity: DeviceCapacity, *, fractional: bool) -> Amount:
    policy = capacity.request_policy
    if requested is None:
        if policy is not None and policy.default is not None:
            return parse(policy.default)
        return parse(capacity.value)
    amount = parse(requested)
    if policy is None:
        return amount
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _rounded_up(amount, policy.valid_range, fractional=fractional)
    for valid in map(parse, policy.valid_values):
        if amount <= valid:
            return valid
    return amount


def _rounded_up(amount: Amount, allowed: CapacityRequestPolicyRange, *, fractional: bool) -> Amount:
    """The smallest amount of the range that is not below: the minimum and whole steps."""
    minimum = parse(allowed.min or 0)
    if amount < minimum:
        return minimum
    if allowed.step is None:
        return amount
    step = parse(allowed.step)
    if _in_milli(allowed, fractional=fractional):
        unit, passed = _MILLI, "the milli-value range"
        if amount.milli_value * unit != amount.nanos:
            raise AllocationError(
                f"{_NOT_REPRESENTABLE}: request {amount} is not a representable milli value"
            )
        requested, size, least = amount.milli_value, step.milli_value, minimum.milli_value
    else:
        unit, passed = NANO, "MaxInt64"
        if amount.nanos > MAX_INT64 * NANO:
            raise AllocationError(f"{_NOT_REPRESENTABLE}: request {amount} exceeds MaxInt64")
        requested, size, least = amount.value, step.value, minimum.value
    if size <= 0:
        return amount
    rounded = least - (least - requested) // size * size
    if rounded > MAX_INT64:
        raise AllocationError(
            f"{_NOT_REPRESENTABLE}: rounding request {amount} up to the next step passes {passed}"
        )
    return Amount(rounded * unit, step.format)


def _violates(amount: Amount, policy: CapacityRequestPolicy, *, fractional: bool) -> bool:
    if policy.default is not None:
        default = parse(policy.default)
        # The same text, not only the same amount: upstream compares what it keeps of both.
        if (default.nanos, default.spelling) == (amount.nanos, amount.spelling):
            return False
    if policy.valid_range is not None:
        return _outside(amount, policy.valid_range, fractional=fractional)
    return bool(policy.valid_values) and amount not in map(parse, policy.valid_values)


def _outside(amount: Amount, allowed: CapacityRequestPolicyRange, *, fractional: bool) -> bool:
    if allowed.max is not None and amount > parse(allowed.max):
        return True
    if allowed.step is None:
        return False
    step, minimum = parse(allowed.step), parse(allowed.min or 0)
    if _in_milli(allowed, fractional=fractional):
        if amount.milli_value * _MILLI != amount.nanos:
            return True
        steps, size = amount.milli_value - minimum.milli_value, step.milli_value
    else:
        steps, size = amount.value - minimum.value, step.value
    return size <= 0 or steps % size != 0


def _in_milli(allowed: CapacityRequestPolicyRange, *, fractional: bool) -> bool:
    """Whether the range is worked with in thousandths: all of it must be exact in these."""
    if not fractional:
        return False
    given = [parse(one) for one in (allowed.min, allowed.max, allowed.step) if one is not None]
    if any(one.milli_value * _MILLI != one.nanos for one in given):
        return False
    return allowed.step is None or parse(allowed.step).milli_value >= 1
