"""Kinds: what the devices of a type are to the requests of a shape.

Two devices of one kind are the same to every request: they are interchangeable in a search, as long
as they are in use in the same way and draw on the same counters.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import IntEnum, auto
from typing import NamedTuple

from kscheduler.api.resource import DeviceTaint, DeviceToleration
from kscheduler.dra.capacity import Consumption, consumption
from kscheduler.dra.constraints import AttributeValue, attribute_of, comparable
from kscheduler.dra.devices import CounterConsumption, DeviceId, DeviceType, id_text
from kscheduler.dra.errors import AllocationError
from kscheduler.dra.features import AllocatorFeatures, Implementation
from kscheduler.dra.selectors import Expressions, Failed, NotCompiled
from kscheduler.dra.shape import AllocationShape, Alternative, ClaimShape, Selector

_BLOCKING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})


class SelectorFailed(NamedTuple):
    """A selector that has no answer for a device."""

    selector: Selector
    failed: Failed

    def text(self, claim: str, device: DeviceId) -> str:
        """`claim`: its key."""
        owner = self.selector.class_name
        where = f"class {owner}" if owner else f"claim {claim}"
        where = f"{where}: selector #{self.selector.position}"
        if isinstance(self.failed, NotCompiled):
            return f"{where}: CEL compile error: {self.failed}"
        return f"{where} on device {id_text(device)}: CEL runtime error: {self.failed}"


class AttributeFailed(NamedTuple):
    """A derived attribute that has no value for a device."""

    attribute: str
    failed: Failed

    def text(self, device: DeviceId) -> str:
        if isinstance(self.failed, NotCompiled):
            return f"compile derived attribute {self.attribute} failed: {self.failed}"
        on = f"on device {id_text(device)}"
        return f"evaluate derived attribute {self.attribute} {on} failed: {self.failed}"


class Usable(IntEnum):
    """Whether an exact number of devices can be made of a device, as far as its kind decides."""

    NEVER = auto()
    PERHAPS = auto()
    # It ends the search with an error, when it comes to that.
    FAILS = auto()


class Choice(NamedTuple):
    """A device as candidate of one alternative.

    `capacity` is None if the device is too small or has other capacities; `allowed` is whether its
    taints are tolerated and the features that it needs are on; `values` are those of the
    alternative's constraints, None where an attribute is missing.
    """

    selectable: bool | SelectorFailed
    capacity: tuple[Consumption, ...] | Failed | None = None
    allowed: bool = False
    values: tuple[AttributeValue | AttributeFailed | None, ...] = ()

    @property
    def usable(self) -> Usable:
        if (
            isinstance(self.selectable, SelectorFailed)
            or isinstance(self.capacity, Failed)
            or any(isinstance(value, AttributeFailed) for value in self.values)
        ):
            return Usable.FAILS
        return Usable.PERHAPS if self.allowed and None not in self.values else Usable.NEVER


_NOT_SELECTABLE = Choice(selectable=False)


class Kind:
    """Equal content is the same object, within a shape."""

    __slots__ = (
        "choices",
        "consumes",
        "may_fail",
        "needs_skipping",
        "number",
        "relevant",
        "shared",
        "usable",
    )

    def __init__(
        self,
        number: int,
        choices: tuple[Choice, ...],
        consumes: tuple[CounterConsumption, ...],
        *,
        shared: bool,
        needs_skipping: bool,
    ) -> None:
        self.number = number
        # By number of the alternative.
        self.choices = choices
        self.consumes = consumes
        # Whether several claims may have it.
        self.shared = shared
        # Whether the node must be able to skip operations.
        self.needs_skipping = needs_skipping
        # Whether any alternative can take it, or fails because of it.
        self.relevant = any(choice.selectable is not False for choice in choices)
        # By number of the alternative.
        self.usable = tuple([choice.usable for choice in choices])
        self.may_fail = Usable.FAILS in self.usable


class Kinds:
    """Kinds of the devices under one shape; good until types are renumbered."""

    def __init__(
        self, shape: AllocationShape, expressions: Expressions, features: AllocatorFeatures
    ) -> None:
        self._features = features
        self._expressions = expressions
        self._requests = [
            (claim, alternative)
            for claim in shape.claims
            for request in claim.requests
            for alternative in request.alternatives
        ]
        # By number of the type.
        self._kinds: list[Kind | None] = []
        self._by_content: dict[Hashable, Kind] = {}

    def known(self, device: DeviceType) -> Kind | None:
        """The kind of devices of this type, if it was found before."""
        return self._kinds[device.number] if device.number < len(self._kinds) else None

    def find(self, device: DeviceType) -> Kind:
        """Evaluates the shape's selectors on a type, which may take long."""
        choices = tuple([self._choice(*request, device) for request in self._requests])
        skips = (
            device.skips_node_operations
            and self._features.implementation is Implementation.EXPERIMENTAL
        )
        content = (choices, device.consumes, device.reach, device.shared, skips)
        kind = self._by_content.get(content)
        if kind is None:
            kind = self._by_content[content] = Kind(
                len(self._by_content),
                choices,
                device.consumes,
                shared=device.shared,
                needs_skipping=skips,
            )
        if device.number >= len(self._kinds):
            self._kinds += [None] * (device.number + 1 - len(self._kinds))
        self._kinds[device.number] = kind
        return kind

    def _choice(self, claim: ClaimShape, alternative: Alternative, device: DeviceType) -> Choice:
        if device.device.binding_conditions and not self._features.device_binding_and_status:
            return _NOT_SELECTABLE
        for selector in alternative.selectors:
            matches = self._expressions.matches(selector.expression, device)
            if isinstance(matches, Failed):
                return Choice(SelectorFailed(selector, matches))
            if not matches:
                return _NOT_SELECTABLE
        capacity: tuple[Consumption, ...] | Failed | None = ()
        if self._features.consumable_capacity:
            try:
                capacity = consumption(
                    alternative.request.capacity,
                    device.device.capacity,
                    fractional=self._features.fractional_capacity_range,
                )
            except AllocationError as error:
                capacity = Failed(error)
            if capacity is None or isinstance(capacity, Failed):
                return Choice(selectable=True, capacity=capacity)
        if not self._is_allowed(alternative, device):
            return Choice(selectable=True, capacity=capacity)
        return Choice(
            selectable=True,
            capacity=capacity,
            allowed=True,
            values=tuple(
                [
                    self._value(alternative, claim.constraints[number].attribute, device)
                    for number in alternative.constraints
                    if number < len(claim.constraints)
                ]
            ),
        )

    def _is_allowed(self, alternative: Alternative, device: DeviceType) -> bool:
        features = self._features
        if (
            device.skips_node_operations
            and features.implementation is Implementation.EXPERIMENTAL
            and not features.optional_node_operations
        ):
            return False
        if device.consumes and not features.partitionable_devices:
            return False
        return not features.device_taints or all(
            any(tolerates(one, taint) for one in alternative.request.tolerations)
            for taint in device.device.taints
            if taint.effect in _BLOCKING_EFFECTS
        )

    def _value(
        self, alternative: Alternative, attribute: str, device: DeviceType
    ) -> AttributeValue | AttributeFailed | None:
        expression = alternative.derived_attributes.get(attribute)
        if expression is None:
            found = attribute_of(device, attribute)
        else:
            derived = self._expressions.value(expression, device)
            if isinstance(derived, Failed):
                return AttributeFailed(attribute, derived)
            found = derived
        lists = self._features.list_type_attributes
        return None if found is None else comparable(found, lists=lists)


def tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """An empty key or effect stands for all of them, an empty operator for Equal."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"
