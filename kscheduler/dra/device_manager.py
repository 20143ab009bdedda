"""The device manager: everything about devices that plugins of all profiles share.

One per scheduler (`device_manager_of`): allocations that one profile has in flight bind the others,
too.

Mirrors dra_manager.go.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from kscheduler.api.resource import DeviceClass, ResourceClaim
from kscheduler.caches import Cache
from kscheduler.dra.allocated import AllocatedDevices
from kscheduler.dra.claims import ClaimTracker
from kscheduler.dra.device_classes import DeviceClasses
from kscheduler.dra.features import AllocatorFeatures
from kscheduler.framework.handle import Gates, Handle
from kscheduler.framework.listers import Listers

if TYPE_CHECKING:
    from kscheduler.dra.allocator import Allocator
    from kscheduler.dra.device_totals import DeviceTotals


class DeviceManager:
    """Claims, classes and devices in use, and the allocator over them.

    The allocator is made when a pod first asks for devices: importing it takes 35 ms, most of that
    for CEL, for which the first binding of a cluster without devices would wait. The slices known
    by then are delivered to it at once.
    """

    def __init__(self, listers: Listers, gates: Gates, clock: Callable[[], float]) -> None:
        self._listers = listers
        self._clock = clock
        self.features = AllocatorFeatures.from_gates(gates)
        self.allocated = AllocatedDevices(self.features)
        self.claims = ClaimTracker(listers.lister(ResourceClaim), self.allocated)
        self.classes = DeviceClasses(
            listers.lister(DeviceClass),
            by_extended_resource=gates.enabled("DRAExtendedResource"),
        )

    @cached_property
    def allocator(self) -> Allocator:
        from kscheduler.dra.allocator import Allocator

        return Allocator(self._listers, self.allocated, self.features, self._clock)

    @cached_property
    def totals(self) -> DeviceTotals:
        from kscheduler.dra.device_totals import DeviceTotals

        allocator, classes = self.allocator, self._listers.lister(DeviceClass)
        return DeviceTotals(classes, allocator.slices, self.allocated, allocator.expressions)

    @property
    def caches(self) -> tuple[Cache, ...]:
        return self.allocator.caches if "allocator" in vars(self) else ()


def device_manager_of(handle: Handle) -> DeviceManager:
    """The scheduler's one device manager."""
    return handle.shared(
        DeviceManager, lambda: DeviceManager(handle.listers, handle.gates, handle.clock)
    )
