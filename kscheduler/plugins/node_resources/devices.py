"""Extended resources that devices serve, as far as they concern the counting of resources.

Where a node has none of such a resource itself, DynamicResources looks for devices, and what is
left there is counted in devices.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from kscheduler.dra.device_classes import may_stand_for_class
from kscheduler.dra.device_manager import device_manager_of
from kscheduler.framework.handle import Handle
from kscheduler.state.nodes_view import Nodes

NOT_SIGNABLE = "signature disabled when dra extended resources are used in the cluster"

NONE: tuple[str, ...] = ()

Column = NDArray[np.int64]  # [nodes]


class DeviceBackedResources:
    """Resources for which there is a device class just now."""

    def __init__(self, handle: Handle) -> None:
        self.enabled = handle.gates.enabled("DRAExtendedResource")
        self._devices = device_manager_of(handle)

    def among(self, resources: Iterable[str]) -> tuple[str, ...]:
        """The resources that devices may serve, of these."""
        found = [
            name
            for name in resources
            if may_stand_for_class(name)
            and self._devices.classes.of_extended_resource(name) is not None
        ]
        return tuple(found) if found else NONE

    def columns(self, resource: str, nodes: Nodes) -> tuple[Column, Column] | None:
        """Amounts of the resource on the nodes, in all and taken: the node's own amounts, or
        devices where the node has none; None if there is nothing of it anywhere.
        """
        number = nodes.resources.get(resource)
        device_class = self._devices.classes.of_extended_resource(resource)
        if device_class is None:
            if number is None:
                return None
            return nodes.allocatable[:, number], nodes.requested[:, number]
        totals = self._devices.totals.of(device_class, nodes)
        if number is None:
            return totals.capacity, totals.allocated
        own, taken = nodes.allocatable[:, number], nodes.requested[:, number]
        by_devices = (own == 0) & (totals.capacity > 0)
        return (
            np.where(by_devices, totals.capacity, own),
            np.where(by_devices, totals.allocated, taken),
        )
