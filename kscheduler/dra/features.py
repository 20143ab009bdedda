"""Features of the allocator, read from the feature gates once."""

from __future__ import annotations

from enum import Enum
from typing import Protocol, Self

import msgspec


class Gates(Protocol):
    """Feature gates."""

    def enabled(self, name: str, /) -> bool: ...


class Implementation(Enum):
    """Upstream's three allocators: it takes the first that has all features that are on."""

    STABLE = "stable"
    INCUBATING = "incubating"
    EXPERIMENTAL = "experimental"


class AllocatorFeatures(msgspec.Struct, frozen=True):
    """The features that are on, with the defaults of 1.37.

    Mirrors structured.Features, with DRADeviceTaintRules added, which upstream hands to its slice
    tracker and not to the allocator.
    """

    admin_access: bool = True
    compatibility_groups: bool = False
    consumable_capacity: bool = True
    derived_attributes: bool = False
    device_binding_and_status: bool = True
    device_taint_rules: bool = True
    device_taints: bool = True
    fractional_capacity_range: bool = False
    list_type_attributes: bool = False
    optional_node_operations: bool = False
    partitionable_devices: bool = True
    prioritized_list: bool = True

    @classmethod
    def from_gates(cls, gates: Gates) -> Self:
        on = gates.enabled
        return cls(
            admin_access=on("DRAAdminAccess"),
            compatibility_groups=on("DRADeviceCompatibilityGroups"),
            consumable_capacity=on("DRAConsumableCapacity"),
            derived_attributes=on("DRADerivedAttributes"),
            device_binding_and_status=on("DRADeviceBindingConditions")
            and on("DRAResourceClaimDeviceStatus"),
            device_taint_rules=on("DRADeviceTaintRules"),
            device_taints=on("DRADeviceTaints"),
            fractional_capacity_range=on("DRAFractionalCapacityRange"),
            list_type_attributes=on("DRAListTypeAttributes"),
            optional_node_operations=on("DRAOptionalNodeOperations"),
            partitionable_devices=on("DRAPartitionableDevices"),
            prioritized_list=on("DRAPrioritizedList"),
        )

    @property
    def implementation(self) -> Implementation:
        """The one of upstream's allocators whose behaviour is due."""
        if (
            self.compatibility_groups
            or self.derived_attributes
            or self.list_type_attributes
            or self.optional_node_operations
        ):
            return Implementation.EXPERIMENTAL
        if (
            self.consumable_capacity
            or self.device_binding_and_status
            or self.fractional_capacity_range
        ):
            return Implementation.INCUBATING
        return Implementation.STABLE
