"""Constraints between the devices of a claim: matchAttribute and distinctAttribute.

Mirrors the constraints of structured/internal/*. Differs: nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import NamedTuple

from kscheduler.api.resource import DeviceAttribute
from kscheduler.dra.devices import DeviceType, attribute_value

# Names of a type by the names of its fields in the API.
_TYPES = {"ints": "int", "bools": "bool", "strings": "string", "versions": "version"}


class AttributeValue(NamedTuple):
    """A value that constraints compare, a set where lists are allowed, with its type.

    Without a type it is a list where lists are not allowed, or nothing at all.
    """

    type: str
    value: Hashable


UNTYPED = AttributeValue("", None)


def comparable(attribute: DeviceAttribute, *, lists: bool) -> AttributeValue:
    field, value = attribute_value(attribute)
    is_list = field in _TYPES
    if not field or (is_list and (not lists or not value)):
        return UNTYPED
    if not lists:
        return AttributeValue(field, value)
    return AttributeValue(_TYPES.get(field, field), frozenset(value if is_list else (value,)))


def attribute_of(device: DeviceType, name: str) -> DeviceAttribute | None:
    """The attribute of that full name; a name in the driver's domain may be given without it."""
    attributes = device.device.attributes
    if name in attributes:
        return attributes[name]
    domain, slash, identifier = name.partition("/")
    return attributes.get(identifier) if slash and domain == device.driver else None


class Constraint(ABC):
    """A constraint during a search, with the devices that were added so far.

    `add` refuses a device, or takes note of it until `remove`, which undoes the last `add`.
    """

    __slots__ = ("_lists", "values")

    def __init__(self, *, lists: bool) -> None:
        self._lists = lists
        self.values: list[AttributeValue] = []

    @abstractmethod
    def add(self, value: AttributeValue) -> bool: ...

    def remove(self) -> None:
        self.values.pop()


class MatchAttribute(Constraint):
    """All devices have the same value, or a common element of lists.

    The last of `values` is what all of them have in common.
    """

    __slots__ = ()

    def add(self, value: AttributeValue) -> bool:
        if self._lists:
            if not value.type:
                return False
            if self.values:
                common = _common(self.values[-1], value)
                if common is None:
                    return False
                value = common
        elif self.values and (not value.type or value != self.values[-1]):
            # A first device without a type is taken, as upstream takes it.
            return False
        self.values.append(value)
        return True


class DistinctAttribute(Constraint):
    """No two devices have the same value, or a common element of lists."""

    __slots__ = ()

    def add(self, value: AttributeValue) -> bool:
        if self._lists:
            if not value.type or any(_common(one, value) for one in self.values):
                return False
        elif self.values and (not value.type or value in self.values):
            return False
        self.values.append(value)
        return True


def _common(one: AttributeValue, other: AttributeValue) -> AttributeValue | None:
    if one.type != other.type:
        return None
    assert isinstance(one.value, frozenset)
    assert isinstance(other.value, frozenset)
    both = one.value & other.value
    return AttributeValue(one.type, both) if both else None
